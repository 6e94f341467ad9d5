/**
 * What the notifier costs PostgreSQL where very many tenants are at work, beside the same with few:
 * in processor time of its sessions and in statements, which a busy machine changes little.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { serviceCaller } from '../../shared/access.ts';
import { commitChange } from '../../shared/commits/commit.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { platformScope } from '../../shared/contracts/revision-scopes.ts';
import { openDatabase } from '../../shared/database/open.ts';
import { eventually } from '../support/cluster.ts';
import { grown } from '../support/grown.ts';
import type { Database } from '../support/postgres.ts';
import { createTenant, type Answer, type Client, type TenantFixture } from '../support/strata.ts';
import { fillSlots, seed, slots, type AtWork } from './at-work/seed.ts';
import { countingStatements, during } from './at-work/statements.ts';
import { loadCore, serverCore, startProgram, type Program } from './machine.ts';
import type { Comparison, Fact, Group } from './report.ts';
import { platformAdmin, startStage, type Stage } from './stage.ts';

const few: AtWork = { tenants: 100, running: 1, deadEndpoints: 100 };
const many: AtWork = { tenants: 50_000, running: 5, deadEndpoints: 5000 };
const waitingTenants = 1000;
const heldGets = 5000;
const starters = 64;
const startingTenants = 8;
const repetitions = 50;
const secret = 'a secret of the bench';

const settings = {
  RATE_LIMIT_PER_MINUTE: '0',
  NETWORK_RATE_LIMIT_PER_MINUTE: '1000',
  WEBHOOK_ALLOW_HTTP: 'true',
  WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
  APPROVALS_MAX_PENDING: '100000',
  HELD_REQUESTS: '20000',
  HELD_REQUESTS_PER_TENANT: '10000',
  HELD_REQUESTS_PER_CALLER: '10000',
};

interface Place {
  readonly database: Database;
  readonly url: string;
  readonly platform: Client;
  readonly tenant: TenantFixture;
  /** The receiver of its notices. */
  readonly receiver: Program;
}

async function startPlace(stage: Stage, size: AtWork): Promise<Place> {
  const database = await stage.anotherDatabase();
  await seed(database, size);
  const { url } = await stage.start([], serverCore, {
    ...stage.alone,
    ...settings,
    DATABASE_URL: database.url,
  });
  const receiver = await startProgram('test/bench/peers/receiver.ts', [secret], loadCore);
  const platform = await platformAdmin(url);
  const tenant = await createTenant(url, platform, 'Bench');
  await grown(database, tenant.id);
  await unlimited(tenant);
  await expectOk(
    tenant.admin.put(`/tenants/${tenant.id}/config/notifications`, {
      webhook: { endpoints: [{ url: receiver.said, secret }] },
    }),
  );
  await grown(database, tenant.id);
  return { database, url, platform, tenant, receiver };
}

const unlimited = ({ id, admin }: TenantFixture): Promise<unknown> =>
  expectOk(
    admin.patch(`/tenants/${id}/config/risk`, {
      global_settings: { max_concurrent_automations: 1000 },
    }),
  );

async function expectOk(answer: Promise<Answer>): Promise<Answer['body']> {
  const { status, text, body } = await answer;
  if (status >= 300) throw new Error(`${status} ${text}`);
  return body;
}

const pathOf = ({ id }: Pick<TenantFixture, 'id'>): string => `/tenants/${id}/automations`;
const start = (
  tenant: Pick<TenantFixture, 'id' | 'admin'>,
  risk = 'low',
): Promise<Answer['body']> =>
  expectOk(tenant.admin.post(pathOf(tenant), { action: 'scale', risk_level: risk }));

async function automationEvent({ tenant }: Pick<Place, 'tenant'>): Promise<void> {
  const { id, state } = await start(tenant);
  if (state !== 'running') throw new Error(`an automation is ${state}`);
  await expectOk(tenant.admin.post(`${pathOf(tenant)}/${id}/finish`, { outcome: 'done' }));
}

/** From the grant to the moment at which it is seen to run, in milliseconds. */
async function grant({ tenant }: Place): Promise<number> {
  const { id, approval_id: approval } = await start(tenant, 'high');
  const began = performance.now();
  await expectOk(
    tenant.operator.post(`/tenants/${tenant.id}/approvals/${approval}/decision`, {
      decision: 'approve',
    }),
  );
  const { state } = await expectOk(tenant.admin.get(`${pathOf(tenant)}/${id}?wait=30`));
  const ms = performance.now() - began;
  if (state !== 'running') throw new Error(`what was granted is ${state}`);
  await expectOk(tenant.admin.post(`${pathOf(tenant)}/${id}/finish`, { outcome: 'done' }));
  return ms;
}

async function notice({ tenant, receiver }: Place): Promise<void> {
  const arrived = async (): Promise<number> =>
    ((await (await fetch(receiver.said)).json()) as { count: number }).count;
  const before = await arrived();
  const ask = { action: 'scale', risk_level: 'high', title: 'Scale' };
  await expectOk(tenant.admin.post(`/tenants/${tenant.id}/approvals`, ask));
  while ((await arrived()) === before) await delay(2);
}

/** Lets the window of an approval end, and waits until it was escalated. */
async function hop({ database, tenant }: Place): Promise<void> {
  const [due] = await database.query<{ id: string }>(
    `UPDATE notifier.approvals SET escalates_at = now() WHERE id = (
       SELECT id FROM notifier.approvals WHERE tenant_id = $1 AND state = 'pending' AND hop = 0 LIMIT 1) RETURNING id`,
    [tenant.id],
  );
  await eventually(async () => {
    const [left] = await database.query(
      'SELECT FROM notifier.approvals WHERE id = $1 AND hop > 0',
      [due!.id],
    );
    if (!left) throw new Error('it was not escalated');
  });
}

interface Work {
  readonly what: string;
  readonly times: number;
  readonly work: (place: Place) => Promise<unknown>;
}
/** A hop takes up to a second, in which little else is done. */
const works: readonly Work[] = [
  { what: 'begin and end of an automation', times: repetitions, work: automationEvent },
  { what: 'a grant and the start by it', times: repetitions, work: grant },
  { what: 'an approval and its notice', times: repetitions, work: notice },
  { what: 'a hop and its notice', times: repetitions / 5, work: hop },
];

/** Processor time of the notifier's sessions in milliseconds: of one time, without what is idle. */
async function costOf({ times, work }: Work, place: Place, idleMs: number): Promise<number> {
  const { cpuMs, seconds } = await during(place.database, async () => {
    for (let time = 0; time < times; time += 1) await work(place);
  });
  return (cpuMs - idleMs * seconds) / times;
}

interface Idle {
  readonly cpu: number;
  readonly calls: number;
}

async function idleOf({ database }: Place, seconds: number): Promise<Idle> {
  await delay(3000);
  const done = await during(database, () => delay(seconds * 1000));
  return { cpu: done.cpuMs / done.seconds, calls: done.statements / done.seconds };
}

const p99 = (all: readonly number[]): number =>
  all.toSorted((a, b) => a - b)[Math.ceil(all.length * 0.99) - 1]!;

/** Those who start and end automations in several tenants, until the work is over. */
async function besideStarters(
  { url, platform, database }: Place,
  work: () => Promise<unknown>,
): Promise<void> {
  const tenants: TenantFixture[] = [];
  for (let each = 0; each < startingTenants; each += 1) {
    const tenant = await createTenant(url, platform, `Starting ${each}`);
    await grown(database, tenant.id);
    await unlimited(tenant);
    tenants.push(tenant);
  }
  const over = { yet: false };
  const starting = Promise.all(
    Array.from({ length: starters }, async (_each, index) => {
      const tenant = tenants[index % startingTenants]!;
      // Where the node is busy one or the other is not answered in time.
      while (!over.yet) await automationEvent({ tenant }).catch(() => undefined);
    }),
  );
  await work();
  over.yet = true;
  await starting;
}

/** How long each took that was made one after the other, in milliseconds, also of those that failed. */
async function timesOf(seconds: number, work: () => Promise<unknown>): Promise<number[]> {
  const took: number[] = [];
  const until = performance.now() + seconds * 1000;
  while (performance.now() < until) {
    const began = performance.now();
    await work().catch(() => undefined);
    took.push(performance.now() - began);
  }
  return took;
}

/**
 * Changes of the platform beside starters: through the API, which the starters share with it, and
 * as the transaction alone, from here.
 */
async function platformWrites(
  place: Place,
  seconds: number,
): Promise<{ api: number[]; commits: number[] }> {
  const db = await openDatabase(
    { url: place.database.url, poolSize: 1, timeoutMs: 10_000, ssl: false },
    commitSchema,
  );
  let number = 0;
  const write = (): Promise<Answer> => {
    number += 1;
    return place.platform.put('/config/global/bench', { config_value: number });
  };
  await expectOk(write());
  const change = { result: undefined, keys: [], events: [] };
  const commit = (): Promise<unknown> =>
    commitChange(
      db,
      { caller: serviceCaller('bench'), requestId: 'bench', committed: [] },
      platformScope,
      async () => change,
    );
  let api: number[] = [];
  let commits: number[] = [];
  await besideStarters(place, async () => {
    api = await timesOf(seconds, write);
    commits = await timesOf(seconds, commit);
  });
  await db.destroy();
  return { api, commits };
}

const row = (
  what: string,
  unit: string,
  strata: readonly number[],
  limit: number,
  peer = 'the limit',
): Comparison => ({
  what,
  peer,
  unit,
  goal: { atMost: 1 },
  strata,
  baseline: strata.map(() => limit),
});

/** Statements a second that GETs which wait add while nothing happens. */
async function heldStatements(place: Place, idleCalls: number, seconds: number): Promise<number> {
  const { id } = await start(place.tenant);
  const path = `${place.url}${pathOf(place.tenant)}/${id}?state=running&wait=60`;
  const program = await startProgram(
    'test/bench/peers/held-gets.ts',
    [path, place.tenant.admin.token!, String(heldGets)],
    loadCore,
  );
  try {
    // Until all are held.
    await delay(12_000);
    const { statements, seconds: passed } = await during(place.database, () =>
      delay(seconds * 1000),
    );
    return statements / passed - idleCalls;
  } finally {
    await program.stop();
  }
}

export const atWork: Group = async ({ rounds, seconds }) => {
  const stage = await startStage(countingStatements);
  const places: Place[] = [];
  try {
    const small = await startPlace(stage, few);
    places.push(small);
    const large = await startPlace(stage, many);
    places.push(large);
    const size = `${many.tenants.toLocaleString('en')} tenants at work`;
    const rows: Comparison[] = [];
    const facts: Fact[] = [];

    const idleSeconds = 5 * seconds;
    // One window alone says little: 3.2, 6.6 and 3.6 ms/s were seen in three runs.
    const idlesFew: Idle[] = [];
    const idles: Idle[] = [];
    for (let round = 0; round < rounds; round += 1) {
      idlesFew.push(await idleOf(small, idleSeconds));
      idles.push(await idleOf(large, idleSeconds));
    }
    const [idleFew, idle] = [idlesFew, idles].map(
      (each) => each.toSorted((one, other) => one.cpu - other.cpu)[Math.floor(rounds / 2)]!,
    ) as [Idle, Idle];
    const cpu = idles.map((each) => each.cpu);
    rows.push(row(`an idle notifier with ${size}`, 'ms/s', cpu, 5));
    facts.push({ what: 'an idle notifier with 100', result: `${idleFew.cpu.toFixed(2)} ms/s` });

    for (const work of works) {
      const strata: number[] = [];
      const baseline: number[] = [];
      // The first round is not counted: plans and code are new.
      for (let round = 0; round <= rounds; round += 1) {
        baseline.push(await costOf(work, small, idleFew.cpu));
        strata.push(await costOf(work, large, idle.cpu));
      }
      rows.push({
        what: `${work.what}, ${size}`,
        peer: 'with 100',
        unit: 'ms of PostgreSQL',
        goal: { atMost: 1.3 },
        strata: strata.slice(1),
        baseline: baseline.slice(1),
      });
    }

    const { api, commits } = await platformWrites(large, 5 * seconds);
    const beside64 = `beside ${starters} starters, p99`;
    rows.push(row(`the commit of a platform write ${beside64}`, 'ms', [p99(commits)], 100));
    facts.push({ what: `a platform write ${beside64}`, result: `${p99(api).toFixed(0)} ms` });

    const held = await heldStatements(large, idle.calls, idleSeconds);
    rows.push(row(`statements for ${heldGets} GETs that wait`, '/s', [held], 50));

    await fillSlots(large.database, waitingTenants);
    const waiting = await idleOf(large, idleSeconds);
    facts.push({
      what: `a notifier with ${waitingTenants} tenants in which one waits for ${slots} slots`,
      result: `${waiting.cpu.toFixed(1)} ms/s`,
    });
    const grants: number[] = [];
    for (let each = 0; each < 2 * repetitions; each += 1) grants.push(await grant(large));
    const beside = `beside ${waitingTenants} tenants that wait`;
    rows.push(row(`from a grant to the start by it ${beside}, p99`, 'ms', [p99(grants)], 1500));
    return { rows, facts };
  } finally {
    for (const { receiver } of places) await receiver.stop();
    await stage.stop();
  }
};
