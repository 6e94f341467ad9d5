/** Starting, reading, keeping alive and ending automations. */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { EntityManager } from 'typeorm';
import { actsByRoles, type Caller } from '../../../shared/access.ts';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { actorOf } from '../../../shared/commits/commit.ts';
import { automationTtl, type AutomationState } from '../../../shared/contracts/automations.ts';
import type { DecisionReason, Intent } from '../../../shared/contracts/decide.ts';
import { newestFirst } from '../../../shared/documents/paging.ts';
import { invalid, StrataError } from '../../../shared/errors.ts';
import { isWithin } from '../../../shared/narrow-keys.ts';
import { canonicalHash } from '../../../shared/schema/canonical-hash.ts';
import { momentOf } from '../../../shared/schema/moment.ts';
import { countNamed } from '../channels/destinations.ts';
import { digestOf, partProblems, type ExactAction } from '../rules/action-digest.ts';
import {
  areNamed,
  automationView,
  denialOf,
  hasEnded,
  isTooOld,
  isUndecided,
  keptDecision,
  type Admission,
  type TimedAdmission,
} from '../rules/automation.ts';
import { costMissing, withBudgets, type Charging } from '../../../shared/budgets/evaluate.ts';
import { AutomationEntity, type AutomationRow } from '../schema.ts';
import { recordStates, recordTransitions } from '../stores/automation-events.ts';
import {
  countSlots,
  finish,
  lockSlots,
  lookAgainIn,
  lookNow,
  prolong,
  settleDue,
  startedWithin,
} from '../stores/automations.ts';
import { clockTime, databaseTime } from '../stores/clock.ts';
import { findApproval } from '../stores/approvals.ts';
import { findRepeated } from '../stores/idempotency.ts';
import { charge, evaluateBudgets } from '../stores/ledger.ts';
import { requireRoom } from '../stores/usage.ts';
import type { TenantChanges } from '../worker/tenant-changes.ts';
import {
  announceApproval,
  insertApproval,
  planOf,
  type ApprovalPlan,
  type ApprovalRequest,
  type AskingAutomation,
} from './approvals.ts';
import { approvalOf, askerOf, type StartBody } from './asking.ts';
import { presentOf, withdraw, type ApprovalOptions } from './deciding.ts';
import type { Grants } from './granting.ts';
import {
  Moved,
  mostTries,
  newestAdmission,
  pauseMs,
  stateForCaller,
  type Decide,
  type TenantState,
} from './newest-decision.ts';

export interface AutomationOptions extends ApprovalOptions {
  readonly changes: TenantChanges<AutomationRow>;
  readonly grants: Grants;
}

export function automationActions(options: AutomationOptions) {
  const { db, changes, grants } = options;
  return {
    async 'notifier.automations.start'({ tenant_id: tenantId, body }, request) {
      const { resource, parameters } = body;
      const problems = partProblems({ resource, parameters });
      if (problems.length > 0) throw invalid(problems);
      const row = await start(options, tenantId, body, request);
      return grants.answer(row, request.caller);
    },

    async 'notifier.automations.list'({ started_from: from, started_until: until, ...params }) {
      const span = {
        from: from === undefined ? undefined : momentOf(from),
        until: until === undefined ? undefined : momentOf(until),
      };
      return newestFirst(db, AutomationEntity, params, automationView, (query) =>
        startedWithin(query, span),
      );
    },

    async 'notifier.automations.get'(
      { tenant_id: tenantId, automation_id: id, state, wait = 0 },
      { caller },
    ) {
      const isAwaited = (now: AutomationState): boolean =>
        state === undefined ? isUndecided(now) : now === state && !hasEnded(now);
      const row = await changes.until({
        tenantId,
        id,
        ms: wait * 1000,
        caller,
        fits: (next) => !isAwaited(next.state),
      });
      return grants.answer(requireAutomation(row, caller), caller);
    },

    async 'notifier.automations.heartbeat'({ tenant_id: tenantId, automation_id: id }, request) {
      const before = await findAutomation(db.manager, tenantId, id, request.caller);
      refuseOthers(before, request.caller);
      const row = await prolong(db.manager, tenantId, id);
      const alive =
        row ?? refuseEnded(await findAutomation(db.manager, tenantId, id, request.caller));
      return grants.answer(alive, request.caller);
    },

    async 'notifier.automations.finish'({ tenant_id: tenantId, automation_id: id, body }, request) {
      const before = await findAutomation(db.manager, tenantId, id, request.caller);
      refuseOthers(before, request.caller);
      const pending = before.state === 'waiting_approval' ? before.approval_id : null;
      // Before the transaction, whose locks are not held over the bus.
      const present = pending
        ? await presentOf(await findApproval(db.manager, tenantId, pending), request)
        : undefined;
      const row = await db.transaction(async (manager) => {
        await lockSlots(manager, tenantId);
        // Who waits for the slot is looked at also where this node ends with the commit.
        await lookNow(manager, [tenantId]);
        const finished = await finish(manager, tenantId, id, body);
        if (!finished) return undefined;
        if (pending !== null) await withdraw(manager, options, tenantId, pending, present, request);
        await recordTransitions(manager, [finished], request);
        return finished;
      });
      if (row) {
        changes.announce(tenantId);
        if (before.state === 'waiting_approval') {
          options.onQueued();
          options.onChanged(tenantId);
        }
        return automationView(row);
      }
      const now = await findAutomation(db.manager, tenantId, id, request.caller);
      const isRepeated =
        now.state === 'finished' &&
        now.outcome === body.outcome &&
        now.actual_cost === (body.actual_cost ?? null);
      return automationView(isRepeated ? now : refuseEnded(now));
    },
  } satisfies Handlers;
}

export async function findAutomation(
  manager: EntityManager,
  tenantId: string,
  id: string,
  caller: Caller,
): Promise<AutomationRow> {
  const row = await manager.findOneBy(AutomationEntity, { id, tenant_id: tenantId });
  return requireAutomation(row, caller);
}

/** What is outside of what a key is narrowed to does not exist for it. */
function requireAutomation(row: AutomationRow | null, caller: Caller): AutomationRow {
  if (row && isWithin(caller.narrowed_to, namesOf(row))) return row;
  throw new StrataError('not_found', 'The tenant has no such automation.');
}

const namesOf = ({ intent }: AutomationRow) => ({
  service_ids: intent.service_id,
  agent_types: intent.agent_type,
});

function refuseEnded(row: AutomationRow): never {
  const hasExpired = row.state === 'expired' || row.state === 'running';
  const why = hasExpired
    ? 'It timed out without a heartbeat, and its slot was released.'
    : `It is ${row.state}.`;
  throw new StrataError('conflict', why);
}

/** Else somebody could free the slot of an automation that continues. */
function refuseOthers({ requested_by: by }: AutomationRow, caller: Caller): void {
  if (!actsByRoles(caller) || caller.roles.includes('tenant_admin')) return;
  const { type, id } = actorOf(caller);
  if (by.type === type && by.id === id) return;
  throw new StrataError(
    'insufficient_role',
    'Only the one who started an automation, or a tenant_admin, may report on it.',
  );
}

/** So many tries decide first and lock then; the later ones keep the configuration meanwhile. */
const triesAhead = 2;

/**
 * Decides by configuration that is certainly the newest, and does so again where that changed
 * meanwhile.
 */
async function start(
  options: AutomationOptions,
  tenantId: string,
  body: StartBody,
  request: Request,
): Promise<AutomationRow> {
  const { db, changes } = options;
  const intent = intentOf(body);
  let at = await databaseTime(db.manager);
  let isProven: boolean | undefined;
  // Looked up once, before any transaction: under the lock it would want a second connection.
  const decide: Decide = async (least) => {
    const admission = await request.call('config-resolver.admission', {
      tenant_id: tenantId,
      ...(least !== undefined && { min_revision: least }),
      ...(isProven !== undefined && { is_proven: isProven }),
      body: { ...intent, at: at.toISOString() },
    });
    isProven = admission.is_proven;
    return { ...admission, at };
  };
  let least: number | undefined;
  let hasTakenMails = false;
  let over: readonly DecisionReason[] = [];
  for (let tries = 1; tries <= mostTries; tries += 1) {
    const repeated = await findRepeated(db.manager, AutomationEntity, tenantId, body);
    if (repeated) return repeated;
    const admission = await decide(least);
    const approval = needsApproval(admission, over.length > 0)
      ? await approvalFor(
          options,
          tenantId,
          approvalOf(body, admission.is_proven, over),
          askerOf(admission, over),
          request,
        )
      : undefined;
    if (approval && !hasTakenMails) {
      const { chain, frozen } = approval.plan;
      await options.takeMails(tenantId, request.caller, countNamed(chain, frozen));
      hasTakenMails = true;
    }
    const decideAgain = tries > triesAhead ? decide : undefined;
    const state = await stateForCaller(db.manager, tenantId, request);
    const made = { tenantId, body, intent, admission, state, approval, over, decideAgain };
    try {
      const row = await db.transaction((manager) => insert(manager, options, made, request));
      // Another request with the same key was faster, and announced it.
      if (!row) continue;
      changes.announce(tenantId);
      // Budgets may deny what an approval was planned for.
      if (approval && row.approval_id !== null) announceApproval(options, tenantId, approval.plan);
      return row;
    } catch (error) {
      if (!(error instanceof Moved)) throw error;
      least = error.held.tenant;
      over = error.over ?? over;
      at = await databaseTime(db.manager);
      if (tries > 1) await delay(pauseMs);
    }
  }
  throw new StrataError(
    'service_unavailable',
    'The newest configuration cannot be read, so nothing was started. Try again.',
  );
}

/** What decisions look at. */
export function intentOf(body: StartBody): Intent {
  const {
    title: _title,
    description: _description,
    ttl_seconds: _ttl,
    idempotency_key: _key,
    resource: _resource,
    parameters: _parameters,
    audience: _audience,
    ...intent
  } = body;
  return intent;
}

const exactAction = (tenant: string, body: StartBody): ExactAction => ({
  tenant,
  action: body.action,
  agent_type: body.agent_type ?? null,
  service_id: body.service_id ?? null,
  service_type: body.service_type ?? null,
  resource: body.resource ?? null,
  parameters: body.parameters ?? null,
  cost_impact: body.cost_impact ?? null,
  resource_scaling: body.resource_scaling ?? null,
  is_rollback: body.is_rollback ?? null,
});

interface ApprovalToMake {
  readonly body: ApprovalRequest;
  readonly asker: AskingAutomation;
  readonly plan: ApprovalPlan;
}

async function approvalFor(
  { db, settings }: AutomationOptions,
  tenantId: string,
  body: ApprovalRequest,
  asker: AskingAutomation,
  request: Request,
): Promise<ApprovalToMake> {
  await requireRoom(db.manager, tenantId, 'approvals_pending', settings());
  return { body, asker, plan: await planOf(tenantId, body, request) };
}

/** What is denied needs none. */
const needsApproval = ({ decided: { decision } }: Admission, isOver: boolean): boolean =>
  decision === 'approval_required' || (decision === 'allow' && isOver);

interface NewAutomation {
  readonly tenantId: string;
  readonly body: StartBody;
  readonly intent: Intent;
  readonly admission: TimedAdmission;
  readonly state: TenantState;
  readonly approval: ApprovalToMake | undefined;
  /** The budgets that the approval says would be exceeded. */
  readonly over: readonly DecisionReason[];
  /** Decides while the tenant's configuration stays as it is, where it changed ahead of that. */
  readonly decideAgain: Decide | undefined;
}

/**
 * Under the lock on the tenant's slots. Null where an automation has the idempotency key by now.
 * Throws `Moved` where the decision is not by the newest configuration.
 */
async function insert(
  manager: EntityManager,
  options: AutomationOptions,
  made: NewAutomation,
  request: Request,
): Promise<AutomationRow | null> {
  const { tenantId, body, intent, state, approval, decideAgain } = made;
  await lockSlots(manager, tenantId);
  if (await findRepeated(manager, AutomationEntity, tenantId, body)) return null;
  const { settled } = await settleDue(manager, tenantId);
  if (settled.length > 0) await lookAgainIn(manager, tenantId, 0);
  const admission = await newestAdmission(manager, tenantId, made.admission, state, decideAgain);
  const now = await clockTime(manager);
  if (isTooOld(admission, now)) throw new Moved(admission.decided.revision);
  const ttl = body.ttl_seconds ?? automationTtl.default;
  const asked: AutomationRow = {
    id: randomUUID(),
    tenant_id: tenantId,
    state: 'denied',
    intent,
    decided: keptDecision(admission.decided),
    approval_id: null,
    ttl_seconds: ttl,
    requested_by: actorOf(request.caller),
    request_id: request.requestId,
    idempotency_key: body.idempotency_key ?? null,
    request_hash: canonicalHash(body),
    created_at: now,
    granted_at: null,
    started_at: null,
    expires_at: null,
    ended_at: now,
    outcome: null,
    resource: body.resource ?? null,
    parameters: body.parameters ?? null,
    action_digest: digestOf(exactAction(tenantId, body)),
    redeemed_at: null,
    redeemed_by: null,
    audience: body.audience ?? null,
    holds: null,
    actual_cost: null,
    weighed: null,
  };
  const evaluation = await evaluateBudgets(manager, tenantId, admission.budgets ?? [], asked, now);
  if (evaluation.isCostMissing && admission.decided.decision !== 'deny') throw costMissing();
  const isOver = evaluation.decision === 'approval_required';
  const isDenied = admission.decided.decision === 'deny' || evaluation.decision === 'deny';
  // Under the lock nobody can be called to plan an approval.
  const isPlanned = needsApproval(admission, isOver) === (approval !== undefined);
  const isSaid = isOver === made.over.length > 0 && areNamed(evaluation.reasons, made.over);
  if (!isDenied && !(isPlanned && isSaid))
    throw new Moved(admission.decided.revision, isOver ? evaluation.reasons : []);
  const weighed = {
    ...asked,
    decided: withBudgets(asked.decided, evaluation),
    weighed: {
      at: admission.at.toISOString(),
      is_proven: admission.is_proven,
      balances: evaluation.balances,
    },
  };
  const row = isDenied
    ? weighed
    : await placed(
        manager,
        options,
        { asked: weighed, admission, approval, charging: evaluation },
        request,
      );
  await manager.insert(AutomationEntity.options.name, row);
  await recordStates(manager, [row], request);
  await recordTransitions(manager, settled);
  return row;
}

/** What nothing denies but the number of slots. */
interface Weighed extends Pick<NewAutomation, 'admission' | 'approval'> {
  readonly asked: AutomationRow;
  readonly charging: Charging;
}

/**
 * The new automation with its state: running where a slot is free, waiting with its approval, which
 * holds nothing of budgets, or denied.
 */
async function placed(
  manager: EntityManager,
  options: AutomationOptions,
  { asked, admission, approval, charging }: Weighed,
  request: Request,
): Promise<AutomationRow> {
  const { tenant_id: tenantId, created_at: now, ttl_seconds: ttl } = asked;
  // Counted under the lock on the tenant's slots.
  const requireRoomToLive = () =>
    requireRoom(manager, tenantId, 'automations_live', options.settings());
  if (approval) {
    await requireRoomToLive();
    const made = await insertApproval(
      manager,
      options,
      tenantId,
      approval.body,
      approval.plan,
      request,
      approval.asker,
    );
    if (!made) throw new Error('an approval without an idempotency_key was there already');
    const waits = { approval_id: made.id, expires_at: made.expires_at, ended_at: null };
    return { ...asked, state: 'waiting_approval', ...waits };
  }
  const { running, waiting } = await countSlots(manager, tenantId);
  const { slots } = admission;
  const denial = denialOf({ decided: asked.decided, slots }, running + waiting + 1);
  if (denial) return { ...asked, decided: denial };
  await requireRoomToLive();
  const runs = {
    started_at: now,
    expires_at: new Date(now.getTime() + ttl * 1000),
    ended_at: null,
  };
  const holds = await charge(manager, tenantId, charging, asked.request_id);
  return { ...asked, state: 'running', ...runs, ...(holds.length > 0 && { holds }) };
}
