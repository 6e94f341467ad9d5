/**
 * What becomes of a destination's cursor after an attempt at a batch. Nothing is given up: whatever
 * is not accepted is sent again.
 *
 * | Answer | Cursor | Next attempt |
 * | --- | --- | --- |
 * | 2xx | after the batch | at once, where there was more; what comes later waits for others to be sent with it |
 * | 413, of several events | stays | at once, with half of them |
 * | 413, of one event | stays | at once, with a line in its place |
 * | 410 | stays | when the document was written |
 * | anything else, or no answer | stays | the same batch after 1, 2, 4 … 600 s, or as Retry-After says |
 */
import { waitBefore } from '../../../shared/outgoing/backoff.ts';
import type { Outcome } from '../../../shared/outgoing/send-result.ts';
import type { DestinationRow } from '../schema.ts';
import type { Ended } from '../stores/destinations.ts';
import type { EventBatch } from '../stores/event-batches.ts';

const backoff = { initial_seconds: 1, factor: 2, max_seconds: 600 };

type Sent = Pick<DestinationRow, 'failures' | 'most_events' | 'max_seconds'>;

/** `mostEvents` is how many the document allows. */
export function afterPush(
  { failures, most_events: lessened, max_seconds: maxSeconds }: Sent,
  { events, last_seq: lastSeq, head }: EventBatch,
  outcome: Outcome,
  mostEvents: number,
): Ended {
  const { status, error } = outcome;
  if (outcome.result === 'delivered') {
    const grown = lessened === null || lessened + 1 >= mostEvents ? null : lessened + 1;
    const reached = { seq: lastSeq, searched: lastSeq, until_seq: null, too_large_seq: null };
    return {
      ...reached,
      failures: 0,
      most_events: grown,
      status,
      error,
      wait_ms: lastSeq < head.seq ? 0 : maxSeconds * 1000,
      isDelivered: true,
    };
  }
  if (status === 413 && events.length > 1)
    return {
      most_events: Math.floor(events.length / 2),
      until_seq: null,
      status,
      error,
      wait_ms: 0,
    };
  if (status === 413 && events.length === 1)
    return { too_large_seq: events[0]!, until_seq: null, status, error, wait_ms: 0 };
  return { ...afterFailure(failures, outcome), until_seq: lastSeq };
}

function afterFailure(failures: number, outcome: Outcome): Ended {
  const { status, error } = outcome;
  const isGone = outcome.result === 'final' && outcome.gone === true;
  const asked = outcome.result === 'retry' ? (outcome.retry_after_ms ?? 0) : 0;
  return {
    failures: failures + 1,
    status,
    error,
    wait_ms: Math.max(waitBefore(failures, backoff), asked),
    ...(isGone && { stopped: 'gone' }),
  };
}

/** `last` is the number of the last checkpoint that was sent. */
export function afterCheckpoints({ failures }: Sent, last: number, outcome: Outcome): Ended {
  const { status, error } = outcome;
  if (outcome.result !== 'delivered') return afterFailure(failures, outcome);
  return { checkpoint_sent: last, failures: 0, status, error, wait_ms: 0, isDelivered: true };
}
