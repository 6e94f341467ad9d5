/** Waits after failed sign-ins, and whose failures count together. */
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { pino } from 'pino';
import {
  networkOf,
  networkWaitMs,
  throttleKey,
  waitAfter,
} from '../../services/auth/throttling/rules/throttle.ts';
import {
  createNetworkThrottle,
  type NetworkThrottle,
} from '../../services/auth/throttling/network-throttle.ts';
import { createThrottle, type Throttle } from '../../services/auth/throttling/throttle.ts';
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

test('a network is named so that an operator can block it', () => {
  expect(['192.0.2.77', '2001:db8:1:2345::1', undefined].map(networkOf)).toEqual([
    '192.0.2.0/24',
    '2001:db8:1:2300::/56',
    'bus',
  ]);
});

test('thirty failures of a network in ten minutes are free, then 30 s doubling to 15 min', () => {
  const failures = (count: number): number[] => Array.from({ length: count }, () => 1_000_000);
  expect(
    [0, 29, 30, 31, 32, 33, 34, 35, 36].map((count) => networkWaitMs(failures(count), 1_000_000)),
  ).toEqual([0, 0, 30_000, 60_000, 120_000, 240_000, 480_000, 900_000, 900_000]);
  expect(networkWaitMs(failures(30), 1_010_000)).toBe(20_000);
  expect(networkWaitMs(failures(30), 1_030_000)).toBe(0);
});

test('an office that mistypes less than three times a minute never waits', () => {
  const every = (seconds: number): number[] =>
    Array.from({ length: 36 }, (_failure, index) => 10_000_000 - index * seconds * 1000);
  expect(networkWaitMs(every(20), 10_000_000)).toBe(30_000);
  expect(networkWaitMs(every(21), 10_000_000)).toBe(0);
});

test('a key names no one, and is of one purpose, identifier and network', () => {
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

describe('a network, counted in memory', () => {
  const log = pino({ level: 'silent' });
  const network = '192.0.2.0/24';
  let throttle: NetworkThrottle;
  beforeEach(() => {
    jest.useFakeTimers({
      now: 1_000_000,
      doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'],
    });
    throttle = createNetworkThrottle(undefined);
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  /** A guess as checking a password makes it: its end, or `rate_limited`. */
  async function guess(isRight = false): Promise<boolean | string> {
    try {
      await throttle.admit(network, log);
      const matches = await throttle.guard(network)(async () => isRight);
      if (!matches) await throttle.recordFailure(network, log);
      return matches;
    } catch (error) {
      return (error as { type: string }).type;
    }
  }
  async function guesses(count: number): Promise<(boolean | string)[]> {
    const outcomes: (boolean | string)[] = [];
    for (let time = 0; time < count; time += 1) outcomes.push(await guess());
    return outcomes;
  }

  test('thirty guesses over any accounts, then it waits; after each wait one more', async () => {
    expect(await guesses(31)).toEqual([...Array(30).fill(false), 'rate_limited']);
    for (const seconds of [30, 60, 120, 240]) {
      jest.advanceTimersByTime(seconds * 1000 - 1);
      expect(await guess()).toBe('rate_limited');
      jest.advanceTimersByTime(1);
      expect(await guess()).toBe(false);
    }
  });

  test('a right password between the wrong ones takes nothing off', async () => {
    await guesses(29);
    expect([await guess(true), await guess(), await guess(true)]).toEqual([
      true,
      false,
      'rate_limited',
    ]);
  });

  test('guesses that were admitted together are judged again when their turn has come', async () => {
    await Promise.all(Array.from({ length: 60 }, () => throttle.admit(network, log)));
    const outcomes: string[] = [];
    for (let turn = 0; turn < 60; turn += 1) {
      const evaluated = throttle.guard(network)(async () => false);
      outcomes.push(await evaluated.then(String, (error: { type: string }) => error.type));
    }
    expect(outcomes).toEqual([...Array(30).fill('false'), ...Array(30).fill('rate_limited')]);
  });

  test('right passwords by the hundred are not counted', async () => {
    for (let time = 0; time < 100; time += 1) expect(await guess(true)).toBe(true);
  });

  test('so many requests a minute for each route and network', async () => {
    const ask = (action: string, from = network): Promise<string> =>
      throttle.countCall({ action, network: from, limit: 2 }, log).then(
        () => 'done',
        ({ type, data }) => `${type} ${data.headers['retry-after']}`,
      );
    expect([await ask('forgot'), await ask('forgot')]).toEqual(['done', 'done']);
    jest.advanceTimersByTime(20_000);
    expect(await ask('forgot')).toBe('rate_limited 40');
    expect([await ask('reset'), await ask('forgot', '198.51.100.0/24')]).toEqual(['done', 'done']);
    jest.advanceTimersByTime(40_000);
    expect(await ask('forgot')).toBe('done');
  });
});
