/**
 * What monitoring gets: a node of each role, scraped as Prometheus would, promtool's verdict on
 * what it says, and the alert that each fault of the cluster raises.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { stringify } from 'yaml';
import { roles } from '../../services/node-roles.ts';
import { directoryFileIn } from '../../shared/database/backup/archive-command.ts';
import {
  alerts,
  alertTests,
  dashboardExpressions,
  metricsIn,
  prometheusFolder,
  promtool,
  selectorsIn,
  type Ended,
} from '../support/alerts.ts';
import { baseUrl, eventually, killed } from '../support/cluster.ts';
import {
  createDatabase,
  migrate,
  startPostgres,
  withClient,
  type Server,
} from '../support/postgres.ts';
import { freePort, startNats, startRedis, type Process } from '../support/servers.ts';
import {
  adminPassword,
  Client,
  secretKey,
  signIn,
  startStrata,
  type Running,
} from '../support/strata.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const operations = readFileSync(join(root, 'docs/operations/watch.md'), 'utf8');

interface Node {
  readonly role: string;
  readonly running: Running;
  readonly metricsPort: number;
}

let postgres: Server;
let databaseUrl: string;
let nats: Process;
let redis: Process;
let nodes: Node[] = [];
let platform: Client;

beforeAll(async () => {
  [postgres, nats, redis] = await Promise.all([startPostgres(), startNats(), startRedis()]);
  const { url } = await createDatabase(postgres.url);
  databaseUrl = url;
  const environment = {
    DATABASE_URL: url,
    NATS_URL: nats.url,
    REDIS_URL: redis.url,
    BASE_URL: baseUrl,
    LOG_LEVEL: 'warn',
    DB_POOL_SIZE: '4',
    SECRET_KEY: secretKey,
  };
  await migrate(url);
  nodes = await Promise.all(
    roles.map(async ({ name: role }) => {
      const metricsPort = await freePort();
      const own = { NODE_ID: role, METRICS_PORT: String(metricsPort) };
      return {
        role,
        metricsPort,
        running: await startStrata({ ...environment, ...own }, [role]),
      };
    }),
  );
  const gateway = nodeOf('gateway').running.url;
  platform = await eventually(() => signIn(gateway, 'admin@example.com', adminPassword));
  await eventually(async () => {
    // Created, or written once more where a node was not ready yet.
    const { status } = await platform.put('/config/global/greeting', { config_value: 1 });
    expect([200, 201]).toContain(status);
    expect((await platform.get('/readyz')).body.status).toBe('ready');
  });
});
afterAll(async () => {
  await Promise.all(nodes.map(({ running }) => running.stop('SIGKILL')));
  await Promise.all([nats?.stop('SIGKILL'), redis?.stop('SIGKILL')]);
  await postgres?.stop();
});

const nodeOf = (role: string): Node => nodes.find((node) => node.role === role)!;

const scrape = async ({ metricsPort }: Node): Promise<string> => {
  // Less than Prometheus waits by default, and less than a query waits for a database that stalls.
  const signal = AbortSignal.timeout(6000);
  return (await fetch(`http://127.0.0.1:${metricsPort}/metrics`, { signal })).text();
};

/** Names of the metrics, with their types. */
const typesIn = (text: string): Map<string, string> =>
  new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => [name!, type!]));

/** `name{labels}` → value. */
const samplesIn = (text: string): Map<string, string> =>
  new Map(
    text
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line): [string, string] => {
        const end = line.lastIndexOf(' ');
        return [line.slice(0, end), line.slice(end + 1)];
      }),
  );

const withoutSuffix = (metric: string): string => metric.replace(/_(bucket|sum|count)$/, '');

/** What the table of metrics says of a role. */
function documentedFor(role: string): string[] {
  const { hasTables = false } = roles.find(({ name }) => name === role)!;
  const isOn: Record<string, boolean> = {
    'every node': true,
    'nodes with a database': hasTables,
    ...Object.fromEntries(roles.map(({ name }) => [`\`${name}\``, name === role])),
    gateways: role === 'gateway',
    'nodes of configuration': role === 'tenant-config' || role === 'global-config',
  };
  const [, section = ''] = operations.split('\n## Metrics\n');
  const rows = [...section.matchAll(/^\| (`strata_.+?) +\| (.+?) +\|/gm)];
  return rows
    .filter(([, , where]) => {
      expect(Object.keys(isOn)).toContain(where);
      return isOn[where!];
    })
    .flatMap(([, names]) => names!.match(/strata_[a-z_]+/g)!);
}

describe.each(roles.map(({ name }) => name))('/metrics of %s', (role) => {
  test('follows the conventions: promtool has nothing to say', async () => {
    expect(await promtool(['check', 'metrics'], await scrape(nodeOf(role)))).toEqual({
      code: 0,
      output: '',
    });
  });

  test('has exactly the figures that the table says it has', async () => {
    const text = await scrape(nodeOf(role));
    const shown = [...typesIn(text).keys()].filter((name) => name.startsWith('strata_'));
    expect(shown.sort()).toEqual(documentedFor(role).sort());
  });

  test('counts nothing in a gauge', async () => {
    for (const [name, type] of typesIn(await scrape(nodeOf(role))))
      expect([name, type === 'counter']).toEqual([name, name.endsWith('_total')]);
  });
});

test('clients of a gateway do not get its figures: they are on METRICS_PORT alone', async () => {
  const gateway = nodeOf('gateway');
  for (const path of ['/metrics', '/metrics/'])
    expect(await new Client(gateway.running.url).get(path)).toMatchObject({
      status: 404,
      body: { detail: { code: 'not_found', message: 'Metrics are served on METRICS_PORT.' } },
    });
  expect(await scrape(gateway)).toContain('strata_http_requests_total');
});

test('alerts and dashboard ask for what is there, by labels that it has', async () => {
  const texts = await Promise.all(nodes.map(scrape));
  const names = new Set(texts.flatMap((text) => [...typesIn(text).keys()]));
  const samples = texts.flatMap((text) => [...samplesIn(text).keys()]);
  const ofPrometheus = ['instance', 'job', 'le'];
  for (const expression of [...alerts.map(({ expr }) => expr), ...dashboardExpressions]) {
    for (const metric of metricsIn(expression)) expect(names).toContain(withoutSuffix(metric));
    for (const { metric, labels } of selectorsIn(expression)) {
      const [shown = ''] = samples.filter((sample) => sample.startsWith(`${metric}{`));
      for (const label of labels.filter((each) => !ofPrometheus.includes(each)))
        expect([metric, shown]).toEqual([metric, expect.stringContaining(`${label}="`)]);
    }
  }
});

test('a transaction that reads for long shows by how long it has been open', async () => {
  const oldest = async (): Promise<number> => {
    const measured = samplesIn(await scrape(nodeOf('audit')));
    return Number(measured.get('strata_database_oldest_snapshot_seconds'));
  };
  await withClient(databaseUrl, async (client) => {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    await client.query('SELECT FROM strata.revisions');
    await eventually(async () => expect(await oldest()).toBeGreaterThan(2));
    await client.query('COMMIT');
  });
  await eventually(async () => expect(await oldest()).toBeLessThan(1));
});

test.each([
  ['check', 'rules', 'strata.rules.yml'],
  ['check', 'config', 'prometheus.yml'],
])('promtool %s %s %s', async (...argv) => {
  expect(await promtool(argv)).toMatchObject({ code: 0 });
});

/** With its rule alone for each alert: promtool evaluates all rules of a file for each of its tests. */
test('promtool test rules strata.rules.test.yml', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'strata-alerts-'));
  try {
    const files = alerts.map((rule) => {
      const name = join(folder, rule.alert);
      const tests = alertTests.filter(({ alert_rule_test: each }) =>
        each.some(({ alertname }) => alertname === rule.alert),
      );
      writeYaml(`${name}.rules.yml`, { groups: [{ name: 'alone', rules: [rule] }] });
      writeYaml(`${name}.yml`, {
        rule_files: [`${name}.rules.yml`],
        evaluation_interval: '15s',
        tests,
      });
      return `${name}.yml`;
    });
    expect(await promtool(['test', 'rules', ...files])).toMatchObject({ code: 0 });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
const writeYaml = (file: string, value: unknown): void =>
  writeFileSync(file, stringify(value, { lineWidth: 0 }));

/** All nodes, scraped at one moment; undefined for one that does not answer. */
type Scrapes = ReadonlyMap<string, ReadonlyMap<string, string> | undefined>;

async function scrapeAll(): Promise<Scrapes> {
  const seen = nodes.map(async (node): Promise<[string, Map<string, string> | undefined]> => {
    const text = await scrape(node).catch(() => undefined);
    return [node.role, text === undefined ? undefined : samplesIn(text)];
  });
  return new Map(await Promise.all(seen));
}

const asked = new Set(alerts.flatMap(({ expr }) => metricsIn(expr)));

/**
 * The series that rules ask for, as promtool takes them; a scrape of ours, each half second, stands
 * for one of each 15 s.
 */
function seriesOf(moments: readonly Scrapes[]): { series: string; values: string }[] {
  return nodes.flatMap(({ role }) => {
    const ofNode = moments.map((moment) => moment.get(role));
    const target = `instance="${role}", job="strata"`;
    const isWanted = (sample: string): boolean => asked.has(sample.replace(/\{.*$/, ''));
    const shown = new Set(ofNode.flatMap((samples) => [...(samples?.keys() ?? [])]));
    const labelled = (sample: string): string =>
      sample.includes('{') ? sample.replace('{', `{${target}, `) : `${sample}{${target}}`;
    return [
      {
        series: `up{${target}}`,
        values: ofNode.map((samples) => (samples ? 1 : 0)).join(' '),
      },
      ...[...shown].filter(isWanted).map((sample) => ({
        series: labelled(sample),
        values: ofNode.map((samples) => samples?.get(sample) ?? 'stale').join(' '),
      })),
    ];
  });
}

/**
 * What promtool finds at the last of these moments, by the rules as they are deployed: an
 * expression for each value expected.
 */
async function promtoolFinds(
  moments: readonly Scrapes[],
  expected: readonly { readonly expr: string; readonly value: number }[],
): Promise<Ended> {
  const folder = mkdtempSync(join(tmpdir(), 'strata-alerts-'));
  const file = join(folder, 'moments.yml');
  const promql = expected.map(({ expr, value }) => ({
    expr,
    eval_time: `${(moments.length - 1) * 15}s`,
    exp_samples: [{ labels: '{}', value }],
  }));
  const moment = { interval: '15s', input_series: seriesOf(moments), promql_expr_test: promql };
  const written = {
    rule_files: [join(prometheusFolder, 'strata.rules.yml')],
    evaluation_interval: '15s',
    tests: [moment],
  };
  writeYaml(file, written);
  try {
    return await promtool(['test', 'rules', file]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** How many series of alerts with these labels ring. */
const ringing = (labels: string): string =>
  `count(ALERTS{alertstate="firing"${labels}}) or vector(0)`;

/** Some moments, while something is asked between them. */
async function watch(
  count: number,
  concurrent = async (): Promise<void> => {},
): Promise<Scrapes[]> {
  const moments: Scrapes[] = [];
  for (let index = 0; index < count; index += 1) {
    await concurrent();
    moments.push(await scrapeAll());
    await delay(250);
  }
  return moments;
}

const read = async (): Promise<void> => {
  await platform.get('/config/global/greeting');
};

describe('a fault raises the alert that is meant for it', () => {
  let healthy: Scrapes[];
  const noneRings = [{ expr: ringing(''), value: 0 }];
  beforeAll(async () => {
    await read();
    // A machine that is too busy for a moment has alerts of its own, and not each time.
    for (let tries = 1; tries <= 8; tries += 1) {
      healthy = await watch(8, read);
      if ((await promtoolFinds(healthy, noneRings)).code === 0) break;
    }
  });
  const look = (names: readonly string[], during: readonly Scrapes[]) => {
    const expected = names.map((name) => ({
      expr: `(${ringing(`, alertname="${name}"`)}) > bool 0`,
      value: 1,
    }));
    return promtoolFinds([...healthy, ...during], expected);
  };
  /** On a busy machine it takes some moments more until all that is away is known to be. */
  const ring = async (
    names: readonly string[],
    during: Scrapes[],
    concurrent?: () => Promise<void>,
  ): Promise<void> => {
    for (let tries = 0; tries < 6 && (await look(names, during)).code !== 0; tries += 1)
      during.push(...(await watch(4, concurrent)));
    expect(await look(names, during)).toMatchObject({ code: 0 });
  };

  test('none rings while all is well', async () => {
    const found = await promtoolFinds(healthy, noneRings);
    expect(found).toMatchObject({ code: 0 });
  });

  test('PostgreSQL cannot archive its log', async () => {
    const home = await withClient(postgres.url, async (client) => {
      const { rows } = await client.query<{ data_directory: string }>('SHOW data_directory');
      return dirname(rows[0]!.data_directory);
    });
    // As where the disk of the backups is gone.
    const directoryFile = directoryFileIn(home);
    writeFileSync(directoryFile, join(home, 'gone'), { mode: 0o644 });
    try {
      await withClient(postgres.url, (client) => client.query('SELECT pg_switch_wal()'));
      await eventually(async () => {
        const text = await scrape(nodeOf('auth'));
        expect(text).toMatch(/^strata_archive_failing 1$/m);
        expect(text).toMatch(/^strata_archive_failures_total [1-9]\d*$/m);
      }, 90_000);
      await ring(['StrataArchiveFailing'], await watch(15));
    } finally {
      rmSync(directoryFile);
    }
  });

  test('PostgreSQL stalls: every other figure is still there', async () => {
    const goOn = await postgres.freeze();
    try {
      const during = await watch(5);
      expect(during.flatMap((moment) => [...moment.values()])).not.toContain(undefined);
      await ring(['StrataDatabaseAway'], during);
    } finally {
      goOn();
    }
    await eventually(async () => expect((await platform.get('/readyz')).body.status).toBe('ready'));
  });

  test('Redis is away', async () => {
    const { port } = redis;
    await redis.stop('SIGKILL');
    // Until the gateway has asked Redis again.
    await eventually(async () => {
      expect(await scrape(nodeOf('gateway'))).toMatch(
        /^strata_dependency_up\{dependency="redis"\} 0$/m,
      );
    });
    await ring(['StrataRedisAway'], await watch(6));
    redis = await startRedis({ port });
  });

  test('a reload does not reach a node', async () => {
    const { pid } = nodeOf('notifier').running;
    process.kill(pid, 'SIGSTOP');
    try {
      expect((await platform.post('/config/reload', {})).status).toBe(207);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    await ring(['StrataPartialReload'], await watch(2));
    await eventually(async () => expect((await platform.get('/readyz')).body.status).toBe('ready'));
  });

  test('audit is away', async () => {
    await killed(nodeOf('audit').running);
    await eventually(async () =>
      expect((await platform.get('/readyz')).body.checks.audit).toBe(false),
    );
    await ring(['StrataNodeDown', 'StrataPieceAway'], await watch(6));
  });

  test('NATS is away', async () => {
    // What is asked below is in memory, also where an earlier fault has emptied it.
    await eventually(async () =>
      expect((await platform.get('/config/global/greeting')).status).toBe(200),
    );
    await nats.stop('SIGKILL');
    // Until leases have run out, and what was asked of others has failed.
    await eventually(async () => {
      expect(await scrape(nodeOf('gateway'))).toMatch(/^strata_coherence_lease 0$/m);
    });
    const expected = ['StrataBusAway', 'StrataReadsThrough', 'StrataStaleAnswers'];
    await ring(expected, await watch(8, read), read);
  });
});
