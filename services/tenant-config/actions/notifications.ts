/**
 * The notification_config as it is used: shown to the tenant with its secrets masked, given to the
 * notifier with them open.
 */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { readSnapshot, refuseOlderThan } from '../../../shared/commits/commit.ts';
import type { NotificationConfig } from '../../../shared/contracts/notification-config.ts';
import { tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import { senderInUse } from '../../../shared/mail/sender.ts';
import { concealSecrets } from '../../../shared/security/document-secrets.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { notificationSecrets } from '../documents/notification-config.ts';
import { effectiveNotifications } from '../rules/effective-notifications.ts';
import { changesSlack, countedRecipients, type RecentChange } from '../rules/recent-changes.ts';
import { recentChanges } from '../stores/recent-notifications.ts';
import { findTenant, findTenantsWithSlack } from '../stores/tenants.ts';

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

    'tenant-config.notifications.with-slack': () => findTenantsWithSlack(db.manager),

    async 'tenant-config.notifications.open'({ tenant_id, asked_by: askedBy }) {
      const scope = tenantScope(tenant_id);
      const { value } = await readSnapshot(db, scope, async (manager) => ({
        tenant: await findTenant(manager, tenant_id),
        changes: askedBy ? await recentChanges(manager, tenant_id, askedBy) : [],
      }));
      const { tenant, changes } = value;
      const rulesOf = (part: RecentChange['before']) => {
        const { approver_groups, approval_policy } = effectiveNotifications(
          withoutNulls(part),
          settings(),
        );
        return { approver_groups, approval_policy };
      };
      const secrets = notificationSecrets(settings);
      const config = secrets.open(tenant.notification_config, tenant_id);
      return {
        config: effectiveNotifications(config, settings()),
        revision: tenant.notification_revision,
        counted_recipients: countedRecipients(tenant.notification_config, changes),
        slack_counts: !changesSlack(changes),
        recent_changes: changes.map(({ before, after }) => ({
          before: rulesOf(before),
          after: rulesOf(after),
        })),
      };
    },
  }) satisfies Handlers;

/** A part that the document lacks is null where the database made the object. */
const withoutNulls = (part: RecentChange['before']): NotificationConfig | null =>
  part &&
  (Object.fromEntries(
    Object.entries(part).filter(([, value]) => value !== null),
  ) as NotificationConfig);
