/**
 * Guarantee G2: processes are killed at random moments during writes; afterwards every answered
 * write must be found everywhere.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { requireProvedAudit } from './audit.ts';
import { eventually, isAlive, killed, type Cluster } from './cluster.ts';
import { startNats, startRedis } from './servers.ts';
import { Client, type Answer, type Running, type TenantFixture } from './strata.ts';

/** A write that was answered. */
interface Write {
  readonly requestId: string;
  readonly path: string;
  readonly value: string;
  readonly revision: number;
}
export interface Accounted {
  /** How often each kind of process was killed. */
  readonly kills: Record<string, number>;
  readonly answered: number;
  readonly unanswered: number;
  readonly committedWithoutAnswer: number;
}

/** A cluster, and whichever tenant of it is written to. */
interface WrittenTo extends Omit<Cluster, 'tenant'> {
  readonly tenant: Pick<TenantFixture, 'id' | 'admin'>;
}

const randomOf = <T>(from: readonly T[]): T => from[Math.floor(Math.random() * from.length)]!;

type Victim = Running | 'nats' | 'redis' | 'postgres';

const anyOf = ({ services, gateways }: Cluster): Victim[] => [
  ...services,
  ...gateways,
  'nats',
  'redis',
  'postgres',
];

/** Kills so many of these at random, at the same moment, and starts them again; returns what they were. */
function killSome(cluster: Cluster, victims: readonly Victim[], count: number): Promise<string[]> {
  const chosen = new Set<Victim>();
  while (chosen.size < Math.min(count, victims.length)) chosen.add(randomOf(victims));
  return Promise.all([...chosen].map((victim) => killAndStart(cluster, victim)));
}

/** Returns what it was. */
async function killAndStart(cluster: Cluster, victim: Victim): Promise<string> {
  switch (victim) {
    case 'nats': {
      const { port } = cluster.bus;
      await cluster.bus.stop('SIGKILL');
      cluster.bus = await startNats({ port });
      return victim;
    }
    case 'redis': {
      const { port } = cluster.redis;
      await cluster.redis.stop('SIGKILL');
      cluster.redis = await startRedis({ port });
      return victim;
    }
    case 'postgres':
      await cluster.postgres.restart(randomOf(['SIGKILL', 'SIGQUIT', 'SIGINT']));
      return victim;
    default: {
      const name = cluster.services.includes(victim)
        ? `service ${1 + cluster.services.indexOf(victim)}`
        : 'gateway';
      await killed(victim);
      // A node that finds the database or the bus gone at its start says so and ends; whoever runs
      // it starts it again.
      await eventually(() => cluster.revive(victim), 120_000);
      return name;
    }
  }
}

/** After the last kill each writer continues until it has been answered so many times. */
const answersAfterwards = 6;

/**
 * So many kills at random while `writers` clients write all the time. Throws if a write is lost,
 * doubled or out of order, and if a writer is not answered again.
 */
export async function killAtRandom(
  cluster: Cluster,
  kills: number,
  {
    writers = 4,
    pauseMs = 20,
    tenant = cluster.tenant,
    victims = anyOf,
    atOnce = 1,
  }: {
    readonly writers?: number;
    /** How long each writer waits between two writes. */
    readonly pauseMs?: number;
    readonly tenant?: WrittenTo['tenant'];
    readonly victims?: (cluster: Cluster) => readonly Victim[];
    /** How many are killed at the same moment. */
    readonly atOnce?: number;
  } = {},
): Promise<Accounted> {
  const run = randomUUID().slice(0, 8);
  const answered: Write[] = [];
  const answers = Array.from({ length: writers }, () => 0);
  const state = { done: false, unanswered: 0 };
  const writer = async (lane: number): Promise<void> => {
    const path = `/tenants/${tenant.id}/config/agents/lane-${run}-${lane}`;
    for (let turn = 0; !state.done; turn += 1) {
      const gateway = randomOf(cluster.gateways.filter(isAlive));
      const [requestId, value] = [randomUUID(), `${lane}.${turn}`];
      const answer: Answer | undefined =
        gateway &&
        (await new Client(gateway.url, tenant.admin.token)
          .put(path, { custom: { value } }, { 'x-request-id': requestId })
          .catch(() => undefined));
      if (answer && answer.status < 300) {
        const revision = Number(answer.headers.get('x-config-revision'));
        answered.push({ requestId, path, value, revision });
        answers[lane]! += 1;
      } else state.unanswered += 1;
      await delay(pauseMs);
    }
  };
  const work = Array.from({ length: writers }, (_each, lane) => writer(lane));
  const counts: Record<string, number> = {};
  try {
    for (let kill = 0; kill < kills; kill += 1) {
      await delay(Math.random() * 800);
      for (const victim of await killSome(cluster, victims(cluster), atOnce))
        counts[victim] = (counts[victim] ?? 0) + 1;
    }
    answers.fill(0);
    await eventually(async () => assert(Math.min(...answers) >= answersAfterwards), 60_000);
  } finally {
    state.done = true;
    await Promise.all(work);
  }
  const { unanswered } = state;
  return {
    kills: counts,
    answered: answered.length,
    unanswered,
    committedWithoutAnswer: await account({ ...cluster, tenant }, answered, run),
  };
}

/** A row of the history. */
interface Revised {
  request_id: string;
  revision: number;
  resource_id: string;
  after: { custom: { value: string } };
}

/**
 * Throws unless row, history, audit chain and every node agree and hold all that was answered.
 * Returns how many writes were committed without an answer.
 */
async function account(
  cluster: WrittenTo,
  answered: readonly Write[],
  run: string,
): Promise<number> {
  // What was given up by its client may be committed a moment later, and is in both then.
  const history = await eventually(() => auditedHistory(cluster), 90_000);
  assertInHistory(history, answered);
  const admin = new Client(cluster.gateways[0]!.url, cluster.platform.token);
  await eventually(() => requireProvedAudit(admin), 60_000);
  await assertNoGaps(cluster);
  await assertReadEverywhere(cluster, history, answered);
  const known = new Set(answered.map((write) => write.requestId));
  return history.filter(
    (row) => row.resource_id.startsWith(`lane-${run}`) && !known.has(row.request_id),
  ).length;
}

/** The tenant's history, once the audit chain has exactly what is in it. */
async function auditedHistory(cluster: WrittenTo): Promise<Revised[]> {
  const { tenant, database } = cluster;
  const history = await database.query<Revised>(
    `SELECT request_id, revision::float8 AS revision, resource_id, after FROM tenant_config.configuration_history
     WHERE tenant_id = $1 AND config_type = 'agent_config' ORDER BY revision`,
    [tenant.id],
  );
  await assertAudited(cluster, history);
  return history;
}

/**
 * Each answered write is in the history once, under the revision and with the value that it was
 * answered with.
 */
function assertInHistory(history: readonly Revised[], answered: readonly Write[]): void {
  const byRequest = Map.groupBy(history, (row) => row.request_id);
  for (const { requestId, value, revision } of answered) {
    const rows = byRequest.get(requestId) ?? [];
    assert.deepEqual(
      rows.map((row) => [row.revision, row.after.custom.value]),
      [[revision, value]],
      `history of the answered write ${requestId}`,
    );
  }
}

/** Throws unless the outbox is empty and the audit chain has each event of the history once. */
async function assertAudited(
  { tenant, database }: WrittenTo,
  history: readonly Revised[],
): Promise<void> {
  assert.deepEqual(await database.query('SELECT count(*)::int AS waiting FROM strata.outbox'), [
    { waiting: 0 },
  ]);
  const audited = await database.query<{ request_id: string; times: number }>(
    `SELECT request_id, count(*)::int AS times FROM audit.events WHERE tenant_id = $1 AND action LIKE 'config.agent%' GROUP BY request_id`,
    [tenant.id],
  );
  assert.deepEqual(
    audited.filter(({ times }) => times !== 1),
    [],
    'events that the chain has twice',
  );
  assert.deepEqual(
    new Set(audited.map((each) => each.request_id)),
    new Set(history.map((row) => row.request_id)),
    'the chain has exactly the events of the history',
  );
}

async function assertNoGaps({ tenant, database }: WrittenTo): Promise<void> {
  const changes = await database.query<{ gaps: number }>(
    'SELECT (max(revision) - min(revision) + 1 - count(*))::int AS gaps FROM strata.changes WHERE scope = $1',
    [`tenant:${tenant.id}`],
  );
  assert.deepEqual(changes, [{ gaps: 0 }], 'gaps in the change feed');
}

/** Every gateway answers the newest row of each written document. */
async function assertReadEverywhere(
  { tenant, gateways }: WrittenTo,
  history: readonly Revised[],
  answered: readonly Write[],
): Promise<void> {
  const newest = new Map(history.map((row) => [row.resource_id, row]));
  for (const path of new Set(answered.map((write) => write.path))) {
    const { revision, after } = newest.get(path.split('/').at(-1)!)!;
    for (const { url } of gateways) {
      const read = await answerTo(new Client(url, tenant.admin.token), path);
      assert.deepEqual(
        [read.status, read.headers.get('x-config-revision'), read.body.custom],
        [200, String(revision), after.custom],
        `${path} on ${url}`,
      );
    }
  }
}

/**
 * A gateway that has just started, or whose services have, may have to wait for one. What it then
 * answers is not stale.
 */
const answerTo = (client: Client, path: string): Promise<Answer> =>
  eventually(async () => {
    const answer = await client.get(path);
    const isMarked = answer.headers.get('x-config-stale') === 'true';
    assert(answer.status < 500 && !isMarked, `${client.url}: ${answer.status} ${answer.text}`);
    return answer;
  }, 60_000);
