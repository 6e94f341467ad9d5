import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { DataSource, EntityManager } from 'typeorm';
import { serviceCaller } from '../../../shared/access.ts';
import { auditFacts, recordEvents } from '../../../shared/commits/commit.ts';
import { groupAt } from '../rules/approval.ts';
import { dueStep, nextTimes } from '../rules/escalation.ts';
import type { NoticeType } from '../../../shared/contracts/notifier.ts';
import { noticesOf, targetsOf, type Frozen } from '../rules/notice.ts';
import { ApprovalEntity, type ApprovalRow } from '../schema.ts';
import { cancelUnsent, queueNotices } from '../stores/notices.ts';

const pollMs = 1000;

export interface Escalating {
  readonly db: DataSource;
  readonly log: Logger;
  readonly open: (sealed: string, tenantId: string) => Frozen;
  /** Called when notices have been queued. */
  readonly onQueued: () => void;
}

/** Fires what is due, each approval in one transaction under the lock on its row: of two nodes one fires a hop, a decision or the hop wins. */
export function startEscalating({ db, log, open, onQueued }: Escalating) {
  const stop = new AbortController();

  async function step(manager: EntityManager, row: ApprovalRow, now: Date): Promise<void> {
    const due = dueStep(row, now);
    if (due === null) return;
    const frozen = open(row.frozen, row.tenant_id);
    const change =
      due === 'escalate'
        ? nextTimes(row, now)
        : {
            state: due === 'exhaust' ? ('exhausted' as const) : ('expired' as const),
            escalates_at: null,
          };
    const next: ApprovalRow = { ...row, ...change };
    await manager.update(ApprovalEntity, { id: row.id }, change);
    const told = due === 'escalate' ? [] : await cancelUnsent(manager, row.id);
    const asked = due === 'expire' ? [] : targetsOf(next, frozen, next.hop);
    const targets = new Map(
      [...told, ...asked].map((target) => [`${target.channel} ${target.place}`, target]),
    );
    const type: NoticeType =
      due === 'escalate'
        ? 'approval.escalated'
        : due === 'exhaust'
          ? 'approval.exhausted'
          : 'approval.expired';
    await queueNotices(manager, next, frozen, noticesOf(next, type, [...targets.values()], now));
    await recordEvents(manager, [
      auditFacts(
        {
          action: type,
          tenant_id: row.tenant_id,
          target: row.id,
          actor: { type: 'system', id: 'notifier' },
          payload: { hop: next.hop, group: groupAt(row.chain, next.hop), notices: targets.size },
        },
        { caller: serviceCaller('notifier'), requestId: row.request_id },
      ),
    ]);
  }

  /** One approval a transaction; undefined when nothing is due. One that fails must not stand in the way of the others. */
  async function once(
    except: readonly string[],
  ): Promise<{ id: string; failed?: unknown } | undefined> {
    let id: string | undefined;
    try {
      return await db.transaction(async (manager) => {
        const [due] = await manager.query<{ id: string; now: Date }[]>(
          `SELECT id, now() AS now FROM notifier.approvals WHERE state = 'pending' AND least(escalates_at, expires_at) <= now() AND id <> ALL($1)
           ORDER BY least(escalates_at, expires_at) LIMIT 1 FOR UPDATE SKIP LOCKED`,
          [except],
        );
        if (!due) return undefined;
        id = due.id;
        await step(manager, await manager.findOneByOrFail(ApprovalEntity, { id }), due.now);
        return { id };
      });
    } catch (failed) {
      if (id === undefined) throw failed;
      return { id, failed };
    }
  }

  /** Everything that is due now. */
  async function fire(): Promise<void> {
    const failed: string[] = [];
    for (;;) {
      const fired = await once(failed);
      if (!fired || stop.signal.aborted) return;
      if ('failed' in fired) {
        log.error(
          { err: fired.failed, approval_id: fired.id },
          'an approval cannot be escalated; it is tried again every second',
        );
        failed.push(fired.id);
      } else onQueued();
    }
  }

  async function loop(): Promise<void> {
    let away = false;
    while (!stop.signal.aborted) {
      await fire().then(
        () => {
          away = false;
        },
        (error: unknown) => {
          if (!away)
            log.warn({ err: error }, 'what is due cannot be read; it is tried again every second');
          away = true;
        },
      );
      await delay(pollMs, undefined, { signal: stop.signal }).catch(() => {});
    }
  }
  const looping = loop();
  return {
    async stop(): Promise<void> {
      stop.abort();
      await looping;
    },
  };
}
