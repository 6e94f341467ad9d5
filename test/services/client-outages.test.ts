/** `client/` through outages that last: the minutes pass by a clock that the tests turn. */
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { runAutomation, startAutomation } from '../../client/source/automations.ts';
import { Gateway, type Token } from '../../client/source/gateway.ts';
import { connect, type Change, type Config, type State } from '../../client/source/index.ts';
import { StrataProvider as ServerProvider } from '../../client/source/openfeature.ts';
import { StrataProvider } from '../../client/source/openfeature-web.ts';
import { eventually } from '../support/cluster.ts';
import { startEffectiveGateway } from '../support/effective-gateway.ts';
import { startProxy } from '../support/proxy.ts';

test('50 cuts of the connection lose nothing and repeat nothing', async () => {
  const gateway = await startEffectiveGateway();
  gateway.values = '{"count":0}';
  const proxy = await startProxy(gateway.port);
  // A minute lies between two cuts, of the clock alone: after it waits begin again.
  const { now } = Date;
  let laterMs = 0;
  const clock = jest.spyOn(Date, 'now').mockImplementation(() => now.call(Date) + laterMs);
  const url = `http://127.0.0.1:${proxy.port}`;
  const config = await connect({ url, tenant: 't', token: 'good', warn: () => {} });
  const received: Change[] = [];
  config.on('change', ({ changes }) => received.push(...changes));
  try {
    // Less than the longest wait, at which a client is whose waits never begin again.
    for (let cut = 1; cut <= 50; cut += 1) {
      await eventually(async () => expect(config.state.status).toBe('live'), 15_000);
      laterMs += 61_000;
      // the one before the cut may be told, or be merged into the one after it.
      gateway.write({ count: 2 * cut - 1 });
      proxy.reset();
      gateway.write({ count: 2 * cut });
      await eventually(async () => expect(config.get('count')).toBe(2 * cut), 15_000);
    }
    const counts = received.map(({ after }) => Number(after));
    expect(received.map(({ before }) => before)).toEqual([0, ...counts.slice(0, -1)]);
    expect(counts).toEqual([...new Set(counts)].sort((a, b) => a - b));
    const awaited = Array.from({ length: 50 }, (_each, index) => 2 * (index + 1));
    expect(counts).toEqual(expect.arrayContaining(awaited));
    // The last value may have come before the last cut was noticed.
    const streams = await eventually(async () => {
      const asked = gateway.asked.filter(({ path }) => path.includes('watch'));
      expect(asked.length).toBeGreaterThan(50);
      return asked;
    });
    expect(streams.at(-1)!.headers['last-event-id']).toBe(`${gateway.revision.tenant}.0`);
  } finally {
    clock.mockRestore();
    await config.close();
    await proxy.stop();
    await gateway.stop();
  }
});

describe('by a clock that stands still unless it is turned', () => {
  const realFetch = globalThis.fetch;
  const gateway = {
    isAway: false,
    token: 'good',
    limit: 50,
    revision: { tenant: 1, platform: 0 },
    /** When it was asked for values, by the clock, and when its credential was refused. */
    reads: [] as number[],
    refusals: [] as number[],
    streams: new Set<ReadableStreamDefaultController<Uint8Array>>(),
  };
  const open: Config[] = [];
  let heartbeats: ReturnType<typeof setInterval>;

  beforeEach(() => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
    const revision = { tenant: 1, platform: 0 };
    Object.assign(gateway, { isAway: false, token: 'good', limit: 50, revision });
    Object.assign(gateway, { reads: [], refusals: [] });
    globalThis.fetch = answer;
    heartbeats = setInterval(() => {
      for (const stream of gateway.streams) stream.enqueue(event('heartbeat'));
    }, 5000);
  });
  afterEach(async () => {
    clearInterval(heartbeats);
    for (const config of open.splice(0)) await config.close();
    globalThis.fetch = realFetch;
    jest.useRealTimers();
  });

  const event = (name: string): Uint8Array =>
    new TextEncoder().encode(
      `event: ${name}\ndata: ${JSON.stringify({ revision: gateway.revision })}\n\n`,
    );
  const refused = { detail: { code: 'auth_token_expired', message: 'No.' } };

  async function answer(
    input: Parameters<typeof fetch>[0],
    { headers, signal }: RequestInit = {},
  ): Promise<Response> {
    if (gateway.isAway) throw new TypeError('fetch failed');
    if (new Headers(headers).get('authorization') !== `Bearer ${gateway.token}`) {
      gateway.refusals.push(Date.now());
      return Response.json(refused, { status: 401 });
    }
    if (String(input).includes('/config/effective/watch'))
      return new Response(streamOf(signal!), eventStream);
    gateway.reads.push(Date.now());
    const { revision, limit } = gateway;
    return Response.json({ revision, values: { max_cost_impact_auto: limit } });
  }
  const eventStream = { headers: { 'content-type': 'text/event-stream' } };

  function streamOf(signal: AbortSignal): ReadableStream<Uint8Array> {
    return new ReadableStream({
      start(stream) {
        gateway.streams.add(stream);
        stream.enqueue(event('ready'));
        signal.addEventListener('abort', () => {
          if (gateway.streams.delete(stream)) stream.error(signal.reason);
        });
      },
    });
  }
  function cutAll(): void {
    for (const stream of gateway.streams) stream.error(new TypeError('terminated'));
    gateway.streams.clear();
  }

  async function connected(token: Token = 'good'): Promise<Config> {
    const config = await connect({ url: 'http://gateway', tenant: 't', token, warn: () => {} });
    open.push(config);
    return config;
  }
  const passes = (ms: number) => jest.advanceTimersByTimeAsync(ms);
  /** No wait is longer, and what was asked is answered at once. */
  const longestWaitMs = 30_000;

  test.each([
    ['a key', 'wrong'],
    ['a function that gives it again', () => 'wrong'],
  ])(
    '%s that was never good is refused at the start, and not tried until the time is over',
    async (_what, token) => {
      await expect(connected(token)).rejects.toMatchObject({
        code: 'auth_token_expired',
        status: 401,
      });
      const { length } = gateway.refusals;
      await passes(longestWaitMs);
      expect(gateway.refusals).toHaveLength(length);
    },
  );

  test('an idle stream that is well is never taken for stale, and needs no read', async () => {
    const config = await connected();
    const states: State[] = [];
    config.on('state', (state) => states.push(state));
    await passes(1000);
    const { length } = gateway.reads;
    for (let minute = 0; minute < 10; minute += 1) {
      await passes(60_000);
      expect(config.limit('max_cost_impact_auto')).toBe(50);
      expect(config.state).toMatchObject({ status: 'live', stale: false });
    }
    expect(states.filter(({ stale }) => stale)).toEqual([]);
    expect(gateway.reads).toHaveLength(length);
  });

  test('a stream that says nothing more is given up after three heartbeats, and limits fall no later', async () => {
    const config = await connected();
    await passes(20_000);
    clearInterval(heartbeats);
    gateway.isAway = true;
    // What was sent is on its way for ever, as behind a line that is cut without a word.
    await passes(15_000 - 1);
    expect([config.state.status, config.limit('max_cost_impact_auto')]).toEqual(['live', 50]);
    await passes(2);
    expect([config.state.status, config.limit('max_cost_impact_auto')]).toEqual(['offline', 0]);
    expect(config.get('max_cost_impact_auto')).toBe(50);
  });

  test('a gateway that is away for 60 s: values continue, age grows, limits fall at the bound, all recovers', async () => {
    const config = await connected();
    await passes(20_000);
    expect([config.state.status, config.limit('max_cost_impact_auto')]).toEqual(['live', 50]);
    gateway.isAway = true;
    cutAll();
    let age = config.state.ageMs;
    for (let second = 1; second <= 60; second += 1) {
      await passes(1000);
      expect(config.state.ageMs).toBe(age + 1000);
      age = config.state.ageMs;
      expect(config.get('max_cost_impact_auto')).toBe(50);
      const limit = age > 15_000 ? 0 : 50;
      expect([age, config.limit('max_cost_impact_auto')]).toEqual([age, limit]);
    }
    expect(config.state).toMatchObject({ status: 'offline', stale: true });
    gateway.limit = 60;
    gateway.isAway = false;
    await passes(longestWaitMs);
    expect(config.state).toMatchObject({ status: 'live', stale: false, error: undefined });
    expect(config.limit('max_cost_impact_auto')).toBe(60);
  });

  test.each([3, 60])('a credential that is refused for %i minutes heals alone', async (minutes) => {
    let asked = 0;
    const config = await connected();
    const askedAgain = await connected(() => {
      asked += 1;
      return 'good';
    });
    await passes(10_000);
    gateway.token = 'another';
    cutAll();
    await passes(minutes * 60_000);
    for (const { state } of [config, askedAgain])
      expect(state).toMatchObject({ status: 'offline', error: { code: 'auth_token_expired' } });
    expect(config.limit('max_cost_impact_auto')).toBe(0);
    // It continues asking, of each configuration at least twice in a minute and at most six times.
    const lately = gateway.refusals.filter((at) => at > Date.now() - 60_000);
    expect(lately.length).toBeGreaterThanOrEqual(4);
    expect(lately.length).toBeLessThanOrEqual(14);
    const before = asked;
    gateway.token = 'good';
    await passes(longestWaitMs);
    expect(asked).toBeGreaterThan(before);
    for (const each of [config, askedAgain]) {
      expect(each.state).toMatchObject({ status: 'live', stale: false });
      expect(each.limit('max_cost_impact_auto')).toBe(50);
    }
  });

  test('a token that never comes holds up no later request', async () => {
    let asked = 0;
    const config = await connected(() => {
      asked += 1;
      return asked === 2 ? new Promise<never>(() => {}) : gateway.token;
    });
    await passes(10_000);
    gateway.token = 'another';
    cutAll();
    await passes(60_000);
    expect(config.state).toMatchObject({ status: 'live', stale: false });
    expect(asked).toBe(3);
  });

  test.each(['holds back', 'cuts'])(
    'behind a proxy that %s each stream, limits hold by what is read',
    async (what) => {
      const config = await connected();
      if (what === 'holds back') clearInterval(heartbeats);
      const cutting = setInterval(() => what === 'cuts' && cutAll(), 20_000);
      try {
        for (let second = 1; second <= 600; second += 1) {
          await passes(1000);
          expect([second, config.limit('max_cost_impact_auto')]).toEqual([second, 50]);
        }
        // A stream is tried again all the same, and less often than values are read.
        Object.assign(gateway, { limit: 60, revision: { tenant: 2, platform: 0 } });
        for (const stream of gateway.streams) stream.enqueue(event('effective.changed'));
        heartbeats = setInterval(() => {
          for (const stream of gateway.streams) stream.enqueue(event('heartbeat'));
        }, 5000);
        clearInterval(cutting);
        await passes(2 * longestWaitMs);
        expect(config.state).toMatchObject({ status: 'live', error: undefined });
        expect(config.limit('max_cost_impact_auto')).toBe(60);
      } finally {
        clearInterval(cutting);
      }
    },
  );

  test('clients that a gateway was away from for 10 s come back spread', async () => {
    const count = 500;
    await Promise.all(Array.from({ length: count }, () => connected()));
    await passes(1000);
    expect(gateway.streams.size).toBe(count);
    gateway.isAway = true;
    cutAll();
    await passes(10_000);
    gateway.reads.length = 0;
    gateway.isAway = false;
    const backAt = Date.now();
    await passes(longestWaitMs);
    expect(gateway.streams.size).toBe(count);
    const seconds = gateway.reads.map((at) => Math.floor((at - backAt) / 1000));
    const most = Math.max(...seconds.map((one) => seconds.filter((other) => other === one).length));
    expect(most).toBeLessThanOrEqual(count / 4);
  });
});

test('what was redeemed before the machine slept is not done after its slot', async () => {
  const realFetch = globalThis.fetch;
  const { now } = Date;
  let sleptMs = 0;
  const clock = jest.spyOn(Date, 'now').mockImplementation(() => now.call(Date) + sleptMs);
  const row = { id: 'a', state: 'running', ttl_seconds: 30, decision: 'allow', reasons: [] };
  globalThis.fetch = async (input) => {
    if (String(input).endsWith('/redeem')) sleptMs = 3_600_000;
    return Response.json(row);
  };
  const gateway = new Gateway('http://gateway', 't', 'good');
  const closing = new AbortController();
  const work = jest.fn();
  try {
    const running = runAutomation(
      (request) => startAutomation(gateway, {}, request, closing.signal),
      { action: 'scale', riskLevel: 'low' },
      work,
    );
    await expect(running).rejects.toMatchObject({ code: 'slot_lost' });
    expect(work).not.toHaveBeenCalled();
  } finally {
    closing.abort();
    clock.mockRestore();
    globalThis.fetch = realFetch;
  }
});

test('a context of a page that could not be had is asked for again', async () => {
  const gateway = await startEffectiveGateway();
  gateway.values = '{"is_on":true}';
  const provider = new StrataProvider({
    url: gateway.url,
    tenant: 't',
    token: 'good',
    warn: () => {},
  });
  const [one, two] = [{ targetingKey: 'one' }, { targetingKey: 'two' }];
  try {
    await provider.initialize(one);
    gateway.token = 'another';
    await expect(provider.onContextChange(one, two)).rejects.toThrow();
    gateway.token = 'good';
    await provider.onContextChange(two, two);
    expect(provider.resolveBooleanEvaluation('is_on').value).toBe(true);
  } finally {
    await provider.onClose();
    await gateway.stop();
  }
});

test('an evaluation of a new context is not held up by an outage, after which it has its values', async () => {
  const gateway = await startEffectiveGateway();
  gateway.values = '{"is_on":true}';
  const { url } = gateway;
  const provider = new ServerProvider({ url, tenant: 't', token: 'good', warn: () => {} });
  const evaluation = () => provider.resolveBooleanEvaluation('is_on', false, { targetingKey: 'a' });
  try {
    await provider.initialize();
    await gateway.stop();
    const began = performance.now();
    await expect(evaluation()).rejects.toMatchObject({ code: 'GENERAL' });
    expect(performance.now() - began).toBeLessThan(10_000);
    await gateway.start();
    await eventually(async () => expect((await evaluation()).value).toBe(true), 30_000);
  } finally {
    await provider.onClose();
    await gateway.stop();
  }
});
