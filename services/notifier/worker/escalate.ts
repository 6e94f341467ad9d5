/**
 * The loop that escalates approvals, reminds of them, exhausts and expires them. Each is handled in
 * one transaction under the lock on its row: of two nodes one fires a hop, and of a hop and a
 * decision one comes first.
 */
import { LRUCache } from 'lru-cache';
import type { EntityManager } from 'typeorm';
import {
  startBackgroundLoop,
  type BackgroundLoop,
} from '../../../shared/concurrency/background-loop.ts';
import { recordEvents } from '../../../shared/commits/commit.ts';
import type { LoopOptions } from '../../../shared/contract-runtime/service.ts';
import type { ApprovalState, NoticeType } from '../../../shared/contracts/notifier.ts';
import { isDatabaseOutage } from '../../../shared/database/failures.ts';
import type { ApprovalOptions } from '../actions/deciding.ts';
import { groupAt } from '../rules/approval.ts';
import { isTooOld } from '../rules/automation.ts';
import { destinationsOf, distinct } from '../channels/destinations.ts';
import { dueStep, nextTimes, type Step } from '../rules/escalation.ts';
import {
  lostConfig,
  stayingOf,
  withoutLeavers,
  type Approvers,
  type FrozenConfig,
} from '../rules/frozen-config.ts';
import { noticesOf } from '../rules/notice.ts';
import { ApprovalEntity, type ApprovalRow, type Destination } from '../schema.ts';
import { markChanged } from '../stores/approvals.ts';
import { dueApprovals, isDue, type Due } from '../stores/due-approvals.ts';
import { cancelUnsent, queueForSomebody } from '../stores/notices.ts';
import { ownFacts } from '../stores/own-events.ts';

const pollMs = 1000;
/**
 * One that cannot be fired is tried again after this time, such as by a node that has its key: it
 * neither fills the log nor takes the time of others.
 */
const failedMs = 30_000;
const mostFailed = 10_000;

export interface EscalationOptions
  extends LoopOptions, Pick<ApprovalOptions, 'onQueued' | 'onChanged'> {
  readonly vault: Pick<ApprovalOptions['vault'], 'openIfKept'>;
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
export function startEscalating(options: EscalationOptions): BackgroundLoop {
  const { db, log, onQueued, onChanged } = options;
  /** Ids of those that could not be fired, until they are tried again. */
  const later = new LRUCache<string, true>({ max: mostFailed, ttl: failedMs });

  /**
   * False where another node has it, it is due no more, or this node stood still since it looked who
   * is a member.
   */
  const fireOne = ({ id, at }: Due, present: Approvers | undefined): Promise<boolean> =>
    db.transaction(async (manager) => {
      const [due] = await manager.query<{ now: Date }[]>(
        `SELECT now() AS now FROM notifier.approvals WHERE id = $1 AND ${isDue} FOR UPDATE SKIP LOCKED`,
        [id],
      );
      if (!due || isTooOld({ at }, due.now)) return false;
      const row = await manager.findOneByOrFail(ApprovalEntity, { id });
      await fire(options, manager, row, due.now, present);
      return true;
    });

  /** Whether it was fired; one that cannot be is logged. */
  async function attempt(due: Due, present: Approvers | undefined): Promise<boolean> {
    try {
      if (!(await fireOne(due, present))) return false;
      onQueued();
      onChanged(due.tenant_id);
      return true;
    } catch (error) {
      log.error(
        { err: error, approval_id: due.id },
        'an approval cannot be escalated; it is tried again',
      );
      if (!isDatabaseOutage(error)) later.set(due.id, true);
      return false;
    }
  }

  /**
   * Fires everything that is due now. An approval that cannot be fired does not hold up the others,
   * nor does one that takes long since it asks thousands: what has become due meanwhile has its turn
   * before the next of the same tenant.
   */
  async function fireDue(stopping: AbortSignal): Promise<number> {
    const left = [...later.keys()];
    const lookup = memberLookup(options);
    let served: string[] = [];
    for (;;) {
      const round = await dueApprovals(db, left, served);
      if (round.length === 0) return pollMs;
      served = [];
      const askWho = lookup.ofRound();
      const roundEnds = performance.now() + pollMs;
      for (const due of round) {
        if (performance.now() > roundEnds) break;
        // Before the transaction, whose locks are not held over the bus.
        const present = stopping.aborted ? undefined : await askWho(due);
        if (stopping.aborted) return pollMs;
        if (!(await attempt(due, present))) left.push(due.id);
        served.push(due.tenant_id);
      }
    }
  }

  return startBackgroundLoop({
    log,
    look: fireDue,
    retryMs: pollMs,
    complaint: 'what is due cannot be read; it is tried again every second',
  });
}

/**
 * Who is a member by now, for one look; of approvals that ask the same it is read once in a round.
 * Undefined once tenant-config has not answered: escalation does not wait for it, and asks whom it
 * would have asked.
 */
function memberLookup({ call, log }: EscalationOptions) {
  let isAway = false;
  async function find({ tenant_id, chain }: Due): Promise<Approvers | undefined> {
    if (isAway) return undefined;
    try {
      return await call('tenant-config.members.approvers', { tenant_id, groups: chain });
    } catch (error) {
      log.warn({ err: error, tenant_id }, 'approvals escalate without looking who has left');
      isAway = true;
      return undefined;
    }
  }
  return {
    ofRound() {
      const found = new Map<string, Promise<Approvers | undefined>>();
      return (due: Due): Promise<Approvers | undefined> => {
        const asked = JSON.stringify([due.tenant_id, due.chain]);
        const approvers = found.get(asked) ?? find(due);
        found.set(asked, approvers);
        return approvers;
      };
    },
  };
}

async function fire(
  { vault }: EscalationOptions,
  manager: EntityManager,
  row: ApprovalRow,
  now: Date,
  present: Approvers | undefined,
): Promise<void> {
  const kept = vault.openIfKept(row.frozen, row.tenant_id);
  // Another node may have the key, while it is replaced.
  if (!kept && row.expires_at > now)
    throw new Error('what it is sent by does not open: SECRET_KEY has changed');
  const step = kept ? dueStep(row, now) : 'expire';
  if (step === null) return;

  const change = changeOf(step, row, now);
  const changed: ApprovalRow = { ...row, ...change };
  await manager.update(ApprovalEntity, { id: row.id }, change);

  const frozen = kept && present ? withoutLeavers(kept, present) : (kept ?? lostConfig);
  const destinations = await destinationsAfter(manager, changed, { frozen, present }, step);
  const type = noticeTypeOf[step];
  await queueForSomebody(manager, changed, frozen, destinations, (to) =>
    noticesOf(changed, type, to, now),
  );
  const event = {
    action: type,
    tenant_id: row.tenant_id,
    target: row.id,
    payload: {
      hop: changed.hop,
      group: groupAt(row.chain, changed.hop),
      notices: destinations.length,
    },
  };
  await recordEvents(manager, [ownFacts(event, row.request_id)]);
  await markChanged(manager, row);
}

function changeOf(step: Step, row: ApprovalRow, now: Date) {
  if (step === 'escalate') return nextTimes(row, now);
  if (step === 'remind') return { reminds_at: null };
  return { state: endStateOf[step], escalates_at: null };
}

/**
 * A hop notifies those whom it asks, and a reminder those whom the last hop asked. The end of an
 * approval notifies all whom it has reached, but for members who have left; exhaustion also those
 * whom the last hop asks, as the last call.
 */
async function destinationsAfter(
  manager: EntityManager,
  approval: ApprovalRow,
  { frozen, present }: { readonly frozen: FrozenConfig; readonly present: Approvers | undefined },
  step: Step,
): Promise<Destination[]> {
  const ends = step === 'exhaust' || step === 'expire';
  const reached = ends ? await cancelUnsent(manager, approval.id) : [];
  const notified = present ? stayingOf(reached, frozen, present) : reached;
  const asked = step === 'expire' ? [] : destinationsOf(approval, frozen, approval.hop);
  return distinct([...notified, ...asked]);
}
