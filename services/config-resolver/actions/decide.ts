/** Whether automation may act, answered from effective configurations in memory. */
import { randomUUID } from 'node:crypto';
import type { DerivedRead } from '../../../shared/contract-runtime/derived-reads.ts';
import type { Call, Handlers } from '../../../shared/contract-runtime/request.ts';
import type { Decided } from '../../../shared/contracts/decide.ts';
import { addressOf } from '../../../shared/contracts/effective-config.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import { synchronizedNow } from '../../../shared/process/synchronized-clock.ts';
import { momentOf } from '../../../shared/schema/moment.ts';
import { chargedBudgets } from '../rules/budgets.ts';
import { decide, settingOf, type ExplainedConfiguration } from '../rules/decide.ts';
import { Balances, type Weighing } from './balances.ts';
import { decisionOf, type DecisionRecorder } from './recording.ts';
import { refuseUnknown } from './refuse-unknown.ts';
import { isTakenBackFound } from './taken-back.ts';

type Params = ParamsOf<'config-resolver.decide'>;

const momentAsked = ({ at }: Params['body']): number =>
  at === undefined ? synchronizedNow() : momentOf(at)!.getTime();

const questionOf = ({ tenant_id, body }: Params) => ({
  tenant_id,
  ...addressOf(body),
  explain: true,
});

/**
 * Any node decides by itself, from its own memory of what is effective and of what budgets have
 * left. Which names are near an unknown one, and whether what is taken back exists, the service says.
 */
export function derivedDecision(
  recorder: DecisionRecorder,
): DerivedRead<'config-resolver.decide', 'config-resolver.resolve'> {
  const balances = new Balances();
  return {
    from: 'config-resolver.resolve',
    question: questionOf,
    derive: (params, effective, call) =>
      effective.unknown.length > 0 || params.body.takes_back !== undefined
        ? undefined
        : answer({ params, effective, isProven: false, balances, recorder, call }),
  };
}

interface Deciding {
  readonly params: Params;
  readonly effective: ExplainedConfiguration;
  readonly isProven: boolean;
  readonly balances: Balances;
  readonly recorder: DecisionRecorder;
  readonly call: Call;
}

/** The decision, recorded as the tenant or the caller wants it. */
function answer(deciding: Deciding): Decided | Promise<Decided> {
  const { params, effective, isProven, balances, call } = deciding;
  const weighing = weighingOf(params, effective, isProven);
  const weighed = balances.weigh(weighing, call);
  return weighed instanceof Promise
    ? weighed.then((decided) => recorded(deciding, weighing, decided))
    : recorded(deciding, weighing, weighed);
}

function recorded(
  { params, effective, isProven, recorder, call }: Deciding,
  weighing: Weighing,
  decided: Decided,
): Decided | Promise<Decided> {
  const id = randomUUID();
  const answered = { ...decided, decision_id: id };
  const { record_decisions: wanted } = effective.values;
  const isWanted = wanted === 'all' || (wanted === 'denied' && decided.decision === 'deny');
  if (!isWanted && params.body.record !== true) return answered;
  const decision = decisionOf(id, { ...weighing, isProven }, decided);
  if (params.body.record === true) return recorder.record(decision, call).then(() => answered);
  recorder.note(decision, call);
  return answered;
}

function weighingOf(
  { tenant_id: tenantId, body: intent }: Params,
  effective: ExplainedConfiguration,
  isProven: boolean,
): Weighing {
  const at = momentAsked(intent);
  return {
    tenantId,
    decided: decide(effective, intent, at, isProven),
    budgets: chargedBudgets(effective, intent, isProven),
    intent,
    at,
  };
}

export function decideActions(recorder: DecisionRecorder) {
  const balances = new Balances();
  return {
    async 'config-resolver.decide'(params, request) {
      const effective = await request.call('config-resolver.resolve', questionOf(params));
      const address = { tenant_id: params.tenant_id, ...addressOf(params.body) };
      await refuseUnknown(effective.unknown, address, request);
      const isProven = await isTakenBackFound(params.tenant_id, params.body, request);
      const { call } = request;
      return answer({ params, effective, isProven, balances, recorder, call });
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
  } satisfies Handlers;
}
