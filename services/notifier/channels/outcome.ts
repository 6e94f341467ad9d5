/** How an attempt went, as the delivery log keeps it: `answer` and `error` without secrets, and of addresses the origin only. */
interface Attempted {
  readonly duration_ms: number;
  readonly status: number | null;
  readonly answer: string | null;
  readonly error: string | null;
}

/** `retry` may come right by itself, `final` won't. */
export type Outcome = Attempted &
  (
    | { readonly verdict: 'delivered' }
    | { readonly verdict: 'retry'; readonly retry_after_ms?: number }
    | {
        readonly verdict: 'final';
        /** The endpoint says that it will never take notices again (410). */ readonly gone?: true;
      }
  );
