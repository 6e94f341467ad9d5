/**
 * The loop that gives slots to what was granted, and ends what has had its time. It goes by what is
 * stored, not by what it was told: whatever a node that is gone left undone, any notifier node does
 * within a second.
 */
import type { Logger } from 'pino';
import type { DataSource, EntityManager } from 'typeorm';
import {
  startBackgroundLoop,
  type BackgroundLoop,
} from '../../../shared/concurrency/background-loop.ts';
import type { Call } from '../../../shared/contract-runtime/request.ts';
import { codeOf } from '../../../shared/errors.ts';
import { denialOf, type Admission } from '../rules/automation.ts';
import { withBudgets } from '../../../shared/budgets/judge.ts';
import { AutomationEntity, type AutomationRow } from '../schema.ts';
import { recordStates } from '../stores/automation-events.ts';
import {
  countSlots,
  denyGranted,
  grantedRows,
  heldRevisions,
  isSameRevision,
  lockSlots,
  settleDue,
  startGranted,
  tenantsWithWork,
} from '../stores/automations.ts';
import { clockTime, databaseTime } from '../stores/clock.ts';
import { charge, judgeBudgets, keepHolds } from '../stores/ledger.ts';

const pollMs = 1000;
/** Of one tenant at a time; the limit is at most 1000. */
const mostAtOnce = 50;

export interface AutomationWorkerOptions {
  readonly db: DataSource;
  readonly log: Logger;
  readonly call: Call;
  /** Called where an automation of the tenant changed. */
  readonly announce: (tenantId: string) => void;
}

export function startGivingSlots(options: AutomationWorkerOptions): BackgroundLoop {
  const { db, log } = options;

  async function look(stopping: AbortSignal): Promise<number> {
    const tenants = await tenantsWithWork(db.manager);
    for (const tenantId of tenants) {
      if (stopping.aborted) return 0;
      try {
        await giveSlots(options, tenantId);
      } catch (error) {
        log.warn(
          { err: error, tenant_id: tenantId },
          'slots of a tenant cannot be given; it is tried again every second',
        );
      }
    }
    return pollMs;
  }

  return startBackgroundLoop({
    log,
    look,
    retryMs: pollMs,
    complaint: 'automations cannot be read; it is tried again every second',
  });
}

/** What the limits say of one that was granted; null where what it touches is gone. */
type Admissions = ReadonlyMap<string, Admission | null>;

async function giveSlots(options: AutomationWorkerOptions, tenantId: string): Promise<void> {
  const { db, call, announce } = options;
  const granted = await grantedRows(db.manager, tenantId, mostAtOnce);
  const at = (await databaseTime(db.manager)).toISOString();
  const admissions = new Map<string, Admission | null>();
  for (const { id, intent } of granted)
    admissions.set(id, await admissionOf(call, tenantId, { ...intent, at }));
  const changed = await db.transaction(async (manager) => {
    await lockSlots(manager, tenantId);
    const settled = await settleDue(manager, tenantId);
    const placed = await placeGranted(manager, tenantId, admissions);
    await recordStates(manager, settled);
    await recordStates(manager, placed);
    return settled.length + placed.length;
  });
  if (changed > 0) announce(tenantId);
}

async function admissionOf(
  call: Call,
  tenantId: string,
  body: Parameters<typeof call<'config-resolver.admission'>>[1]['body'],
): Promise<Admission | null> {
  try {
    return await call('config-resolver.admission', { tenant_id: tenantId, body });
  } catch (error) {
    if (codeOf(error) === 'not_found') return null;
    throw error;
  }
}

/**
 * Starts those that wait, in order, while slots are free. Limits that deny by now bind also what
 * was granted. Where the decision is not by the newest configuration, it and those after it wait
 * for the next look.
 */
async function placeGranted(
  manager: EntityManager,
  tenantId: string,
  admissions: Admissions,
): Promise<AutomationRow[]> {
  const waiting = await grantedRows(manager, tenantId, mostAtOnce);
  if (waiting.length === 0) return [];
  const held = await heldRevisions(manager, tenantId);
  let { running } = await countSlots(manager, tenantId);
  const placed: string[] = [];
  const now = await clockTime(manager);
  for (const row of waiting) {
    const { id, decided } = row;
    const admission = admissions.get(id);
    if (admission === undefined) break;
    if (admission !== null && !isSameRevision(held, admission.decided.revision)) break;
    // Refused as the only one, it never will start.
    const denial = admission ? denialOf(admission, 1) : { ...decided, decision: 'deny' as const };
    if (denial) {
      if (await denyGranted(manager, id, denial)) placed.push(id);
      continue;
    }
    if (denialOf(admission!, running + 1)) continue;
    const judged = await judgeBudgets(manager, tenantId, admission!.budgets ?? [], row, now);
    // A grant answers a budget that asks for approval, and none that denies.
    if (judged.decision === 'deny' || judged.isCostMissing) {
      const refused = { ...withBudgets(decided, judged), decision: 'deny' as const };
      if (await denyGranted(manager, id, refused)) placed.push(id);
      continue;
    }
    if (!(await startGranted(manager, id))) continue;
    await keepHolds(manager, id, await charge(manager, tenantId, judged));
    running += 1;
    placed.push(id);
  }
  const rows = await Promise.all(
    placed.map((id) => manager.findOneByOrFail(AutomationEntity, { id })),
  );
  return rows;
}
