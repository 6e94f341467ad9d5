/**
 * A tenant's notification_config: a column of the tenant, null until it is set, its secrets
 * encrypted.
 */
import type { DataSource } from 'typeorm';
import type { Call } from '../../../shared/contract-runtime/request.ts';
import {
  NotificationConfig,
  NullableNotificationConfig,
} from '../../../shared/contracts/notification-config.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import { allEnded } from '../../../shared/database/all-ended.ts';
import { columnsOf } from '../../../shared/database/columns.ts';
import type { DocumentKind, Stored } from '../../../shared/documents/document-kind.ts';
import { createGuard } from '../../../shared/outgoing/guard.ts';
import { secretsIn } from '../../../shared/security/document-secrets.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import {
  refusedAddresses,
  withAddressProblems,
  type RefusedAddresses,
} from '../../../shared/documents/called-addresses.ts';
import { checkNotificationConfig, emptyGroups } from '../rules/notification-config.ts';
import { maySetSender, senderProblems } from '../rules/sender.ts';
import { TenantEntity, type TenantRow } from '../schema.ts';
import { giftOf } from '../stores/givers.ts';
import { actsIn, findRoles, findStaffedGroups } from '../stores/members.ts';
import { notePrincipals } from '../stores/recent-notifications.ts';
import { noSuchTenant } from '../stores/tenants.ts';
import { recordHistory } from '../stores/history.ts';

export const notificationSecrets = (settings: () => Settings) =>
  secretsIn<NotificationConfig | null>('notification_config', NullableNotificationConfig, settings);

/** What had to be asked before the rules can judge. */
interface Context {
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
): DocumentKind<TenantAddress, NotificationConfig | null, Context> {
  const guard = createGuard(settings);
  const secrets = notificationSecrets(settings);
  const endpointsCap = (): number => settings().approval_webhook_endpoints_cap;
  /** Those of all endpoints, and one of each other part. */
  const mostAddresses = (): number =>
    endpointsCap() + Object.keys(NotificationConfig.properties).length;
  return {
    auditName: 'notifications',
    configType: 'notification_config',
    actions: 'tenant-config.notifications',
    tenantId: ({ tenant_id }) => tenant_id,
    resourceId: ({ tenant_id }) => tenant_id,
    isAlwaysThere: true,
    schema: NullableNotificationConfig,

    async load(manager, { tenant_id: id }, writer) {
      const [row, roles] = await allEnded([
        manager.findOneBy(TenantEntity, { id }),
        actsIn(id, writer) ? findRoles(manager, id, writer) : undefined,
      ]);
      const exists = row !== null && row.erasing_since === null;
      return {
        current: row && storedOf(row),
        missingOwner: exists ? undefined : noSuchTenant(),
        roles,
      };
    },
    async store(manager, { tenant_id: id }, record, request) {
      const columns = columnsOf<Partial<TenantRow>>({
        notification_config: record.after,
        notification_revision: record.revision,
        notification_updated_by: request.caller.id,
        notification_updated_at: new Date(record.at),
      });
      const name = { tenantId: id, configType: 'notification_config', resourceId: id } as const;
      await allEnded([
        manager.update(TenantEntity, { id }, columns),
        recordHistory(manager, name, record, request),
      ]);
      const at = new Date(record.at);
      const { by } = await giftOf(manager, id, request.caller, at, request.changeSet?.by);
      await notePrincipals(manager, id, record.revision, by);
    },

    async prepare({ tenant_id: tenantId }, request, body) {
      const [refused, vouchedDomains, staffed] = await Promise.all([
        refusedAddresses(NullableNotificationConfig, body, mostAddresses(), guard),
        maySetSender(body) ? vouchedDomainsOf(tenantId, settings(), request.call) : [],
        findStaffedGroups(db.manager, tenantId),
      ]);
      return { refused, vouchedDomains, staffed };
    },
    complete: (draft) => draft,
    check: ({ next, current, context: { refused, vouchedDomains, staffed } }) => ({
      refused: [
        ...withAddressProblems(
          checkNotificationConfig(next, endpointsCap()),
          NullableNotificationConfig,
          next,
          guard,
          refused,
        ),
        ...senderProblems(next, current, vouchedDomains),
      ],
      warned: emptyGroups(next, staffed),
    }),
    seal: (document, { tenant_id }, current) => secrets.seal(document, tenant_id, current),
    requireOpen: (document, { tenant_id }) => secrets.requireOpen(document, tenant_id),
  };
}
