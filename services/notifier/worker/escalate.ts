/**
 * The loop that escalates approvals, reminds of them, exhausts and expires them. Each is handled in one transaction under
 * the lock on its row: of two nodes one fires a hop, and of a hop and a decision one comes first.
 */
import type { Logger } from 'pino';
import type { DataSource, EntityManager } from 'typeorm';
import { serviceCaller } from '../../../shared/access.ts';
import {
  startBackgroundLoop,
  type BackgroundLoop,
} from '../../../shared/concurrency/background-loop.ts';
import { auditFacts, recordEvents } from '../../../shared/commits/commit.ts';
import type { ApprovalState, NoticeType } from '../../../shared/contracts/notifier.ts';
import { groupAt } from '../rules/approval.ts';
import { destinationsOf, distinct } from '../channels/destinations.ts';
import { dueStep, nextTimes, type Step } from '../rules/escalation.ts';
import type { FrozenConfig } from '../rules/frozen-config.ts';
import { noticesOf } from '../rules/notice.ts';
import { ApprovalEntity, type ApprovalRow, type Destination } from '../schema.ts';
import { markChanged } from '../stores/approvals.ts';
import { cancelUnsent, queueNotices } from '../stores/notices.ts';

const pollMs = 1000;

export interface EscalationOptions {
  readonly db: DataSource;
  readonly log: Logger;
  /** Opens ApprovalRow.frozen. */
  readonly open: (sealed: string, tenantId: string) => FrozenConfig;
  /** Called when notices have been queued. */
  readonly onQueued: () => void;
  /** Called when an approval of the tenant has changed. */
  readonly onChanged: (tenantId: string) => void;
}

const noticeTypeOf = {
  escalate: 'approval.escalated',
  exhaust: 'approval.exhausted',
  expire: 'approval.expired',
  remind: 'approval.reminded',
} as const satisfies Record<Step, NoticeType>;

const endStateOf = {
  exhaust: 'exhausted',
  expire: 'expired',
} as const satisfies Partial<Record<Step, ApprovalState>>;

/** Stopped, it ends after the approval that is being fired. */
export function startEscalating({
  db,
  log,
  open,
  onQueued,
  onChanged,
}: EscalationOptions): BackgroundLoop {
  async function fire(manager: EntityManager, row: ApprovalRow, now: Date): Promise<void> {
    const step = dueStep(row, now);
    if (step === null) return;

    const change = changeOf(step, row, now);
    const changed: ApprovalRow = { ...row, ...change };
    await manager.update(ApprovalEntity, { id: row.id }, change);

    const frozen = open(row.frozen, row.tenant_id);
    const destinations = await whoHears(manager, changed, frozen, step);
    const type = noticeTypeOf[step];
    const notices = noticesOf(changed, type, destinations, now);
    await queueNotices(manager, changed, frozen.revision, notices);
    const event = {
      action: type,
      tenant_id: row.tenant_id,
      target: row.id,
      actor: { type: 'system', id: 'notifier' },
      payload: {
        hop: changed.hop,
        group: groupAt(row.chain, changed.hop),
        notices: notices.length,
      },
    } as const;
    const by = { caller: serviceCaller('notifier'), requestId: row.request_id };
    await recordEvents(manager, [auditFacts(event, by)]);
    await markChanged(manager, row);
  }

  /**
   * Fires one approval that is due. Answers its id, with the error if it could not be fired;
   * undefined where none is due.
   */
  async function fireOne(
    except: readonly string[],
  ): Promise<{ id: string; tenantId?: string; error?: unknown } | undefined> {
    let id: string | undefined;
    try {
      return await db.transaction(async (manager) => {
        const [due] = await manager.query<{ id: string; now: Date }[]>(
          `SELECT id, now() AS now FROM notifier.approvals
           WHERE state = 'pending' AND least(escalates_at, expires_at, reminds_at) <= now()
             AND id <> ALL($1)
           ORDER BY least(escalates_at, expires_at, reminds_at) LIMIT 1 FOR UPDATE SKIP LOCKED`,
          [except],
        );
        if (!due) return undefined;
        id = due.id;
        const row = await manager.findOneByOrFail(ApprovalEntity, { id });
        await fire(manager, row, due.now);
        return { id, tenantId: row.tenant_id };
      });
    } catch (error) {
      if (id === undefined) throw error;
      return { id, error };
    }
  }

  /**
   * Fires everything that is due now. An approval that cannot be fired does not hold up the others.
   */
  async function fireDue(stopping: AbortSignal): Promise<number> {
    const failedIds: string[] = [];
    while (!stopping.aborted) {
      const fired = await fireOne(failedIds);
      if (!fired || stopping.aborted) break;
      if (fired.tenantId !== undefined) {
        onQueued();
        onChanged(fired.tenantId);
        continue;
      }
      log.error(
        { err: fired.error, approval_id: fired.id },
        'an approval cannot be escalated; it is tried again every second',
      );
      failedIds.push(fired.id);
    }
    return pollMs;
  }

  return startBackgroundLoop({
    log,
    look: fireDue,
    retryMs: pollMs,
    complaint: 'what is due cannot be read; it is tried again every second',
  });
}

function changeOf(step: Step, row: ApprovalRow, now: Date) {
  if (step === 'escalate') return nextTimes(row, now);
  if (step === 'remind') return { reminds_at: null };
  return { state: endStateOf[step], escalates_at: null };
}

/**
 * A hop is told to those whom it asks, and so is a reminder to those whom the last hop asked. The end of an approval is told to everybody who may have
 * observed it; exhaustion also to those whom the last hop asks, as the last call.
 */
async function whoHears(
  manager: EntityManager,
  approval: ApprovalRow,
  frozen: FrozenConfig,
  step: Step,
): Promise<Destination[]> {
  const ends = step === 'exhaust' || step === 'expire';
  const reached = ends ? await cancelUnsent(manager, approval.id) : [];
  const asked = step === 'expire' ? [] : destinationsOf(approval, frozen, approval.hop);
  return distinct([...reached, ...asked]);
}
