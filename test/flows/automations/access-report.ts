/** The access report: who was in a tenant at a moment, and who could approve what, told exactly. */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import type { AccessReport } from '../../../shared/contracts/access-report.ts';
import { memberScope } from '../../../shared/contracts/revision-scopes.ts';
import { eventually } from '../../support/cluster.ts';
import { holdLock } from '../../support/held-lock.ts';
import {
  addMember,
  createTenant,
  createTenantWith,
  type Answer,
  type TenantFixture,
} from '../../support/strata.ts';
import { database, platform, strata } from './strata.ts';

describe('a report of who has access', () => {
  let tenant: TenantFixture;
  let path: string;

  beforeAll(async () => {
    tenant = await createTenant(strata.url, platform, 'Reports');
    path = `/tenants/${tenant.id}/access-report`;
  });

  const reportAt = async (at?: string): Promise<AccessReport> => {
    const answer: Answer<AccessReport> = await tenant.admin.get(at ? `${path}?at=${at}` : path);
    if (answer.status !== 200) throw new Error(answer.text);
    return answer.body;
  };

  /** A moment between two writes, by the database's clock. */
  async function moment(): Promise<string> {
    const [row] = await database.query<{ now: Date }>('SELECT clock_timestamp() AS now');
    await delay(5);
    return new Date(row!.now.getTime() + 2).toISOString();
  }

  const ok = ({ status, text }: Answer): void => {
    if (status >= 300) throw new Error(text);
  };

  /** Address to roles, groups and whether they could act. */
  const peopleOf = ({ members }: AccessReport): Record<string, unknown[]> =>
    Object.fromEntries(
      members.map(({ email, roles, groups, can_act: canAct }) => [email, [roles, groups, canAct]]),
    );

  /** Who could decide at this risk, as `hop right address`. */
  const decidersAt = (report: AccessReport, level: string): string[] => {
    const emails = new Map(report.members.map(({ user_id: id, email }) => [id, email]));
    const names = new Map(report.service_accounts.map(({ id, name }) => [id, name]));
    const route = report.approvals.routes.find(({ risk_level: risk }) => risk === level)!;
    return route.deciders.flatMap(({ hop, right, ids }) =>
      ids.map((id) => `${hop} ${right} ${emails.get(id) ?? names.get(id)}`),
    );
  };

  test('each moment is told as it was, however much was changed since', async () => {
    const { admin, id } = tenant;
    const email = 'grace@reports.example';
    const users = `/tenants/${id}/users`;
    const moments: string[] = [await moment()];
    const { user_id: user } = await addMember(admin, id, { email, roles: ['viewer'] });
    moments.push(await moment());
    ok(await admin.patch(`${users}/${user}`, { roles: ['operator'], groups: ['oncall'] }));
    moments.push(await moment());
    ok(
      await admin.put(`/tenants/${id}/config/notifications`, {
        approver_groups: { risk_levels: { high: ['oncall', 'leads'] } },
        approval_policy: { required: { high: 2 }, machines: true },
        email: { approval_recipients: ['outside@elsewhere.example'] },
      }),
    );
    ok(await admin.put(`/tenants/${id}/config/bounds`, { max_resource_scaling: { maximum: 2 } }));
    ok(await platform.put('/config/bounds', { max_cost_impact_auto: { maximum: 90 } }));
    moments.push(await moment());
    ok(await platform.patch(`/auth/users/${user}`, { status: 'disabled' }));
    moments.push(await moment());
    ok(await platform.patch(`/auth/users/${user}`, { status: 'active' }));
    ok(
      await admin.post(`/tenants/${id}/service-accounts`, {
        name: 'pipeline',
        roles: ['operator'],
      }),
    );
    moments.push(await moment());
    ok(await admin.delete(`${users}/${user}`));
    ok(await admin.delete(`/tenants/${id}/config/bounds`));
    ok(await platform.delete('/config/bounds'));
    moments.push(await moment());

    const reports = await Promise.all(moments.map((at) => reportAt(at)));
    expect(reports.map((report) => peopleOf(report)[email])).toEqual([
      undefined,
      [['viewer'], [], true],
      [['operator'], ['oncall'], true],
      [['operator'], ['oncall'], true],
      [['operator'], ['oncall'], false],
      [['operator'], ['oncall'], true],
      undefined,
    ]);
    expect(reports.map((report) => decidersAt(report, 'high').toSorted())).toEqual([
      ['0 role admin@reports.example', '0 role operator@reports.example'],
      ['0 role admin@reports.example', '0 role operator@reports.example'],
      [
        '0 role admin@reports.example',
        '0 role grace@reports.example',
        '0 role operator@reports.example',
      ],
      ['0 group_member grace@reports.example'],
      ['0 groups_without_members admin@reports.example'],
      ['0 group_member grace@reports.example'],
      ['0 groups_without_members admin@reports.example'],
    ]);
    expect(reports.map(({ bounds }) => bounds)).toEqual([
      null,
      null,
      null,
      { max_resource_scaling: { maximum: 2 } },
      { max_resource_scaling: { maximum: 2 } },
      { max_resource_scaling: { maximum: 2 } },
      null,
    ]);
    const ofPlatform = { max_cost_impact_auto: { maximum: 90 } };
    expect(reports.map(({ platform_bounds: bounds }) => bounds)).toEqual([
      null,
      null,
      null,
      ofPlatform,
      ofPlatform,
      ofPlatform,
      null,
    ]);
    expect(reports.map(({ approvals }) => approvals.required.high)).toEqual([1, 1, 1, 2, 2, 2, 2]);
    expect(reports.map(({ complete }) => complete)).toEqual(Array(7).fill(true));
    expect(reports.map(({ at }) => at)).toEqual(moments);
    const low = await reportAt();
    expect(decidersAt(low, 'low')).toContain('0 role pipeline');
    const high = low.approvals.routes.find(({ risk_level: risk }) => risk === 'high');
    expect(high).toMatchObject({
      chain: ['oncall', 'leads'],
      recipients: ['outside@elsewhere.example'],
    });
  });

  test('what no one has kept is said: who was in it before is not known, nor whether an erased account could act', async () => {
    const made = await createTenantWith(strata.url, platform, 'Older');
    const older = `/tenants/${made.id}/access-report`;
    const before = await moment();
    await database.query(
      'UPDATE tenant_config.tenants SET memberships_known_since = clock_timestamp() WHERE id = $1',
      [made.id],
    );
    await delay(5);
    const { body: then } = await made.admin.get(`${older}?at=${before}`);
    expect(then).toMatchObject({ complete: false, members: [], groups: [] });
    expect(Date.parse(then.known_since)).toBeGreaterThan(Date.parse(before));
    expect((await made.admin.get(older)).body).toMatchObject({ complete: true });

    const email = 'leaver@older.example';
    const { user_id: leaver } = await addMember(made.admin, made.id, {
      email,
      roles: ['operator'],
    });
    const whileThere = await moment();
    ok(await platform.delete(`/auth/users/${leaver}`));
    await eventually(async () => {
      const { body } = await made.admin.get(`${older}?at=${whileThere}`);
      const member = body.members.find((each: { user_id: string }) => each.user_id === leaver);
      expect(member).toMatchObject({ email: null, display_name: null, can_act: null });
      expect(body.complete).toBe(false);
    });
    const kept = await database.query('SELECT FROM auth.status_history WHERE user_id = $1', [
      leaver,
    ]);
    expect(kept).toHaveLength(0);
  });

  test('a change that has begun before the moment and commits later is in it', async () => {
    const { admin, id } = tenant;
    const { user_id: user } = await addMember(admin, id, {
      email: 'late@reports.example',
      roles: ['viewer'],
    });
    const lock = await holdLock(
      database,
      `WITH locked AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtextextended('strata scope ' || $1, 0)))
     UPDATE tenant_config.members SET groups = '{late}' FROM locked WHERE user_id = $2`,
      [memberScope(id), user],
    );
    const asking = reportAt(await moment());
    await lock.untilWaiting(1);
    await lock.commit();
    const { groups } = await asking;
    expect(groups).toContainEqual({ name: 'late', members: [user], deciders: [] });
  });

  test('as a table for programs, without a formula of somebody else', async () => {
    const { admin, id } = tenant;
    ok(
      await admin.post(`/tenants/${id}/service-accounts`, {
        name: '=HYPERLINK("http://evil.example")',
        roles: ['viewer'],
      }),
    );
    const byAccept = await admin.get(path, { accept: 'text/csv' });
    const byAddress = await admin.get(`${path}?format=csv`);
    for (const answer of [byAccept, byAddress]) {
      expect(answer.headers.get('content-type')).toMatch(/^text\/csv/);
      expect(answer.headers.get('content-disposition')).toMatch(
        /^attachment; filename="access-rep/,
      );
      expect(answer.text).toContain(`"'=HYPERLINK(""http://evil.example"")"`);
      expect(answer.text).toMatch(
        /"member","[0-9a-f-]{36}","","admin@reports\.example","tenant_admin"/,
      );
    }
    const lines = byAddress.text.trim().split('\r\n');
    expect(new Set(lines.map((line) => line.split('","').length)).size).toBe(1);
    expect((await admin.get(`${path}?format=json`, { accept: 'text/csv' })).body.tenant_id).toBe(
      id,
    );
  });

  test('a moment to come, and whoever does not administer the tenant, are refused', async () => {
    const { operator } = tenant;
    const later = new Date(Date.now() + 3_600_000).toISOString();
    const refused = await tenant.admin.get(`${path}?at=${later}`);
    expect([refused.status, refused.body.errors]).toEqual([
      422,
      [{ path: '/at', message: 'must not be in the future' }],
    ]);
    expect((await operator.get(path)).status).toBe(403);
    expect((await platform.get(path)).status).toBe(403);
  });
});
