/** How long until a notice is sent again; what its attempt means is in `send-result.ts`. */
import { waitBefore, type Backoff } from '../../../shared/outgoing/backoff.ts';
import type { SendResult } from '../../../shared/outgoing/send-result.ts';

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
