/**
 * Notices of a tenant's change sets, to its webhooks and chats: mails of them go to those who wait
 * (auth's change-set-notices.ts). tenant-config hands steps over until it is answered.
 */
import type { ChangeSetStep } from '../../../shared/contracts/change-set-notices.ts';
import { channels } from '../../../shared/contracts/notifier.ts';
import type { Call, Handlers } from '../../../shared/contract-runtime/request.ts';
import { ifFound } from '../../../shared/errors.ts';
import { channelDestinations, distinct } from '../channels/destinations.ts';
import { channelConfigOf, type FrozenConfig } from '../rules/frozen-config.ts';
import { changeSetNoticesOf } from '../rules/notice.ts';
import { queueNotices } from '../stores/notices.ts';
import type { ApprovalOptions } from './deciding.ts';

export const changeSetActions = ({
  db,
  vault,
  onQueued,
}: Pick<ApprovalOptions, 'db' | 'vault' | 'onQueued'>) =>
  ({
    async 'notifier.change-sets.notify'({ tenant_id: tenantId, body: steps }, { call }) {
      const frozen = await configOf(call, tenantId);
      const notices = frozen ? noticesOf(tenantId, frozen, steps) : [];
      if (frozen && notices.length > 0) {
        const sealed = vault.seal(frozen, tenantId);
        const about = { id: null, tenant_id: tenantId, sealed };
        await db.transaction((manager) => queueNotices(manager, about, frozen.revision, notices));
        onQueued();
      }
      return { queued: notices.length };
    },
  }) satisfies Handlers;

function noticesOf(tenantId: string, { config }: FrozenConfig, steps: readonly ChangeSetStep[]) {
  // Without addresses mail has no destination.
  const destinations = distinct(
    channels.flatMap((channel) => channelDestinations(channel, tenantId, config, [])),
  );
  return steps.flatMap((step) => changeSetNoticesOf(step, destinations));
}

/** Undefined for a tenant that is gone. */
async function configOf(call: Call, tenantId: string): Promise<FrozenConfig | undefined> {
  const opened = await ifFound(call('tenant-config.notifications.open', { tenant_id: tenantId }));
  if (!opened) return undefined;
  const { config, revision } = opened;
  return { config: channelConfigOf(config), revision, groups: {}, admins: [] };
}
