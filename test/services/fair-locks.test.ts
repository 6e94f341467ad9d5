/**
 * Locks that queue, on a real database: whoever goes by a configuration or an account holds up who
 * changes it, and nobody passes a change that waits.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { DataSource } from 'typeorm';
import { authSchema } from '../../services/auth/schema.ts';
import { lockForChange, lockForSignIn } from '../../services/auth/accounts/stores/users.ts';
import { automationActions } from '../../services/notifier/actions/automations.ts';
import { redeemActions } from '../../services/notifier/actions/redeeming.ts';
import { Grants } from '../../services/notifier/actions/granting.ts';
import { notifierSchema, type AutomationRow } from '../../services/notifier/schema.ts';
import { readChangedIn } from '../../services/notifier/stores/changed-rows.ts';
import { TenantChanges } from '../../services/notifier/worker/tenant-changes.ts';
import { serviceCaller } from '../../shared/access.ts';
import {
  commitChange,
  holdRevisions,
  tryChanges,
  type Work,
  type Committing,
} from '../../shared/commits/commit.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { createFeed } from '../../shared/coherence/feed.ts';
import { HeldRequests } from '../../shared/concurrency/held-requests.ts';
import type { Request } from '../../shared/contract-runtime/request.ts';
import { platformScope, tenantScope } from '../../shared/contracts/revision-scopes.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { holdLock } from '../support/held-lock.ts';
import { createDatabase, type Database } from '../support/postgres.ts';

let database: Database;
let db: DataSource;
let auth: DataSource;

beforeAll(async () => {
  database = await createDatabase();
  const options = { url: database.url, poolSize: 8, timeoutMs: 60_000, ssl: false };
  await migrate(options, [commitSchema, authSchema, notifierSchema]);
  db = await openDatabase(options, notifierSchema);
  auth = await openDatabase(options, authSchema);
  await createFeed(db).meet();
});
afterAll(async () => {
  await db?.destroy();
  await auth?.destroy();
  await database?.drop();
});

const by = (): Committing => ({
  caller: serviceCaller('test'),
  requestId: 'r',
  committed: [],
});
const write = (scope: string): Promise<unknown> =>
  commitChange(db, by(), scope, async () => ({ result: undefined, keys: [], events: [] }));
const revisionNow = async (scope: string): Promise<number> =>
  (await db.transaction((manager) => holdRevisions(manager, [scope])))[scope]!;

/** A transaction that stays open after its work until it is told to end. */
function opened<T>(source: DataSource, work: (manager: DataSource['manager']) => Promise<T>) {
  const begun = Promise.withResolvers<T>();
  const end = Promise.withResolvers<void>();
  const ended = source.transaction(async (manager) => {
    begun.resolve(await work(manager));
    await end.promise;
  });
  ended.catch(begun.reject);
  return {
    begun: begun.promise,
    async end() {
      end.resolve();
      await ended;
    },
  };
}

/** Resolves once so many sessions wait for a lock. */
async function untilWaiting(count: number): Promise<void> {
  const lock = await holdLock(database, 'SELECT 1');
  await lock.untilWaiting(count);
  await lock.release();
}

let scope: string;
beforeEach(() => {
  scope = tenantScope(randomUUID());
});

test('a write waits for whoever goes by the revision, and its own comes after', async () => {
  await write(scope);
  const before = await revisionNow(scope);
  const holder = opened(db, (manager) => holdRevisions(manager, [scope, platformScope]));
  expect((await holder.begun)[scope]).toBe(before);
  const order: string[] = [];
  const writing = write(scope).then(() => order.push('written'));
  await untilWaiting(1);
  order.push('held');
  await holder.end();
  await writing;
  expect(order).toEqual(['held', 'written']);
  expect(await revisionNow(scope)).toBe(before + 1);
});

test('whoever goes by the revision does not pass a writer that waits', async () => {
  await write(scope);
  const before = await revisionNow(scope);
  const first = opened(db, (manager) => holdRevisions(manager, [scope]));
  await first.begun;
  const writing = write(scope);
  await untilWaiting(1);
  const late = revisionNow(scope);
  await untilWaiting(2);
  await first.end();
  await writing;
  expect(await late).toBe(before + 1);
});

test('a trial for a plan waits for no writer of its scope', async () => {
  await write(scope);
  const before = await revisionNow(scope);
  const writer = opened(db, (manager) =>
    manager.query('UPDATE strata.revisions SET revision = revision WHERE scope = $1', [scope]),
  );
  await writer.begun;
  await tryChanges(
    db,
    scope,
    [async () => ({ result: undefined, keys: [], events: [] })],
    async () => undefined,
  );
  await writer.end();
  expect(await revisionNow(scope)).toBe(before);
});

test('a trial whose rows others change all the time ends, since they wait for its last attempt', async () => {
  const row = tenantScope(randomUUID());
  await write(row);
  const change = (manager: DataSource['manager']): Promise<unknown> =>
    manager.query('UPDATE strata.revisions SET changed_at = now() WHERE scope = $1', [row]);
  const writing: Promise<unknown>[] = [];
  const work: Work<undefined> = async (manager) => {
    const other = commitChange(db, by(), scope, async (theirs) => {
      await change(theirs);
      return { result: undefined, keys: [], events: [] };
    });
    writing.push(other);
    await Promise.race([other, untilWaiting(1)]);
    await change(manager);
    return { result: undefined, keys: [], events: [] };
  };
  await write(scope);
  const before = await revisionNow(scope);
  await tryChanges(db, scope, [work], async () => undefined);
  await Promise.all(writing);
  expect(await revisionNow(scope)).toBe(before + writing.length);
});

test('a sign-in does not pass a change of the account that waits', async () => {
  const id = randomUUID();
  await auth.query(
    `INSERT INTO auth.users (id, email, email_verified, status, created_at) VALUES ($1, $2, true, 'active', now())`,
    [id, `${id}@example.com`],
  );
  const signingIn = opened(auth, (manager) => lockForSignIn(manager, id));
  expect((await signingIn.begun)?.id).toBe(id);
  const changing = auth.transaction(async (manager) => {
    await lockForChange(manager, id);
    await manager.query(`UPDATE auth.users SET status = 'disabled' WHERE id = $1`, [id]);
  });
  await untilWaiting(1);
  const late = auth.transaction((manager) => lockForSignIn(manager, id));
  await untilWaiting(2);
  await signingIn.end();
  await changing;
  expect(await late).toBeNull();
});

/** How often it is decided for a start while the platform is written at each of the first decisions. */
async function startWhile(writePlatform: () => Promise<unknown>) {
  const tenantId = randomUUID();
  const settings = loadSettings({ SECRET_KEY: 'k'.repeat(32) }, { roles: [] });
  const unused = (): never => {
    throw new Error('not for this');
  };
  const changes = new TenantChanges({
    announce: () => undefined,
    read: readChangedIn<AutomationRow>(db, 'automations'),
    held: new HeldRequests(() => settings),
  });
  const actions = automationActions({
    db,
    changes,
    vault: { seal: unused, open: unused, openIfKept: unused },
    onQueued: unused,
    onChanged: unused,
    approvalChanges: unused as never,
    settings: () => settings,
    takeMails: async () => undefined,
    onNoDecision: unused,
    grants: new Grants(db, () => settings),
  });
  let decisions = 0;
  /** As config-resolver answers, from configuration that is older each time but for the last. */
  const admission = async (action: string) => {
    if (action === 'tenant-config.tenants.get') return { status: 'active' };
    decisions += 1;
    const revision = {
      tenant: await readRevision(tenantScope(tenantId)),
      platform: await readRevision(platformScope),
    };
    const isLast = decisions > 4;
    if (!isLast) await Promise.race([writePlatform(), late()]);
    return {
      decided: { decision: 'allow', reasons: [], revision },
      slots: { limit: 5, layer: 'tenant_risk', source: 's', revision: 1 },
      is_proven: false,
    };
  };
  const request = {
    caller: serviceCaller('test'),
    requestId: 'r',
    call: admission,
  } as unknown as Request;
  const started = await actions['notifier.automations.start'](
    { tenant_id: tenantId, body: { action: 'scale', risk_level: 'low' } },
    request,
  );
  return [started.state, decisions];
}

test('the platform can be written while a start decides', async () => {
  expect(await startWhile(() => write(platformScope))).toEqual(['running', 6]);
});

test.each([
  ['that no decision reads', ['global_motd'], 1],
  ['that is a limit', ['global_max_cost_impact_auto'], 6],
  ['beside bounds', ['global_motd', 'bounds_platform'], 6],
])(
  'an entry of the platform %s is written while a start decides',
  async (_which, keys, decisions) => {
    const change = () =>
      commitChange(db, by(), platformScope, async () => ({ result: undefined, keys, events: [] }));
    expect(await startWhile(change)).toEqual(['running', decisions]);
  },
);

test('configuration that changes at each decision keeps no one from redeeming', async () => {
  const tenantId = randomUUID();
  const id = randomUUID();
  const own = tenantScope(tenantId);
  const settings = loadSettings({ SECRET_KEY: 'k'.repeat(32) }, { roles: [] });
  const digest = 'a'.repeat(64);
  await db.query(
    `INSERT INTO notifier.automations (id, tenant_id, state, intent, decided, ttl_seconds, requested_by, request_id,
       request_hash, created_at, started_at, expires_at, action_digest)
     VALUES ($1, $2, 'running', '{"action":"scale","risk_level":"low"}', '{"decision":"allow","reasons":[]}', 300,
       '{"type":"user","id":"u"}', 'r', 'h', now(), now(), now() + interval '5 minutes', $3)`,
    [id, tenantId, digest],
  );
  let decisions = 0;
  const writes: Promise<unknown>[] = [];
  const admission = async (action: string) => {
    if (action === 'tenant-config.tenants.get') return { status: 'active' };
    decisions += 1;
    const revision = {
      tenant: await readRevision(own),
      platform: await readRevision(platformScope),
    };
    const written = write(own);
    writes.push(written);
    // Two are decided ahead, and one while the configuration is held.
    await (decisions === 3 ? Promise.race([written, untilWaiting(1)]) : written);
    return { decided: { decision: 'allow', reasons: [], revision }, is_proven: false };
  };
  const request = {
    caller: serviceCaller('test'),
    requestId: 'r',
    call: admission,
  } as unknown as Request;
  const actions = redeemActions({ db, grants: new Grants(db, () => settings) });
  const redeemed = await actions['notifier.automations.redeem'](
    {
      tenant_id: tenantId,
      automation_id: id,
      body: { action_digest: digest, executor: 'runner' },
    },
    request,
  );
  await Promise.all(writes);
  expect([redeemed.redeemed_by, decisions]).toEqual(['runner', 3]);
});

/** Without a lock. */
async function readRevision(name: string): Promise<number> {
  const [row] = await db.query<{ revision: number }[]>(
    'SELECT revision FROM strata.revisions WHERE scope = $1',
    [name],
  );
  return row?.revision ?? 0;
}

const late = async (): Promise<never> => {
  await delay(10_000, undefined, { ref: false });
  throw new Error('the write of the platform waits');
};
