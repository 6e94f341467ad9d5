/** Waits after failed sign-ins, and whose failures count together. */
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { pino } from 'pino';
import { networkOf, throttleKey, waitAfter } from '../../services/auth/rules/throttle.ts';
import { createThrottle, type Throttle } from '../../services/auth/sign-in/throttle.ts';
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
    throttleKey('password', 'a@b.example', '192.0.2.1'),
    throttleKey('forgot', 'a@b.example', '192.0.2.1'),
    throttleKey('password', 'b@b.example', '192.0.2.1'),
    throttleKey('password', 'a@b.example', '192.0.4.1'),
  ];
  expect(new Set(keys).size).toBe(4);
  expect(keys.join()).not.toMatch(/example|192/);
});

describe('counted in memory', () => {
  const log = pino({ level: 'silent' });
  const failWith = (code: 'auth_invalid_credentials' | 'service_unavailable') => async () => {
    throw new StrataError(code);
  };
  let throttle: Throttle;

  interface Refusal {
    readonly type: string;
    readonly data: { readonly headers?: Record<string, string> };
  }
  /** How an attempt ends: `done`, an error's code, or `rate_limited` with the seconds to wait. */
  const attempt = (work: () => Promise<unknown>): Promise<string> =>
    throttle.attempt('key', log, work).then(
      () => 'done',
      ({ type, data: { headers } }: Refusal) =>
        headers ? `${type} ${headers['retry-after']}` : type,
    );
  const guess = () => attempt(failWith('auth_invalid_credentials'));
  const meetOutage = () => attempt(failWith('service_unavailable'));
  const succeed = () => attempt(async () => 1);

  const inTurn = async (times: number, one: () => Promise<string>): Promise<string[]> => {
    const outcomes: string[] = [];
    for (let time = 0; time < times; time += 1) outcomes.push(await one());
    return outcomes;
  };
  const atOnce = (times: number, one: () => Promise<string>): Promise<string[]> =>
    Promise.all(Array.from({ length: times }, one));
  const times = (count: number, outcome: string): string[] => Array(count).fill(outcome);

  beforeEach(() => {
    jest.useFakeTimers({
      now: 1_000_000,
      doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'],
    });
    throttle = createThrottle(undefined, { queueLimit: 40 });
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  test('many at once get no further than one after another', async () => {
    expect(await atOnce(30, guess)).toEqual([
      ...times(10, 'auth_invalid_credentials'),
      ...times(20, 'rate_limited 30'),
    ]);
  });

  test('after the wait one more try, and twice the wait', async () => {
    expect(await inTurn(10, guess)).toEqual(times(10, 'auth_invalid_credentials'));
    for (const seconds of [30, 60, 120, 240, 480, 900, 900]) {
      expect(await guess()).toBe(`rate_limited ${seconds}`);
      jest.advanceTimersByTime(seconds * 1000 - 1);
      expect(await guess()).toBe('rate_limited 1');
      jest.advanceTimersByTime(1);
      expect(await guess()).toBe('auth_invalid_credentials');
    }
  });

  test('right passwords sent at once are not taken for guesses, and forget the failures', async () => {
    await inTurn(9, guess);
    expect(await atOnce(30, succeed)).toEqual(times(30, 'done'));
    expect(await inTurn(10, guess)).toEqual(times(10, 'auth_invalid_credentials'));
    expect(await guess()).toBe('rate_limited 30');
  });

  test('an attempt that came to no judgement does not count', async () => {
    expect(await inTurn(30, meetOutage)).toEqual(times(30, 'service_unavailable'));
    await inTurn(9, guess);
    expect(await inTurn(3, meetOutage)).toEqual(times(3, 'service_unavailable'));
    expect(await guess()).toBe('auth_invalid_credentials');
    expect(await guess()).toBe('rate_limited 30');
  });

  test('attempts of one key that wait for each other are bounded', async () => {
    const outcomes = await atOnce(60, succeed);
    expect(outcomes.filter((outcome) => outcome === 'service_unavailable')).toHaveLength(20);
  });
});
