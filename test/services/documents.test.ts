/**
 * What `documentActions` makes of a kind of document: a kind of the test's own, and what
 * tenant-config's kinds share.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { Type, type Static } from 'typebox';
import { EntitySchema, type DataSource } from 'typeorm';
import { tenantActions } from '../../services/tenant-config/actions/tenants.ts';
import { notificationKind } from '../../services/tenant-config/documents/notification-config.ts';
import { tenantConfigSchema } from '../../services/tenant-config/schema.ts';
import type { Request } from '../../shared/contract-runtime/request.ts';
import { createFeed } from '../../shared/coherence/feed.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import type { NotificationConfig } from '../../shared/contracts/notification-config.ts';
import { tenantScope } from '../../shared/contracts/revision-scopes.ts';
import type { TenantAddress } from '../../shared/contracts/tenant-document.ts';
import { migrate, migration, openDatabase, type Schema } from '../../shared/database/open.ts';
import type { DocumentKind } from '../../shared/documents/document-kind.ts';
import { documentActions, type DocumentActions } from '../../shared/documents/document.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { queuedBehindRevision } from '../support/held-lock.ts';
import { createDatabase, type Database } from '../support/postgres.ts';

const writers = 8;
const mostShelves = 3;

// ---------------------------------------------------------------- a rule that needs the database

const Shelf = Type.Object({ label: Type.String() }, { additionalProperties: false });
type Shelf = Static<typeof Shelf>;
interface ShelfAddress {
  readonly tenant_id: string;
  readonly shelf_id: string;
}
interface ShelfRow extends ShelfAddress {
  document: Shelf;
  revision: number;
  updated_by: string;
  updated_at: Date;
}

const ShelfEntity = new EntitySchema<ShelfRow>({
  name: 'Shelf',
  tableName: 'shelves',
  schema: 'shelves',
  columns: {
    tenant_id: { type: 'uuid', primary: true },
    shelf_id: { type: 'text', primary: true },
    document: { type: 'json' },
    revision: { type: 'int8' },
    updated_by: { type: 'text' },
    updated_at: { type: 'timestamptz' },
  },
});
const shelfSchema: Schema = {
  schema: 'shelves',
  entities: [ShelfEntity],
  migrations: [
    migration(
      'Shelves1763700000009',
      `CREATE TABLE shelves.shelves (
        tenant_id uuid NOT NULL, shelf_id text NOT NULL, document json NOT NULL, revision int8 NOT NULL,
        updated_by text NOT NULL, updated_at timestamptz NOT NULL, PRIMARY KEY (tenant_id, shelf_id)
      )`,
    ),
  ],
};

/**
 * A tenant has at most `mostShelves` shelves, and once it has one it keeps one: rules about the
 * other rows of a table.
 */
const shelfKind: DocumentKind<ShelfAddress, Shelf> = {
  configType: 'shelf_config',
  actions: 'tenant-config.projects',
  auditName: 'shelf',
  schema: Shelf,
  tenantId: ({ tenant_id }) => tenant_id,
  resourceId: ({ shelf_id }) => shelf_id,
  async load(manager, { tenant_id, shelf_id }) {
    const row = await manager.findOneBy(ShelfEntity, { tenant_id, shelf_id });
    return { current: row && { ...row, updated_at: row.updated_at.toISOString() } };
  },
  async store(manager, { tenant_id, shelf_id }, { after: document, revision, at }, { caller }) {
    if (document === null) await manager.delete(ShelfEntity, { tenant_id, shelf_id });
    else {
      const written = { revision, updated_by: caller.id, updated_at: new Date(at) };
      const row = { tenant_id, shelf_id, document, ...written };
      await manager.upsert(ShelfEntity, row, ['tenant_id', 'shelf_id']);
    }
  },
  prepare: async () => undefined,
  complete: (draft) => draft,
  check: () => ({ refused: [] }),
  async checkInTransaction(manager, { tenant_id }, next, current) {
    const count = await manager.countBy(ShelfEntity, { tenant_id });
    const isNew = next !== null && current === null;
    if (isNew && count >= mostShelves)
      return [{ path: '', message: `is one more than the ${mostShelves} shelves of a tenant` }];
    if (next === null && count === 1) return [{ path: '', message: 'is the last shelf' }];
    return [];
  },
};

// ---------------------------------------------------------------- set-up

let database: Database;
let db: DataSource;
let tenantDb: DataSource;
let shelves: DocumentActions<ShelfAddress, Shelf>;
let tenantId: string;

beforeAll(async () => {
  database = await createDatabase();
  const options = { url: database.url, poolSize: writers, timeoutMs: 20_000, ssl: false };
  await migrate(options, [commitSchema, tenantConfigSchema, shelfSchema]);
  db = await openDatabase(options, shelfSchema);
  tenantDb = await openDatabase(options, tenantConfigSchema);
  shelves = documentActions(db, shelfKind);
  await createFeed(db).meet();
});
afterAll(async () => {
  await db?.destroy();
  await tenantDb?.destroy();
  await database?.drop();
});
beforeEach(() => {
  tenantId = randomUUID();
});

const request = (): Request =>
  ({
    caller: { type: 'system', id: 'test', tenant_id: null, roles: [], platform_roles: [] },
    requestId: 'r',
    client: {},
    keys: ['shelf_key'],
    checkAnswer: () => {},
    committed: [],
    // The domains that a tenant's sign-in providers have verified: none.
    call: async () => [],
  }) as Partial<Request> as Request;

const refusing = (): Request => ({
  ...request(),
  checkAnswer: () => {
    throw new Error('against its contract');
  },
});

const put = (shelfId: string, dryRun = false) =>
  shelves.put(
    { tenant_id: tenantId, shelf_id: shelfId, body: { label: shelfId }, dry_run: dryRun },
    request(),
  );
const remove = (shelfId: string) =>
  shelves.delete({ tenant_id: tenantId, shelf_id: shelfId }, request());

const revision = async (): Promise<number> => {
  const rows = await database.query<{ revision: string }>(
    'SELECT revision FROM strata.revisions WHERE scope = $1',
    [tenantScope(tenantId)],
  );
  return Number(rows[0]?.revision ?? 0);
};
const problemsOf = (error: unknown) =>
  (error as { data?: { errors?: { message: string }[] } }).data?.errors?.map(
    ({ message }) => message,
  );

// ---------------------------------------------------------------- the rule

describe('a rule inside the transaction', () => {
  test('holds for writers that race: it sees what the previous one committed', async () => {
    await put('first');
    const race = Array.from({ length: writers }, (_each, index) => async () => {
      const [result] = await Promise.allSettled([put(`shelf-${index}`)]);
      return result!;
    });
    const results = await queuedBehindRevision(database, tenantScope(tenantId), race);

    const written = results.filter(({ status }) => status === 'fulfilled');
    expect(written).toHaveLength(mostShelves - 1);
    const refused = results.filter((result) => result.status === 'rejected');
    for (const { reason } of refused)
      expect(problemsOf(reason)).toEqual(['is one more than the 3 shelves of a tenant']);
    const rows = await database.query('SELECT FROM shelves.shelves WHERE tenant_id = $1', [
      tenantId,
    ]);
    expect(rows).toHaveLength(mostShelves);
  });

  test('leaves nothing behind where it refuses: no row, no revision, no change, no event', async () => {
    for (const shelf of ['a', 'b', 'c']) await put(shelf);
    await expect(put('d')).rejects.toMatchObject({ type: 'validation_failed' });
    expect(await revision()).toBe(3);
    const changes = await database.query('SELECT FROM strata.changes WHERE scope = $1', [
      tenantScope(tenantId),
    ]);
    const events = await database.query(
      `SELECT FROM strata.outbox WHERE event->>'tenant_id' = $1`,
      [tenantId],
    );
    expect([changes.length, events.length]).toEqual([3, 3]);
  });

  test('is asked of a dry run too, which writes nothing', async () => {
    for (const shelf of ['a', 'b']) await put(shelf);
    expect(await put('c', true)).toEqual({
      dry_run: true,
      changes: [{ path: '/label', after: 'c' }],
      invalidates: ['shelf_key'],
    });
    await put('c');
    await expect(put('d', true)).rejects.toMatchObject({ type: 'validation_failed' });
    expect(await revision()).toBe(3);
  });

  test('is asked of a removal, and knows a new document from one that is replaced', async () => {
    for (const shelf of ['a', 'b', 'c']) await put(shelf);
    expect(await put('c')).toMatchObject({ outcome: 'updated' });
    expect(await remove('b')).toMatchObject({ outcome: 'deleted', document: null });
    expect(await remove('c')).toMatchObject({ outcome: 'deleted' });
    const refusal = await remove('a').catch((error: unknown) => error);
    expect(problemsOf(refusal)).toEqual(['is the last shelf']);
  });
});

// ---------------------------------------------------------------- when it was

test('a change has the time of the database, and none before that of the revision before it', async () => {
  // As if the database's clock had been an hour ahead until now.
  const ahead = new Date(Date.now() + 3_600_000);
  await put('a');
  await database.query('UPDATE strata.revisions SET changed_at = $1 WHERE scope = $2', [
    ahead,
    tenantScope(tenantId),
  ]);
  const at = ahead.toISOString();
  expect(await put('b')).toMatchObject({ revision: 2, updated_at: at });
  const events = await database.query<{ at: string }>(
    `SELECT event->>'occurred_at' AS at FROM strata.outbox WHERE event->>'tenant_id' = $1 ORDER BY seq`,
    [tenantId],
  );
  expect(events.at(-1)).toEqual({ at });
});

// ---------------------------------------------------------------- an answer that is refused

describe('a write whose answer the contract does not allow', () => {
  const body = { label: 'refused' };

  test('stores nothing: no row, no revision, no change, no event', async () => {
    await put('kept');
    await put('other');
    const kept = { tenant_id: tenantId, shelf_id: 'kept' };
    const writes = [
      () => shelves.put({ ...kept, shelf_id: 'new', body }, refusing()),
      () => shelves.put({ ...kept, body }, refusing()),
      () => shelves.patch({ ...kept, body }, refusing()),
      () => shelves.delete(kept, refusing()),
      () => shelves.rollback(kept, refusing(), body),
      () => shelves.put({ ...kept, body, dry_run: true }, refusing()),
    ];
    for (const write of writes) await expect(write()).rejects.toThrow('against its contract');
    const rows = await database.query<{ document: Shelf }>(
      'SELECT document FROM shelves.shelves WHERE tenant_id = $1 ORDER BY shelf_id',
      [tenantId],
    );
    expect(rows.map(({ document }) => document.label)).toEqual(['kept', 'other']);
    expect(await revision()).toBe(2);
    const received = await database.query(
      `SELECT FROM strata.changes WHERE scope = $1
       UNION ALL SELECT FROM strata.outbox WHERE event->>'tenant_id' = $2`,
      [tenantScope(tenantId), tenantId],
    );
    expect(received).toHaveLength(4);
  });
});

// ---------------------------------------------------------------- a kind whose schema admits null

describe('notification_config', () => {
  const settings = loadSettings({ SECRET_KEY: 'x'.repeat(32) }, { roles: [] });
  const email = { email: { default_recipients: ['ops@acme.example'] } };
  let notifications: DocumentActions<TenantAddress, NotificationConfig | null>;
  let address: TenantAddress;

  beforeAll(() => {
    const kind = notificationKind(tenantDb, () => settings);
    notifications = documentActions(tenantDb, kind);
  });
  beforeEach(() => {
    address = { tenant_id: tenantId };
  });
  const createTenant = () =>
    database.query(
      `INSERT INTO tenant_config.tenants VALUES ($1, 'Acme', 'active', now(), now(), NULL, 0, 'test', now())`,
      [tenantId],
    );

  test('of a tenant that does not exist is not written', async () => {
    const write = notifications.put({ ...address, body: email }, request());
    await expect(write).rejects.toMatchObject({ type: 'not_found' });
    expect(await revision()).toBe(0);
    const rows = await database.query(
      'SELECT FROM tenant_config.configuration_history WHERE tenant_id = $1',
      [tenantId],
    );
    expect(rows).toEqual([]);
  });

  test('a tenant whose answer is refused is not changed', async () => {
    await createTenant();
    const { 'tenant-config.tenants.patch': patch } = tenantActions(tenantDb, () => settings);
    const change = patch({ tenant_id: tenantId, body: { name: 'Never' } }, refusing());
    await expect(change).rejects.toThrow('against its contract');
    const rows = await database.query('SELECT name FROM tenant_config.tenants WHERE id = $1', [
      tenantId,
    ]);
    expect(rows).toEqual([{ name: 'Acme' }]);
  });

  test('is rolled back to null as to any document, for null is one', async () => {
    await createTenant();
    await notifications.put({ ...address, body: email }, request());
    const restored = await notifications.rollback(address, request(), null);
    expect(restored).toMatchObject({ outcome: 'updated', document: null, revision: 2 });
    expect((await notifications.get(address)).value).toMatchObject({ document: null, revision: 2 });
  });

  test('is restored from the history with the secrets that it held then, which no one sees', async () => {
    await createTenant();
    const storedSecret = async () => {
      const [row] = await database.query<{ secret: string | null }>(
        `SELECT notification_config->'chat'->'google_chat'->>'webhook_url' AS secret
         FROM tenant_config.tenants WHERE id = $1`,
        [tenantId],
      );
      return row!.secret;
    };
    const chat = { chat: { google_chat: { webhook_url: 'https://chat.example/v1?key=canary' } } };
    await notifications.put({ ...address, body: chat }, request());
    const sealed = await storedSecret();
    await notifications.put({ ...address, body: null }, request());

    const after = { chat: { google_chat: { webhook_url: sealed } } };
    const restored = await notifications.rollback(address, request(), after);
    expect(restored).toMatchObject({
      document: { chat: { google_chat: { webhook_url: '********' } } },
    });
    expect(await storedSecret()).toBe(sealed);

    // Nothing could be sent by it, nor an approval be asked for.
    const another = loadSettings({ SECRET_KEY: 'y'.repeat(32) }, { roles: [] });
    const later = documentActions(
      tenantDb,
      notificationKind(tenantDb, () => another),
    );
    await expect(later.rollback(address, request(), after)).rejects.toMatchObject({
      type: 'conflict',
      message: expect.stringContaining('does not open'),
    });
  });
});
