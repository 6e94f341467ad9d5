/**
 * Rollouts over two gateways: which tenants have what at each stage, who may write meanwhile, and
 * how it is taken back.
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { percentileOf } from '../../../shared/rollouts/side.ts';
import { eventually } from '../../support/cluster.ts';
import { watch } from '../../support/event-stream.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  signIn,
  type Answer,
} from '../../support/strata.ts';
import { cluster } from './cluster.ts';

let platform: Client;
/** Another administrator of the platform, who approves. */
let rita: Client;
let ritaId: string;
/** By their ids, the tenants, and one reader of each. */
const tenants: { readonly id: string; readonly admin: Client }[] = [];

beforeAll(async () => {
  ({ platform } = cluster);
  for (const name of ['Alpha', 'Beta', 'Gamma'])
    tenants.push(await createTenant(platform.url, platform, name));
  const member = { email: 'rita@example.com', roles: ['viewer'] };
  ({ client: rita, user_id: ritaId } = await addMember(tenants[0]!.admin, tenants[0]!.id, member));
});

const good = (answer: Answer): Answer => {
  if (answer.status >= 300) throw new Error(`${answer.status} ${answer.text}`);
  return answer;
};
const rollouts = (rest = ''): string => `/config/rollouts${rest}`;
let count = 0;
/** Two entries that a rollout moves together, at 1. */
async function twoEntries(): Promise<string[]> {
  count += 1;
  const keys = [`left-${count}`, `right-${count}`];
  for (const key of keys)
    good(await platform.put(entry(key), { config_value: 1, is_public: true }));
  return keys;
}
const entry = (key: string): string => `/config/global/${key}`;
const itemsOf = (keys: readonly string[], value: unknown = 2) =>
  keys.map((key) => ({
    action: 'put',
    path: entry(key),
    body: { config_value: value, is_public: true },
  }));
const manual = { bake_minutes: 0, gate: [{ type: 'manual' }] };
const everybody = { ...manual, percent: 100 };
const firstTenant = () => ({ ...manual, tenants: [tenants[0]!.id] });

async function digestOf(items: readonly object[]): Promise<string> {
  return good(await platform.post('/config/plan', { items })).body.digest;
}
async function plan(
  keys: readonly string[],
  stages: readonly object[] = [firstTenant(), everybody],
): Promise<Answer['body']> {
  const items = itemsOf(keys);
  const digest = await digestOf(items);
  const body = { title: 'Two', reason: 'It is time', items, digest, stages };
  return good(await platform.post(rollouts(), body)).body;
}
const step = (id: string, name: string, body: object): Promise<Answer> =>
  platform.post(rollouts(`/${id}/${name}`), body);
const advance = (id: string, stage: number | null, more: object = {}): Promise<Answer> =>
  step(id, 'advance', { stage, ...more });

/** What each tenant has, from each gateway. */
async function values(keys: readonly string[]): Promise<unknown[][]> {
  const ofAll: unknown[][] = [];
  for (const tenant of tenants) {
    const seen = new Set<string>();
    for (const { url } of cluster.gateways) {
      const reader = new Client(url, tenant.admin.token);
      const answer = good(await reader.get(`/tenants/${tenant.id}/config/effective`));
      seen.add(JSON.stringify(keys.map((key) => answer.body.values[key])));
    }
    expect([...seen]).toHaveLength(1);
    ofAll.push(JSON.parse([...seen][0]!));
  }
  return ofAll;
}
const explained = async (index: number, query = ''): Promise<Answer['body']> => {
  const { id, admin } = tenants[index]!;
  return good(await admin.get(`/tenants/${id}/config/effective?explain=true${query}`)).body;
};

test('goes from stage to stage, and says on which side a tenant is', async () => {
  const keys = await twoEntries();
  const { id, state, changes } = await plan(keys);
  expect([state, changes.length]).toEqual(['planned', 2]);
  expect(await values(keys)).toEqual([
    [1, 1],
    [1, 1],
    [1, 1],
  ]);
  expect((await explained(0)).rollouts).toBeUndefined();

  const first = good(await advance(id, null)).body;
  expect([first.state, first.stage, first.phase]).toEqual(['running', 0, 'baked']);
  expect(await values(keys)).toEqual([
    [2, 2],
    [1, 1],
    [1, 1],
  ]);
  const [mine, other] = [await explained(0), await explained(1)];
  expect(mine.rollouts).toEqual([{ id, stage: 0, side: 'candidate' }]);
  expect(other.rollouts).toEqual([{ id, stage: 0, side: 'base' }]);
  expect(mine.explain[keys[0]!]).toMatchObject({ value: 2, rollout: id, revision: first.revision });
  expect(other.explain[keys[0]!].rollout).toBeUndefined();
  // From what was read before, nobody advances twice.
  expect((await advance(id, null)).status).toBe(409);

  const done = await advance(id, 0);
  expect([done.body.state, done.body.stage]).toEqual(['running', 1]);
  expect(await values(keys)).toEqual([
    [2, 2],
    [2, 2],
    [2, 2],
  ]);
  expect((await platform.get(entry(keys[0]!))).body.config_value).toBe(1);
  expect((await advance(id, 1)).body.state).toBe('completed');
  expect(await values(keys)).toEqual([
    [2, 2],
    [2, 2],
    [2, 2],
  ]);
  expect((await platform.get(entry(keys[0]!))).body.config_value).toBe(2);
  expect((await explained(1)).rollouts).toBeUndefined();

  // An earlier time has the sides of that time.
  const at = `&as_of=${first.updated_at}`;
  const then = [await explained(0, at), await explained(1, at)];
  expect(then.map(({ values: of }) => of[keys[1]!])).toEqual([2, 1]);
  expect(then[1].rollouts).toEqual([{ id, stage: 0, side: 'base' }]);
});

test('and others are said in one order, also of an earlier time', async () => {
  const ids: string[] = [];
  for (let each = 0; each < 4; each += 1) ids.push((await plan(await twoEntries())).id);
  let last: Answer | undefined;
  for (const id of ids) last = good(await advance(id, null));
  const now = (await explained(0)).rollouts;
  const then = (await explained(0, `&as_of=${last!.body.updated_at}`)).rollouts;
  for (const id of ids) good(await step(id, 'revert', { reason: 'No' }));
  expect(now.map(({ id }: { id: string }) => id)).toEqual(ids);
  expect(then).toEqual(now);
});

test('holds its documents, and each is of one rollout', async () => {
  const keys = await twoEntries();
  const items = itemsOf([keys[0]!], 3);
  const digest = await digestOf(items);
  const { id } = await plan(keys);
  const other = await platform.post(rollouts(), {
    title: 'Other',
    reason: 'Me too',
    items,
    digest,
    stages: [everybody],
  });
  // The plan of before is of another revision of the platform.
  expect(other.status).toBe(412);
  const second = { title: 'Other', reason: 'Me too', items, stages: [everybody] };
  const again = await platform.post(rollouts(), { ...second, digest: await digestOf(items) });
  expect([again.status, again.body.detail.message]).toEqual([409, expect.stringContaining(id)]);

  good(await advance(id, null));
  const write = await platform.put(entry(keys[0]!), { config_value: 9, is_public: true });
  expect([write.status, write.body.detail.message]).toEqual([409, expect.stringContaining(id)]);
  const history = good(await platform.get('/config/history?limit=1')).body.items[0];
  const { status } = await platform.post('/config/rollback', { revision: history.revision });
  expect(status).toBe(409);
  expect((await step(id, 'hold', { reason: 'Wait' })).body).toMatchObject({
    state: 'held',
    note: 'Wait',
  });
  expect(await values(keys)).toEqual([
    [2, 2],
    [1, 1],
    [1, 1],
  ]);
  expect((await step(id, 'resume', { reason: 'Looked at it' })).body.state).toBe('running');
  expect((await step(id, 'revert', { reason: 'No' })).body.state).toBe('reverted');
  expect(await values(keys)).toEqual([
    [1, 1],
    [1, 1],
    [1, 1],
  ]);
  expect((await advance(id, 0)).status).toBe(409);
});

test('bakes, and asks for a reason to be faster', async () => {
  const keys = await twoEntries();
  const { id } = await plan(keys, [{ ...firstTenant(), bake_minutes: 10 }, everybody]);
  expect(good(await advance(id, null)).body.phase).toBe('baking');
  expect((await advance(id, 0)).status).toBe(409);
  expect((await advance(id, 0, { all_at_once: true })).status).toBe(422);
  const done = await advance(id, 0, { all_at_once: true, reason: 'It mends an outage' });
  expect(done.body.state).toBe('completed');
  expect(await values(keys)).toEqual([
    [2, 2],
    [2, 2],
    [2, 2],
  ]);
});

test('is reverted also when it is completed, unless others wrote since', async () => {
  const keys = await twoEntries();
  const whole = { all_at_once: true, reason: 'Now' };
  const first = await plan(keys, [everybody]);
  good(await advance(first.id, null, whole));
  expect((await step(first.id, 'revert', { reason: 'No' })).body.state).toBe('reverted');
  expect(await values(keys)).toEqual([
    [1, 1],
    [1, 1],
    [1, 1],
  ]);
  // What was reverted is rolled out again.
  const second = await plan(keys, [everybody]);
  good(await advance(second.id, null, whole));
  good(await platform.put(entry(keys[1]!), { config_value: 5, is_public: true }));
  const refused = await step(second.id, 'revert', { reason: 'No' });
  expect([refused.status, refused.body.detail.message]).toEqual([
    409,
    expect.stringContaining(entry(keys[1]!)),
  ]);
  expect(await values(keys)).toEqual([
    [2, 5],
    [2, 5],
    [2, 5],
  ]);
});

test('is reverted also while as many are open as there may be', async () => {
  const keys = await twoEntries();
  const { id } = await plan(keys, [everybody]);
  good(await advance(id, null, { all_at_once: true, reason: 'Now' }));
  const others: string[] = [];
  try {
    let last: Answer;
    do {
      const items = itemsOf(await twoEntries());
      const body = { title: 'Other', reason: 'Me too', items, digest: await digestOf(items) };
      last = await platform.post(rollouts(), { ...body, stages: [everybody] });
      if (last.status === 201) others.push(last.body.id);
    } while (last.status === 201);
    expect([last.status, last.body.detail.code]).toEqual([422, 'quota_exceeded']);
    expect((await step(id, 'revert', { reason: 'No' })).body.state).toBe('reverted');
  } finally {
    for (const other of others) await step(other, 'revert', { reason: 'No' });
  }
  expect((await values(keys))[0]).toEqual([1, 1]);
});

test('is reverted also where it has removed something', async () => {
  const keys = await twoEntries();
  const items = keys.map((key) => ({ action: 'delete', path: entry(key) }));
  const body = { title: 'None', reason: 'It is time', items, digest: await digestOf(items) };
  const { id } = good(await platform.post(rollouts(), { ...body, stages: [everybody] })).body;
  good(await advance(id, null, { all_at_once: true, reason: 'Now' }));
  expect((await platform.get(entry(keys[0]!))).status).toBe(404);
  expect((await step(id, 'revert', { reason: 'No' })).body.state).toBe('reverted');
  expect((await values(keys))[0]).toEqual([1, 1]);
  // Not where others brought it back, and took it out again.
  const again = { ...body, digest: await digestOf(items), stages: [everybody] };
  const second = good(await platform.post(rollouts(), again)).body.id;
  good(await advance(second, null, { all_at_once: true, reason: 'Now' }));
  good(await platform.put(entry(keys[1]!), { config_value: 7, is_public: true }));
  good(await platform.delete(entry(keys[1]!)));
  const refused = await step(second, 'revert', { reason: 'No' });
  expect([refused.status, refused.text]).toEqual([409, expect.stringContaining(keys[1]!)]);
});

describe('is refused', () => {
  const problems = async (
    items: readonly object[],
    stages: readonly object[],
  ): Promise<Answer['body']> => {
    const body = { title: 'No', reason: 'No', items, digest: await digestOf(items), stages };
    const answer = await platform.post(rollouts(), body);
    return [answer.status, answer.body.errors?.map(({ path }: { path: string }) => path)];
  };
  const idle = { is_active: false, default_settings: { walked: 1 } };
  test.each([
    ['bounds', { path: '/config/bounds', body: { walked: { maximum: 3 } } }],
    ['a private entry', { path: entry('hidden'), body: { config_value: 2 } }],
    [
      'a service type that is not active',
      { path: '/config/service-types/idle_type/default', body: { ...idle, default_settings: {} } },
    ],
    [
      'tightening',
      { path: entry('max_cost_impact_auto'), body: { config_value: 4, is_public: true } },
    ],
    [
      'a limit of service types',
      {
        action: 'patch',
        path: '/config/service-types/cloud_run/default',
        body: { is_active: false },
      },
    ],
  ])('%s, which is never staged', async (_name, item) => {
    const limit = { config_value: 5, is_public: true };
    good(await platform.put(entry('max_cost_impact_auto'), limit));
    good(await platform.put('/config/service-types/idle_type/default', idle));
    const [status, paths] = await problems([{ action: 'put', ...item }], [everybody]);
    expect([status, paths?.[0]]).toEqual([422, expect.stringMatching(/^\/items\/0/)]);
  });
  test('stages that take tenants out, or do not reach all', async () => {
    const items = itemsOf(await twoEntries());
    expect(
      await problems(items, [
        { ...manual, percent: 60 },
        { ...manual, percent: 50 },
      ]),
    ).toEqual([422, ['/stages/1/percent', '/stages/1/percent']]);
  });
  test('a stage of tenants that there are not', async () => {
    const listed = [tenants[0]!.id, randomUUID()];
    const stages = [firstTenant(), { ...manual, tenants: listed }, everybody];
    expect(await problems(itemsOf(await twoEntries()), stages)).toEqual([
      422,
      ['/stages/1/tenants/1'],
    ]);
  });
});

test('each reader sees one side whole, and no one goes back', async () => {
  const keys = await twoEntries();
  const percents = [20, 40, 60, 80, 100];
  const stages = percents.map((percent) => ({ ...manual, percent }));
  const { id, salt } = await plan(keys, stages);
  const over = new AbortController();
  const readers = tenants.flatMap(({ id: tenantId, admin }) =>
    cluster.gateways.map(async ({ url }) => {
      const reader = new Client(url, admin.token);
      const seen: number[] = [];
      while (!over.signal.aborted) {
        const { body } = good(await reader.get(`/tenants/${tenantId}/config/effective`));
        const [left, right] = keys.map((key) => body.values[key]);
        expect(left).toBe(right);
        if (seen.at(-1) !== left) seen.push(left);
        await delay(5);
      }
      return seen;
    }),
  );
  for (const [index, percent] of percents.entries()) {
    good(await advance(id, index === 0 ? null : index - 1));
    const expected = tenants.map((tenant) =>
      percentileOf(salt, tenant.id) < percent ? [2, 2] : [1, 1],
    );
    expect(await values(keys)).toEqual(expected);
  }
  good(await advance(id, percents.length - 1));
  over.abort();
  for (const seen of await Promise.all(readers)) expect(seen.join()).toMatch(/^(1,)?2$/);
});

test('streams name the side that a tenant is on, as it changes', async () => {
  const keys = await twoEntries();
  const { id } = await plan(keys);
  const streams = await Promise.all(
    tenants.slice(0, 2).map(async (tenant, index) => {
      const reader = new Client(cluster.gateways[index]!.url, tenant.admin.token);
      const stream = await watch(reader, `/tenants/${tenant.id}/config/effective/watch`);
      await stream.until(({ event }) => event === 'ready');
      return stream;
    }),
  );
  good(await advance(id, null));
  const mine = streams[0]!.until(({ event }) => event === 'effective.changed');
  expect((await mine).data).toMatchObject({
    keys: expect.arrayContaining(keys),
    rollouts: [{ id, stage: 0, side: 'candidate' }],
  });
  good(await advance(id, 0));
  const other = streams[1]!.until(({ event }) => event === 'effective.changed');
  expect((await other).data).toMatchObject({
    keys: expect.arrayContaining(keys),
    rollouts: [{ id, stage: 1, side: 'candidate' }],
  });
  // Who has it already is told nothing by a later stage.
  expect(streams[0]!.events.filter(({ event }) => event === 'effective.changed')).toHaveLength(1);
  good(await step(id, 'revert', { reason: 'Enough' }));
  for (const stream of streams) stream.leave();
});

test.each([
  ['of an entry that has had one value', async () => (await twoEntries())[0]!],
  ['that would have made an entry', async () => 'never-made'],
])('a purge takes a candidate %s out of rollouts that ended', async (_of, keyOf) => {
  const key = await keyOf();
  const canary = `canary-of-${key}`;
  const items = itemsOf([key], canary);
  const body = { title: 'Leaks', reason: 'It is time', items, stages: [firstTenant(), everybody] };
  const { id } = good(
    await platform.post(rollouts(), { ...body, digest: await digestOf(items) }),
  ).body;
  good(await advance(id, null));
  const purge = () =>
    platform.post('/config/history/purge', {
      config_type: 'global_config',
      resource_id: key,
      reason: 'It was a password',
    });
  const open = await purge();
  expect([open.status, open.body.detail.message]).toEqual([409, expect.stringContaining(id)]);
  good(await step(id, 'revert', { reason: 'A password' }));
  expect(good(await purge()).body).toMatchObject({ entries: 0, still_in_force: false });
  expect([404, 409]).toContain((await purge()).status);
  expect((await platform.get(rollouts(`/${id}`))).status).toBe(404);
  const left = async (): Promise<string> => {
    const history = good(await platform.get(`/config/history?resource_id=${id}`)).body.items;
    const entries = await Promise.all(
      history.map(({ revision }: Answer['body']) => platform.get(`/config/history/${revision}`)),
    );
    expect(entries).toHaveLength(3);
    const audit = good(await platform.get('/audit/events?order=desc&limit=200'));
    const rows = await cluster.database.query<{ text: string }>(
      `SELECT concat(before, after) AS text FROM global_config.configuration_history
       UNION ALL SELECT document::text FROM global_config.history_baseline`,
    );
    return [...entries.map(({ text }) => text), audit.text, ...rows.map(({ text }) => text)].join();
  };
  await eventually(async () => expect(await left()).not.toContain(canary));
});

test('under four eyes, it is of an approved change set, and a revert asks no one', async () => {
  const keys = await twoEntries();
  const items = itemsOf(keys);
  const folder = 'git/platform';
  good(await platform.put('/config/change-policy', { platform: {} }));
  const stages = [firstTenant(), everybody];
  const body = { title: 'Two', reason: 'It is time', stages };
  const refused = await platform.post(rollouts(), {
    ...body,
    items,
    digest: await digestOf(items),
  });
  expect([refused.status, refused.body.detail.code]).toEqual([403, 'change_approval_required']);
  const proposed = good(
    await platform.post('/config/changesets', {
      title: 'Two',
      reason: 'It is time',
      items,
      apply: 'manual',
      managed_by: folder,
    }),
  ).body;
  const ofSet = { ...body, changeset_id: proposed.id, digest: proposed.digest };
  expect((await platform.post(rollouts(), ofSet)).status).toBe(409);
  const at = `/config/changesets/${proposed.id}`;
  good(await platform.post(`${at}/submit`));
  good(await rita.post(`${at}/approve`, { digest: proposed.digest }));
  const { id, changeset_id } = good(await platform.post(rollouts(), ofSet)).body;
  expect(changeset_id).toBe(proposed.id);
  expect((await platform.get(at)).body.state).toBe('applied');
  expect((await platform.post(rollouts(), ofSet)).status).toBe(409);
  good(await advance(id, null));
  expect(await values(keys)).toEqual([
    [2, 2],
    [1, 1],
    [1, 1],
  ]);
  // It takes a person who has just signed in.
  const now = await signIn(platform.url, 'admin@example.com', adminPassword);
  const disable = (status: string) => now.patch(`/auth/users/${ritaId}`, { status });
  good(await disable('disabled'));
  const unapproved = await advance(id, 0);
  expect([unapproved.status, unapproved.body.detail.code]).toEqual([
    403,
    'change_approval_required',
  ]);
  good(await disable('active'));
  good(await advance(id, 0));
  expect((await advance(id, 1)).body.state).toBe('completed');
  // The folder has not lost its fields to whoever advanced what it proposed.
  const ofEntry = `/config/managed-fields?document=${encodeURIComponent(entry(keys[0]!))}`;
  const [managed] = good(await platform.get(ofEntry)).body.items;
  expect(managed.fields).toContainEqual({ path: '/config_value', owner: folder });
  expect((await step(id, 'revert', { reason: 'No' })).body.state).toBe('reverted');
  expect(await values(keys)).toEqual([
    [1, 1],
    [1, 1],
    [1, 1],
  ]);
});
