/** What becomes of a destination's cursor: the table of after-push.ts. */
import { describe, expect, test } from '@jest/globals';
import { afterPush } from '../../services/audit/rules/after-push.ts';
import { resultOfFailure, resultOfStatus } from '../../shared/outgoing/send-result.ts';

const batch = {
  lines: [],
  events: [11, 12, 13, 14, 15],
  first_seq: 11,
  last_seq: 15,
  head: { seq: 20, hash: 'h' },
};
const fresh = { failures: 0, most_events: null, max_seconds: 2 };
const answered = (status: number, retryAfter?: string) => ({
  ...resultOfStatus(status, retryAfter, 0),
  status,
  duration_ms: 1,
  answer: null,
});
const after = (status: number, from: object = {}, of: object = {}, most = 100) =>
  afterPush({ ...fresh, ...from }, { ...batch, ...of }, answered(status), most);

describe('the cursor', () => {
  test.each([200, 202, 204, 299])('moves behind the batch after %s', (status) => {
    expect(after(status, { failures: 3 })).toMatchObject({
      seq: 15,
      searched: 15,
      failures: 0,
      until_seq: null,
      too_large_seq: null,
      wait_ms: 0,
      isDelivered: true,
    });
  });

  test.each([301, 400, 401, 404, 409, 410, 413, 422, 429, 500, 503])('stays after %s', (status) => {
    const ended = after(status);
    expect(ended).not.toHaveProperty('seq');
    expect(ended).not.toHaveProperty('searched');
    expect(ended).not.toHaveProperty('isDelivered');
  });

  test('stays where there is no answer, also where nothing may be sent there', () => {
    for (const reason of ['timed_out', 'address_refused'] as const) {
      const outcome = { ...resultOfFailure(reason, 'why'), status: null, answer: null };
      const ended = afterPush(fresh, batch, { ...outcome, duration_ms: 1 }, 100);
      expect(ended).toEqual({
        failures: 1,
        until_seq: 15,
        status: null,
        error: 'why',
        wait_ms: 1000,
      });
    }
  });
});

test('the next batch follows at once where there was more, and else waits for others to be sent with it', () => {
  expect(after(200).wait_ms).toBe(0);
  expect(after(200, {}, { head: { seq: 15, hash: 'h' } }).wait_ms).toBe(2000);
});

test('a batch that fails is repeated as it is after 1, 2, 4 … 600 s, or as it was asked', () => {
  const waits = Array.from({ length: 12 }, (_none, failures) => after(500, { failures }).wait_ms);
  expect(waits).toEqual([
    ...[1, 2, 4, 8, 16, 32, 64, 128, 256, 512].map((seconds) => seconds * 1000),
    600_000,
    600_000,
  ]);
  expect(after(500)).toMatchObject({ failures: 1, until_seq: 15 });
  expect(afterPush(fresh, batch, answered(503, '30'), 100).wait_ms).toBe(30_000);
});

test('a batch that is too large is halved, down to a line in the place of one event', () => {
  expect(after(413)).toMatchObject({ most_events: 2, until_seq: null, wait_ms: 0 });
  expect(after(413, {}, { events: [11, 12] })).toMatchObject({ most_events: 1, wait_ms: 0 });
  expect(after(413, {}, { events: [11] })).toMatchObject({ too_large_seq: 11, wait_ms: 0 });
  // Nothing is left to leave out.
  expect(after(413, {}, { events: [] })).toMatchObject({ failures: 1, wait_ms: 1000 });
  // It grows again, one by one.
  expect(after(200, { most_events: 2 }).most_events).toBe(3);
  expect(after(200, { most_events: 99 }).most_events).toBe(null);
  expect(after(200).most_events).toBe(null);
});

test('410 pauses it, and nothing else does', () => {
  expect(after(410)).toMatchObject({ stopped: 'gone', status: 410 });
  for (const status of [404, 413, 500]) expect(after(status)).not.toHaveProperty('stopped');
});
