/** What other budgets or freezes would mean in tenants, of which so many are told. */
import { decimalText, millionthsOf } from '../../../shared/budgets/decimal.ts';
import type { Balance } from '../../../shared/budgets/evaluate.ts';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import type { LiveAutomations } from '../../../shared/contracts/budget-usage.ts';
import type { BudgetInForce } from '../../../shared/contracts/budgets.ts';
import {
  limitEffects,
  type LimitEffect,
  type LimitsImpact,
  type LimitsImpactItem,
} from '../../../shared/contracts/impact.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import {
  budgetEffect,
  changedRules,
  freezeEffect,
  leastOfInterest,
  type Live,
} from '../rules/impact-over-time.ts';

const mostItems = 200;

export const overTimeImpactActions = () =>
  ({
    async 'config-resolver.impact.over-time'({ body }, { call }) {
      const { by, tenant_id } = body;
      const budgets = changedRules(body.budgets?.before ?? null, body.budgets?.after ?? null);
      const freezes = changedRules(body.freezes?.before ?? null, body.freezes?.after ?? null);
      const inForce = (name: string, rule: BudgetInForce['rule'] | undefined) =>
        rule ? [{ by, name, rule, revision: 0 }] : [];
      const asked = budgets.flatMap(({ name, before, after }) => [
        ...inForce(name, before),
        ...inForce(name, after),
      ]);
      const standing = await call('notifier.budgets.standing', {
        body: {
          ...(tenant_id !== undefined && { tenant_id }),
          budgets: asked.map((budget) => ({
            budget,
            least: decimalText(leastOfInterest(budget.rule)),
          })),
        },
      });
      const tenants = new Set([...standing.spending, ...standing.live].map((row) => row.tenant_id));
      const places = await call('tenant-config.layers.places', {
        body: { tenant_ids: [...tenants], services: servicesOf(standing.live) },
      });
      const spentOf = balancesBy(standing.spending);
      const liveOf = Map.groupBy(
        livePlaces(standing.live, places),
        ({ asked: { tenant_id: id } }) => id,
      );
      const indexOf = (name: string, rule: BudgetInForce['rule'] | undefined): number =>
        asked.findIndex((each) => each.name === name && each.rule === rule);
      const at = Date.parse(standing.at);
      const items: LimitsImpactItem[] = [...tenants].toSorted().flatMap((id) => {
        const name = Object.hasOwn(places.names, id) ? places.names[id] : undefined;
        // It is being erased.
        if (name === undefined) return [];
        const now = { live: liveOf.get(id) ?? [], at };
        const effects = [
          ...budgets.map((budget) => {
            const before = spentOf(id, indexOf(budget.name, budget.before));
            const after = spentOf(id, indexOf(budget.name, budget.after));
            return budgetEffect(budget, { before, after }, now);
          }),
          ...freezes.map((freeze) => freezeEffect(freeze, now)),
        ];
        return effects.flatMap((effect) =>
          effect ? [{ tenant_id: id, tenant_name: name, ...effect }] : [],
        );
      });
      return {
        at: standing.at,
        tenants: countTenants(items),
        items: items.slice(0, mostItems),
        complete: standing.complete && items.length <= mostItems,
      };
    },
  }) satisfies Handlers;

function countTenants(items: readonly LimitsImpactItem[]): LimitsImpact['tenants'] {
  const counts = limitEffects.map((effect) => {
    const tenants = items.filter((item) => item.effect === effect).map((item) => item.tenant_id);
    return [effect, new Set(tenants).size] as const;
  });
  return Object.fromEntries(counts) as Record<LimitEffect, number>;
}

type BudgetStanding = ResultOf<'notifier.budgets.standing'>;
type Places = ResultOf<'tenant-config.layers.places'>;

const placeKey = (tenantId: string, serviceId: string): string => `${tenantId} ${serviceId}`;

function servicesOf(live: readonly LiveAutomations[]) {
  const known = new Map(
    live.flatMap(({ tenant_id, service_id }) =>
      service_id === undefined
        ? []
        : [[placeKey(tenant_id, service_id), { tenant_id, service_id }] as const],
    ),
  );
  return [...known.values()];
}

/** What an instance is, it says itself; without one, the automation does. */
function livePlaces(live: readonly LiveAutomations[], { services }: Places): Live[] {
  const known = new Map(
    services.map((each) => [placeKey(each.tenant_id, each.service_id), each] as const),
  );
  return live.map((asked) => {
    const { tenant_id, agent_type, service_id, service_type } = asked;
    const place = service_id === undefined ? undefined : known.get(placeKey(tenant_id, service_id));
    const { project_id, environment } = place ?? {};
    const type = place?.service_type ?? service_type;
    const touched = { agent_type, service_id, service_type: type, project_id, environment };
    return { asked, touched };
  });
}

function balancesBy(spending: BudgetStanding['spending']) {
  const known = new Map<string, Balance>(
    spending.map(({ tenant_id, index, spent, held }) => [
      `${tenant_id} ${index}`,
      { spent: millionthsOf(spent), held: millionthsOf(held) },
    ]),
  );
  return (tenantId: string, index: number): Balance | undefined =>
    known.get(`${tenantId} ${index}`);
}
