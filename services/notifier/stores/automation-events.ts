/**
 * The audit of automations: that one was asked for, and each state it came to; and the feed, by
 * which requests that wait for one are answered.
 */
import type { EntityManager } from 'typeorm';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import { auditFacts, countChange, recordEvents } from '../../../shared/commits/commit.ts';
import type { AutomationState } from '../../../shared/contracts/automations.ts';
import { automationScope } from '../../../shared/contracts/revision-scopes.ts';
import type { AutomationRow } from '../schema.ts';
import { ownFacts } from './own-events.ts';

const eventOf: Readonly<Record<AutomationState, string>> = {
  waiting_approval: 'automation.approval_required',
  waiting_slot: 'automation.granted',
  running: 'automation.started',
  denied: 'automation.denied',
  finished: 'automation.finished',
  expired: 'automation.expired',
};

/** Without a request it is the notifier that saw to it. */
export async function recordStates(
  manager: EntityManager,
  rows: readonly AutomationRow[],
  request?: Request,
): Promise<void> {
  if (rows.length === 0) return;
  await recordEvents(
    manager,
    rows.map((row) => {
      const { action, risk_level, service_id, cost_impact } = row.intent;
      const event = {
        action: eventOf[row.state],
        tenant_id: row.tenant_id,
        target: row.id,
        payload: {
          action,
          risk_level,
          service_id,
          cost_impact,
          decision: row.decided.decision,
          rules: row.decided.reasons.map(({ rule }) => rule),
          approval_id: row.approval_id,
          outcome: row.outcome,
          ...(row.holds && { holds: row.holds }),
          ...(row.actual_cost !== null && { actual_cost: row.actual_cost }),
        },
      };
      return request ? auditFacts(event, request) : ownFacts(event, row.request_id);
    }),
  );
}

/**
 * The same of rows of a tenant that were there before, for whoever waits for one of them. The last
 * thing in a transaction: what it locks is wanted by every other change in the tenant.
 */
export async function recordTransitions(
  manager: EntityManager,
  rows: readonly AutomationRow[],
  request?: Request,
): Promise<void> {
  const [first] = rows;
  if (!first) return;
  await recordStates(manager, rows, request);
  await countChange(manager, automationScope(first.tenant_id));
}
