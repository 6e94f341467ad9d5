/**
 * The loop that tells people that a budget has reached its `warn_at`.
 *
 * | What                          | Kept by                                                               |
 * |-------------------------------|-----------------------------------------------------------------------|
 * | once for a budget and period  | the row of the warning, whose notices are queued in the transaction that empties it |
 * | also after a kill             | the row is written with the automation that was judged, and is found by `notice_due_at` |
 * | by the tenant's configuration | read when they are queued, and sealed beside each notice              |
 */
import { serviceCaller } from '../../../shared/access.ts';
import {
  startBackgroundLoop,
  type BackgroundLoop,
} from '../../../shared/concurrency/background-loop.ts';
import type { LoopOptions } from '../../../shared/contract-runtime/service.ts';
import { codeOf, ifFound } from '../../../shared/errors.ts';
import type { ApprovalOptions } from '../actions/deciding.ts';
import { countNamed, destinationsOf } from '../channels/destinations.ts';
import { channelConfigOf, type FrozenConfig } from '../rules/frozen-config.ts';
import { budgetNoticesOf } from '../rules/notice.ts';
import type { Destination } from '../schema.ts';
import {
  claimWarnings,
  lockWarning,
  markNotified,
  type DueWarning,
} from '../stores/budget-warnings.ts';
import { databaseTime } from '../stores/clock.ts';
import { queueForSomebody } from '../stores/notices.ts';

const pollMs = 1000;

export type WarningOptions = LoopOptions &
  Pick<ApprovalOptions, 'vault' | 'takeMails' | 'onQueued'>;

/** Stopped, it ends after the warning that is being told. */
export function startTellingWarnings(options: WarningOptions): BackgroundLoop {
  const { db, log, onQueued } = options;
  return startBackgroundLoop({
    log,
    retryMs: pollMs,
    complaint: 'warnings of budgets cannot be read; it is tried again every second',
    async look(stopping) {
      const due = await claimWarnings(db);
      for (const warning of due) {
        if (stopping.aborted) break;
        try {
          await notify(options, warning);
          onQueued();
        } catch (error) {
          log.warn(
            { err: error, ...warning },
            'the warning of a budget cannot be queued; it is tried again in ten seconds',
          );
        }
      }
      return due.length > 0 ? 0 : pollMs;
    },
  });
}

async function notify(options: WarningOptions, warning: DueWarning): Promise<void> {
  const { db, vault } = options;
  const frozen = await configOf(options, warning.tenant_id);
  const destinations = frozen ? await destinationsFor(options, warning.tenant_id, frozen) : [];
  await db.transaction(async (manager) => {
    const data = await lockWarning(manager, warning);
    if (data === undefined) return;
    if (frozen) {
      const now = await databaseTime(manager);
      const sealed = vault.seal(frozen, warning.tenant_id);
      const about = { id: null, tenant_id: warning.tenant_id, sealed };
      await queueForSomebody(manager, about, frozen, destinations, (to) =>
        budgetNoticesOf(data, to, now),
      );
    }
    await markNotified(manager, warning);
  });
}

/** Undefined for a tenant that is gone. */
async function configOf(
  { call }: WarningOptions,
  tenantId: string,
): Promise<FrozenConfig | undefined> {
  const found = await ifFound(
    Promise.all([
      call('tenant-config.notifications.open', { tenant_id: tenantId }),
      call('tenant-config.members.approvers', { tenant_id: tenantId, groups: [] }),
    ]),
  );
  if (!found) return undefined;
  const [{ config, revision }, { admins }] = found;
  return { config: channelConfigOf(config), revision, groups: {}, admins };
}

/**
 * Everywhere that an approval without groups is announced; without mails where the tenant's share of
 * these is used up and there are other channels.
 */
async function destinationsFor(
  { takeMails }: WarningOptions,
  tenantId: string,
  frozen: FrozenConfig,
): Promise<Destination[]> {
  const all = destinationsOf({ tenant_id: tenantId, chain: [] }, frozen, 0);
  try {
    await takeMails(tenantId, serviceCaller('notifier'), countNamed([], frozen));
    return all;
  } catch (error) {
    const others = all.filter(({ channel }) => channel !== 'email');
    if (codeOf(error) !== 'rate_limited' || others.length === 0) throw error;
    return others;
  }
}
