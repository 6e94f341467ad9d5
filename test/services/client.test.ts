/**
 * `client/` beside a gateway that fails in every way: what a service that obeys limits sees
 * meanwhile. CLIENT_SAVES makes the saves that are killed more, such as the 3,000 of
 * `npm run test:soak`.
 */
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  watch,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import {
  connect,
  type Change,
  type Config,
  type ConnectOptions,
} from '../../client/source/index.ts';
import { Backoff } from '../../client/source/backoff.ts';
import { strataBroker } from '../../client/source/bus.ts';
import { EventParser } from '../../client/source/event-stream.ts';
import { retryAfter } from '../../client/source/failure.ts';
import { eventually } from '../support/cluster.ts';
import {
  refuse,
  startEffectiveGateway,
  type EffectiveGateway,
} from '../support/effective-gateway.ts';
import { startProxy } from '../support/proxy.ts';
import { freePort } from '../support/servers.ts';
import { soakTest } from '../support/soak.ts';

const saves = Number(process.env.CLIENT_SAVES ?? 150);
let gateway: EffectiveGateway;
let warnings: string[];
let folder: string;
const open: Config[] = [];
beforeEach(async () => {
  gateway = await startEffectiveGateway();
  gateway.values = '{"max_cost_impact_auto":50,"automation_enabled":true,"name":"a"}';
  warnings = [];
  folder = mkdtempSync(join(tmpdir(), 'strata-client-'));
});
afterEach(async () => {
  for (const config of open.splice(0)) await config.close();
  await gateway.stop();
  rmSync(folder, { recursive: true });
});

async function connected(options: Partial<ConnectOptions> = {}): Promise<Config> {
  const config = await connect({
    url: gateway.url,
    tenant: 't',
    token: 'good',
    warn: (message) => warnings.push(message),
    ...options,
  });
  open.push(config);
  return config;
}
const live = (config: Config) => eventually(async () => expect(config.state.status).toBe('live'));

/** How late this process has to be for values to grow old by that alone. */
const pauseMs = 200;

/**
 * Again where this process had to wait for a processor meanwhile, in which values grow old whatever
 * the client does.
 */
async function withoutPause(work: () => Promise<void>): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    let lateMs = 0;
    let looked = performance.now();
    const looking = setInterval(() => {
      lateMs = Math.max(lateMs, performance.now() - looked - 20);
      looked = performance.now();
    }, 20);
    try {
      await work();
      return;
    } catch (error) {
      if (lateMs < pauseMs || tries === 20) throw error;
    } finally {
      clearInterval(looking);
    }
    for (const config of open.splice(0)) await config.close();
  }
}

/** Takes its time, in which the other tests run. */
const blackHoled = outlastBlackHole();
blackHoled.catch(() => {});

async function outlastBlackHole(): Promise<Record<string, unknown>> {
  const holed = await startEffectiveGateway();
  holed.values = '{"max_cost_impact_auto":50}';
  const proxy = await startProxy(holed.port);
  const url = `http://127.0.0.1:${proxy.port}`;
  const config = await connect({ url, tenant: 't', token: 'good', warn: () => {} });
  try {
    await live(config);
    proxy.hold('back');
    const heldAt = Date.now();
    await eventually(async () => expect(config.state.status).toBe('offline'), 60_000);
    const noticedMs = Date.now() - heldAt;
    const kept = config.get('max_cost_impact_auto');
    await eventually(async () => expect(config.limit('max_cost_impact_auto')).toBe(0));
    proxy.mend();
    await eventually(async () => expect(config.limit('max_cost_impact_auto')).toBe(50));
    return { noticedMs, kept };
  } finally {
    await config.close();
    await proxy.stop();
    await holed.stop();
  }
}

/** What its listener is told, from now on. */
function changesOf(config: Config): Change[] {
  const received: Change[] = [];
  config.on('change', ({ changes }) => received.push(...changes));
  return received;
}

describe('values', () => {
  const odd = `{"__proto__":{"a":1},"constructor":"c","zero":0,"off":false,"empty":"","none":null,"large":9007199254740991}`;

  test('are those that were sent, whatever they are called', async () => {
    gateway.values = odd;
    const config = await connected();
    for (const [key, value] of Object.entries(JSON.parse(odd) as object)) {
      expect([key, config.get(key, 'fallback')]).toEqual([key, value]);
      expect(config.explain(key)).toMatchObject({ layer: 'global', source: `global_${key}` });
    }
    expect(config.values).toEqual(JSON.parse(odd));
    expect(config.get('toString', 'fallback')).toBe('fallback');
    expect(config.explain('hasOwnProperty')).toBeUndefined();
    expect(() => Object.assign(config.get<object>('__proto__')!, { a: 2 })).toThrow(TypeError);
  });

  test('come with where they are from', async () => {
    const config = await connected();
    await live(config);
    expect(config.details('name')).toEqual({
      value: 'a',
      layer: 'global',
      source: 'global_name',
      revision: 0,
      updatedBy: 'somebody',
      updatedAt: '2026-11-01T00:00:00Z',
      stale: false,
      ageMs: expect.any(Number),
      from: 'stream',
    });
    expect(config.details('absent', 7)).toMatchObject({ value: 7, layer: null, from: 'fallback' });
  });

  test('of another type than the schema promises are absent, and warned of once', async () => {
    const config = await connect({
      url: gateway.url,
      tenant: 't',
      token: 'good',
      schema: { name: { type: 'integer' }, max_cost_impact_auto: 'number' },
      warn: (message) => warnings.push(message),
    });
    expect([config.get('name', 5), config.get('name'), config.limit('name')]).toEqual([
      5,
      undefined,
      0,
    ]);
    expect(config.get('max_cost_impact_auto')).toBe(50);
    expect(warnings).toHaveLength(1);
    await config.close();
  });
});

describe('a stream', () => {
  test('brings writes of the tenant and of the platform, each told once', async () => {
    const config = await connected();
    await live(config);
    const received = changesOf(config);
    gateway.write({ name: 'b' });
    await eventually(async () => expect(config.get('name')).toBe('b'));
    gateway.write({ name: 'b', more: [1] }, 'platform');
    await eventually(async () => expect(config.get('more')).toEqual([1]));
    // Values that are equal are no change.
    const revision = gateway.write({ more: [1], name: 'b' });
    await eventually(async () => expect(config.revision).toEqual(revision));
    expect(received).toEqual([
      { key: 'max_cost_impact_auto', before: 50, after: undefined },
      { key: 'automation_enabled', before: true, after: undefined },
      { key: 'name', before: 'a', after: 'b' },
      { key: 'more', before: undefined, after: [1] },
    ]);
  });

  soakTest('that says less than the bound asks for is helped out by reads', () =>
    withoutPause(async () => {
      gateway.heartbeatMs = 60_000;
      const config = await connected({ maxStalenessMs: 2500 });
      await live(config);
      for (let count = 0; count < 80; count += 1) {
        expect(config.limit('max_cost_impact_auto')).toBe(50);
        await delay(50);
      }
      expect(config.state.status).toBe('live');
      expect(gateway.asked.at(-1)!.headers['if-none-match']).toBe('"1.0-env"');
      await config.close();
    }),
  );
});

describe('where streams are refused', () => {
  const polling = async (status: number) => {
    gateway.streams = status;
    gateway.retryAfter = 1;
    gateway.asked.length = 0;
    const config = await connected({ maxStalenessMs: 2000 });
    await eventually(async () => expect(config.state.status).toBe('polling'));
    const name = `b${gateway.revision.tenant}`;
    gateway.write({ name });
    await eventually(async () => expect(config.get('name')).toBe(name));
    return config;
  };

  test('values are read all the same', async () => {
    const config = await polling(404);
    await config.close();
  });

  soakTest('with 503 values are read again and again, at moments that differ', () =>
    withoutPause(async () => {
      const config = await polling(503);
      const reads = (): number[] =>
        gateway.asked.filter(({ path }) => !path.includes('watch')).map(({ at }) => at);
      const gaps = (): number[] =>
        reads()
          .slice(2)
          .map((at, index) => at - reads()[index + 1]!);
      // So many that they are not all alike by chance.
      for (let count = 0; count < 60 || gaps().length < 5; count += 1) {
        expect(config.state.stale).toBe(false);
        await delay(50);
      }
      expect(new Set(gaps()).size).toBeGreaterThan(1);
      expect(Math.min(...gaps())).toBeGreaterThanOrEqual(520);
      await config.close();
    }),
  );

  test('a stream is asked for again, and not before the gateway wants it', async () => {
    gateway.streams = 429;
    // Longer than the first wait can be by itself.
    gateway.retryAfter = 2;
    const config = await connected({ maxStalenessMs: 600 });
    await eventually(async () => expect(config.state.status).toBe('polling'));
    gateway.streams = 200;
    await live(config);
    const [first, second] = gateway.asked.filter(({ path }) => path.includes('watch'));
    expect(second!.at - first!.at).toBeGreaterThanOrEqual(2000);
  });
});

test('reads for the age, and those of atLeast, leave a gateway alone that wants it', async () => {
  gateway.heartbeatMs = 60_000;
  const config = await connected({ maxStalenessMs: 800 });
  await live(config);
  let reads = 0;
  gateway.answer = (response) => {
    reads += 1;
    response.setHeader('retry-after', '3600');
    refuse(response, 429, 'rate_limited');
  };
  await eventually(async () => expect(config.state.stale).toBe(true));
  await expect(config.atLeast(99, { timeoutMs: 500 })).rejects.toThrow('429 rate_limited');
  expect(reads).toBe(2);
});

describe('while no gateway answers', () => {
  test('values continue, age grows, limits fall to the safe end at the bound, and all recovers', async () => {
    const config = await connected({ maxStalenessMs: 6000 });
    await live(config);
    const states: boolean[] = [];
    config.on('state', ({ stale }) => states.push(stale));
    await gateway.stop();
    await eventually(async () => expect(config.state.status).toBe('offline'));
    expect(config.limit('max_cost_impact_auto')).toBe(50);
    const young = config.state.ageMs;
    await eventually(async () => expect(config.limit('max_cost_impact_auto')).toBe(0));
    expect(config.state.ageMs).toBeGreaterThan(Math.max(young, 6000));
    expect(config.limit<boolean>('automation_enabled')).toBe(false);
    expect(config.limit('max_cost_impact_auto', 5)).toBe(5);
    expect(config.get('max_cost_impact_auto')).toBe(50);
    expect(config.details('name')).toMatchObject({ value: 'a', stale: true });
    // It is said by a timer, a moment after it can be read.
    await eventually(async () => expect(states).toContain(true));
    gateway.write({ max_cost_impact_auto: 60 });
    await gateway.start();
    await eventually(async () => expect(config.limit('max_cost_impact_auto')).toBe(60));
    await live(config);
  });

  test('an answer that the gateway itself doubts does not make values younger', async () => {
    gateway.streams = 404;
    const config = await connected({ maxStalenessMs: 600 });
    gateway.isStale = true;
    await eventually(async () => expect(config.limit('max_cost_impact_auto')).toBe(0));
    gateway.isStale = false;
    await eventually(async () => expect(config.limit('max_cost_impact_auto')).toBe(50));
  });

  test('connect rejects in time, and at once where the gateway says no', async () => {
    gateway.answer = (response) => refuse(response, 403, 'tenant_mismatch');
    await expect(connected()).rejects.toMatchObject({ code: 'tenant_mismatch', status: 403 });
    gateway.answer = (response) => refuse(response, 503, 'service_unavailable');
    const late = connected({ startup: { timeoutMs: 300 } });
    await expect(late).rejects.toMatchObject({
      code: 'timeout',
      message: expect.stringContaining('service_unavailable'),
    });
  });

  test('a time without an end has none: no timer takes it for one that is over', async () => {
    const timers = [jest.spyOn(globalThis, 'setTimeout'), jest.spyOn(globalThis, 'setInterval')];
    gateway.answer = (response) => refuse(response, 503, 'service_unavailable');
    const opening = connected({ maxStalenessMs: Infinity, startup: { timeoutMs: Infinity } });
    try {
      await eventually(async () => expect(gateway.asked.length).toBeGreaterThan(1));
      gateway.answer = undefined;
      const config = await opening;
      await live(config);
      const late = config.atLeast(2, { timeoutMs: Infinity });
      gateway.write({ max_cost_impact_auto: 60 });
      expect(await late).toEqual(gateway.revision);
      const times = timers.flatMap(({ mock }) => mock.calls.map(([, ms = 0]) => ms));
      expect(Math.max(...times)).toBe(2 ** 31 - 1);
    } finally {
      for (const timer of timers) timer.mockRestore();
    }
  });
});

describe('what can not be helped by asking again', () => {
  test.each([
    ['a wrong key', 401, 'auth_api_key_invalid'],
    ['a wrong tenant', 403, 'tenant_mismatch'],
    ['a misspelt service', 404, 'not_found'],
    ['a context that is none', 422, 'validation_failed'],
  ])('%s ends connect within a second, by the code of the gateway', async (_what, status, code) => {
    let asked = 0;
    gateway.answer = (response) => {
      asked += 1;
      refuse(response, status, code);
    };
    const began = performance.now();
    await expect(connected()).rejects.toMatchObject({ name: 'StrataError', code, status });
    expect(performance.now() - began).toBeLessThan(1000);
    expect(asked).toBe(1);
  });

  test('a request that is repeated is the same one, also where its key is undefined', async () => {
    const config = await connected({ context: { serviceId: 'checkout' } });
    const sent: unknown[] = [];
    gateway.answer = (response) => {
      void json(response.req).then((body) => {
        sent.push(body);
        if (sent.length === 1) response.destroy();
        else response.end('{"id":"a","state":"denied","decision":"deny","reasons":[]}');
      });
    };
    const request = { action: 'scale', riskLevel: 'low' };
    const run = await config.automation({
      ...request,
      idempotencyKey: undefined,
      serviceId: undefined,
    });
    expect(run.state).toBe('denied');
    const same = { service_id: 'checkout', idempotency_key: expect.any(String) };
    expect(sent).toEqual([expect.objectContaining(same), sent[0]]);
    await config.decide({ ...request, serviceId: undefined });
    expect(sent[2]).toEqual({ service_id: 'checkout', action: 'scale', risk_level: 'low' });
  });

  test.each(['{"status":"maintenance"}', '[]', 'null', ''])(
    'what answers %j to a question has not decided it',
    async (answer) => {
      const config = await connected();
      gateway.answer = (response) => void response.end(answer);
      const asking = config.decide({ action: 'scale', riskLevel: 'low' });
      await expect(asking).rejects.toMatchObject({ code: 'unexpected_answer' });
    },
  );

  test.each(['start', 'redeem', 'heartbeat', 'finish'])(
    'what answers anything to the %s of an automation has not done it',
    async (step) => {
      const config = await connected();
      const row = '{"id":"a","state":"running","ttl_seconds":1,"decision":"allow","reasons":[]}';
      gateway.answer = (response) => {
        const { url = '' } = response.req;
        const named = ['redeem', 'heartbeat', 'finish'].find((name) => url.endsWith(name));
        response.end((named ?? 'start') === step ? '{"status":"maintenance"}' : row);
      };
      const work = jest.fn(async ({ signal }: { signal: AbortSignal }) => {
        if (step === 'heartbeat') await once(signal, 'abort');
      });
      const running = config.automation.run({ action: 'scale', riskLevel: 'low' }, work);
      const code = step === 'heartbeat' ? 'slot_lost' : 'unexpected_answer';
      await expect(running).rejects.toMatchObject({ code });
      expect(work).toHaveBeenCalledTimes(step === 'start' || step === 'redeem' ? 0 : 1);
    },
  );

  test('a server that is away is said by its name as soon as the program wants to know', async () => {
    const began = performance.now();
    const url = `http://127.0.0.1:${await freePort()}`;
    const away = connected({ url, startup: { timeoutMs: 500 } });
    await expect(away).rejects.toMatchObject({
      name: 'StrataError',
      code: 'timeout',
      message: expect.stringContaining('Strata is not reached'),
      cause: expect.objectContaining({ code: 'unreachable' }),
    });
    expect(performance.now() - began).toBeLessThan(1000);
  });

  test.each([
    ['for a second is not asked earlier', '1', 3],
    ['for an hour is not waited for', '3600', 1],
  ])('a gateway that wants to be left alone %s', async (_what, seconds, times) => {
    const config = await connected();
    const moments: number[] = [];
    gateway.answer = (response) => {
      moments.push(performance.now());
      response.setHeader('retry-after', seconds);
      refuse(response, 429, 'rate_limited');
    };
    const asking = config.decide({ action: 'scale', riskLevel: 'low' });
    await expect(asking).rejects.toMatchObject({ code: 'rate_limited' });
    expect(moments).toHaveLength(times);
    for (const [index, moment] of moments.slice(1).entries())
      expect(moment - moments[index]!).toBeGreaterThanOrEqual(990);
  });

  test('an error has what is wrong with each field', async () => {
    const errors = [{ path: '/agent_type', message: 'must match the pattern' }];
    gateway.answer = (response) =>
      response.writeHead(422, { 'content-type': 'application/json' }).end(
        JSON.stringify({
          detail: {
            status: 'error',
            code: 'validation_failed',
            message: 'Some fields are not valid.',
          },
          errors: [...errors, 'no error'],
          request_id: 'r',
        }),
      );
    await expect(connected()).rejects.toMatchObject({ code: 'validation_failed', errors });
  });

  test('a misspelt key is warned of once, with the name that is nearest; one that is unlike all is not', async () => {
    const config = await connected();
    for (let times = 0; times < 3; times += 1) {
      expect(config.get('max_cost_impact_atuo', 7)).toBe(7);
      expect(config.limit('automation_enable')).toBe(0);
      expect(config.get('feature_of_tomorrow', 'off')).toBe('off');
    }
    expect(warnings).toEqual([
      'There is no value of max_cost_impact_atuo, so the fallback counts. Did you mean max_cost_impact_auto?',
      'There is no value of automation_enable, so the fallback counts. Did you mean automation_enabled?',
    ]);
  });
});

describe('revisions', () => {
  test('never go backwards, but for a reset', async () => {
    const config = await connected();
    await live(config);
    gateway.write({ name: 'new' });
    await eventually(async () => expect(config.get('name')).toBe('new'));
    const received = changesOf(config);
    gateway.revision = { tenant: 1, platform: 0 };
    gateway.values = '{"name":"old"}';
    gateway.cut();
    await delay(300);
    expect([config.get('name'), config.revision.tenant]).toEqual(['new', 2]);
    await live(config);
    gateway.notify('reset', gateway.revision);
    await eventually(async () => expect(config.get('name')).toBe('old'));
    expect(config.revision).toEqual({ tenant: 1, platform: 0 });
    expect(received).toEqual([{ key: 'name', before: 'new', after: 'old' }]);
  });

  test('of a read that is ahead of the stream are proven by no heartbeat', async () => {
    gateway.heartbeatMs = 60_000;
    const config = await connected();
    await live(config);
    // The read finds a write more than the stream told of, which the next write takes back.
    gateway.values = '{"name":"between"}';
    gateway.revision = { tenant: 3, platform: 0 };
    gateway.notify('effective.changed', { tenant: 2, platform: 0 }, { keys: ['name'] });
    await eventually(async () => expect(config.get('name')).toBe('between'));
    gateway.values = '{"name":"a"}';
    gateway.revision = { tenant: 4, platform: 0 };
    gateway.notify('heartbeat', gateway.revision);
    await eventually(async () => expect(config.revision).toEqual(gateway.revision));
    expect(config.get('name')).toBe('a');
  });

  test('atLeast resolves with values of that revision or of a newer one', async () => {
    gateway.streams = 404;
    const config = await connected();
    const asked = { tenant: 2, platform: 3 };
    const seen = config.atLeast(asked).then(() => config.get('name'));
    const late = config.atLeast({ tenant: 99 }, { timeoutMs: 200 });
    await expect(late).rejects.toMatchObject({ code: 'timeout' });
    gateway.values = '{"name":"b"}';
    gateway.revision = asked;
    expect(await seen).toBe('b');
    expect(gateway.asked.map(({ headers }) => headers['x-min-revision'])).toContain('2.3');
    expect(await config.atLeast(2)).toEqual(asked);
  });
});

describe('a credential', () => {
  test('that is refused is asked for again, until it is good', async () => {
    let asked = 0;
    let token = 'good';
    const config = await connected({
      token() {
        asked += 1;
        return token;
      },
    });
    await live(config);
    expect(asked).toBe(1);
    token = 'bad';
    gateway.token = 'new';
    gateway.cut();
    await eventually(async () => expect(asked).toBeGreaterThan(4));
    expect(config.state.error).toMatchObject({ code: 'auth_token_expired' });
    gateway.write({ name: 'b' });
    token = 'new';
    await eventually(async () => expect(config.get('name')).toBe('b'));
  });

  test('in a text that is good again heals alone', async () => {
    const config = await connected();
    await live(config);
    gateway.token = 'other';
    gateway.cut();
    await eventually(async () => expect(config.state.status).toBe('offline'));
    gateway.token = 'good';
    await live(config);
  });
});

describe('the last known good values', () => {
  const file = () => join(folder, 'strata.json');
  const keep = async (): Promise<void> => {
    const config = await connected({ lastKnownGood: file() });
    await config.close();
  };
  const startFromFile = (options: Partial<ConnectOptions> = {}) =>
    connected({ lastKnownGood: file(), startup: { timeoutMs: 300 }, ...options });

  test('are there for a start while the gateway is away, and give way to it', async () => {
    const clock = Date.now;
    const earlier = jest.spyOn(Date, 'now').mockImplementation(() => clock() - 5000);
    await keep();
    earlier.mockRestore();
    await gateway.stop();
    const config = await startFromFile();
    expect(config.details('name')).toMatchObject({ value: 'a', layer: 'global', from: 'file' });
    expect(config.limit('max_cost_impact_auto')).toBe(50);
    const old = await startFromFile({ maxStalenessMs: 3000 });
    expect([old.get('max_cost_impact_auto'), old.limit('max_cost_impact_auto')]).toEqual([50, 0]);
    gateway.write({ name: 'b' });
    await gateway.start();
    await eventually(async () => expect(config.get('name')).toBe('b'));
    expect(config.details('name').from).not.toBe('file');
    expect(warnings).toEqual([]);
  });

  test('are kept where no one else writes, and nothing is left beside them', async () => {
    await keep();
    const text = readFileSync(file(), 'utf8');
    expect(JSON.parse(text)).toMatchObject({
      format: 1,
      address: `${gateway.url}/tenants/t/config/effective?`,
      revision: { tenant: 1 },
    });
    expect(text).not.toContain('good"');
    expect(readdirSync(folder)).toEqual(['strata.json']);
    expect(statSync(file()).mode & 0o777).toBe(0o600);
  });

  const rewrite = (change: (text: string) => string): void =>
    writeFileSync(file(), change(readFileSync(file(), 'utf8')));
  const spoilt: [string, RegExp, () => void][] = [
    ['cut off', /damaged/, () => rewrite((text) => text.slice(0, -40))],
    ['empty', /damaged/, () => rewrite(() => '')],
    ['altered', /damaged/, () => rewrite((text) => text.replace(':50', ':51'))],
    ['of a newer client', /newer client/, () => rewrite((text) => text.replace('":1', '":2'))],
    ['writable by everybody', /everybody may write/, () => chmodSync(file(), 0o666)],
  ];
  test.each(spoilt)(
    'are ignored with one warning where the file is %s',
    async (_how, why, spoil) => {
      await keep();
      spoil();
      await gateway.stop();
      await expect(startFromFile()).rejects.toMatchObject({ code: 'timeout' });
      expect(warnings).toEqual([expect.stringMatching(why)]);
    },
  );

  test.each([{ tenant: 'other' }, { context: { serviceId: 'other' } }])(
    'are ignored with one warning where they are of another %j',
    async (other) => {
      await keep();
      await gateway.stop();
      await expect(startFromFile(other)).rejects.toMatchObject({ code: 'timeout' });
      expect(warnings).toEqual([expect.stringContaining('another url, tenant or context')]);
    },
  );

  test(`are one whole file whenever the process is killed, in ${saves} saves`, async () => {
    await keep();
    await gateway.stop();
    const { address } = JSON.parse(readFileSync(file(), 'utf8')) as { address: string };
    const source = new URL('../../client/source/last-known-good.ts', import.meta.url).href;
    const program = `
      const { openLastKnownGood } = await import(${JSON.stringify(source)});
      const [, round] = process.argv;
      const kept = await openLastKnownGood(${JSON.stringify(file())}, ${JSON.stringify(address)}, (message) => {
        throw new Error(message);
      });
      const padding = 'x'.repeat(300_000);
      for (let count = 1; ; count += 1) {
        const values = { round: Number(round), count, padding };
        const snapshot = { revision: { tenant: count, platform: 0 }, values, explain: {} };
        await kept.save({ snapshot, savedAt: Date.now() });
        process.stdout.write('.');
      }`;
    let total = 0;
    for (let round = 0; total < saves; round += 1) {
      const child = spawn(process.execPath, ['--input-type=module', '-e', program, String(round)]);
      const closed = once(child, 'close') as Promise<[number | null, string | null]>;
      let saved = 0;
      let complaint = '';
      child.stderr.on('data', (text) => {
        complaint += String(text);
      });
      const some = 30 + Math.random() * 70;
      const enough = new Promise<void>((done) => {
        child.stdout.on('data', (dots: Buffer) => {
          saved += dots.length;
          if (saved >= some) done();
        });
      });
      await Promise.race([enough, closed]);
      await someMoment(round);
      child.kill('SIGKILL');
      expect([...(await closed), complaint]).toEqual([null, 'SIGKILL', '']);
      const config = await startFromFile();
      expect([config.state.from, config.get('round')]).toEqual(['file', round]);
      // Whatever was saved is there, and perhaps one more.
      expect([saved, saved + 1]).toContain(config.get('count'));
      await config.close();
      total += saved;
    }
    expect(warnings).toEqual([]);
  });

  /** Any moment, or as soon as the folder changes, which is in the middle of a save. */
  async function someMoment(round: number): Promise<void> {
    if (round % 2 === 0) {
      await delay(Math.random() * 5);
      return;
    }
    const watcher = watch(folder);
    await Promise.race([once(watcher, 'change'), delay(500)]);
    watcher.close();
  }
});

describe('parts', () => {
  test('waits double up to 30 s, each spread by half, and respect Retry-After', () => {
    const waits = Array.from({ length: 200 }, () => {
      const backoff = new Backoff();
      return Array.from({ length: 8 }, () => backoff.next());
    });
    [1, 2, 4, 8, 16, 20, 20, 20].forEach((seconds, index) => {
      const each = waits.map((row) => row[index]!);
      expect(Math.min(...each)).toBeGreaterThanOrEqual(seconds * 500);
      expect(Math.max(...each)).toBeLessThanOrEqual(seconds * 1500);
      expect(Math.max(...each) - Math.min(...each)).toBeGreaterThan(seconds * 700);
    });
    expect(new Backoff().next(40_000)).toBeGreaterThanOrEqual(40_000);
    expect(retryAfter('7')).toBe(7000);
    expect(retryAfter('Thu, 01 Jan 1970 00:00:09 GMT', 4000)).toBe(5000);
    expect(retryAfter('soon')).toBeUndefined();
  });

  test('events are read however their bytes are cut', () => {
    const text =
      ': still here\n\nretry: 1500\n\nid: 3.4\r\nevent: ready\r\ndata: {"a":\r\ndata: "ü"}\r\n\r\nevent: b\ndata:c\n\nevent: none\n\n';
    const bytes = new TextEncoder().encode(text);
    for (const size of [1, 2, 3, 7, 1000]) {
      const parser = new EventParser();
      const events = [];
      for (let at = 0; at < bytes.length; at += size)
        events.push(...parser.push(bytes.subarray(at, at + size)));
      expect(events).toEqual([
        { '': 'still here' },
        { retry: '1500' },
        { id: '3.4', event: 'ready', data: '{"a":\n"ü"}' },
        { event: 'b', data: 'c' },
        { event: 'none' },
      ]);
    }
    expect(() => {
      const parser = new EventParser();
      for (;;) parser.push(new Uint8Array(1_000_000).fill(97));
    }).toThrow(RangeError);
  });
});

describe('the near-cache of the bus', () => {
  type Call = (action: string, params?: object, options?: object) => Promise<unknown>;
  const resolve = 'config-resolver.resolve';
  const calls: { action: string; meta: object | undefined }[] = [];
  let answer: () => Promise<unknown>;
  const brokerOf = (options: object = {}): Call => {
    calls.length = 0;
    const { middlewares } = strataBroker({
      natsUrl: 'nats://a:b@127.0.0.1',
      apiKey: 'key',
      nodeId: 'n',
      ...options,
    });
    const [middleware]: unknown[] = middlewares!;
    return (middleware as { call: (next: Call) => Call }).call((action, _params, given) => {
      calls.push({ action, meta: (given as { meta?: object } | undefined)?.meta });
      return answer();
    });
  };

  test('asks once for what is asked at the same time, and again after its time', async () => {
    answer = async () => ({ values: { count: calls.length } });
    const call = brokerOf({ maxAgeMs: 100 });
    const [first, second] = await Promise.all([
      call(resolve, { tenant_id: 't', agent_type: 'a' }),
      call(resolve, { agent_type: 'a', tenant_id: 't', service_id: undefined }),
    ]);
    expect(second).toBe(first);
    expect(() => Object.assign(first as object, { values: 1 })).toThrow(TypeError);
    expect(await call(resolve, { tenant_id: 'other' })).toEqual({ values: { count: 2 } });
    expect(await call(resolve, { tenant_id: 't', agent_type: 'a', min_revision: 1 })).toEqual({
      values: { count: 3 },
    });
    await delay(120);
    expect(await call(resolve, { tenant_id: 't', agent_type: 'a' })).toEqual({
      values: { count: 4 },
    });
  });

  test('gives the last known result, marked, while no one answers, and no refusal away', async () => {
    answer = async () => ({ values: { a: 1 } });
    const call = brokerOf({ maxAgeMs: 1 });
    await call(resolve, { tenant_id: 't' });
    await delay(5);
    answer = async () => Promise.reject(Object.assign(new Error('away'), { code: 504 }));
    expect(await call(resolve, { tenant_id: 't' })).toEqual({ values: { a: 1 }, stale: true });
    await expect(call(resolve, { tenant_id: 'never read' })).rejects.toThrow('away');
    await delay(5);
    answer = async () => Promise.reject(Object.assign(new Error('no'), { code: 403 }));
    await expect(call(resolve, { tenant_id: 't' })).rejects.toThrow('no');
  });

  test('asks again after the machine slept, however little its own clock says', async () => {
    answer = async () => ({ values: { count: calls.length } });
    const call = brokerOf();
    await call(resolve, { tenant_id: 't' });
    const later = Date.now() + 3_600_000;
    const clock = jest.spyOn(Date, 'now').mockImplementation(() => later);
    try {
      expect(await call(resolve, { tenant_id: 't' })).toEqual({ values: { count: 2 } });
    } finally {
      clock.mockRestore();
    }
  });

  test('knows last what was asked for last, and nothing that a gateway doubts', async () => {
    const slow = Promise.withResolvers<unknown>();
    answer = () => slow.promise;
    const call = brokerOf({ maxAgeMs: 1 });
    const ask = async () => {
      await delay(5);
      return call(resolve, { tenant_id: 't' });
    };
    const first = ask();
    await delay(10);
    answer = async () => ({ values: { a: 2 } });
    await ask();
    slow.resolve({ values: { a: 1 } });
    expect(await first).toEqual({ values: { a: 1 } });
    answer = async () => ({ values: { a: 0 }, stale: true });
    await ask();
    answer = async () => Promise.reject(Object.assign(new Error('away'), { code: 504 }));
    expect(await ask()).toEqual({ values: { a: 2 }, stale: true });
  });

  test('what is of the tenant of a credential is given to that credential alone', async () => {
    answer = async () => ({ configurations: { count: calls.length } });
    let apiKey = 'of one tenant';
    const call = brokerOf({ apiKey: () => apiKey });
    const first = await call('config-resolver.configurations');
    apiKey = 'of another';
    const second = await call('config-resolver.configurations');
    expect(second).toEqual({ configurations: { count: 2 } });
    apiKey = 'of one tenant';
    expect(await call('config-resolver.configurations')).toBe(first);
  });

  test('shows the credential to Strata alone', async () => {
    answer = async () => 'done';
    const call = brokerOf();
    for (const action of [resolve, 'notifier.approvals.request', 'other.action', 'authors.list'])
      await call(action, {});
    expect(calls.map(({ meta }) => meta)).toEqual([
      { credential: 'key' },
      { credential: 'key' },
      undefined,
      undefined,
    ]);
  });
});

test('a stream that is black-holed is noticed within 20 s, and limits fall until it is mended', async () => {
  const { noticedMs, kept } = await blackHoled;
  expect(noticedMs).toBeGreaterThan(14_000);
  expect(kept).toBe(50);
});
