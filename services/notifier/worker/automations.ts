/**
 * The loop that gives slots to what was granted, and ends what has had its time. It goes by what is
 * stored, not by what it was told: whatever a node that is gone left undone, any notifier node does
 * within seconds.
 *
 * | What is to be done                  | Found by                                                              |
 * |-------------------------------------|-----------------------------------------------------------------------|
 * | an event in a tenant                | the node where it happened is told of the tenant, no other            |
 * | a time is up, an approval has ended | an index of these, each second                                        |
 * | somebody waits for a slot           | `look_at` of the tenant: when a slot was freed, when configuration changed, every minute |
 */
import { LRUCache } from 'lru-cache';
import { setTimeout as delay } from 'node:timers/promises';
import { Any, type EntityManager } from 'typeorm';
import { startBackgroundLoop } from '../../../shared/concurrency/background-loop.ts';
import { BatchQueue } from '../../../shared/concurrency/batch-queue.ts';
import {
  areStillSo,
  holdAccounts,
  identitiesOf,
  isKeyGood,
  whileAsRead,
  type ReadRight,
} from '../../../shared/commits/held-rights.ts';
import type { Call } from '../../../shared/contract-runtime/request.ts';
import type { LoopOptions } from '../../../shared/contract-runtime/service.ts';
import { ifFound } from '../../../shared/errors.ts';
import { isUuid } from '../../../shared/schema/uuid.ts';
import { stateOfTenant, type TenantState } from '../actions/newest-decision.ts';
import {
  areNamed,
  denialOf,
  isTooOld,
  keptDecision,
  type TimedAdmission,
} from '../rules/automation.ts';
import { withBudgets, type Evaluation } from '../../../shared/budgets/evaluate.ts';
import { ApprovalEntity, type AutomationRow, type StoredRequester } from '../schema.ts';
import { recordTransitions } from '../stores/automation-events.ts';
import {
  claimTenantsDue,
  countSlots,
  denyGranted,
  grantedRows,
  hasGranted,
  heldRevisions,
  isDecidedBy,
  lockSlots,
  lookAgainIn,
  lookNow,
  settleDue,
  startGranted,
  type Denial,
  type GrantedRow,
  type Start,
} from '../stores/automations.ts';
import { clockTime, databaseTime } from '../stores/clock.ts';
import { charge, evaluateBudgets } from '../stores/ledger.ts';

const pollMs = 1000;
/** Of one tenant at a time; the limit is at most 1000. */
const mostAtOnce = 50;
/** Tenants of one kind of work that one look finds. */
const mostTenants = 100;
/** Tenants that are found due and seen to at the same time. */
const lanes = 8;
/** Where config-resolver does not answer, what needs no answer of it is looked for again by then. */
const patienceMs = 2000;
/** Another node sees to a tenant that this one has claimed and not seen to. */
const claimSeconds = 10;
/** A tenant in which that fails is not among those that are found due until then. */
const othersFirstMs = 3000;
/** Those who wait are looked at this often where nothing happens. */
const lookAgainSeconds = 60;
/** The same after a look that could not decide. */
const retrySeconds = 1;

export interface AutomationWorkerOptions extends LoopOptions {
  /** Called where an automation of the tenant changed. */
  readonly announce: (tenantId: string) => void;
}

export interface SlotWorker {
  /** To be called on the node where something of the tenant's changed that may free or want a slot. */
  readonly wake: (tenantId: string) => void;
  /**
   * To be called where configuration changed, of one tenant or of all: with it the number of slots
   * may have. Some node looks within a second.
   */
  readonly configured: (tenantId: string | 'all') => void;
  readonly stop: () => Promise<void>;
}

export function startGivingSlots(options: AutomationWorkerOptions): SlotWorker {
  const { db, log } = options;
  const seeing = new Set<Promise<unknown>>();
  let configured = new Set<string>();
  /** Tenants in which it failed, while others come first. */
  const later = new LRUCache<string, true>({ max: 10_000, ttl: othersFirstMs });
  let isStopping = false;

  /** One at a time of each tenant; who comes meanwhile is answered by the next turn. */
  const queue = new BatchQueue<Visit>(Infinity, async (tenantId, visits) => {
    const isDue = visits.some((visit) => visit.isDue);
    const seen = isStopping ? Promise.resolve() : seeTo(tenantId, isDue);
    seeing.add(seen);
    await seen;
    seeing.delete(seen);
    for (const { end } of visits) end();
    return [];
  });

  async function seeTo(tenantId: string, isDue: boolean): Promise<void> {
    try {
      let hasMore = isDue || (await hasGranted(db.manager, tenantId));
      while (hasMore) hasMore = (await giveSlots(options, tenantId)) && !isStopping;
    } catch (error) {
      later.set(tenantId, true);
      log.warn(
        { err: error, tenant_id: tenantId },
        'slots of a tenant cannot be given; it is tried again every few seconds',
      );
    }
  }

  const visit = (tenantId: string): Promise<void> =>
    new Promise((end) => queue.add(tenantId, { isDue: true, end }));

  async function lookWhereConfigured(): Promise<void> {
    if (configured.size === 0) return;
    const tenants = configured;
    configured = new Set();
    await lookNow(db.manager, tenants.has('all') ? 'all' : [...tenants]);
  }

  async function look(stopping: AbortSignal): Promise<number> {
    await lookWhereConfigured();
    const due = await claimTenantsDue(db, mostTenants, claimSeconds, [...later.keys()]);
    const left = due.values();
    const lane = async (): Promise<void> => {
      for (const tenantId of left) {
        if (stopping.aborted) return;
        await visit(tenantId);
      }
    };
    const seen = Promise.all(Array.from({ length: lanes }, lane));
    await Promise.race([seen, delay(patienceMs, undefined, { ref: false })]);
    return due.length < mostTenants ? pollMs : 0;
  }

  const loop = startBackgroundLoop({
    log,
    look,
    retryMs: pollMs,
    complaint: 'automations cannot be read; it is tried again every second',
  });
  return {
    wake: (tenantId) => queue.add(tenantId, { isDue: false, end: () => undefined }),
    configured: (tenantId) => configured.add(tenantId),
    async stop() {
      isStopping = true;
      await loop.stop();
      await Promise.all(seeing);
    },
  };
}

interface Visit {
  /** Found in the database; what this node was told is looked for first. */
  readonly isDue: boolean;
  readonly end: () => void;
}

/** What the limits say of one that was granted; null where what it touches is gone. */
type Admissions = ReadonlyMap<string, TimedAdmission | null>;

/**
 * Times are up whatever the limits are; where these cannot be read, the others wait. Answers whether
 * there may be more to settle.
 */
async function giveSlots(options: AutomationWorkerOptions, tenantId: string): Promise<boolean> {
  const { db, announce } = options;
  let failure: unknown;
  const { changed, hasMore } = await whileAsRead(async () => {
    failure = undefined;
    const granted = await admissionsOf(options, tenantId).catch((error: unknown) => {
      failure = error;
      return nothingGranted;
    });
    return db.transaction(async (manager) => {
      await lockSlots(manager, tenantId);
      const { settled, hasMore } = await settleDue(manager, tenantId);
      const { placed, isComplete } = await placeGranted(manager, tenantId, granted);
      await lookAgainIn(manager, tenantId, isComplete ? lookAgainSeconds : retrySeconds);
      await recordTransitions(manager, [...settled, ...placed]);
      if (placed.length > 0) await holdAccounts(manager, [...granted.requesters.values()]);
      return { changed: settled.length + placed.length, hasMore };
    });
  });
  if (changed > 0) announce(tenantId);
  if (failure !== undefined) throw failure;
  return hasMore;
}

/** Whoever asked for one that was granted. */
interface Requester extends ReadRight {
  /** Still a member or a service account, with the key that they came with. */
  readonly isThere: boolean;
}

interface Granted {
  readonly admissions: Admissions;
  /** By the automation's approval. */
  readonly requesters: ReadonlyMap<string, Requester>;
  /** Undefined where nothing was granted. */
  readonly state: TenantState | undefined;
}
const nothingGranted: Granted = {
  admissions: new Map(),
  requesters: new Map(),
  state: undefined,
};

/** Of those that were granted; those of one intent have the same. */
async function admissionsOf(
  { db, call }: AutomationWorkerOptions,
  tenantId: string,
): Promise<Granted> {
  const granted = await grantedRows(db.manager, tenantId, mostAtOnce);
  if (granted.length === 0) return nothingGranted;
  const at = await databaseTime(db.manager);
  const byIntent = Map.groupBy(granted, ({ intent }) => JSON.stringify(intent));
  const admissions = new Map<string, TimedAdmission | null>();
  for (const alike of byIntent.values()) {
    const body = { ...alike[0]!.intent, at: at.toISOString() };
    const asked = { tenant_id: tenantId, body };
    const admission = await ifFound(call('config-resolver.admission', asked));
    for (const { id } of alike) admissions.set(id, admission && { ...admission, at });
  }
  // Last, so that seldom a change of some member comes before it is compared.
  const state = await stateOfTenant(db.manager, tenantId, call);
  if (!state.isActive) return { ...nothingGranted, state };
  return { admissions, requesters: await requestersOf(db.manager, tenantId, granted, call), state };
}

async function requestersOf(
  manager: EntityManager,
  tenantId: string,
  granted: readonly GrantedRow[],
  call: Call,
): Promise<ReadonlyMap<string, Requester>> {
  const approvals = await manager.find(ApprovalEntity, {
    select: { id: true, requested_by: true },
    where: { id: Any(granted.flatMap(({ approval_id: id }) => id ?? [])), tenant_id: tenantId },
  });
  const found = new Map<string, Promise<Requester>>();
  const requesters = approvals.map(async ({ id, requested_by: by }) => {
    const name = JSON.stringify([by.type, by.id, by.api_key?.id]);
    const known = found.get(name) ?? requesterOf(tenantId, by, call);
    found.set(name, known);
    return [id, await known] as const;
  });
  return new Map(await Promise.all(requesters));
}

async function requesterOf(
  tenantId: string,
  { type, id, api_key: key }: StoredRequester,
  call: Call,
): Promise<Requester> {
  // The console is no member, nor is a service on the bus.
  if (!isUuid(id)) return { isThere: true, revisions: {} };
  const principal = { isPerson: type === 'user', id, key: key?.id };
  const { decider, revisions } = await call('tenant-config.members.decider', {
    tenant_id: tenantId,
    ...(principal.isPerson ? { user_id: id } : { account_id: id }),
    groups: [],
  });
  const isThere = decider !== null && (await isKeyGood(principal, call));
  return { isThere, revisions, identities: identitiesOf(principal) };
}

/**
 * A grant lets those budgets be exceeded that people were told of, in the period that they were told
 * of. None that denies, and none that was filled while they were asked: else what waits together would
 * exceed it together, and one grant tomorrow's budget with today's.
 */
function isRefused(
  { decision, isCostMissing, reasons }: Evaluation,
  { reasons: previous }: AutomationRow['decided'],
  now: Date,
): boolean {
  if (decision === 'deny' || isCostMissing) return true;
  const named = previous.filter(({ resets_at: end }) => end !== undefined && new Date(end) > now);
  return !areNamed(reasons, named);
}

/**
 * Starts those that wait, in order, while slots are free, and none of a disabled tenant. Limits that
 * deny by now bind also what was granted, and nothing starts for whoever was removed, or whose key was
 * revoked. Where the decision is not by the newest configuration, it and those after it wait for the
 * next look, which is then soon.
 */
async function placeGranted(
  manager: EntityManager,
  tenantId: string,
  { admissions, requesters, state }: Granted,
): Promise<{ readonly placed: AutomationRow[]; readonly isComplete: boolean }> {
  const waiting = await grantedRows(manager, tenantId, mostAtOnce);
  if (waiting.length === 0) return { placed: [], isComplete: true };
  if (!state || !(await areStillSo(manager, [state, ...requesters.values()])))
    return { placed: [], isComplete: false };
  if (!state.isActive) return { placed: [], isComplete: true };
  const held = await heldRevisions(manager, tenantId);
  let { running } = await countSlots(manager, tenantId);
  const now = await clockTime(manager);
  const starts: Start[] = [];
  const denials: Denial[] = [];
  let decided = 0;
  for (const row of waiting) {
    const { id, decided: before, approval_id: approval } = row;
    const admission = admissions.get(id);
    if (admission === undefined) break;
    if (
      admission &&
      (isTooOld(admission, now) || !(await isDecidedBy(manager, held, admission.decided.revision)))
    )
      break;
    decided += 1;
    const hasRequester = requesters.get(approval ?? '')?.isThere !== false;
    // Refused as the only one, it never will start.
    const denial =
      admission && hasRequester ? denialOf(admission, 1) : { ...before, decision: 'deny' as const };
    if (denial) {
      denials.push({ id, decided: denial });
      continue;
    }
    if (denialOf(admission!, running + 1)) continue;
    // Its approval was decided after the approvals that have ended were looked at: for the next look.
    if (row.state !== 'waiting_slot') continue;
    const evaluation = await evaluateBudgets(manager, tenantId, admission!.budgets ?? [], row, now);
    if (isRefused(evaluation, before, now)) {
      denials.push({
        id,
        decided: { ...withBudgets(keptDecision(admission!.decided), evaluation), decision: 'deny' },
      });
      continue;
    }
    // Before the next is judged, which has what this one leaves.
    const holds = await charge(manager, tenantId, evaluation, row.request_id);
    running += 1;
    starts.push({ id, holds: holds.length > 0 ? holds : null });
  }
  const denied = denials.length > 0 ? await denyGranted(manager, denials) : [];
  const started = starts.length > 0 ? await startGranted(manager, starts) : [];
  const placed = [...denied, ...started];
  // More may wait than were looked at, and have what these leave.
  const isLast = waiting.length < mostAtOnce || placed.length === 0;
  return { placed, isComplete: decided === waiting.length && isLast };
}
