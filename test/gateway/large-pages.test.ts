/** G7: lists and histories end a page by bytes as well as by count, and continue exactly. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { inSoak } from '../support/soak.ts';
import {
  adminPassword,
  createTenant,
  signIn,
  startStrata,
  type Client,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

const maxPageBytes = 2 * 1024 * 1024;
const large = 700_000;

let database: Database;
let strata: Running;
let platform: Client;
let tenant: TenantFixture;

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({
    DATABASE_URL: database.url,
    LOG_LEVEL: 'warn',
    // A busy machine takes long over megabytes.
    REQUEST_TIMEOUT_MS: '60000',
  });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Large pages');
  for (const index of [1, 2, 3, 4, 5]) {
    const text = String(index).repeat(large);
    const answers = [
      await tenant.admin.put(`/tenants/${tenant.id}/config/agents/agent-${index}`, {
        custom: { text },
      }),
      await platform.put(`/config/global/entry-${index}`, { config_value: text }),
      ...(inSoak
        ? [
            await platform.put(`/config/service-types/type-${index}/default`, {
              default_settings: { text },
            }),
          ]
        : []),
    ];
    for (const { status } of answers) expect(status).toBe(201);
  }
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

type Item = Record<string, unknown>;

/** All pages of a list; throws where one is too large or empty. */
async function pagesOf(client: Client, path: string, limit: number): Promise<Item[][]> {
  const pages: Item[][] = [];
  let cursor: string | null = '';
  while (cursor !== null) {
    const query = `limit=${limit}${cursor && `&cursor=${cursor}`}`;
    const answer = await client.get(`${path}${path.includes('?') ? '&' : '?'}${query}`);
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.text}`);
    const { items, next_cursor } = answer.body as { items: Item[]; next_cursor: string | null };
    if (items.length === 0 && next_cursor !== null) throw new Error(`${path}: an empty page`);
    const bytes = Buffer.byteLength(JSON.stringify(items));
    if (items.length > 1 && bytes > maxPageBytes + items.length)
      throw new Error(`${path}: a page of ${bytes} bytes`);
    pages.push(items);
    cursor = next_cursor;
  }
  return pages;
}

const lists: (readonly [string, () => string, () => Client, string])[] = [
  [
    'tenant documents',
    () => `/tenants/${tenant.id}/config/agents`,
    () => tenant.admin,
    'agent_type',
  ],
  ['global entries', () => '/config/global', () => platform, 'config_key'],
  // `readPage` ends its pages as it does those of global entries.
  ...(inSoak
    ? [['service types', () => '/config/service-types', () => platform, 'service_type'] as const]
    : []),
];
test.each(lists)('a list of %s', async (_name, path, client, key) => {
  const pages = await pagesOf(client(), path(), 200);
  expect(pages.length).toBeGreaterThan(1);
  const names = pages.flat().map((item) => item[key] as string);
  expect(names).toEqual(names.toSorted());
  expect(new Set(names).size).toBe(names.length);
  expect(names.filter((name) => /^(agent|entry|type)-[1-5]$/.test(name))).toHaveLength(5);
  // The same by count.
  const single = await pagesOf(client(), path(), 1);
  expect(single.flat().map((item) => item[key])).toEqual(names);
});

test('a history with changes of 1 MiB each', async () => {
  const path = `/tenants/${tenant.id}/config/agents/agent-1`;
  for (const letter of ['a', 'b', 'c'])
    await tenant.admin.put(path, { custom: { text: letter.repeat(1_000_000) } });
  const pages = await pagesOf(tenant.admin, `/tenants/${tenant.id}/config/history`, 200);
  expect(pages.length).toBeGreaterThan(3);
  const revisions = pages.flat().map(({ revision }) => revision as number);
  const newest = Math.max(...revisions);
  expect(revisions).toEqual(Array.from({ length: newest }, (_each, index) => newest - index));
});

test('a history of small changes to a large document has many entries to a page', async () => {
  const path = `/tenants/${tenant.id}/config/agents/agent-2`;
  for (const region of Array.from({ length: 12 }, (_each, index) => `region-${index}`))
    await tenant.admin.patch(path, { default_region: region });
  const history = `/tenants/${tenant.id}/config/history?resource_id=agent-2`;
  const pages = await pagesOf(tenant.admin, history, 50);
  expect(pages.flat()).toHaveLength(13);
  expect(pages[0]!.length).toBeGreaterThan(5);
});

test('audit events', async () => {
  const pages = await pagesOf(tenant.admin, '/audit/events?action=config.agent.updated', 200);
  expect(pages.length).toBeGreaterThan(1);
  const numbers = pages.flat().map(({ seq }) => seq as number);
  expect(new Set(numbers).size).toBe(numbers.length);
  const [row] = await database.query<{ count: string }>(
    "SELECT count(*) FROM audit.events WHERE action = 'config.agent.updated'",
  );
  expect(numbers).toHaveLength(Number(row!.count));
});

test('approvals, of which what names thousands of approvers is not read', async () => {
  const path = `/tenants/${tenant.id}/approvals`;
  const asked = { action: 'scale', risk_level: 'low', title: 'Scale' };
  const { status, body } = await tenant.operator.post(path, asked);
  expect(status).toBe(202);
  await database.query(
    `INSERT INTO notifier.approvals SELECT copy.* FROM notifier.approvals a, generate_series(1, 39) n,
       jsonb_populate_record(a, jsonb_build_object(
         'id', md5(n::text)::uuid, 'state', 'denied', 'frozen', repeat('x', 1000000))) AS copy
     WHERE a.id = $1`,
    [body.id],
  );
  const [page, ...others] = await pagesOf(tenant.admin, path, 50);
  expect([page!.length, others.length]).toEqual([40, 0]);
  const one = await tenant.admin.get(`${path}/${body.id}`);
  expect(page).toContainEqual(expect.objectContaining({ id: one.body.id, title: 'Scale' }));
});

describe('what every effective configuration holds', () => {
  const put = (key: string, value: unknown, isPublic = true) =>
    platform.put(`/config/global/${key}`, { config_value: value, is_public: isPublic });
  const entryOf = (key: string) => `/config/global/${key}`;
  const tooLarge = async (answer: ReturnType<Client['get']>): Promise<void> => {
    const { status, body } = await answer;
    expect([status, body.detail.code]).toEqual([413, 'payload_too_large']);
  };

  test('public entries have at most 8 MiB together; less may always be written', async () => {
    const text = 'x'.repeat(large);
    const created: number[] = [];
    for (let index = 0; index < 11; index += 1) {
      const { status, headers } = await put(`public-${index}`, text);
      expect(status).toBe(201);
      created.push(Number(headers.get('x-config-revision')));
    }
    await tooLarge(put('public-11', text));
    expect((await put('public-11', text, false)).status).toBe(201);
    await tooLarge(platform.patch(entryOf('public-11'), { is_public: true }));
    const larger = 'x'.repeat(1_040_000);
    expect((await put('public-0', larger)).status).toBe(200);
    expect((await put('public-1', larger)).status).toBe(200);
    await tooLarge(put('public-2', larger));
    expect((await put('public-2', 'x')).status).toBe(200);
    expect((await platform.patch(entryOf('public-11'), { is_public: true })).status).toBe(200);
    await tooLarge(platform.post('/config/rollback', { revision: created[2] }));
  });

  test('the configurations of all agent types have at most 16 MiB together; each alone is answered', async () => {
    await tooLarge(tenant.admin.get('/configurations/'));
    const path = `/tenants/${tenant.id}/config/effective?agent_type=agent-1`;
    expect((await tenant.admin.get(path)).status).toBe(200);
  });

  test('there are at most 1,000 public entries', async () => {
    await database.query('DELETE FROM global_config.global_configurations WHERE is_public');
    await database.query(
      `INSERT INTO global_config.global_configurations (config_key, config_value, is_public, requires_restart, revision, updated_by, updated_at)
       SELECT 'many-' || n, '1', true, false, 1, 'test', now() FROM generate_series(1, 999) n`,
    );
    expect((await put('last', 1)).status).toBe(201);
    await tooLarge(put('one-too-many', 1));
    expect((await put('many-1', 2)).status).toBe(200);
  });
});
