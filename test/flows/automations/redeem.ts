/** Exactly this action, once: what an executor is told right before it acts. */
import { beforeEach, describe, expect, test } from '@jest/globals';
import { createRemoteJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose';
import { randomUUID } from 'node:crypto';
import { digestOf, type ExactAction } from '../../../services/notifier/rules/action-digest.ts';
import { eventually } from '../../support/cluster.ts';
import { grown } from '../../support/grown.ts';
import { holdLock } from '../../support/held-lock.ts';
import { runPasted } from '../../support/pasted.ts';
import { soakTest } from '../../support/soak.ts';
import { Client, createTenantWith, startStrata, type TenantWith } from '../../support/strata.ts';
import { database, platform, settings, strata } from './strata.ts';

describe('an action is redeemed', () => {
  let tenant: TenantWith<'operator'>;

  beforeEach(async () => {
    tenant = await createTenantWith(strata.url, platform, `Redeem ${randomUUID()}`, ['operator']);
    await grown(database, tenant.id);
  });

  const path = (rest = ''): string => `/tenants/${tenant.id}/automations${rest}`;
  const exact = { resource: { name: 'checkout-api' }, parameters: { min_instances: 4 } };
  async function start(body: object = {}) {
    const answer = await tenant.admin.post(path(), {
      action: 'scale',
      risk_level: 'low',
      ...exact,
      ...body,
    });
    expect([answer.status, answer.text]).toEqual([201, expect.any(String)]);
    return answer.body;
  }
  const redeem = (id: string, action_digest: string, executor = 'runner') =>
    tenant.operator.post(path(`/${id}/redeem`), { action_digest, executor });
  const codeOf = async (id: string, digest: string): Promise<unknown[]> => {
    const { status, body } = await redeem(id, digest);
    return [status, body.detail?.code];
  };
  const stop = () =>
    tenant.admin.patch(`/tenants/${tenant.id}/config/bounds`, {
      automation_enabled: { const: false },
    });

  test('an action is redeemed once, with all of it, and stays consumed', async () => {
    const { id, action_digest: digest } = await start();
    const { status, body } = await redeem(id, digest);
    expect([status, body]).toMatchObject([
      200,
      { ...exact, action_digest: digest, redeemed_by: 'runner', redeemed_at: expect.any(String) },
    ]);
    expect(await codeOf(id, digest)).toEqual([409, 'grant_used']);
    await tenant.admin.post(path(`/${id}/finish`), { outcome: 'failed' });
    expect(await codeOf(id, digest)).toEqual([409, 'grant_used']);
  });

  test('the example of the documentation runs as pasted', async () => {
    const service = `/tenants/${tenant.id}/services/checkout`;
    await tenant.admin.put(service, { service_type: 'cloud_run' });
    const output = runPasted('docs/operations/exact-actions.md', 'Exactly this action', {
      STRATA: strata.url,
      TOKEN: tenant.operator.token,
      TENANT: tenant.id,
    });
    expect(output.map((line) => JSON.parse(line) as object)).toEqual([
      expect.objectContaining({ redeemed_by: 'runner-7' }),
    ]);
  });

  test('another action is refused, which the audit says, and consumes nothing', async () => {
    const first = await start();
    const second = await start({ parameters: { min_instances: 400 } });
    expect(second.action_digest).not.toBe(first.action_digest);
    expect(await codeOf(first.id, second.action_digest)).toEqual([422, 'digest_mismatch']);
    const allowed: ExactAction = {
      tenant: tenant.id,
      action: 'scale',
      agent_type: null,
      service_id: null,
      service_type: null,
      ...exact,
      cost_impact: null,
      resource_scaling: null,
      is_rollback: null,
    };
    expect(digestOf(allowed)).toBe(first.action_digest);
    for (const field of Object.keys(allowed))
      for (const other of [0, '', false, [], { min_instances: 5 }]) {
        const mutated = digestOf({ ...allowed, [field]: other });
        expect(await codeOf(first.id, mutated)).toEqual([422, 'digest_mismatch']);
      }
    await eventually(async () => {
      const events = await tenant.admin.get(
        `/audit/events?action=automation.redeem_refused&tenant_id=${tenant.id}`,
      );
      expect(events.body.items[0]).toMatchObject({
        target: first.id,
        payload: { executor: 'runner', refused: 'digest_mismatch' },
      });
    });
    expect((await redeem(first.id, first.action_digest)).status).toBe(200);
  });

  test('what has ended, waits or was stopped is not redeemed', async () => {
    const finished = await start();
    await tenant.admin.post(path(`/${finished.id}/finish`), { outcome: 'done' });
    const waiting = await start({ risk_level: 'high' });
    const expired = await start();
    await database.query(
      `UPDATE notifier.automations SET expires_at = notifier.slot_now() - interval '1 second' WHERE id = $1`,
      [expired.id],
    );
    const frozen = await start();
    for (const { id, action_digest: digest } of [finished, waiting, expired])
      expect(await codeOf(id, digest)).toEqual([410, 'automation_over']);
    const always = { start: '00:00', end: '00:00', timezone: 'UTC' };
    const days = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'];
    const freezes = `/tenants/${tenant.id}/config/freezes`;
    await tenant.admin.put(freezes, { f: { during: [{ days, ...always }] } });
    expect(await codeOf(frozen.id, frozen.action_digest)).toEqual([410, 'automation_over']);
    await tenant.admin.delete(freezes);
    expect((await redeem(frozen.id, frozen.action_digest)).status).toBe(200);
  });

  test('executors that meet redeem it once', async () => {
    const { id, action_digest: digest } = await start();
    const lock = await holdLock(
      database,
      'SELECT tenant_id FROM notifier.automation_tenants WHERE tenant_id = $1 FOR UPDATE',
      [tenant.id],
    );
    const asked = Promise.all(Array.from({ length: 8 }, (_, n) => redeem(id, digest, `r${n}`)));
    await lock.untilWaiting(8);
    await lock.release();
    const statuses = (await asked).map(({ status }) => status).sort();
    expect(statuses).toEqual([200, ...Array(7).fill(409)]);
  });

  test('an emergency stop that was answered is followed by no redemption', async () => {
    const { id, action_digest: digest } = await start();
    const lock = await holdLock(
      database,
      'SELECT tenant_id FROM notifier.automation_tenants WHERE tenant_id = $1 FOR UPDATE',
      [tenant.id],
    );
    // It has been decided by what held before, and waits for the lock.
    const asked = codeOf(id, digest);
    await lock.untilWaiting(1);
    expect((await stop()).status).toBe(200);
    await lock.release();
    expect(await asked).toEqual([410, 'automation_over']);
  });

  const redeemGrant = async (id: string, grant: string): Promise<unknown[]> => {
    const { status, body } = await tenant.operator.post(path(`/${id}/redeem`), {
      grant,
      executor: 'runner',
    });
    return [status, body.detail?.code];
  };

  test('a grant is verified by others, with the keys that Strata publishes', async () => {
    const waiting = await start({ risk_level: 'high', audience: 'payments-gateway' });
    expect(waiting.grant).toBeUndefined();
    const decision = `/tenants/${tenant.id}/approvals/${waiting.approval_id}/decision`;
    expect((await tenant.operator.post(decision, { decision: 'approve' })).status).toBe(200);
    const { body: running } = await tenant.admin.get(path(`/${waiting.id}?wait=20`));
    const published = await new Client(strata.url).get('/.well-known/jwks.json');
    expect([published.status, published.headers.get('cache-control')]).toEqual([
      200,
      'public, max-age=300',
    ]);
    const keys = createRemoteJWKSet(new URL(`${strata.url}/.well-known/jwks.json`));
    const { payload } = await jwtVerify(running.grant, keys, {
      typ: 'strata-grant+jws',
      algorithms: ['EdDSA'],
      audience: 'payments-gateway',
    });
    expect(payload).toMatchObject({
      jti: `${waiting.id}.1`,
      tenant: tenant.id,
      action_digest: waiting.action_digest,
      revision: waiting.revision,
      approval: {
        id: waiting.approval_id,
        approved_by: [{ type: 'user', id: expect.any(String), at: expect.any(String) }],
        policy: { required: 1 },
      },
    });
    const beat = await tenant.admin.post(path(`/${waiting.id}/heartbeat`));
    const renewed = decodeJwt(beat.body.grant);
    expect(renewed.jti).toBe(payload.jti);
    expect(renewed.exp! * 1000).toBeLessThanOrEqual(Date.parse(beat.body.expires_at));
    expect(await redeemGrant(waiting.id, beat.body.grant)).toEqual([200, undefined]);
    expect(await redeemGrant(waiting.id, beat.body.grant)).toEqual([409, 'grant_used']);
    const { body: redeemed } = await tenant.admin.get(path(`/${waiting.id}`));
    expect(redeemed.grant).toBeUndefined();
  });

  test('what is no grant of the automation redeems nothing', async () => {
    const first = await start();
    const second = await start();
    expect(await redeemGrant(first.id, second.grant)).toEqual([422, 'grant_invalid']);
    expect(await redeemGrant(first.id, tenant.admin.token!)).toEqual([422, 'grant_invalid']);
    const [header, payload] = first.grant.split('.');
    expect(await redeemGrant(first.id, `${header}.${payload}.`)).toEqual([422, 'grant_invalid']);
    const both = { grant: first.grant, action_digest: '0'.repeat(64), executor: 'runner' };
    const { body } = await tenant.operator.post(path(`/${first.id}/redeem`), both);
    expect(body.detail.code).toBe('digest_mismatch');
    const neither = await tenant.operator.post(path(`/${first.id}/redeem`), { executor: 'runner' });
    expect(neither.status).toBe(422);
  });

  test('a grant is redeemed in its time', async () => {
    const { id, grant } = await start({ ttl_seconds: 5 });
    const end = decodeJwt(grant).exp! * 1000;
    await eventually(async () => {
      await tenant.admin.post(path(`/${id}/heartbeat`));
      const [row] = await database.query<{ now: Date }>('SELECT notifier.slot_now() AS now');
      expect(row!.now.getTime()).toBeGreaterThan(end);
    });
    expect((await tenant.admin.get(path(`/${id}`))).body.state).toBe('running');
    expect(await redeemGrant(id, grant)).toEqual([410, 'automation_over']);
    const { body } = await tenant.admin.get(path(`/${id}`));
    expect(await redeemGrant(id, body.grant)).toEqual([200, undefined]);
  });

  test('a grant is shown to no one who could not redeem it', async () => {
    const { id } = await start();
    const made = await tenant.admin.post('/auth/api-key', {
      name: 'r',
      scopes: ['automations:read'],
    });
    const reader = await new Client(strata.url, made.body.api_key).get(path(`/${id}`));
    expect([reader.status, reader.body.id, reader.body.grant]).toEqual([200, id, undefined]);
    const { body: listed } = await tenant.admin.get(path());
    expect(listed.items[0]).toMatchObject({ id });
    expect(listed.items[0].grant).toBeUndefined();
  });

  soakTest('keys are rotated in time, and what the previous one signed is accepted', async () => {
    const before = await start();
    await database.query(`UPDATE notifier.grant_keys SET created_at = now() - interval '31 days'`);
    const own = await startStrata(settings());
    try {
      const { body: first } = await new Client(own.url).get('/.well-known/jwks.json');
      expect(first.keys).toHaveLength(2);
      // The new one was published, and signs once others can know it.
      const admin = new Client(own.url, tenant.admin.token);
      const { body: soon } = await admin.get(path(`/${before.id}`));
      expect(soon.grant).toBe(before.grant);
      await database.query(
        `UPDATE notifier.grant_keys SET created_at = created_at - interval '11 minutes'`,
      );
    } finally {
      await own.stop('SIGKILL');
    }
    const later = await startStrata(settings());
    try {
      const admin = new Client(later.url, tenant.admin.token);
      const { body: now } = await admin.get(path(`/${before.id}`));
      expect(decodeProtectedHeader(now.grant).kid).not.toBe(
        decodeProtectedHeader(before.grant).kid,
      );
      const redeemed = await admin.post(path(`/${before.id}/redeem`), {
        grant: before.grant,
        executor: 'runner',
      });
      expect(redeemed.status).toBe(200);
    } finally {
      await later.stop('SIGKILL');
    }
  });

  test('people who approve are shown exactly what they approve', async () => {
    const { approval_id: approval } = await start({ risk_level: 'high' });
    const { body } = await tenant.operator.get(`/tenants/${tenant.id}/approvals/${approval}`);
    expect(body.resource).toEqual(exact);
  });

  test('what looks like a secret is refused', async () => {
    const { status, body } = await tenant.admin.post(path(), {
      action: 'scale',
      risk_level: 'low',
      parameters: { database: { password: 'x' } },
    });
    expect([status, body.errors[0].path]).toEqual([422, '/parameters/database/password']);
  });
});
