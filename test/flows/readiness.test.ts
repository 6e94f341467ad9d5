/**
 * What `/readyz` says of nodes whose parts, or whose neighbours, are away: real processes that are
 * killed, stopped and cut off.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Agent, get } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import {
  eventually,
  metricOf,
  killed,
  polledAgain,
  serviceNames,
  startCluster,
  type Cluster,
} from '../support/cluster.ts';
import { startPostgres } from '../support/postgres.ts';
import { freePort } from '../support/servers.ts';
import { Client, type Answer, type Running } from '../support/strata.ts';

let cluster: Cluster;
/** The places of the only nodes with tenant-config and with auth. */
const [config, identity] = [0, 1];
/** Hosts nothing else, so that its parts are its own. */
let notifier: Running;
let notifierStatus: string;
/** A gateway that nobody has asked anything. */
let cold: Running;

beforeAll(async () => {
  cluster = await startCluster({
    gateways: 2,
    once: true,
    cuttable: ['gateway-2'],
    postgres: startPostgres,
  });
  const port = await freePort();
  notifierStatus = `http://127.0.0.1:${port}`;
  notifier = await cluster.start('notifier-1', ['notifier'], {
    METRICS_PORT: String(port),
    HELD_REQUESTS_PER_CALLER: '1',
  });
  cold = await cluster.start('gateway-cold', ['gateway']);
});
afterAll(async () => {
  await cluster?.stop();
});

interface Seen {
  readonly code: number;
  readonly status: string;
  /** Names of the checks that failed. */
  readonly away: readonly string[];
  readonly ms: number;
}

async function readyz(url: string): Promise<Seen> {
  const began = performance.now();
  const { status: code, body } = await new Client(url).get('/readyz');
  const { status, checks } = body as { status: string; checks: Record<string, boolean> };
  const away = Object.keys(checks).filter((name) => !checks[name]);
  return { code, status, away, ms: performance.now() - began };
}

const gatewayUrl = (index: number): string => cluster.gateways[index]!.url;
const ready = { code: 200, status: 'ready', away: [] };
const sees = (
  url: string,
  expected: Partial<Record<keyof Seen, unknown>>,
  withinMs?: number,
): Promise<void> =>
  eventually(async () => expect(await readyz(url)).toMatchObject(expected), withinMs);
const allReady = async (): Promise<void> => {
  for (const { url } of [...cluster.gateways, cold]) await sees(url, ready);
};

/** A read that both warm gateways have the answer of in memory. */
const risk = (): string => `/tenants/${cluster.tenant.id}/config/risk`;
const readRisk = async (gateway: number): Promise<number> => {
  const { status } = await new Client(gatewayUrl(gateway), cluster.tenant.admin.token).get(risk());
  return status;
};
const warm = async (): Promise<void> => {
  for (const gateway of [0, 1])
    await eventually(async () => expect(await readRisk(gateway)).toBe(200));
};

test('every piece that a gateway calls is named, and all answer', async () => {
  await allReady();
  const { body } = await new Client(gatewayUrl(0)).get('/readyz');
  expect(Object.keys(body.checks).sort()).toEqual(
    ['bus', 'database', 'feed', 'redis', ...serviceNames].sort(),
  );
  expect((await new Client(notifierStatus).get('/readyz')).body).toEqual({
    status: 'ready',
    checks: {
      bus: true,
      database: true,
      redis: true,
      feed: true,
      auth: true,
      'config-resolver': true,
      'global-config': true,
      'tenant-config': true,
    },
  });
});

test('without a piece that others do not need, a gateway is degraded, whatever it remembers', async () => {
  await killed(notifier);
  for (const { url } of [cluster.gateways[0]!, cold])
    await sees(url, { code: 200, status: 'degraded', away: ['notifier'] });
  notifier = await cluster.revive(notifier);
  await allReady();
});

test('without any node of auth, a gateway that knows somebody is degraded and one that knows no one is not ready', async () => {
  await warm();
  await killed(cluster.services[identity]!);
  const away = ['audit', 'auth', 'config-resolver'];
  for (const index of [0, 1])
    await eventually(async () => {
      const seen = await readyz(gatewayUrl(index));
      expect({ ...seen, away: [...seen.away].sort() }).toMatchObject({
        code: 200,
        status: 'degraded',
        away,
      });
    });
  expect(await readRisk(0)).toBe(200);
  await sees(cold.url, { code: 503, status: 'not_ready' });
  expect((await readyz(cold.url)).away).toContain('auth');
  await cluster.revive(cluster.services[identity]!);
  await allReady();
});

/** Stops the node of tenant-config where it is, while `during` runs. */
async function withoutConfig(during: () => Promise<void>): Promise<void> {
  const { pid } = cluster.services[config]!;
  process.kill(pid, 'SIGSTOP');
  try {
    await during();
  } finally {
    process.kill(pid, 'SIGCONT');
  }
}

test('a service that is registered and does not run is away, and no one waits for it', async () => {
  const noticed = async (): Promise<void> => {
    await warm();
    await withoutConfig(async () => {
      // The others take it for gone only after three heartbeats, four seconds from here at the
      // earliest.
      const away = expect.arrayContaining(['tenant-config', 'global-config']);
      await sees(gatewayUrl(0), { code: 200, status: 'degraded', away }, 3000);
      expect((await readyz(gatewayUrl(0))).ms).toBeLessThan(2000);
      await sees(cold.url, { code: 503, status: 'not_ready' });
    });
  };
  // A machine that was too busy for that once may be so again, and not each time.
  await eventually(async () => {
    await allReady();
    await noticed();
  }, 120_000);
  await allReady();
});

test('polls that a paused node answers late are no reason to begin again', async () => {
  const operators = [0, 1].map((each) => new Client(gatewayUrl(each), cluster.platform.token));
  const both = <R>(work: (gateway: Client) => Promise<R>): Promise<R[]> =>
    Promise.all(operators.map(work));
  const failures = 'strata_coherence_poll_failures_total';
  const resets = 'strata_coherence_resets_total';
  const before = await both((gateway) => metricOf(gateway, resets));
  await withoutConfig(async () => {
    await both(async (gateway) => {
      const earlier = await metricOf(gateway, failures);
      await eventually(async () =>
        expect(await metricOf(gateway, failures)).toBeGreaterThan(earlier),
      );
      await polledAgain(gateway);
    });
  });
  await allReady();
  await both(polledAgain);
  expect(await both((gateway) => metricOf(gateway, resets))).toEqual(before);
});

test('while PostgreSQL is silent, who remembers something is degraded and who does not is not ready', async () => {
  await warm();
  const goOn = await cluster.postgres.freeze();
  try {
    await sees(cold.url, { code: 503, status: 'not_ready' });
    await sees(notifierStatus, { code: 503, status: 'not_ready' });
    for (const url of [cold.url, notifierStatus, gatewayUrl(0)]) {
      const seen = await readyz(url);
      expect(seen.away).toContain('database');
      // Far less than the 8 s that a query is waited for.
      expect(seen.ms).toBeLessThan(6000);
    }
    for (const index of [0, 1]) {
      expect(await readyz(gatewayUrl(index))).toMatchObject({ code: 200, status: 'degraded' });
      expect(await readRisk(index)).toBe(200);
    }
  } finally {
    goOn();
  }
  await allReady();
});

test('a restart of PostgreSQL takes no gateway away', async () => {
  await warm();
  const restarted = cluster.postgres.restart('SIGINT');
  // Until every poll has met the server that is a new one, and memory has been emptied for it.
  const until = performance.now() + 4000;
  const seen = cluster.gateways.map(async ({ url }) => {
    const codes = new Set<number>();
    while (performance.now() < until) {
      codes.add((await readyz(url)).code);
      await delay(20);
    }
    return [...codes];
  });
  expect(await Promise.all(seen)).toEqual([[200], [200]]);
  await restarted;
  await allReady();
});

test('a gateway that is cut off from NATS is degraded as long as it remembers', async () => {
  await warm();
  const proxy = cluster.proxies['gateway-2']!;
  proxy.cut();
  try {
    const away = expect.arrayContaining(['bus', 'auth', 'tenant-config']);
    await sees(gatewayUrl(1), { code: 200, status: 'degraded', away });
    expect(await readRisk(1)).toBe(200);
    await sees(gatewayUrl(0), ready);
  } finally {
    proxy.mend();
  }
  await allReady();
});

test('while PostgreSQL takes no writes, no one can prove that what it says is the newest, which is marked', async () => {
  const { database, tenant } = cluster;
  const path = `/tenants/${tenant.id}/config/agents`;
  const at = (url: string): Client => new Client(url, tenant.admin.token);
  const read = async (name: string) => {
    const { status, headers } = await at(gatewayUrl(1)).get(`${path}/${name}`);
    return [status, headers.get('x-config-stale')];
  };
  const names = ['never-read', 'read-after'];
  for (const name of names)
    await eventually(async () =>
      expect((await at(gatewayUrl(0)).put(`${path}/${name}`, {})).status).toBeLessThan(300),
    );
  const setReadOnly = async (value: string): Promise<void> => {
    await database.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
    await database.query('SELECT pg_reload_conf()');
  };
  expect(await read('default')).toEqual([404, null]);
  await setReadOnly('on');
  try {
    await eventually(async () => expect(await read('never-read')).toEqual([200, 'true']));
  } finally {
    await setReadOnly('off');
  }
  await eventually(async () => expect(await read('read-after')).toEqual([200, null]));
});

/** Status code and body of a GET over the agent's connection. */
const getOver = (agent: Agent, url: string): Promise<{ code: number; text: string }> =>
  new Promise((resolve, reject) => {
    get(url, { agent }, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => {
        text += chunk.toString();
      });
      response.on('end', () => resolve({ code: response.statusCode!, text }));
    }).on('error', reject);
  });

/** Has a request of a caller wait, by the gateway, for an approval that nobody decides. */
async function hold(
  { url }: Running,
  { token }: Client,
): Promise<{ readonly answer: Promise<Answer> }> {
  const path = `/tenants/${cluster.tenant.id}/approvals`;
  const by = new Client(url, token);
  const asked = await by.post(path, { action: 'scale', risk_level: 'low', title: 'Held' });
  // The notifier holds one of a caller, so that the other is held once one is refused.
  const [first, second] = [1, 2].map(() => by.get(`${path}/${asked.body.id}?wait=60`));
  const [refused, held] = await Promise.race([
    first!.then((answer) => [answer, second!] as const),
    second!.then((answer) => [answer, first!] as const),
  ]);
  expect([refused.status, refused.body.detail.code]).toEqual([429, 'rate_limited']);
  return { answer: held };
}

const undecided = { status: 200, body: { state: 'pending' } };

test('a gateway that stops says so to whoever still has a connection, and waits for no call that has timed out', async () => {
  await withoutConfig(() => sees(cold.url, { code: 503 }));
  await sees(cold.url, ready);
  const held = await hold(cold, cluster.tenant.admin);
  // A connection for each try: what is asked while the signal comes may be the last over its own.
  const agents = Array.from({ length: 200 }, () => new Agent({ keepAlive: true, maxSockets: 1 }));
  for (const agent of agents) expect((await getOver(agent, `${cold.url}/healthz`)).code).toBe(200);
  const began = performance.now();
  const stopped = cold.stop();
  // Until the signal has reached it.
  let said: { code: number; text: string } | undefined;
  for (const agent of agents) {
    await delay(25);
    said = await getOver(agent, `${cold.url}/readyz`);
    if (said.code !== 200) break;
  }
  const { code, text } = said!;
  expect([code, JSON.parse(text)]).toEqual([503, expect.objectContaining({ status: 'stopping' })]);
  await stopped;
  expect(await held.answer).toMatchObject(undecided);
  // Calls that it waited for would hold it up for the ten seconds that Moleculer gives them, and
  // its connections for one more.
  expect(performance.now() - began).toBeLessThan(10_900);
  for (const agent of agents) agent.destroy();
});

test('a notifier that stops answers at once whoever waits for a change', async () => {
  const held = await hold(cluster.gateways[0]!, cluster.tenant.operator);
  await notifier.stop();
  expect(await held.answer).toMatchObject(undecided);
});
