/** Waits after failed sign-ins, and whose failures count together. */
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { pino } from 'pino';
import { networkOf, throttleKey, waitAfter } from '../../services/auth/rules/throttle.ts';
import { createThrottle } from '../../services/auth/throttle.ts';
import { StrataError } from '../../shared/errors.ts';

test('ten failures are free, then 30 s doubling to 15 min', () => {
  expect([1, 9, 10, 11, 12, 13, 14, 15, 16, 5000].map(waitAfter)).toEqual([
    0, 0, 30_000, 60_000, 120_000, 240_000, 480_000, 900_000, 900_000, 900_000,
  ]);
});

test.each([
  ['192.0.2.1', '192.0.2.255', true],
  ['192.0.2.1', '192.0.3.1', false],
  ['::ffff:192.0.2.7', '192.0.2.9', true],
  ['2001:db8:0:1::1', '2001:db8:0:ff::2', true],
  ['2001:db8:0:100::1', '2001:db8:0:ff::2', false],
  ['192.0.2.1', undefined, false],
])('%s and %s are one network: %s', (...[one, other, same]) => {
  expect(networkOf(one) === networkOf(other)).toBe(same);
});

test('a key names nobody, and is of one purpose, identifier and network', () => {
  const keys = [
    ['password', 'a@b.example', '192.0.2.1'],
    ['forgot', 'a@b.example', '192.0.2.1'],
    ['password', 'b@b.example', '192.0.2.1'],
    ['password', 'a@b.example', '192.0.4.1'],
  ].map(([purpose, identifier, ip]) => throttleKey(purpose!, identifier!, ip));
  expect(new Set(keys).size).toBe(4);
  expect(keys.join()).not.toMatch(/example|192/);
});

describe('counted in memory', () => {
  const log = pino({ level: 'silent' });
  const wrong = async (): Promise<never> => {
    throw new StrataError('auth_invalid_credentials');
  };
  let throttle: ReturnType<typeof createThrottle>;
  const attempt = (work: () => Promise<unknown> = wrong): Promise<string> =>
    throttle.attempt('key', log, work).then(
      () => 'done',
      (error: { type: string; data: { headers?: Record<string, string> } }) =>
        [error.type, error.data.headers?.['retry-after']].filter(Boolean).join(' '),
    );

  beforeEach(() => {
    jest.useFakeTimers({
      now: 1_000_000,
      doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'],
    });
    throttle = createThrottle(undefined, { waiting: 40 });
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  test('many at once get no further than one after another', async () => {
    const answers = await Promise.all(Array.from({ length: 30 }, () => attempt()));
    expect(answers.filter((answer) => answer === 'auth_invalid_credentials')).toHaveLength(10);
    expect(answers.filter((answer) => answer === 'rate_limited 30')).toHaveLength(20);
  });

  test('after the wait one more try, and twice the wait', async () => {
    for (let failure = 0; failure < 10; failure += 1)
      expect(await attempt()).toBe('auth_invalid_credentials');
    for (const seconds of [30, 60, 120, 240, 480, 900, 900]) {
      expect(await attempt()).toBe(`rate_limited ${seconds}`);
      jest.advanceTimersByTime(seconds * 1000 - 1);
      expect(await attempt()).toBe('rate_limited 1');
      jest.advanceTimersByTime(1);
      expect(await attempt()).toBe('auth_invalid_credentials');
    }
  });

  test('right passwords sent at once are not taken for guesses, and forget the failures', async () => {
    for (let failure = 0; failure < 9; failure += 1) await attempt();
    expect(
      new Set(await Promise.all(Array.from({ length: 30 }, () => attempt(async () => 1)))),
    ).toEqual(new Set(['done']));
    for (let failure = 0; failure < 10; failure += 1)
      expect(await attempt()).toBe('auth_invalid_credentials');
    expect(await attempt()).toBe('rate_limited 30');
  });

  test('an attempt that came to no judgement does not count', async () => {
    const outage = async (): Promise<never> => {
      throw new StrataError('service_unavailable');
    };
    for (let failure = 0; failure < 30; failure += 1)
      expect(await attempt(outage)).toBe('service_unavailable');
    for (let failure = 0; failure < 9; failure += 1) await attempt();
    for (let failure = 0; failure < 3; failure += 1)
      expect(await attempt(outage)).toBe('service_unavailable');
    expect(await attempt()).toBe('auth_invalid_credentials');
    expect(await attempt()).toBe('rate_limited 30');
  });

  test('the line of one key does not grow without end', async () => {
    const answers = await Promise.all(Array.from({ length: 60 }, () => attempt(async () => 1)));
    expect(answers.filter((answer) => answer === 'service_unavailable')).toHaveLength(20);
  });
});
