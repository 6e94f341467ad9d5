import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/cluster/request.ts';
import {
  notificationSecrets,
  type NotificationConfig,
} from '../../../shared/contracts/notification-config.ts';
import { StrataError } from '../../../shared/errors.ts';
import { concealSecrets, openSecrets } from '../../../shared/security/document-secrets.ts';
import type { Settings } from '../../../shared/settings.ts';
import { notificationContext, notificationVault } from '../documents/notifications.ts';
import { effectiveNotifications } from '../rules/effective-notifications.ts';
import { TenantEntity } from '../schema.ts';

export function notificationActions(db: DataSource, settings: () => Settings) {
  const find = async (id: string) => {
    const tenant = await db.manager.findOneBy(TenantEntity, { id });
    if (!tenant) throw new StrataError('not_found', 'There is no such tenant.');
    return {
      config: tenant.notification_config as NotificationConfig | null,
      revision: tenant.notification_revision,
    };
  };
  return {
    'tenant-config.notifications.effective': async ({ tenant_id }) =>
      concealSecrets(effectiveNotifications((await find(tenant_id)).config, settings())),
    async 'tenant-config.notifications.open'({ tenant_id }) {
      const { config, revision } = await find(tenant_id);
      const opened = openSecrets(
        config,
        notificationSecrets,
        notificationVault(settings()),
        notificationContext(tenant_id),
      );
      return { config: effectiveNotifications(opened, settings()), revision };
    },
  } satisfies Handlers;
}
