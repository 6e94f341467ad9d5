/** Whether automation may act, answered from effective configurations in memory. */
import type { DerivedRead } from '../../../shared/contract-runtime/derived-reads.ts';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { addressOf } from '../../../shared/contracts/effective-config.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import { invalid } from '../../../shared/errors.ts';
import { momentOf } from '../../../shared/schema/moment.ts';
import { chargedBudgets } from '../rules/budgets.ts';
import { decide, settingOf } from '../rules/decide.ts';
import type { Balances } from './balances.ts';
import { refuseUnknown } from './refuse-unknown.ts';
import { isTakenBackFound } from './taken-back.ts';

type Params = ParamsOf<'config-resolver.decide'>;

/** Throws 422 for a date that does not exist. */
function momentAsked({ at }: Params['body']): number {
  if (at === undefined) return Date.now();
  const moment = momentOf(at);
  if (!moment) throw invalid([{ path: '/at', message: 'is no moment that exists' }]);
  return moment.getTime();
}

const questionOf = ({ tenant_id, body }: Params) => ({
  tenant_id,
  ...addressOf(body),
  explain: true,
});

/**
 * Any node decides by itself, from its own memory of what is effective. Which names are near an
 * unknown one, whether what is taken back exists, and what budgets have left, the service says.
 */
export const derivedDecision: DerivedRead<'config-resolver.decide', 'config-resolver.resolve'> = {
  from: 'config-resolver.resolve',
  question: questionOf,
  derive: ({ body }, effective) =>
    effective.unknown.length > 0 ||
    body.takes_back !== undefined ||
    chargedBudgets(effective, body, false).length > 0
      ? undefined
      : decide(effective, body, momentAsked(body)),
};

export const decideActions = (balances: Balances) =>
  ({
    async 'config-resolver.decide'(params, request) {
      const effective = await request.call('config-resolver.resolve', questionOf(params));
      const address = { tenant_id: params.tenant_id, ...addressOf(params.body) };
      await refuseUnknown(effective.unknown, address, request);
      const isProven = await isTakenBackFound(params.tenant_id, params.body, request);
      const at = momentAsked(params.body);
      const decided = decide(effective, params.body, at, isProven);
      const budgets = chargedBudgets(effective, params.body, isProven);
      return balances.weigh(params.tenant_id, decided, budgets, params.body, at, request);
    },

    async 'config-resolver.admission'(params, request) {
      const { min_revision } = params;
      const effective = await request.call('config-resolver.resolve', {
        ...questionOf(params),
        ...(min_revision !== undefined && { min_revision }),
      });
      const address = { tenant_id: params.tenant_id, ...addressOf(params.body) };
      await refuseUnknown(effective.unknown, address, request);
      const isProven =
        params.is_proven ?? (await isTakenBackFound(params.tenant_id, params.body, request));
      return {
        decided: decide(effective, params.body, momentAsked(params.body), isProven),
        slots: settingOf(effective, 'max_concurrent_automations'),
        is_proven: isProven,
        budgets: chargedBudgets(effective, params.body, isProven),
      };
    },

    async 'config-resolver.approval-terms'(params, request) {
      const { tenant_id } = params;
      const effective = await request.call('config-resolver.resolve', {
        tenant_id,
        ...addressOf(params),
        explain: true,
      });
      await refuseUnknown(effective.unknown, params, request);
      return {
        max_cost_impact_approval: settingOf(effective, 'max_cost_impact_approval'),
        approval_timeout_minutes: settingOf(effective, 'approval_timeout_minutes'),
        notification_channels: effective.values.notification_channels,
      };
    },
  }) satisfies Handlers;
