/** What becomes of a delivery: the whole table of statuses, and what follows from each result. */
import { describe, expect, test } from '@jest/globals';
import { nextStep } from '../../services/notifier/rules/retry-policy.ts';
import type { OutgoingReason } from '../../shared/outgoing/outgoing-error.ts';
import { resultOfFailure, resultOfStatus } from '../../shared/outgoing/send-result.ts';

const resultOf = (status: number): string => resultOfStatus(status, undefined, 0).result;

describe('every status', () => {
  const expected = (status: number): string => {
    if (status >= 200 && status < 300) return 'delivered';
    return [408, 425, 429].includes(status) || (status >= 500 && status < 600) ? 'retry' : 'final';
  };
  test.each([1, 2, 3, 4, 5, 6, 9])('%sxx', (hundreds) => {
    for (let status = hundreds * 100; status < hundreds * 100 + 100; status += 1)
      expect([status, resultOf(status)]).toEqual([status, expected(status)]);
  });
  test('only 410 says that the endpoint is gone', () => {
    for (let status = 100; status < 1000; status += 1)
      expect('gone' in resultOfStatus(status, undefined, 0)).toBe(status === 410);
  });
});

test('Retry-After counts where it is retried, and an hour at most', () => {
  expect(resultOfStatus(429, '7', 0)).toEqual({
    result: 'retry',
    error: 'answered 429',
    retry_after_ms: 7000,
  });
  expect(resultOfStatus(503, 'Thu, 01 Jan 1970 00:00:09 GMT', 4000)).toEqual({
    result: 'retry',
    error: 'answered 503',
    retry_after_ms: 5000,
  });
  expect(resultOfStatus(500, '7200', 0)).toEqual({
    result: 'retry',
    error: 'answered 500',
    retry_after_ms: 3_600_000,
  });
  expect(resultOfStatus(500, 'later', 0)).toEqual({ result: 'retry', error: 'answered 500' });
  for (const status of [200, 301, 404, 410])
    expect(resultOfStatus(status, '7', 0)).not.toHaveProperty('retry_after_ms');
});

test('what must not be sent is final, what the network did is retried', () => {
  const table: Record<OutgoingReason, string> = {
    url_refused: 'final',
    address_refused: 'final',
    request_invalid: 'final',
    name_not_resolved: 'retry',
    connection_failed: 'retry',
    tls_failed: 'retry',
    timed_out: 'retry',
    answer_invalid: 'retry',
    answer_too_large: 'retry',
  };
  for (const [reason, expected] of Object.entries(table))
    expect(resultOfFailure(reason as OutgoingReason, 'why')).toEqual({
      result: expected,
      error: 'why',
    });
});

describe('what follows from an attempt', () => {
  const plan = { retries: 3, backoff: { initial_seconds: 1, factor: 2, max_seconds: 3 } };

  test('a notice that was delivered, or is final, is not sent again', () => {
    for (const round of [0, 1, 99]) {
      const arrived = nextStep({ result: 'delivered' }, round, plan);
      expect(arrived).toEqual({ result: 'delivered', wait_ms: 0 });
      expect(nextStep({ result: 'final' }, round, plan)).toEqual({ result: 'failed', wait_ms: 0 });
    }
  });

  test('a retry waits by the formula until the retries are used up', () => {
    const steps = [0, 1, 2, 3].map((round) => nextStep({ result: 'retry' }, round, plan));
    expect(steps).toEqual([
      { result: 'retry', wait_ms: 1000 },
      { result: 'retry', wait_ms: 2000 },
      { result: 'retry', wait_ms: 3000 },
      { result: 'failed', wait_ms: 0 },
    ]);
  });

  test('without retries the first failure is the last', () => {
    const step = nextStep({ result: 'retry' }, 0, { ...plan, retries: 0 });
    expect(step).toEqual({ result: 'failed', wait_ms: 0 });
  });

  test('Retry-After lengthens a wait and never shortens it', () => {
    const waitFor = (retryAfterMs: number): number =>
      nextStep({ result: 'retry', retry_after_ms: retryAfterMs }, 1, plan).wait_ms;
    expect([0, 1999, 2001, 60_000].map(waitFor)).toEqual([2000, 2000, 2001, 60_000]);
  });
});
