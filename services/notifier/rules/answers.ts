import type { OutgoingReason } from '../../../shared/outgoing/outgoing-error.ts';
import { retryAfterMs } from './backoff.ts';

/** `error` is for the delivery log: null where it was delivered. */
export type Verdict =
  | { readonly verdict: 'delivered'; readonly error: null }
  | { readonly verdict: 'retry'; readonly error: string; readonly retry_after_ms?: number }
  | { readonly verdict: 'final'; readonly error: string; readonly gone?: true };

/** Statuses that may come right by themselves, beside 5xx. */
const passing = new Set([408, 425, 429]);

/** What an answer means for its delivery. Once a receiver has answered, nothing but the status counts. */
export function judgeStatus(status: number, retryAfter: string | undefined, now: number): Verdict {
  if (status >= 200 && status <= 299) return { verdict: 'delivered', error: null };
  if (passing.has(status) || (status >= 500 && status <= 599)) {
    const wait = retryAfterMs(retryAfter, now);
    return {
      verdict: 'retry',
      error: `answered ${status}`,
      ...(wait === undefined ? {} : { retry_after_ms: wait }),
    };
  }
  if (status === 410) return { verdict: 'final', error: 'answered 410: gone', gone: true };
  if (status >= 300 && status <= 399)
    return { verdict: 'final', error: `answered ${status}: redirects are not followed` };
  return { verdict: 'final', error: `answered ${status}` };
}

/** A request that must not be sent, now or later. Everything else that yields no answer is the network's, and may pass. */
const refused: ReadonlySet<OutgoingReason> = new Set([
  'url_refused',
  'address_refused',
  'request_invalid',
]);

export const judgeFailure = (reason: OutgoingReason, error: string): Verdict => ({
  verdict: refused.has(reason) ? 'final' : 'retry',
  error,
});
