import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/broker/request.ts';
import { StrataError } from '../../../shared/errors.ts';
import { concealSecrets, isSealed, mapStrings } from '../../../shared/secrets.ts';
import type { Settings } from '../../../shared/settings.ts';
import { notificationContext, notificationVault } from '../kinds/notifications.ts';
import { effectiveNotifications } from '../rules/effective-notifications.ts';
import type { Config } from '../rules/notification-secrets.ts';
import { TenantEntity } from '../schema.ts';

export function notificationActions(db: DataSource, settings: () => Settings) {
  const find = async (id: string) => {
    const tenant = await db.manager.findOneBy(TenantEntity, { id });
    if (!tenant) throw new StrataError('not_found', 'There is no such tenant.');
    return { config: tenant.notification_config as Config | null, revision: tenant.notification_revision };
  };
  return {
    'tenant-config.notifications.effective': async ({ tenant_id }) =>
      concealSecrets(effectiveNotifications((await find(tenant_id)).config, settings())),
    async 'tenant-config.notifications.open'({ tenant_id }) {
      const { config, revision } = await find(tenant_id);
      const vault = notificationVault(settings());
      const context = notificationContext(tenant_id);
      return { config: mapStrings(config, (text) => isSealed(text) ? vault.open(text, context) : text), revision };
    },
  } satisfies Handlers;
}
