/**
 * Whether a notice is sent again: what a response or a failed request means, and how long until the
 * next attempt. Channels report a SendResult; the worker alone waits and repeats.
 *
 * | Attempt ended with | Result |
 * | --- | --- |
 * | 2xx | delivered |
 * | 408, 425, 429, 5xx; no response (name, connection, TLS, time-out, not HTTP) | retry |
 * | 410 | final, and the endpoint is paused |
 * | 3xx (redirects are not followed), other 4xx, anything else; an address or request that must not be sent | final |
 */
import type { OutgoingReason } from '../../../shared/outgoing/outgoing-error.ts';
import { retryAfterMs, waitBefore, type Backoff } from './backoff.ts';

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
      /** The endpoint answered 410: it will never take notices again. */
      readonly gone?: true;
    };
/** With the text for the delivery log, which is null where the notice was delivered. */
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

/** How often and how long apart an endpoint wants failed attempts repeated. */
export interface RetryPlan {
  /** Retries after the first send. */
  readonly retries: number;
  readonly backoff: Backoff;
}

export interface NextStep {
  readonly result: 'delivered' | 'retry' | 'failed';
  /** Milliseconds until the next attempt; 0 where there is none. */
  readonly wait_ms: number;
}

/** What becomes of a delivery after its attempt number `round`, counted from 0. */
export function nextStep(sent: SendResult, round: number, plan: RetryPlan): NextStep {
  if (sent.result === 'delivered') return { result: 'delivered', wait_ms: 0 };
  if (sent.result === 'final' || round >= plan.retries) return { result: 'failed', wait_ms: 0 };
  const wait = waitBefore(round, plan.backoff);
  return { result: 'retry', wait_ms: Math.max(wait, sent.retry_after_ms ?? 0) };
}
