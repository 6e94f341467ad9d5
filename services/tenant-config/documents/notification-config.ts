/**
 * A tenant's notification_config: a column of the tenant, null until it is set, its secrets
 * encrypted.
 */
import type { DataSource } from 'typeorm';
import type { Call } from '../../../shared/contract-runtime/request.ts';
import {
  NullableNotificationConfig,
  type NotificationConfig,
} from '../../../shared/contracts/notification-config.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import { columnsOf } from '../../../shared/database/columns.ts';
import type { DocumentKind, Stored } from '../../../shared/documents/document-kind.ts';
import { createGuard } from '../../../shared/outgoing/guard.ts';
import { concealSecrets, sealSecrets } from '../../../shared/security/document-secrets.ts';
import { createVault } from '../../../shared/security/vault.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import {
  notificationProblems,
  refusedAddresses,
  type RefusedAddresses,
} from '../rules/notification-addresses.ts';
import { emptyGroups } from '../rules/notification-config.ts';
import { maySetSender, senderProblems } from '../rules/sender.ts';
import { TenantEntity, type TenantRow } from '../schema.ts';
import { giftOf } from '../stores/givers.ts';
import { findStaffedGroups } from '../stores/members.ts';
import { notePrincipals } from '../stores/recent-notifications.ts';
import { noSuchTenant } from '../stores/tenants.ts';
import { tenantDocument } from './tenant-document.ts';

/** The key that a tenant's notification secrets are encrypted under. */
export const notificationVault = (settings: Settings) =>
  createVault(settings, 'notification_config');
/** What such a secret is bound to: it opens for no other tenant. */
export const notificationContext = (tenantId: string): string => `notification_config ${tenantId}`;

/** What had to be asked before the rules can judge. */
interface Findings {
  readonly refused: RefusedAddresses;
  /** Domains that the tenant may send mail from. */
  readonly vouchedDomains: readonly string[];
  /** The approver groups that have a member who may decide. */
  readonly staffed: ReadonlySet<string>;
}

/**
 * Domains that a tenant may send mail from: those of the platform, and those that the tenant's own
 * providers have verified.
 */
async function vouchedDomainsOf(
  tenantId: string,
  settings: Settings,
  call: Call,
): Promise<readonly string[]> {
  const verified = await call('auth.sso.providers.domains', { tenant_id: tenantId });
  return [...settings.mail_allowed_domains, ...verified];
}

const storedOf = (row: TenantRow): Stored<NotificationConfig | null> => ({
  document: row.notification_config,
  revision: row.notification_revision,
  updated_by: row.notification_updated_by,
  updated_at: row.notification_updated_at.toISOString(),
});

export function notificationKind(
  db: DataSource,
  settings: () => Settings,
): DocumentKind<TenantAddress, NotificationConfig | null, Findings> {
  const guard = createGuard(settings);
  const endpointsCap = (): number => settings().approval_webhook_endpoints_cap;
  const common = tenantDocument<TenantAddress, NotificationConfig | null>({
    auditName: 'notifications',
    configType: 'notification_config',
    resourceId: ({ tenant_id }) => tenant_id,
  });
  return {
    ...common,
    async recordHistory(manager, address, record, request) {
      await common.recordHistory!(manager, address, record, request);
      const { tenant_id: tenantId } = address;
      const { by } = await giftOf(manager, tenantId, request.caller, new Date(record.at));
      await notePrincipals(manager, tenantId, record.revision, by);
    },
    schema: NullableNotificationConfig,

    async read(manager, { tenant_id: id }) {
      const row = await manager.findOneBy(TenantEntity, { id });
      return row && storedOf(row);
    },
    async readToWrite(manager, { tenant_id: id }) {
      const row = await manager.findOneBy(TenantEntity, { id });
      const exists = row !== null && row.erasing_since === null;
      return { current: row && storedOf(row), missingOwner: exists ? undefined : noSuchTenant() };
    },
    async save(manager, { tenant_id: id }, stored) {
      const columns = columnsOf<Partial<TenantRow>>({
        notification_config: stored.document,
        notification_revision: stored.revision,
        notification_updated_by: stored.updated_by,
        notification_updated_at: new Date(stored.updated_at),
      });
      await manager.update(TenantEntity, { id }, columns);
    },

    async prepare({ tenant_id: tenantId }, request, body) {
      const [refused, vouchedDomains, staffed] = await Promise.all([
        refusedAddresses(body, endpointsCap(), guard),
        maySetSender(body) ? vouchedDomainsOf(tenantId, settings(), request.call) : [],
        findStaffedGroups(db.manager, tenantId),
      ]);
      return { refused, vouchedDomains, staffed };
    },
    complete: (draft) => draft,
    check: ({ next, current, context: { refused, vouchedDomains } }) => [
      ...notificationProblems(next, endpointsCap(), guard, refused),
      ...senderProblems(next, current, vouchedDomains),
    ],
    warnings: ({ next, context: { staffed } }) => emptyGroups(next, staffed),
    secrets: {
      conceal: concealSecrets,
      seal: (document, { tenant_id }, current) =>
        sealSecrets(
          document,
          NullableNotificationConfig,
          notificationVault(settings()),
          notificationContext(tenant_id),
          current,
        ),
    },
  };
}
