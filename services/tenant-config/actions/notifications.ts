/**
 * The notification_config as it is used: shown to the tenant with its secrets masked, given to the
 * notifier with them open.
 */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/cluster/request.ts';
import { readSnapshot, refuseOlderThan } from '../../../shared/commits/commit.ts';
import { notificationSecrets } from '../../../shared/contracts/notification-config.ts';
import { tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import { senderInUse } from '../../../shared/mail/sender.ts';
import { concealSecrets, openSecrets } from '../../../shared/security/document-secrets.ts';
import type { Settings } from '../../../shared/settings.ts';
import { notificationContext, notificationVault } from '../documents/notification-config.ts';
import { effectiveNotifications } from '../rules/effective-notifications.ts';
import { findTenant } from '../stores/tenants.ts';

export const notificationActions = (db: DataSource, settings: () => Settings) =>
  ({
    async 'tenant-config.notifications.effective'(
      { tenant_id, min_revision: wanted = 0 },
      request,
    ) {
      const scope = tenantScope(tenant_id);
      const { value: tenant, asOf } = await readSnapshot(db, scope, (manager) =>
        findTenant(manager, tenant_id),
      );
      refuseOlderThan({ [scope]: wanted }, asOf);
      const config = concealSecrets(effectiveNotifications(tenant.notification_config, settings()));
      const sender = await senderInUse(config.email.from_email, settings(), () =>
        request.call('auth.sso.providers.domains', { tenant_id }),
      );
      return { ...config, email: { ...config.email, from_email: sender } };
    },

    async 'tenant-config.notifications.open'({ tenant_id }) {
      const tenant = await findTenant(db.manager, tenant_id);
      const config = openSecrets(
        tenant.notification_config,
        notificationSecrets,
        notificationVault(settings()),
        notificationContext(tenant_id),
      );
      return {
        config: effectiveNotifications(config, settings()),
        revision: tenant.notification_revision,
      };
    },
  }) satisfies Handlers;
