/** What is due of an approval, and when, without waiting for it. */
import { describe, expect, test } from '@jest/globals';
import { dueStep, endOf, firstTimes, nextTimes } from '../../services/notifier/rules/escalation.ts';
import { groupAt } from '../../services/notifier/rules/approval.ts';

const minute = 60_000;
const asked = new Date('2026-01-01T12:00:00.000Z');
const after = (minutes: number): Date => new Date(asked.getTime() + minutes * minute);
/** Windows of ten minutes, two hops. */
const limits = { max_hops: 2, window_seconds: 600, timeout_seconds: 0 };

/** The approval as it was asked for, with or without an expiry that was asked for. */
const approval = (hop: number, escalatesAt: Date | null, requestedExpiry?: Date) => ({
  hop,
  ...limits,
  ...firstTimes(asked, requestedExpiry, limits),
  escalates_at: escalatesAt,
});

describe('what is due', () => {
  test.each<[string, ReturnType<typeof dueStep>, Parameters<typeof dueStep>]>([
    ['nothing before the window has passed', null, [approval(0, after(10)), after(9)]],
    ['a hop once it has', 'escalate', [approval(0, after(10)), after(10)]],
    ['one hop after many windows', 'escalate', [approval(0, after(10)), after(600)]],
    ['the end, when no hop is left', 'exhaust', [approval(2, after(30)), after(30)]],
    ['the expiry of an acknowledged approval', 'expire', [approval(0, null), after(30)]],
    [
      'an expiry that was asked for, before the window has passed',
      'expire',
      [approval(0, after(10), after(5)), after(6)],
    ],
    [
      'an expiry that was asked for, also when a hop is due too',
      'expire',
      [approval(0, after(10), after(5)), after(11)],
    ],
    [
      'of an expiry that was asked for and the end, the earlier: the expiry',
      'expire',
      [approval(2, after(30), after(25)), after(31)],
    ],
    [
      'of an expiry that was asked for and the end, the earlier: the end',
      'exhaust',
      [approval(2, after(30), after(35)), after(36)],
    ],
  ])('%s', (_what, step, [times, now]) => {
    expect(dueStep(times, now)).toBe(step);
  });
});

test('an approval outlives its escalation, unless an expiry was asked for', () => {
  expect(firstTimes(asked, undefined, limits).expires_at).toEqual(after(30));
  const patient = { ...limits, timeout_seconds: 3600 };
  expect(firstTimes(asked, undefined, patient).expires_at).toEqual(after(60));
  expect(firstTimes(asked, after(5), patient).expires_at).toEqual(after(5));
});

test('the next window begins when a hop has fired, however late that was', () => {
  const late = nextTimes(approval(0, after(10)), after(100));
  expect(late).toMatchObject({ hop: 1, escalates_at: after(110), expires_at: after(120) });
  const fixed = nextTimes(approval(0, after(10), after(115)), after(100));
  expect(fixed.expires_at).toEqual(after(115));
});

test('reminds once, late in its time, and not soon after a hop', () => {
  const slow = { ...limits, window_seconds: 3600 };
  const times = { hop: 0, ...slow, ...firstTimes(asked, undefined, slow) };
  expect(times.reminds_at).toEqual(after(135));
  const waiting = { ...times, escalates_at: null };
  expect(dueStep(waiting, after(134))).toBeNull();
  expect(dueStep(waiting, after(135))).toBe('remind');
  expect(dueStep({ ...waiting, reminds_at: null }, after(135))).toBeNull();
  expect(dueStep(waiting, after(180))).toBe('expire');
  const second = { ...times, ...nextTimes(times, after(60)) };
  expect(second.reminds_at).toEqual(after(150));
  expect(dueStep(second, after(150))).toBe('escalate');
  expect(nextTimes({ ...second, reminds_at: null }, after(120)).reminds_at).toBeNull();
  // Of one that is over within the hour the first notice is new enough.
  expect(firstTimes(asked, after(59), slow).reminds_at).toBeNull();
});

test('each hop asks the next group, and the last one again', () => {
  const chain = ['sre', 'leads'];
  expect([0, 1, 2, 3].map((hop) => groupAt(chain, hop))).toEqual([
    'sre',
    'leads',
    'leads',
    'leads',
  ]);
  expect(groupAt([], 0)).toBeNull();
});

test('without a decision it ends with its last window, however late it would expire', () => {
  const patient = { ...limits, window_seconds: 3600, timeout_seconds: 7 * 86_400 };
  const times = { hop: 0, ...patient, ...firstTimes(asked, undefined, patient) };
  expect(endOf(times)).toEqual(after(180));
  expect(times.reminds_at).toEqual(after(135));
  const second = { ...times, ...nextTimes(times, after(60)) };
  expect([endOf(second), second.reminds_at]).toEqual([after(180), after(150)]);
  expect(endOf({ ...second, escalates_at: null })).toEqual(times.expires_at);
  const fixed = { ...times, ...firstTimes(asked, after(90), patient) };
  expect(endOf(fixed)).toEqual(after(90));
});
