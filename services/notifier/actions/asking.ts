/** What an automation asks people, and why. */
import type { DecisionReason } from '../../../shared/contracts/decide.ts';
import { addressOf } from '../../../shared/contracts/effective-config.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import { askedBecause, currencyOf } from '../rules/asked-because.ts';
import type { Admission } from '../rules/automation.ts';
import type { ApprovalRequest, AskingAutomation } from './approvals.ts';

export type StartBody = ParamsOf<'notifier.automations.start'>['body'];

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
  const { agent_type, service_id, service_type, resource_scaling } = body;
  const takes_back = isProven ? body.takes_back : undefined;
  const { resource, parameters } = body;
  const touched = {
    agent_type,
    service_id,
    service_type,
    resource_scaling,
    takes_back,
    resource,
    parameters,
    ...(over.length > 0 && { exceeds: over.map(exceededBudget) }),
  };
  const said = Object.entries(touched).filter(([, value]) => value !== undefined);
  const subject = service_id ?? service_type ?? agent_type;
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
