/**
 * Automations from the question to the end: slots, approvals, expiry, and races that are made to
 * happen.
 */
import { grown } from '../../support/grown.ts';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { eventually } from '../../support/cluster.ts';
import { holdLock } from '../../support/held-lock.ts';
import { soakTest } from '../../support/soak.ts';
import {
  addMember,
  createTenantWith,
  Client,
  type Answer,
  type TenantWith,
} from '../../support/strata.ts';
import { database, platform, strata } from './strata.ts';

describe('slots', () => {
  let tenant: TenantWith<'operator'>;

  /** Slots are counted in a tenant, so each test has its own. */
  beforeEach(async () => {
    tenant = await createTenantWith(strata.url, platform, `Slots ${randomUUID()}`, ['operator']);
    await limitTo(2);
    await grown(database, tenant.id);
  });

  const plain = { action: 'scale', risk_level: 'low' };
  const path = (rest = ''): string => `/tenants/${tenant.id}/automations${rest}`;
  const patchRisk = (limits: object) =>
    tenant.admin.patch(`/tenants/${tenant.id}/config/risk`, { global_settings: limits });
  async function limitTo(max: number): Promise<void> {
    const { body } = await patchRisk({ max_concurrent_automations: max });
    expect(body).toMatchObject({ global_settings: { max_concurrent_automations: max } });
  }
  const post = (body: object = {}, by: Client = tenant.admin): Promise<Answer> =>
    by.post(path(), { ...plain, ...body });
  async function start(body: object = {}) {
    const answer = await post(body);
    expect([answer.status, answer.text]).toEqual([201, expect.any(String)]);
    return answer.body;
  }
  const get = async (id: string, query = '') =>
    (await tenant.admin.get(path(`/${id}${query}`))).body;
  const finish = (id: string, outcome = 'succeeded', by: Client = tenant.admin) =>
    by.post(path(`/${id}/finish`), { outcome });
  const decideOn = (approvalId: string, decision: string) =>
    tenant.operator.post(`/tenants/${tenant.id}/approvals/${approvalId}/decision`, { decision });
  const runningNow = async (): Promise<number> =>
    (await tenant.admin.get(path('?state=running&limit=200'))).body.items.length;
  /** Whether nobody looks at those who wait for a slot for a while, unless something happens. */
  async function isLookedAtLater(): Promise<boolean> {
    const [row] = await database.query<{ is_later: boolean }>(
      `SELECT look_at > clock_timestamp() + interval '20 seconds' AS is_later
     FROM notifier.automation_tenants WHERE tenant_id = $1`,
      [tenant.id],
    );
    return row!.is_later;
  }
  /** Lets the time of those that run pass. */
  const letTimePass = (ids: string[]) =>
    database.query(
      `UPDATE notifier.automations SET expires_at = notifier.slot_now() - interval '1 second' WHERE id = ANY($1)`,
      [ids],
    );

  test('one that is allowed runs until it is finished, and holds a slot so long', async () => {
    const first = await start({ cost_impact: 3, ttl_seconds: 60 });
    expect(first).toMatchObject({
      state: 'running',
      decision: 'allow',
      reasons: [],
      cost_impact: 3,
      ttl_seconds: 60,
      outcome: null,
    });
    expect(Date.parse(first.expires_at) - Date.parse(first.started_at)).toBe(60_000);
    expect((await start()).ttl_seconds).toBe(300);

    const third = await start();
    expect(third).toMatchObject({ state: 'denied', decision: 'deny', expires_at: null });
    expect(third.reasons[0]).toMatchObject({
      rule: 'too_many_automations',
      limit: 2,
      asked: 3,
      layer: 'tenant_risk',
      source: `risk_config_${tenant.id}`,
    });
    const finished = await finish(first.id);
    expect(finished.body).toMatchObject({ state: 'finished', outcome: 'succeeded' });
    expect((await finish(first.id)).body).toEqual(finished.body);
    expect((await finish(first.id, 'failed')).status).toBe(409);
    expect((await start()).state).toBe('running');
    expect((await tenant.admin.get(path('?state=denied'))).body.items).toEqual([third]);
  });

  test('one that is denied says why, and holds no slot', async () => {
    const denied = await start({ cost_impact: 51 });
    expect([denied.state, denied.reasons[0].rule]).toEqual(['denied', 'max_cost_impact_approval']);
    expect((await finish(denied.id)).status).toBe(409);
    expect(await runningNow()).toBe(0);
    const typo = await post({ service_id: 'chekout' });
    expect([typo.status, typo.body.detail.code]).toEqual([404, 'not_found']);
    // Whoever starts now does not say when now is.
    expect((await post({ at: '2026-07-06T12:00:00Z' })).status).toBe(422);
  });

  test('the same key gives the same automation, whatever becomes of it', async () => {
    const body = { idempotency_key: 'k', cost_impact: 1 };
    const made = await Promise.all(Array.from({ length: 8 }, () => start(body)));
    expect(new Set(made.map(({ id }) => id)).size).toBe(1);
    expect(await runningNow()).toBe(1);
    await finish(made[0].id);
    expect(await start(body)).toMatchObject({ id: made[0].id, state: 'finished' });
    expect((await post({ ...body, cost_impact: 2 })).status).toBe(409);
  });

  test('one that is not observed in its time gives up its slot, and hears of that', async () => {
    const [lost, alive] = [await start(), await start()];
    expect((await start()).state).toBe('denied');
    await letTimePass([lost.id]);
    const beat = await tenant.admin.post(path(`/${alive.id}/heartbeat`), undefined);
    expect([beat.status, beat.body.state]).toEqual([200, 'running']);
    expect(Date.parse(beat.body.expires_at)).toBeGreaterThan(Date.parse(alive.expires_at));
    expect((await start()).state).toBe('running');
    expect((await get(lost.id)).state).toBe('expired');
    expect((await tenant.admin.post(path(`/${lost.id}/heartbeat`), undefined)).status).toBe(409);
    expect((await finish(lost.id)).status).toBe(409);
  });

  test('a heartbeat that came in time keeps the slot, however long its commit takes', async () => {
    await limitTo(1);
    const { id } = await start();
    const slots = await holdLock(
      database,
      `SELECT FROM notifier.automation_tenants WHERE tenant_id = '${tenant.id}' FOR UPDATE`,
    );
    await letTimePass([id]);
    const heartbeat = await holdLock(
      database,
      `UPDATE notifier.automations SET expires_at = expires_at + interval '5 minutes' WHERE id = $1`,
      [id],
    );
    await slots.release();
    // Whoever ends what has had its time.
    await heartbeat.untilWaiting(1);
    await heartbeat.commit();
    const next = await start();
    expect([await get(id), next]).toMatchObject([
      { state: 'running', ended_at: null },
      { state: 'denied' },
    ]);
  });

  test('thousands whose time is up at once are ended, a part at a time, and hold up no other tenant', async () => {
    await database.query(
      `INSERT INTO notifier.automations (id, tenant_id, state, intent, decided, ttl_seconds, requested_by, request_id, request_hash, created_at, granted_at, expires_at)
       SELECT gen_random_uuid(), $1, 'waiting_slot', '{"action":"scale","risk_level":"low"}', '{"decision":"allow","reasons":[],"revision":{"tenant":1,"platform":0}}',
         600, '{"type":"user","id":"x"}', 'r', 'h', now(), now(), now() + interval '1 hour' FROM generate_series(1, 2500)`,
      [tenant.id],
    );
    const other = await createTenantWith(strata.url, platform, `Beside ${randomUUID()}`);
    const { body } = await other.admin.post(`/tenants/${other.id}/automations`, plain);
    await start();
    // Whoever holds the slots keeps anybody from settling them.
    const lock = await holdLock(
      database,
      `SELECT FROM notifier.automation_tenants WHERE tenant_id = '${tenant.id}' FOR UPDATE`,
    );
    await database.query(
      `UPDATE notifier.automations SET expires_at = now() - interval '1 minute' WHERE state = 'waiting_slot' AND tenant_id = $1`,
      [tenant.id],
    );
    await letTimePass([body.id]);
    await eventually(async () => {
      const { body: now } = await other.admin.get(`/tenants/${other.id}/automations/${body.id}`);
      expect(now.state).toBe('expired');
    });
    await lock.release();
    await eventually(async () => {
      const { body: page } = await tenant.admin.get(path('?state=waiting_slot&limit=1'));
      expect(page.items).toEqual([]);
    });
    const batches = await database.query<{ ended: number }>(
      `SELECT count(*)::int AS ended FROM notifier.automations WHERE tenant_id = $1 AND state = 'expired' GROUP BY xmin::text`,
      [tenant.id],
    );
    expect(Math.max(...batches.map(({ ended }) => ended))).toBeLessThanOrEqual(1000);
  });

  test('one that needs approval starts when it is granted', async () => {
    const asked = await start({ risk_level: 'high', service_type: 'cloud_run', title: 'Scale up' });
    expect(asked).toMatchObject({ state: 'waiting_approval', decision: 'approval_required' });
    const approvals = await tenant.admin.get(`/tenants/${tenant.id}/approvals`);
    expect(approvals.body.items).toMatchObject([
      { id: asked.approval_id, title: 'Scale up', risk_level: 'high', state: 'pending' },
    ]);
    expect(await runningNow()).toBe(0);
    const waited = get(asked.id, '?wait=20');
    await decideOn(asked.approval_id, 'approve');
    expect(await waited).toMatchObject({ state: 'running', decision: 'approval_required' });

    const refused = await start({ risk_level: 'high' });
    await decideOn(refused.approval_id, 'deny');
    expect(await get(refused.id, '?wait=20')).toMatchObject({
      state: 'denied',
      approval_id: refused.approval_id,
    });
  });

  test('who waits for one is answered by the rights at that moment', async () => {
    const asked = (await post({ risk_level: 'high' }, tenant.operator)).body;
    const { id } = (await tenant.operator.get('/auth/me')).body.user;
    const member = `/tenants/${tenant.id}/users/${id}`;
    const wait = (state: string): Promise<Answer> =>
      tenant.operator.get(path(`/${asked.id}?state=${state}&wait=20`));
    const starting = wait('waiting_approval');
    // Answered after the other one was let in.
    await get(asked.id);
    await tenant.admin.patch(member, { roles: ['reviewer'] });
    const approval = `/tenants/${tenant.id}/approvals/${asked.approval_id}/decision`;
    expect((await tenant.admin.post(approval, { decision: 'approve' })).status).toBe(200);
    const { status, body } = await starting;
    // A reviewer sees it, and is given nothing to act by.
    expect([status, body.state, body.grant]).toEqual([200, 'running', undefined]);
    expect((await get(asked.id)).grant).toEqual(expect.any(String));
    const ending = wait('running');
    await get(asked.id);
    await tenant.admin.delete(member);
    await finish(asked.id);
    expect((await ending).body.detail.code).toBe('tenant_mismatch');
  });

  test('one that is withdrawn while it waits withdraws its approval', async () => {
    const asked = await start({ risk_level: 'high' });
    const approval = `/tenants/${tenant.id}/approvals/${asked.approval_id}`;
    const waited = tenant.admin.get(`${approval}?wait=20`);
    expect((await finish(asked.id, 'not needed')).body.state).toBe('finished');
    expect((await waited).body).toMatchObject({ state: 'withdrawn', decision: null });
    const late = await decideOn(asked.approval_id, 'approve');
    expect([late.status, late.body.detail.code]).toEqual([409, 'conflict']);
    expect((await get(asked.id)).state).toBe('finished');

    const granted = await start({ risk_level: 'high' });
    await decideOn(granted.approval_id, 'approve');
    await get(granted.id, '?wait=20');
    await finish(granted.id);
    const { body } = await tenant.admin.get(
      `/tenants/${tenant.id}/approvals/${granted.approval_id}`,
    );
    expect(body.state).toBe('approved');
  });

  test('what was granted waits for slots in the order of the grants', async () => {
    const running = [await start(), await start()];
    const waiting = [];
    for (let n = 0; n < 3; n += 1) waiting.push(await start({ risk_level: 'high' }));
    for (const { approval_id: id } of waiting.toReversed()) await decideOn(id, 'approve');
    for (const { id } of waiting)
      expect((await get(id, '?state=waiting_approval&wait=20')).state).toBe('waiting_slot');
    // Nobody overtakes them.
    await finish(running[0].id);
    const late = await start();
    expect(late.state).toBe('denied');
    expect((await get(waiting[2].id, '?wait=20')).state).toBe('running');
    expect((await get(waiting[1].id)).state).toBe('waiting_slot');
    await finish(running[1].id);
    expect((await get(waiting[1].id, '?wait=20')).state).toBe('running');
    expect((await finish(waiting[0].id, 'withdrawn')).body.state).toBe('finished');
  });

  test('an approval does not outlive the limits: what they deny by then is denied', async () => {
    const asked = await start({ risk_level: 'high' });
    await patchRisk({ automation_enabled: false });
    await decideOn(asked.approval_id, 'approve');
    const denied = await get(asked.id, '?wait=20');
    expect([denied.state, denied.reasons[0].rule]).toEqual(['denied', 'automation_enabled']);

    await patchRisk({ automation_enabled: true });
    const late = await start({ risk_level: 'high' });
    await limitTo(0);
    await decideOn(late.approval_id, 'approve');
    const none = await get(late.id, '?wait=20');
    expect([none.state, none.reasons[0].rule]).toEqual(['denied', 'too_many_automations']);
  });

  test('an approval that was granted while no one could act on it is acted on later', async () => {
    const asked = await start({ risk_level: 'high' });
    // Nor is the tenant about to be looked at for what was configured before.
    await database.query(
      `INSERT INTO notifier.automation_tenants (tenant_id, look_at) VALUES ($1, now())
       ON CONFLICT (tenant_id) DO UPDATE SET look_at = now()`,
      [tenant.id],
    );
    await eventually(async () => {
      const [row] = await database.query<{ look_at: Date | null }>(
        'SELECT look_at FROM notifier.automation_tenants WHERE tenant_id = $1',
        [tenant.id],
      );
      expect(row!.look_at).toBeNull();
    });
    // As a node that died right after the decision leaves it: nobody was told.
    await database.query(
      `UPDATE notifier.approvals SET state = 'approved', decided_by = 'x', decided_at = now(), via = 'api' WHERE id = $1`,
      [asked.approval_id],
    );
    expect((await get(asked.id, '?wait=20')).state).toBe('running');
  });

  test('what waits for a slot starts when the limit is raised', async () => {
    await limitTo(1);
    await start();
    const waiting = await start({ risk_level: 'high' });
    await decideOn(waiting.approval_id, 'approve');
    expect((await get(waiting.id, '?state=waiting_approval&wait=20')).state).toBe('waiting_slot');
    await eventually(async () => expect(await isLookedAtLater()).toBe(true));
    await limitTo(2);
    expect((await get(waiting.id, '?wait=20')).state).toBe('running');
  });

  test('nothing of a disabled tenant starts, however it comes to a slot, until it is enabled', async () => {
    await limitTo(1);
    const running = await start();
    const [first, second] = [
      await start({ risk_level: 'high' }),
      await start({ risk_level: 'high' }),
    ];
    await decideOn(first.approval_id, 'approve');
    expect((await get(first.id, '?state=waiting_approval&wait=20')).state).toBe('waiting_slot');
    const statusOf = (status: string): Promise<Answer> =>
      platform.patch(`/tenants/${tenant.id}`, { status });
    expect((await statusOf('disabled')).status).toBe(200);
    // As it was granted right before that, by a node that died.
    await database.query(
      `UPDATE notifier.approvals SET state = 'approved', decided_by = 'x', decided_at = now(), via = 'api' WHERE id = $1`,
      [second.approval_id],
    );
    await letTimePass([running.id]);
    const states = async (): Promise<string[]> => {
      const rows = await database.query<{ state: string }>(
        'SELECT state FROM notifier.automations WHERE tenant_id = $1 ORDER BY created_at',
        [tenant.id],
      );
      return rows.map(({ state }) => state);
    };
    await eventually(async () =>
      expect(await states()).toEqual(['expired', 'waiting_slot', 'waiting_slot']),
    );
    await eventually(async () => expect(await isLookedAtLater()).toBe(true));
    expect(await states()).toEqual(['expired', 'waiting_slot', 'waiting_slot']);
    expect((await statusOf('active')).status).toBe(200);
    expect((await get(first.id, '?wait=20')).state).toBe('running');
  });

  test('one whose requester was removed, or whose key was revoked, does not start when it is its turn', async () => {
    await limitTo(1);
    const running = await start();
    const member = { email: `asker-${randomUUID()}@slots.example`, roles: ['operator'] };
    const asker = await addMember(tenant.admin, tenant.id, member);
    const key = await tenant.admin.post('/auth/api-key', {
      name: 'leaked',
      scopes: ['automations:write'],
    });
    const waiting = [];
    for (const by of [asker.client, new Client(strata.url, key.body.api_key), tenant.admin]) {
      const { body } = await post({ risk_level: 'high' }, by);
      expect((await decideOn(body.approval_id, 'approve')).status).toBe(200);
      waiting.push(await get(body.id, '?state=waiting_approval&wait=20'));
    }
    expect(waiting.map(({ state }) => state)).toEqual(waiting.map(() => 'waiting_slot'));
    const removed = [
      await tenant.admin.delete(`/tenants/${tenant.id}/users/${asker.user_id}`),
      await tenant.admin.delete(`/auth/api-keys/${key.body.id}`),
    ];
    expect(removed.map(({ status }) => status)).toEqual([204, 204]);
    await finish(running.id);
    const [, , last] = waiting;
    expect((await get(last.id, '?wait=20')).state).toBe('running');
    const states = await Promise.all(waiting.map(async ({ id }) => (await get(id)).state));
    expect(states).toEqual(['denied', 'denied', 'running']);
  });

  test('what is under way while its tenant is disabled neither starts nor is redeemed', async () => {
    const { id, action_digest } = await start();
    const slots = 'SELECT FROM notifier.automation_tenants WHERE tenant_id = $1 FOR UPDATE';
    const lock = await holdLock(database, slots, [tenant.id]);
    const late = [
      post(),
      tenant.operator.post(path(`/${id}/redeem`), { action_digest, executor: 'runner' }),
    ];
    await lock.untilWaiting(late.length);
    const disabled = await platform.patch(`/tenants/${tenant.id}`, { status: 'disabled' });
    expect(disabled.status).toBe(200);
    await lock.release();
    const codes = (await Promise.all(late)).map(({ body }) => body.detail?.code);
    expect(codes).toEqual(late.map(() => 'auth_tenant_disabled'));
    const rows = await database.query<{ redeemed_at: Date | null }>(
      'SELECT redeemed_at FROM notifier.automations WHERE tenant_id = $1',
      [tenant.id],
    );
    expect(rows).toEqual([{ redeemed_at: null }]);
  });

  test('what is under way while its caller loses the right neither starts nor is redeemed', async () => {
    const { id, action_digest } = await start();
    const member = { email: `leaver-${randomUUID()}@slots.example`, roles: ['operator'] };
    const leaver = await addMember(tenant.admin, tenant.id, member);
    const made = await tenant.admin.post('/auth/api-key', {
      name: 'leaked',
      scopes: ['automations:write'],
    });
    const key = new Client(strata.url, made.body.api_key);
    const slots = 'SELECT FROM notifier.automation_tenants WHERE tenant_id = $1 FOR UPDATE';
    const lock = await holdLock(database, slots, [tenant.id]);
    const accounts = `/tenants/${tenant.id}/service-accounts`;
    const account = await tenant.admin.post(accounts, { name: 'ci', roles: ['operator'] });
    const ofAccount = await tenant.admin.post(`${accounts}/${account.body.id}/api-keys`, {
      name: 'ci',
      scopes: ['automations:write'],
    });
    const late = [
      post({}, key),
      key.post(path(`/${id}/redeem`), { action_digest, executor: 'runner' }),
      post({}, leaver.client),
      post({}, new Client(strata.url, ofAccount.body.api_key)),
    ];
    await lock.untilWaiting(late.length);
    const disabled = { status: 'disabled' };
    expect((await tenant.admin.patch(`${accounts}/${account.body.id}`, disabled)).status).toBe(200);
    const taken = [
      await tenant.admin.delete(`/auth/api-keys/${made.body.id}`),
      await tenant.admin.delete(`/tenants/${tenant.id}/users/${leaver.user_id}`),
    ];
    expect(taken.map(({ status }) => status)).toEqual([204, 204]);
    await lock.release();
    const codes = (await Promise.all(late)).map(({ body }) => body.detail?.code);
    const [byKey, byRole] = ['auth_api_key_invalid', 'insufficient_role'];
    expect(codes).toEqual([byKey, byKey, byRole, byRole]);
    expect(await runningNow()).toBe(1);
    expect((await get(id)).redeemed_at).toBeUndefined();
  });

  describe('where more wait than one look starts', () => {
    const grantedOne = async (body: object = {}) => {
      const waiting = await start({ risk_level: 'high', ...body });
      await decideOn(waiting.approval_id, 'approve');
      return waiting.id as string;
    };
    /** Waits for a slot, as do sixty more like it. */
    async function sixtyWait(body: object = {}): Promise<void> {
      const id = await grantedOne(body);
      expect((await get(id, '?state=waiting_approval&wait=20')).state).toBe('waiting_slot');
      await database.query(
        `INSERT INTO notifier.automations
         SELECT (json_populate_record(a, json_build_object('id', gen_random_uuid(), 'approval_id', NULL))).*
         FROM notifier.automations a, generate_series(1, 60) WHERE a.id = $1`,
        [id],
      );
    }

    test('all of them start without another event', async () => {
      await limitTo(1);
      await start();
      await sixtyWait();
      await limitTo(100);
      await eventually(async () => expect(await runningNow()).toBe(62), 30_000);
    });

    test('those whose own limit is reached hold up no others', async () => {
      const service = `/tenants/${tenant.id}/services/slow`;
      expect((await tenant.admin.put(service, { service_type: 'cloud_run' })).status).toBe(201);
      await tenant.admin.patch(`/tenants/${tenant.id}/config/risk`, {
        service_overrides: { cloud_run: { max_concurrent_automations: 1 } },
      });
      const slow = { service_id: 'slow' };
      await start(slow);
      await sixtyWait(slow);
      expect((await get(await grantedOne(), '?wait=20')).state).toBe('running');
    });
  });

  test('one that is finished frees its slot also where the node ends with the commit', async () => {
    await limitTo(1);
    const running = await start();
    const waiting = await start({ risk_level: 'high' });
    await decideOn(waiting.approval_id, 'approve');
    expect((await get(waiting.id, '?state=waiting_approval&wait=20')).state).toBe('waiting_slot');
    await eventually(async () => expect(await isLookedAtLater()).toBe(true));
    // Nobody gives slots in the tenant: as if whoever would had died.
    const lock = await holdLock(
      database,
      `SELECT FROM notifier.automations WHERE id = '${waiting.id}' FOR UPDATE`,
    );
    try {
      expect((await finish(running.id)).status).toBe(200);
      expect(await isLookedAtLater()).toBe(false);
    } finally {
      await lock.release();
    }
    expect((await get(waiting.id, '?wait=20')).state).toBe('running');
  });

  test('a change that the feed alone tells of answers who waits for it', async () => {
    const running = await start();
    const held = get(running.id, '?state=running&wait=20');
    const began = performance.now();
    // As a node that died with the commit leaves it: nobody was told.
    await database.query(
      `WITH finished AS (
       UPDATE notifier.automations SET state = 'finished', outcome = 'x', ended_at = now(), expires_at = NULL WHERE id = $1)
     INSERT INTO strata.changes (id, scope, revision, keys, created_at)
     VALUES (pg_current_xact_id(), 'automations:' || $2::text, 1, '{}', clock_timestamp())`,
      [running.id, tenant.id],
    );
    expect((await held).state).toBe('finished');
    expect(performance.now() - began).toBeLessThan(15_000);
  });

  test('askers that meet at the lock never get more slots than there are', async () => {
    const first = await start();
    await finish(first.id);
    await limitTo(5);
    const lock = await holdLock(
      database,
      'SELECT tenant_id FROM notifier.automation_tenants WHERE tenant_id = $1 FOR UPDATE',
      [tenant.id],
    );
    const asked = Promise.all(Array.from({ length: 8 }, () => start()));
    await lock.untilWaiting(8);
    await lock.release();
    const states = (await asked).map(({ state }) => state).sort();
    expect(states).toEqual([...Array(3).fill('denied'), ...Array(5).fill('running')]);
  });

  test('64 askers and finishers at once: never more than the limit runs', async () => {
    await limitTo(3);
    let most = 0;
    const over = { yet: false };
    const watching = (async () => {
      while (!over.yet) {
        const [row] = await database.query<{ running: number }>(
          `SELECT count(*)::int AS running FROM notifier.automations WHERE tenant_id = $1 AND state = 'running'`,
          [tenant.id],
        );
        most = Math.max(most, row!.running);
      }
    })();
    const ran = await Promise.all(
      Array.from({ length: 64 }, async (_each, index) => {
        const { id, state } = await start({ idempotency_key: `k${index}` });
        if (state !== 'running') return 0;
        expect((await finish(id)).status).toBe(200);
        return 1;
      }),
    );
    over.yet = true;
    await watching;
    expect(most).toBeLessThanOrEqual(3);
    expect(ran.filter((one) => one === 1).length).toBeGreaterThanOrEqual(3);
    expect(await runningNow()).toBe(0);
  });

  test('a limit that was lowered holds for whoever asked before it was, too', async () => {
    const warm = await start();
    await finish(warm.id);
    const lock = await holdLock(
      database,
      'SELECT tenant_id FROM notifier.automation_tenants WHERE tenant_id = $1 FOR UPDATE',
      [tenant.id],
    );
    // It has decided by the old limit, and waits for the lock.
    const asked = start();
    await lock.untilWaiting(1);
    await patchRisk({ automation_enabled: false });
    await lock.release();
    expect(await asked).toMatchObject({ state: 'denied', decision: 'deny' });
  });

  soakTest('configuration that changes all the time keeps no one from starting', async () => {
    await limitTo(1000);
    const over = { yet: false };
    const writing = Array.from({ length: 6 }, async (_each, lane) => {
      for (let n = 0; !over.yet; n += 1)
        await patchRisk({ max_cost_impact_auto: (lane * 100 + n) % 50 });
    });
    const states = [];
    for (let n = 0; n < 8; n += 1) states.push((await start({ cost_impact: 0 })).state);
    over.yet = true;
    await Promise.all(writing);
    expect(states).toEqual(Array(8).fill('running'));
  });

  test('only who started one, or an administrator, says how it goes', async () => {
    const mine = (await post({}, tenant.operator)).body;
    const other = await post({});
    const foreign = await finish(other.body.id, 'x', tenant.operator);
    expect([foreign.status, foreign.body.detail.code]).toEqual([403, 'insufficient_role']);
    expect((await finish(mine.id, 'x', tenant.operator)).status).toBe(200);
    const viewer = { email: `${randomUUID()}@viewer.example`, roles: ['viewer'] };
    const { client } = await addMember(tenant.admin, tenant.id, viewer);
    expect((await post({}, client)).status).toBe(403);
    expect((await finish(randomUUID())).status).toBe(404);
  });

  test('every state that an automation comes to is in the audit', async () => {
    const one = await start();
    await finish(one.id);
    await start({ cost_impact: 51 });
    const events = async () => {
      const { body } = await tenant.admin.get(`/audit/events?tenant_id=${tenant.id}&limit=200`);
      return body.items.map(({ action }: { action: string }) => action);
    };
    await eventually(async () =>
      expect(await events()).toEqual(
        expect.arrayContaining(['automation.started', 'automation.finished', 'automation.denied']),
      ),
    );
  });
});
