/**
 * What a response or a failed request means: whether it is sent again. Whoever sends reports a
 * SendResult; the worker alone waits and repeats.
 *
 * | Attempt ended with | Result |
 * | --- | --- |
 * | 2xx | delivered |
 * | 408, 425, 429, 5xx; no response (name, connection, TLS, time-out, not HTTP) | retry |
 * | 410 | final, and the endpoint is paused |
 * | 3xx (redirects are not followed), other 4xx, anything else; an address or request that must not be sent | final |
 */
import { retryAfterMs } from './backoff.ts';
import type { OutgoingReason } from './outgoing-error.ts';

/** Whether a later attempt may succeed: `retry` says yes, `final` no. */
export type SendResult =
  | { readonly result: 'delivered' }
  | {
      readonly result: 'retry';
      /** The least wait that the receiver asks for. */
      readonly retry_after_ms?: number;
    }
  | {
      readonly result: 'final';
      /** The endpoint answered 410: it will never take anything again. */
      readonly gone?: true;
    };
/** With the text for the log, which is null where it was delivered. */
export type ExplainedResult = SendResult & { readonly error: string | null };

const retriedStatuses = new Set([408, 425, 429]);
const isWithin = (status: number, hundreds: number): boolean =>
  Math.floor(status / 100) === hundreds;

/**
 * What a response's status means. `retryAfter` is the header of that name; `now` is in milliseconds
 * since 1970. Once there is a status nothing else counts, whatever becomes of the body.
 */
export function resultOfStatus(
  status: number,
  retryAfter: string | undefined,
  now: number,
): ExplainedResult {
  if (isWithin(status, 2)) return { result: 'delivered', error: null };
  if (isWithin(status, 5) || retriedStatuses.has(status)) {
    const error = `answered ${status}`;
    const wait = retryAfterMs(retryAfter, now);
    if (wait === undefined) return { result: 'retry', error };
    return { result: 'retry', error, retry_after_ms: wait };
  }
  if (status === 410) return { result: 'final', error: 'answered 410: gone', gone: true };
  const redirect = isWithin(status, 3) ? ': redirects are not followed' : '';
  return { result: 'final', error: `answered ${status}${redirect}` };
}

/**
 * Reasons why a request must not be sent, now or later. All others are the network's and may pass.
 */
const refusedReasons: ReadonlySet<OutgoingReason> = new Set([
  'url_refused',
  'address_refused',
  'request_invalid',
]);

/** What a request without a response means. */
export const resultOfFailure = (reason: OutgoingReason, error: string): ExplainedResult => ({
  result: refusedReasons.has(reason) ? 'final' : 'retry',
  error,
});

/** How an attempt ended, as a log of deliveries keeps it. */
export type Outcome = SendResult & {
  readonly duration_ms: number;
  /** Of the HTTP response; null where there was none, and for mail. */
  readonly status: number | null;
  /** What the receiver said, without secrets. */
  readonly answer: string | null;
  /** Null where it was delivered. Names no more of an address than its origin. */
  readonly error: string | null;
};
