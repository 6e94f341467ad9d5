/** What budgets cost: of starts, which charge them under the tenant's lock, and of decisions. */
import type { Client } from '../support/strata.ts';
import { load, type Target } from './load.ts';
import { serverCore } from './machine.ts';
import { alternate, type Comparison, type Goal, type Group } from './report.ts';
import { platformAdmin, startStage } from './stage.ts';
import { makeTenant, type Tenant } from './writes.ts';

const tenantsOfEach = 8;
/** A tenant has at most 1000 slots, which are freed after each turn. */
const turnSeconds = 2;
/** One of costs, one of actions, and one that warns. */
const budgets = {
  costs: { amount: '100000000', currency: 'EUR', per: 'month' },
  starts: { amount: '100000000', counts: 'actions', per: 'hour', window: 'rolling' },
  warned: { amount: '100000000', currency: 'EUR', per: 'day', warn_at: 0.8, mode: 'warn' },
};
const intent = JSON.stringify({ action: 'scale', risk_level: 'low', cost_impact: 0.01 });

async function prepare(admin: Client, id: string, has: boolean): Promise<void> {
  const limits = { global_settings: { max_concurrent_automations: 1000 } };
  const written = [await admin.patch(`/tenants/${id}/config/risk`, limits)];
  if (has) written.push(await admin.put(`/tenants/${id}/config/budgets`, budgets));
  // The first start of a tenant is made by what no node has in memory yet.
  written.push(await admin.post(`/tenants/${id}/automations`, JSON.parse(intent)));
  for (const { status, text } of written) if (status >= 300) throw new Error(text);
}

export const budgetsGroup: Group = async ({ rounds, seconds }) => {
  const stage = await startStage();
  try {
    const { url } = await stage.start([], serverCore, {
      ...stage.alone,
      NETWORK_RATE_LIMIT_PER_MINUTE: '1000',
      RATE_LIMIT_PER_MINUTE: '0',
    });
    const platform = await platformAdmin(url);
    const sides: Record<'with' | 'without', Tenant[]> = { with: [], without: [] };
    for (const [side, has] of [
      ['with', true],
      ['without', false],
    ] as const)
      for (let each = 0; each < tenantsOfEach; each += 1) {
        const tenant = await makeTenant(url, platform, `${side}-${each}`);
        await prepare(tenant.admin, tenant.id, has);
        sides[side].push(tenant);
      }
    const to = (path: string, tenants: readonly Tenant[], status: number): Target => ({
      origin: url,
      status,
      requests: tenants.map(({ id, admin }) => ({
        method: 'POST',
        path: `/tenants/${id}/${path}`,
        body: intent,
        headers: { authorization: `Bearer ${admin.token}`, 'content-type': 'application/json' },
      })),
    });
    const freeSlots = (): Promise<unknown> =>
      stage.database.query(
        `UPDATE notifier.automations SET state = 'finished', ended_at = now(), expires_at = NULL
         WHERE state = 'running'`,
      );
    const starts = async (tenants: readonly Tenant[], connections: number): Promise<number> => {
      const asked = { connections, seconds: turnSeconds };
      const { perSecond } = await load(to('automations', tenants, 201), asked);
      await freeSlots();
      return perSecond;
    };
    const decisions = async (tenants: readonly Tenant[]): Promise<number> => {
      const asked = { connections: 16, seconds };
      return 1e6 / (await load(to('decide', tenants, 200), asked)).perSecond;
    };
    const row = async (
      what: string,
      unit: string,
      goal: Goal,
      measure: (tenants: readonly Tenant[]) => Promise<number>,
    ): Promise<Comparison> => ({
      what: `${what}, three budgets, one node`,
      peer: 'the same without budgets',
      unit,
      goal,
      ...(await alternate(
        rounds,
        () => measure(sides.with),
        () => measure(sides.without),
      )),
    });
    const enough: Goal = { atLeast: 0.7 };
    return {
      rows: [
        await row(`starts, ${tenantsOfEach} tenants, 64 clients`, '/s', enough, (tenants) =>
          starts(tenants, 64),
        ),
        await row('starts, one tenant, 16 clients', '/s', enough, (tenants) =>
          starts(tenants.slice(0, 1), 16),
        ),
        await row('decide, 16 clients', 'µs', { atMost: 1.2 }, decisions),
      ],
    };
  } finally {
    await stage.stop();
  }
};
