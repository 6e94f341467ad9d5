/**
 * Fields that a folder owns: every door that writes documents asks for them to be taken over, and
 * nothing is there before a folder says who it is.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { isRead, type Contract } from '../../shared/contracts/contract.ts';
import { contractTable } from '../../shared/contracts/index.ts';
import { bodies, otherValues } from '../support/document-bodies.ts';
import { eventually } from '../support/cluster.ts';
import { grown } from '../support/grown.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  addMember,
  adminPassword,
  createTenant,
  signIn,
  startStrata,
  type Answer,
  type Client,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

let database: Database;
let strata: Running;
let platform: Client;
let tenant: TenantFixture;

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({ DATABASE_URL: database.url });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Managed');
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

const folder = 'git/acme';
const by = { 'x-managed-by': folder };
const taking = { 'x-take-over': folder };
const contractOf = (name: string): Contract => contractTable[name as keyof typeof contractTable];
const pathOf = (name: string, address: Record<string, string>): string =>
  contractOf(name).rest!.path.replaceAll(/\{(.+?)\}/g, (_all, part: string) =>
    part === 'tenant_id' ? tenant.id : address[part]!,
  );
const callerOf = (name: string): Client => (name.startsWith('tenant') ? tenant.admin : platform);
const good = (answer: Answer): Answer => {
  if (answer.status >= 300) throw new Error(`${answer.status} ${answer.text}`);
  return answer;
};
const send = (client: Client, method: string, path: string, body?: unknown, headers = {}) =>
  client.send(method, path, { headers, ...(body !== undefined && { body }) });
const code = (answer: Answer) => [answer.status, answer.body?.detail?.code];
const managed = [409, 'field_managed'];
const owned = async (path: string) => {
  const list = path.startsWith('/tenants') ? `/tenants/${tenant.id}` : '';
  const client = path.startsWith('/tenants') ? tenant.admin : platform;
  const { body } = good(
    await client.get(`${list}/config/managed-fields?document=${encodeURIComponent(path)}`),
  );
  return body.items[0]?.fields ?? [];
};

test('without a folder no one owns anything, and no row says so', async () => {
  good(await tenant.admin.put(`/tenants/${tenant.id}/config/agents/free`, { custom: { a: 1 } }));
  good(await tenant.admin.patch(`/tenants/${tenant.id}/config/agents/free`, { custom: { a: 2 } }));
  expect(
    await database.query(
      `SELECT (SELECT count(*)::int FROM strata.managed_fields) AS rows,
         (SELECT count(*)::int FROM strata.revisions WHERE managed) AS scopes`,
    ),
  ).toEqual([{ rows: 0, scopes: 0 }]);
});

describe('every door', () => {
  /** Of these, others than `bodies` has. */
  const own: Record<string, { made: unknown; other: unknown }> = {
    'global-config.service-types': { made: { is_active: false }, other: { is_active: true } },
    'tenant-config.change-policy': { made: { keys: ['none'] }, other: { keys: ['no'] } },
    'global-config.change-policy': {
      made: { tenants: { keys: ['none'] } },
      other: { tenants: { keys: ['no'] } },
    },
  };
  const item = () => [
    { action: 'put', path: '/config/global/walked', body: { config_value: 9, is_public: true } },
  ];
  const planned = async () => {
    const items = item();
    return { items, ...good(await platform.post('/config/plan', { items })).body };
  };
  const newest = async (client: Client, history: string, type: string): Promise<number> =>
    good(await client.get(`${history}?config_type=${type}&limit=1`)).body.items[0].revision;
  const set = (items: unknown) => ({ title: 'Walked', reason: 'Walked', items });
  /** Writes of another form than a document's. */
  const others: Record<string, () => Promise<unknown>> = {
    'tenant-config.rollback': async () => ({
      undo: await newest(tenant.admin, `/tenants/${tenant.id}/config/history`, 'project_config'),
    }),
    'global-config.rollback': async () => ({
      undo: await newest(platform, '/config/history', 'global_config'),
    }),
    'global-config.plan.apply': async () => {
      const { items, digest } = await planned();
      return { items, digest };
    },
    'global-config.rollouts.create': async () => {
      const { items, digest } = await planned();
      const stages = [{ percent: 100, bake_minutes: 0, gate: [] }];
      return { title: 'Walked', reason: 'Walked', items, digest, stages };
    },
    'tenant-config.changesets.create': async () => {
      const path = pathOf('tenant-config.projects.put', { project_id: 'walked' });
      return set([{ action: 'put', path, body: { labels: { name: 'y' } } }]);
    },
    'global-config.changesets.create': async () => set(item()),
  };
  /** Of these, other tests are about what they write, or they write none of a folder's documents. */
  const elsewhere =
    /\.(?:changesets\.(?:edit|rebase|submit|cancel|approve|reject|apply|break-glass|review)|rollouts\.(?:advance|hold|resume|revert))$/;
  const writing = Object.entries(contractTable).filter(
    ([name, contract]) =>
      !isRead(contract) &&
      contract.access.level !== 'internal' &&
      !elsewhere.test(name) &&
      ('managed_by' in contract.params.properties ||
        name in others ||
        ['configuration', 'approvers'].includes(String(contract.leadsTo))),
  );

  beforeAll(async () => {
    for (const [actions, { address, body }] of Object.entries(bodies)) {
      const sent = own[actions]?.made ?? body;
      const name = `${actions}.put`;
      good(await send(callerOf(name), 'PUT', pathOf(name, address), sent, by));
    }
  });

  test.each(writing)('%s does not write what a folder owns', async (name, { rest }) => {
    const [, actions = ''] = /^(.*)\.(?:put|patch|delete)$/.exec(name) ?? [];
    const document = bodies[actions];
    const other = others[name];
    // A new contract that writes configuration needs its row above, and so is tried.
    expect([name, document !== undefined || other !== undefined]).toEqual([name, true]);
    const client = callerOf(name);
    const path = pathOf(name, document?.address ?? {});
    const body = other
      ? await other()
      : rest!.method === 'DELETE'
        ? undefined
        : (own[actions]?.other ?? otherValues(document!.body));
    const answer = await send(client, rest!.method, path, body);
    expect([name, ...code(answer)]).toEqual([name, ...managed]);
    expect(answer.body.detail.message).toMatch(/managed by git\/acme.*X-Take-Over: git\/acme/);
    const [first] = answer.body.managed_fields;
    expect(first).toMatchObject({ owner: folder, path: expect.stringMatching(/^\//) });
    // Somebody else's name is none of the owner's.
    const wrong = other && !('take_over' in contractOf(name).params.properties);
    if (!wrong)
      expect(code(await send(client, rest!.method, path, body, { 'x-take-over': 'svn' }))).toEqual(
        managed,
      );
    if (contractOf(name).params.properties.dry_run)
      expect((await send(client, rest!.method, `${path}?dry_run=true`, body, taking)).status).toBe(
        200,
      );
  });
});

describe('a field', () => {
  const agent = (name: string): string => `/tenants/${tenant.id}/config/agents/${name}`;
  const value = async (path: string): Promise<unknown> =>
    good(await tenant.admin.get(path)).body.custom;

  test('is taken over by name, which its owner is told, and may take back', async () => {
    const path = agent('taken');
    const { admin, operator } = tenant;
    good(await send(admin, 'PUT', path, { custom: { a: 1, b: 1 } }, by));
    expect(await owned(path)).toEqual([
      { path: '/custom/a', owner: folder },
      { path: '/custom/b', owner: folder },
    ]);
    // What the folder does not set is everybody's.
    good(await send(admin, 'PATCH', path, { custom: { c: 1 } }));
    good(await send(admin, 'PATCH', path, { custom: { a: 2 } }, taking));
    const [field, other] = await owned(path);
    expect([field, other]).toEqual([
      {
        path: '/custom/a',
        owner: folder,
        taken_by: expect.any(String),
        taken_by_name: tenant.emails.tenant_admin,
        taken_at: expect.stringMatching(/Z$/),
      },
      { path: '/custom/b', owner: folder },
    ]);
    // Others by hand follow; the owner is told.
    good(await send(admin, 'PATCH', path, { custom: { a: 3 } }));
    const again = await send(admin, 'PUT', path, { custom: { a: 1, b: 1, c: 1 } }, by);
    expect(code(again)).toEqual(managed);
    expect(again.body.detail.message).toContain(`${tenant.emails.tenant_admin} took it over at`);
    expect(await value(path)).toEqual({ a: 3, b: 1, c: 1 });
    good(await send(admin, 'PUT', path, { custom: { a: 1, b: 1 } }, { ...by, ...taking }));
    expect(await owned(path)).toEqual([
      { path: '/custom/a', owner: folder },
      { path: '/custom/b', owner: folder },
    ]);
    expect((await operator.get(`/tenants/${tenant.id}/config/managed-fields`)).status).toBe(200);
    expect((await tenant.viewer.get(`/tenants/${tenant.id}/config/managed-fields`)).status).toBe(
      403,
    );
  });

  test('is claimed also where its value stays, once', async () => {
    const path = agent('claimed');
    const { admin } = tenant;
    good(await admin.put(path, { custom: { a: 1 } }));
    const revision = async (): Promise<string | null> =>
      (await admin.get(path)).headers.get('x-config-revision');
    const before = await revision();
    good(await send(admin, 'PUT', path, { custom: { a: 1 } }, by));
    const claimed = await revision();
    expect([claimed === before, await owned(path)]).toEqual([
      false,
      [{ path: '/custom/a', owner: folder }],
    ]);
    good(await send(admin, 'PUT', path, { custom: { a: 1 } }, by));
    expect(await revision()).toBe(claimed);
  });

  test('of a document that was removed by hand is not made again unseen', async () => {
    const path = agent('removed');
    const { admin } = tenant;
    const make = (headers: object) => send(admin, 'PUT', path, { custom: { a: 1 } }, headers);
    good(await make(by));
    expect(code(await send(admin, 'DELETE', path))).toEqual(managed);
    good(await send(admin, 'DELETE', path, undefined, taking));
    expect(code(await make(by))).toEqual(managed);
    good(await make({ ...by, ...taking }));
    // Its owner removes what it owns.
    good(await send(admin, 'DELETE', path, undefined, by));
    expect(await owned(path)).toEqual([]);
  });

  test('is taken over by a change set that says so, also one that was opened before', async () => {
    const path = agent('proposed');
    const { admin } = tenant;
    const sets = `/tenants/${tenant.id}/config/changesets`;
    const dora = { email: 'dora@managed.example', roles: ['tenant_admin'] };
    const { client: second } = await addMember(admin, tenant.id, dora);
    await grown(database, tenant.id);
    const applied = async ({ id, digest }: { id: string; digest: string }): Promise<void> => {
      good(await admin.post(`${sets}/${id}/submit`));
      good(await second.post(`${sets}/${id}/approve`, { digest }));
      await eventually(async () => {
        const { state, note } = (await admin.get(`${sets}/${id}`)).body;
        expect([state, note]).toEqual(['applied', null]);
      });
    };
    good(await admin.put(path, { custom: { a: 1 } }));
    const items = [{ action: 'patch', path, body: { custom: { a: 2 } } }];
    const opened = good(
      await admin.post(sets, { title: 'By hand', reason: 'It is time', items }),
    ).body;
    good(await send(admin, 'PUT', path, { custom: { a: 1 } }, by));
    expect(code(await admin.post(`${sets}/${opened.id}/rebase`))).toEqual(managed);
    const edited = good(
      await admin.patch(`${sets}/${opened.id}`, { items, take_over: folder }),
    ).body;
    expect([edited.take_over, edited.digest === opened.digest]).toEqual([folder, false]);
    // Whose fields it takes is a part of what is approved.
    const edit = async (take_over: string): Promise<string> =>
      good(await admin.patch(`${sets}/${opened.id}`, { take_over })).body.digest;
    expect(await edit('svn')).not.toBe(edited.digest);
    expect(await edit(folder)).toBe(edited.digest);
    await applied(edited);
    expect(await owned(path)).toMatchObject([{ path: '/custom/a', taken_by: expect.any(String) }]);
    // A folder's own change set owns what it sets.
    const own = good(
      await admin.post(sets, {
        title: 'From git',
        reason: 'It is time',
        items: [{ action: 'put', path, body: { custom: { a: 2, b: 1 } } }],
        managed_by: folder,
      }),
    ).body;
    await applied(own);
    expect(await owned(path)).toEqual([
      { path: '/custom/a', owner: folder },
      { path: '/custom/b', owner: folder },
    ]);
  });

  test('is what a folder may be called, and as many as one document has', async () => {
    const path = agent('names');
    const { admin } = tenant;
    for (const headers of [{ 'x-managed-by': 'a b' }, { 'x-take-over': 'a;b' }])
      expect((await send(admin, 'PUT', path, { custom: { a: 1 } }, headers)).body.errors).toEqual([
        { path: `/${Object.keys(headers)[0]}`, message: expect.stringContaining('letters') },
      ]);
    const custom = Object.fromEntries(Array.from({ length: 2001 }, (_none, at) => [`k${at}`, 1]));
    expect((await send(admin, 'PUT', path, { custom }, by)).status).toBe(422);
    good(await send(admin, 'PUT', path, { custom }));
  });
});
