/** What an automation asks people, and why. */
import { intent, type DecisionReason } from '../../../shared/contracts/decide.ts';
import { addressOf } from '../../../shared/contracts/effective-config.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import { askedBecause, currencyOf } from '../rules/asked-because.ts';
import type { Admission } from '../rules/automation.ts';
import type { ApprovalRequest, AskingAutomation } from './approvals.ts';

export type StartBody = ParamsOf<'notifier.automations.start'>['body'];

/** What of an intent an approval has in its own fields; `is_rollback` is no more than a claim. */
const shownApart = ['action', 'risk_level', 'cost_impact', 'is_rollback'];
const shownNames = [
  ...Object.keys(intent).filter((name) => !shownApart.includes(name)),
  'resource',
  'parameters',
];

/**
 * What people are asked. They are shown a rollback only where what it takes back was found, and which
 * budgets they would let be exceeded.
 */
export function approvalOf(
  body: StartBody,
  isProven: boolean,
  over: readonly DecisionReason[],
): ApprovalRequest {
  const { action, risk_level, cost_impact, title, description } = body;
  const touched: Readonly<Record<string, unknown>> = {
    ...body,
    takes_back: isProven ? body.takes_back : undefined,
    exceeds: over.length > 0 ? over.map(exceededBudget) : undefined,
  };
  const said = [...shownNames, 'exceeds']
    .map((name) => [name, touched[name]] as const)
    .filter(([, value]) => value !== undefined);
  const subject = body.service_id ?? body.service_type ?? body.agent_type;
  return {
    action,
    risk_level,
    title: title ?? (subject === undefined ? action : `${action} on ${subject}`),
    ...(description !== undefined && { description }),
    ...(cost_impact !== undefined && { cost_impact }),
    ...addressOf(body),
    ...(said.length > 0 && { resource: Object.fromEntries(said) }),
  };
}

export function askerOf(
  { decided, budgets = [] }: Admission,
  over: readonly DecisionReason[],
): AskingAutomation {
  const currency = currencyOf(budgets);
  return { currency, because: askedBecause([...decided.reasons, ...over], currency) };
}

const exceededBudget = ({ name, limit, spent, held, asked, resets_at }: DecisionReason) => ({
  budget: name,
  limit,
  spent,
  held,
  asked,
  resets_at,
});
