/**
 * Escalation: time passes by moving an approval's timers back in the database. By the real clock:
 * `minutes.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '../../support/cluster.ts';
import { startReceiver, type Received, type Receiver } from '../../support/receiver.ts';
import { soakTest } from '../../support/soak.ts';
import { addMember, createTenant, type TenantFixture } from '../../support/strata.ts';
import { database, platform, strata } from './strata.ts';

describe('escalation', () => {
  let tenant: TenantFixture;
  let receiver: Receiver;
  const groups = { risk_levels: { high: ['sre', 'leads'] } };

  beforeAll(async () => {
    receiver = await startReceiver();
    tenant = await createTenant(strata.url, platform, 'Escalation');
  });
  afterAll(async () => {
    await receiver?.close();
  });

  async function ask(escalation: object, more: object = {}): Promise<string> {
    const config = { webhook: { url: receiver.url }, approver_groups: groups, escalation };
    expect(
      (await tenant.admin.put(`/tenants/${tenant.id}/config/notifications`, config)).status,
    ).toBeLessThan(300);
    const made = await tenant.operator.post(`/tenants/${tenant.id}/approvals`, {
      action: 'scale',
      risk_level: 'high',
      title: 'Scale up',
      ...more,
    });
    expect(made.status).toBe(202);
    await notices(made.body.id, 1);
    return made.body.id;
  }
  const of =
    (id: string) =>
    ({ body }: Received): boolean =>
      body.data.approval_id === id;
  const notices = (id: string, count: number): Promise<Received[]> => receiver.wait(of(id), count);
  const summaries = (all: readonly Received[]): string[] =>
    all.map(({ body: { type, data } }) => `${type} ${data.hop} ${data.current_group}`);
  /** Lets minutes pass for one approval. */
  const letPass = (id: string, minutes: number) =>
    database.query(
      `UPDATE notifier.approvals SET escalates_at = escalates_at - interval '${minutes} minutes', expires_at = expires_at - interval '${minutes} minutes', created_at = created_at - interval '${minutes} minutes', reminds_at = reminds_at - interval '${minutes} minutes' WHERE id = '${id}'`,
    );
  const read = async (id: string) =>
    (await tenant.admin.get(`/tenants/${tenant.id}/approvals/${id}`)).body;
  /** Resolves when two polls of the escalation have passed: whatever was due has fired. */
  const twoPolls = () => new Promise((resolve) => setTimeout(resolve, 2500));

  describe('with windows of 10 minutes', () => {
    test('each window fires a hop to the next group, the last group again, then it is exhausted', async () => {
      const id = await ask({ escalation_window_minutes: 10, max_hops: 2 });
      for (const count of [2, 3, 4]) {
        await letPass(id, 10);
        await notices(id, count);
      }
      expect(summaries(await notices(id, 4))).toEqual([
        'approval.requested 0 sre',
        'approval.escalated 1 leads',
        'approval.escalated 2 leads',
        'approval.exhausted 2 leads',
      ]);
      expect(await read(id)).toMatchObject({ state: 'exhausted', hop: 2, escalates_at: null });
      expect(
        (
          await tenant.admin.post(`/tenants/${tenant.id}/approvals/${id}/decision`, {
            decision: 'approve',
          })
        ).status,
      ).toBe(409);
    });

    soakTest('after an outage of many windows one hop fires, not all of them', async () => {
      const id = await ask({ escalation_window_minutes: 10, max_hops: 5 });
      await letPass(id, 100);
      await notices(id, 2);
      await twoPolls();
      expect(summaries(receiver.received.filter(of(id)))).toEqual([
        'approval.requested 0 sre',
        'approval.escalated 1 leads',
      ]);
      const { escalates_at: next, expires_at: end } = await read(id);
      expect(Date.parse(next) - Date.now()).toBeGreaterThan(9 * 60_000);
      expect(Date.parse(end)).toBeGreaterThanOrEqual(Date.parse(next) + 40 * 60_000 - 1000);
    });

    test('a decision ends escalation', async () => {
      const id = await ask({ escalation_window_minutes: 10, max_hops: 2 });
      await letPass(id, 10);
      await notices(id, 2);
      await tenant.admin.post(`/tenants/${tenant.id}/approvals/${id}/decision`, {
        decision: 'deny',
      });
      await notices(id, 3);
      await letPass(id, 60);
      await twoPolls();
      expect(summaries(receiver.received.filter(of(id)))).toEqual([
        'approval.requested 0 sre',
        'approval.escalated 1 leads',
        'approval.decided 1 leads',
      ]);
    });

    test('an acknowledgement pauses escalation; the approval still expires', async () => {
      const id = await ask({ escalation_window_minutes: 10, max_hops: 2 });
      const acknowledged = await tenant.operator.post(`/tenants/${tenant.id}/approvals/${id}/ack`);
      expect(acknowledged.body).toMatchObject({
        state: 'pending',
        escalates_at: null,
        acknowledged: { by: expect.any(String) },
      });
      await letPass(id, 29);
      await twoPolls();
      expect(receiver.received.filter(of(id))).toHaveLength(1);
      await letPass(id, 2);
      expect(summaries(await notices(id, 2)).at(-1)).toBe('approval.expired 0 sre');
      expect((await read(id)).state).toBe('expired');
    });

    test('whoever is asked is reminded once before it expires', async () => {
      const id = await ask({ escalation_window_minutes: 60, max_hops: 0 });
      await tenant.operator.post(`/tenants/${tenant.id}/approvals/${id}/ack`);
      await letPass(id, 46);
      expect(summaries(await notices(id, 2)).at(-1)).toBe('approval.reminded 0 sre');
      await letPass(id, 5);
      await twoPolls();
      expect(receiver.received.filter(of(id))).toHaveLength(2);
      const { body } = await tenant.admin.get(
        `/audit/events?action=approval.reminded&target=${id}`,
      );
      expect(body.items).toHaveLength(1);
      await letPass(id, 10);
      expect(summaries(await notices(id, 3)).at(-1)).toBe('approval.expired 0 sre');
    });

    test('an expiry that was asked for comes before the next hop', async () => {
      const id = await ask(
        { escalation_window_minutes: 10, max_hops: 2 },
        { expires_at: new Date(Date.now() + 5 * 60_000).toISOString() },
      );
      await letPass(id, 6);
      expect(summaries(await notices(id, 2)).at(-1)).toBe('approval.expired 0 sre');
    });

    test('members who have left are not asked, and administrators are in place of a whole group', async () => {
      const config = { approver_groups: groups, escalation: { escalation_window_minutes: 10 } };
      await tenant.admin.put(`/tenants/${tenant.id}/config/notifications`, config);
      const member = { email: 'lee@left.example', roles: ['operator'], groups: ['leads'] };
      const { user_id: leaver } = await addMember(tenant.admin, tenant.id, member);
      const made = await tenant.operator.post(`/tenants/${tenant.id}/approvals`, {
        action: 'scale',
        risk_level: 'high',
        title: 'Scale up',
      });
      await tenant.admin.delete(`/tenants/${tenant.id}/users/${leaver}`);
      await letPass(made.body.id, 10);
      const asked = await eventually(async () => {
        const of = `approval_id=${made.body.id}&channel=email`;
        const { body } = await tenant.admin.get(
          `/tenants/${tenant.id}/notifications/deliveries?${of}`,
        );
        const hops = body.items.filter(({ hop }: { hop: number }) => hop === 1);
        if (hops.length === 0) throw new Error('it has not escalated');
        return hops.map(({ target }: { target: string }) => target);
      });
      expect(asked).toEqual([tenant.emails.tenant_admin]);
    });

    test('the configuration is that of the request: later changes reach later approvals only', async () => {
      const id = await ask({ escalation_window_minutes: 10, max_hops: 2 });
      await tenant.admin.put(`/tenants/${tenant.id}/config/notifications`, null);
      await letPass(id, 10);
      expect(summaries(await notices(id, 2)).at(-1)).toBe('approval.escalated 1 leads');
    });
  });
});
