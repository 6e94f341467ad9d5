/** What an answer costs in statements and calls does not grow with what there is to be answered. */
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import { configResolverService } from '../../services/config-resolver/config-resolver.service.ts';
import { globalConfigSchema } from '../../services/global-config/schema.ts';
import { globalConfigService } from '../../services/global-config/global-config.service.ts';
import { directoryGroupActions } from '../../services/tenant-config/actions/scim-groups.ts';
import { seedRisk } from '../../services/tenant-config/rules/risk.ts';
import { ChangeSetEntity, tenantConfigSchema } from '../../services/tenant-config/schema.ts';
import {
  directoryRights,
  listDirectoryGroups,
} from '../../services/tenant-config/stores/directory-groups.ts';
import { listScimUsers, provisionedNames } from '../../services/tenant-config/stores/scim.ts';
import { tenantConfigService } from '../../services/tenant-config/tenant-config.service.ts';
import { serviceCaller } from '../../shared/access.ts';
import type { Draft } from '../../shared/change-sets/change-sets.ts';
import { showChangeSets } from '../../shared/change-sets/metrics.ts';
import { insertRow, requireReviewed } from '../../shared/change-sets/store.ts';
import { createNode, type Node } from '../../shared/node/broker.ts';
import { callAs } from '../../shared/contract-runtime/request.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import type { ActionName, ParamsOf, ResultOf } from '../../shared/contracts/index.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { createDatabase, type Database } from '../support/postgres.ts';

const person = randomUUID();
let database: Database;
let tenantDb: DataSource;
let globalDb: DataSource;
let node: Node;

beforeAll(async () => {
  database = await createDatabase();
  const options = { url: database.url, poolSize: 4, timeoutMs: 10_000, ssl: false };
  await migrate(options, [commitSchema, tenantConfigSchema, globalConfigSchema]);
  tenantDb = await openDatabase(options, tenantConfigSchema);
  globalDb = await openDatabase(options, globalConfigSchema);
  // A lease and a time-out that a busy machine does not outlast while much is read.
  const own = {
    LOG_LEVEL: 'silent',
    COHERENCE_FENCE_MS: '30000',
    REQUEST_TIMEOUT_MS: '60000',
  };
  const settings = loadSettings(own, { roles: [] });
  node = createNode({ settings: liveSettings(settings, {}, []) });
  node.broker.createService(
    tenantConfigService({
      db: tenantDb,
      settings: () => settings,
      log: pino({ level: 'silent' }),
      metrics: new Registry(),
    }),
  );
  node.broker.createService(
    globalConfigService({
      db: globalDb,
      settings: () => settings,
      log: pino({ level: 'silent' }),
      metrics: new Registry(),
    }),
  );
  node.broker.createService(configResolverService({ settings: () => settings }));
  await node.broker.start();
});
afterAll(async () => {
  await node?.broker.stop();
  await tenantDb?.destroy();
  await globalDb?.destroy();
  await database?.drop();
});

/** Calls as the gateway does. */
const call = <A extends ActionName>(action: A, params: ParamsOf<A>): Promise<ResultOf<A>> =>
  callAs(node.broker, action, params, { caller: serviceCaller('gateway'), requestId: 'r' });

/** What the work costs: statements on either database connection, and calls of actions. */
async function costOf(work: () => Promise<unknown>) {
  const logged = [tenantDb, globalDb].map((db) => jest.spyOn(db.logger, 'logQuery'));
  const called = jest.spyOn(node.broker, 'call');
  try {
    await work();
    // Change sets are looked for every few seconds, whatever is asked.
    const asked = logged.flatMap(({ mock }) =>
      mock.calls.filter(([statement]) => !statement.includes('change_sets')),
    );
    const statements = asked.length;
    return { statements, calls: called.mock.calls.length };
  } finally {
    for (const spy of [...logged, called]) spy.mockRestore();
  }
}

/** Without what a loop of the node asked meanwhile: the least of three. */
async function leastCostOf(work: () => Promise<unknown>) {
  const costs = [await costOf(work), await costOf(work), await costOf(work)];
  return costs.toSorted((one, other) => one.statements - other.statements)[0]!;
}

/** Has the node hold a lease on its memory, as a feed without news would. */
async function keepInMemory(): Promise<void> {
  await node.coherence.start({
    poll: async () => ({ cursor: '1', complete: true, changes: [], server: 'one' }),
    leave: async () => {},
    broadcast: () => {},
    hearsOthers: async () => true,
  });
}

/** Tenants that the person is an active member of, and one more where they are only invited. */
const joinTenants = (count: number): Promise<unknown> =>
  database.query(
    `WITH tenants AS (
       INSERT INTO tenant_config.tenants
       SELECT gen_random_uuid(), 'Tenant ' || n, 'active', now(), now(), NULL, 0, 'test', now()
       FROM generate_series(0, $2::int) n RETURNING id, name
     )
     INSERT INTO tenant_config.members (tenant_id, user_id, roles, groups, added_at, status)
     SELECT id, $1, '{viewer}', '{sre}', now(), CASE name WHEN 'Tenant 0' THEN 'invited' ELSE 'active' END
     FROM tenants`,
    [person, count],
  );

test('memberships are read in one statement, however many there are', async () => {
  const read = () => call('tenant-config.members.of', { user_id: person });
  await joinTenants(1);
  expect(await read()).toEqual([
    {
      tenant_id: expect.any(String),
      tenant_name: 'Tenant 1',
      tenant_status: 'active',
      sign_in_policy: 'any',
      roles: ['viewer'],
      groups: ['sre'],
    },
  ]);
  expect(await costOf(read)).toEqual({ statements: 1, calls: 1 });
  await joinTenants(40);
  expect((await read()).length).toBe(41);
  expect(await costOf(read)).toEqual({ statements: 1, calls: 1 });
});

test('the configurations of all agent types cost as much as those of one', async () => {
  const tenantId = randomUUID();
  const read = () => call('config-resolver.configurations', { tenant_id: tenantId });
  await database.query(
    `INSERT INTO tenant_config.tenant_risk_configurations
     VALUES ($1::uuid, $1::text, $2, 1, 'test', now())`,
    [tenantId, JSON.stringify(seedRisk(loadSettings({}, { roles: [] }), []))],
  );
  const addAgents = (first: number, last: number) =>
    database.query(
      `INSERT INTO tenant_config.agent_configurations
       SELECT $1, 'agent' || n, json_build_object('agent_type', 'agent' || n), 1, 'test', now()
       FROM generate_series($2::int, $3::int) n`,
      [tenantId, first, last],
    );
  await addAgents(1, 1);
  const one = await leastCostOf(read);
  await addAgents(2, 60);
  const answer = await read();
  expect(Object.keys(answer.configurations).length).toBe(60);
  expect(await leastCostOf(read)).toEqual(one);
  expect(one.calls).toBe(3);
});

async function directoryOf(people: number): Promise<string> {
  const tenantId = randomUUID();
  await database.query(
    `INSERT INTO tenant_config.scim_users (tenant_id, user_id, user_name, profile, created_at, updated_at)
     SELECT $1, gen_random_uuid(), 'Person' || n || '@directory.example', '{}', now(), now()
     FROM generate_series(1, $2::int) n`,
    [tenantId, people],
  );
  await database.query('ANALYZE tenant_config.scim_users');
  return tenantId;
}

test('a person of a directory is found by their name without a look at all of its people', async () => {
  const tenantId = await directoryOf(5000);
  const logged = jest.spyOn(tenantDb.logger, 'logQuery');
  const filter = { attribute: 'userName', value: 'person7@directory.example' } as const;
  const page = { offset: 0, most: 100 };
  const { total } = await listScimUsers(tenantDb.manager, tenantId, filter, page);
  const asked = logged.mock.calls.filter(([sql]) => sql.includes('scim_users'));
  logged.mockRestore();
  expect([total, asked.length]).toEqual([1, 2]);
  for (const [sql, parameters] of asked) {
    const plan: unknown = await tenantDb.query(`EXPLAIN ${sql}`, parameters);
    expect(JSON.stringify(plan)).toContain('scim_users_user_name');
  }
});

test('people of a group are found without a look at all people of the directory', async () => {
  const tenantId = await directoryOf(5000);
  const [one] = await database.query<{ user_id: string }>(
    'SELECT user_id FROM tenant_config.scim_users WHERE tenant_id = $1 LIMIT 1',
    [tenantId],
  );
  const logged = jest.spyOn(tenantDb.logger, 'logQuery');
  const names = await provisionedNames(tenantDb.manager, tenantId, ['not an id', one!.user_id]);
  const [sql, parameters] = logged.mock.calls.find(([text]) => text.includes('scim_users'))!;
  logged.mockRestore();
  expect([...names.keys()]).toEqual([one!.user_id]);
  const plan: unknown = await tenantDb.query(`EXPLAIN ${sql}`, parameters);
  expect(JSON.stringify(plan)).not.toContain('Seq Scan');
});

/** As many as a directory may have, with as many people. */
async function largestGroups(): Promise<string> {
  const tenantId = randomUUID();
  await database.query(
    `INSERT INTO tenant_config.directory_groups
     SELECT $1, gen_random_uuid(), 'Group', NULL, array_agg(gen_random_uuid()), '{operator}', '{}', now(), now()
     FROM generate_series(1, 200) g, generate_series(1, 1000) GROUP BY g`,
    [tenantId],
  );
  return tenantId;
}

test('a page of groups is read without the ids of their people', async () => {
  const tenantId = await largestGroups();
  const list = directoryGroupActions(tenantDb)['tenant-config.directory-groups.list'];
  const logged = jest.spyOn(tenantDb.logger, 'logQuery');
  const { items } = await list({ tenant_id: tenantId, limit: 200 });
  const page = { offset: 0, most: 200, isWithMembers: false };
  const { rows } = await listDirectoryGroups(tenantDb.manager, tenantId, undefined, page);
  const asked = logged.mock.calls.filter(([sql]) => sql.includes('directory_groups'));
  logged.mockRestore();
  expect(items.map(({ members }) => members)).toEqual(Array(200).fill(1000));
  expect([rows.length, asked.length]).toEqual([200, 3]);
  for (const [sql, parameters] of asked)
    expect(JSON.stringify(await tenantDb.query(sql, parameters)).length).toBeLessThan(100_000);
});

test('what groups give their people costs a few reads of all groups, however many are asked about', async () => {
  const tenantId = await largestGroups();
  const msOf = async (work: () => Promise<unknown>): Promise<number> => {
    const begun = performance.now();
    await work();
    return performance.now() - begun;
  };
  const [reading, asking]: [number[], number[]] = [[], []];
  const people = Array.from({ length: 1000 }, () => randomUUID());
  for (let n = 0; n < 3; n += 1) {
    const everyone =
      'SELECT count(person) FROM tenant_config.directory_groups, unnest(members) AS person';
    reading.push(await msOf(() => tenantDb.query(everyone)));
    asking.push(await msOf(() => directoryRights(tenantDb.manager, tenantId, people)));
  }
  expect(Math.min(...asking)).toBeLessThan(10 * Math.min(...reading));
});

describe('change sets with large contents', () => {
  const tenantId = randomUUID();
  const fill = (state: string, count: number) =>
    database.query(
      `INSERT INTO tenant_config.change_sets (id, tenant_id, state, digest, content, created_at, updated_at)
       SELECT gen_random_uuid(), $1, $2, '', json_build_object('apply', 'manual', 'submitted_at', '2026-01-01T00:00:00.000Z',
         'text', (SELECT string_agg(md5(part::text || random()), '') FROM generate_series(1, 3000) part)), now(), now()
       FROM generate_series(1, $3::int) n`,
      [tenantId, state, count],
    );
  beforeAll(async () => {
    await fill('pending', 20);
    // The planner reads fewer without an index, whatever is in them.
    await fill('applied', 200);
    await database.query('ANALYZE tenant_config.change_sets');
  });
  /** Of the statements about change sets, in all. */
  async function blocksOf(work: () => Promise<unknown>): Promise<number> {
    const logged = jest.spyOn(tenantDb.logger, 'logQuery');
    await work();
    const statements = logged.mock.calls.filter(([sql]) =>
      /FROM tenant_config.change_sets/.test(sql),
    );
    logged.mockRestore();
    expect(statements).not.toEqual([]);
    let blocks = 0;
    for (const [sql, parameters] of statements) {
      const plan = await tenantDb.query(
        `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${sql}`,
        parameters,
      );
      const [, hit, , read] =
        /"Shared Hit Blocks":(\d+)(.*?)"Shared Read Blocks":(\d+)/.exec(JSON.stringify(plan)) ?? [];
      blocks += Number(hit) + Number(read);
    }
    return blocks;
  }

  test('are not read for figures of them', async () => {
    const metrics = new Registry();
    showChangeSets(metrics, 'tenants', tenantDb, ChangeSetEntity);
    let shown = '';
    const blocks = await blocksOf(async () => {
      shown = await metrics.metrics();
    });
    expect(shown).toMatch(/strata_change_sets_pending_seconds\{scope="tenants"\} [1-9]/);
    // The one that waits longest.
    expect(blocks).toBeLessThan(200);
  });

  test('are not read for another one, nor for an emergency', async () => {
    const of = { entity: ChangeSetEntity, tenantId };
    const row = { id: randomUUID(), tenant_id: tenantId, state: 'draft', digest: '', due_at: null };
    const blocks = await blocksOf(() =>
      tenantDb.transaction(async (manager) => {
        await insertRow(manager, of, { ...row, content: {} } as unknown as Draft);
        await requireReviewed(manager, of, randomUUID());
      }),
    );
    expect(blocks).toBeLessThan(200);
  });
});

describe('of effective values that are kept in memory', () => {
  const tenants = Array.from({ length: 12 }, () => randomUUID());
  const agents = 20;
  beforeAll(async () => {
    await keepInMemory();
    for (const id of tenants) {
      await database.query(
        `INSERT INTO tenant_config.tenant_risk_configurations VALUES ($1::uuid, $1::text, $2, 1, 'test', now())`,
        [id, JSON.stringify(seedRisk(loadSettings({}, { roles: [] }), []))],
      );
      await database.query(
        `INSERT INTO tenant_config.agent_configurations
         SELECT $1, 'agent' || n, json_build_object('agent_type', 'agent' || n), 1, 'test', now()
         FROM generate_series(1, $2::int) n`,
        [id, agents],
      );
    }
  });
  afterAll(() => node.coherence.stop());

  const changed = async (scope: string): Promise<void> => {
    const [row] = await database.query<{ revision: string }>(
      `INSERT INTO strata.revisions (scope, revision, changed_at) VALUES ($1, 1, now())
       ON CONFLICT (scope) DO UPDATE SET revision = strata.revisions.revision + 1 RETURNING revision`,
      [scope],
    );
    const revision = Number(row!.revision);
    node.coherence.apply({ id: randomUUID(), scope, revision, keys: [] });
  };
  const readAll = (ids: readonly string[], count: number) => async () => {
    for (const tenant_id of ids)
      for (let n = 1; n <= count; n += 1)
        await call('config-resolver.resolve', { tenant_id, agent_type: `agent${n}` });
  };
  const statementsOf = async (work: () => Promise<void>) => (await costOf(work)).statements;

  test('a platform write costs the same statements, however many contexts of however many tenants are merged again', async () => {
    const all = readAll(tenants, agents);
    await all();
    expect(await statementsOf(all)).toBe(0);
    const afterWrite = (work: () => Promise<void>) => async () => {
      await changed('platform');
      await work();
    };
    const { statements: ofOne } = await leastCostOf(afterWrite(readAll(tenants.slice(0, 1), 1)));
    expect(ofOne).toBeGreaterThan(0);
    expect((await leastCostOf(afterWrite(all))).statements).toBe(ofOne);
  });

  test("a tenant's write has only that tenant read again", async () => {
    const others = readAll(tenants.slice(1), agents);
    await readAll(tenants, agents)();
    await changed(`tenant:${tenants[0]}`);
    expect(await statementsOf(others)).toBe(0);
    expect(await statementsOf(readAll(tenants.slice(0, 1), 1))).toBeGreaterThan(0);
  });

  test('what has to include more than memory does is read again', async () => {
    const [tenant_id] = tenants as [string];
    await changed(`tenant:${tenant_id}`);
    await readAll(tenants, 1)();
    const [row] = await database.query<{ revision: string }>(
      `UPDATE strata.revisions SET revision = revision + 1 WHERE scope = $1 RETURNING revision`,
      [`tenant:${tenant_id}`],
    );
    const min_revision = Number(row!.revision);
    const { revision } = await call('config-resolver.resolve', {
      tenant_id,
      agent_type: 'agent1',
      min_revision,
    });
    expect(revision.tenant).toBe(min_revision);
  });

  test('while the platform never stands still an answer is of one moment all the same', async () => {
    const [tenant_id] = tenants as [string];
    await readAll(tenants, 1)();
    await changed(`tenant:${tenant_id}`);
    const { call: real } = node.broker;
    const writing = jest.spyOn(node.broker, 'call').mockImplementation((async (
      ...given: Parameters<typeof real>
    ) => {
      const [action] = given as unknown[];
      if (action === 'tenant-config.moment') await changed('platform');
      const answer: unknown = await real.apply(node.broker, given);
      if (action === 'tenant-config.layers.now') await changed('platform');
      return answer;
    }) as typeof real);
    try {
      const { revision } = await call('config-resolver.resolve', {
        tenant_id,
        agent_type: 'agent1',
      });
      const [row] = await database.query<{ revision: string }>(
        `SELECT revision FROM strata.revisions WHERE scope = 'platform'`,
      );
      expect(revision.platform).toBe(Number(row!.revision));
    } finally {
      writing.mockRestore();
    }
  });

  test('all contexts that are watched of a tenant are read in as many statements as one', async () => {
    const digestsAfterWrite = (count: number) => async () => {
      await changed(`tenant:${tenants[0]}`);
      const contexts = Array.from({ length: count }, (_each, n) => ({
        agent_type: `agent${n + 1}`,
      }));
      await call('config-resolver.digests', {
        tenant_id: tenants[0]!,
        contexts,
        min_revision: '0.0',
      });
    };
    const { statements: ofOne } = await leastCostOf(digestsAfterWrite(1));
    expect(ofOne).toBeGreaterThan(0);
    expect((await leastCostOf(digestsAfterWrite(agents))).statements).toBe(ofOne);
  });

  test('documents of more than 16 MiB are not read together', async () => {
    const [, tenant_id] = tenants as [string, string];
    const agent_types = Array.from({ length: 17 }, (_each, n) => `large${n}`);
    await database.query(
      `INSERT INTO tenant_config.agent_configurations
       SELECT $1, name, json_build_object('agent_type', name, 'custom', json_build_object('text', repeat('x', 1000000))), 1, 'test', now()
       FROM unnest($2::text[]) name`,
      [tenant_id, agent_types],
    );
    const ask = (names: string[]) =>
      call('tenant-config.layers.now', { tenant_id, agent_types: names, service_ids: [] });
    await expect(ask(agent_types)).rejects.toMatchObject({ type: 'payload_too_large' });
    expect((await ask(agent_types.slice(1))).agents).toHaveLength(16);
  });

  test('other work has its turns while very many contexts are merged', async () => {
    await database.query(
      `INSERT INTO global_config.global_configurations (config_key, config_value, is_public, requires_restart, data_type, revision, updated_by, updated_at)
       SELECT 'entry_' || n, to_json(n), true, false, 'json', 1, 'test', now() FROM generate_series(1, 900) n`,
    );
    await changed('platform');
    const [tenant_id] = tenants as [string];
    const contexts = Array.from({ length: 500 }, (_each, n) => ({ agent_type: `agent${n + 1}` }));
    const ask = () => call('config-resolver.digests', { tenant_id, contexts, min_revision: '0.0' });
    // What is read of the database has its turns anyway.
    await ask();
    let turns = 0;
    let isOver = false;
    const count = (): void => {
      turns += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    const answer = await ask();
    isOver = true;
    expect(Object.keys(answer.contexts.at(-1)!.digests!).length).toBeGreaterThan(900);
    expect(turns).toBeGreaterThan(5);
    // Of a thousand such contexts an answer has a million keys, and no more.
    const more = Array.from({ length: 1000 }, (_each, n) => ({ service_id: `any${n}` }));
    await database.query(
      `INSERT INTO global_config.global_configurations (config_key, config_value, is_public, requires_restart, data_type, revision, updated_by, updated_at)
       SELECT 'further_' || n, to_json(n), true, false, 'json', 1, 'test', now() FROM generate_series(1, 100) n`,
    );
    await changed('platform');
    const asked = { tenant_id, contexts: more, min_revision: '0.0' };
    await expect(call('config-resolver.digests', asked)).rejects.toMatchObject({
      type: 'payload_too_large',
    });
  });
});
