import { Type } from 'typebox';
import {
  NotificationConfig,
  notificationSecrets,
} from '../../../shared/contracts/notification-config.ts';
import { createGuard } from '../../../shared/outgoing/guard.ts';
import { concealSecrets, sealSecrets } from '../../../shared/security/document-secrets.ts';
import { createVault } from '../../../shared/security/vault.ts';
import type { DocumentKind } from '../../../shared/documents/document.ts';
import type { Settings } from '../../../shared/settings.ts';
import {
  notificationProblems,
  refusedAddresses,
  type RefusedAddresses,
} from '../rules/notification-checks.ts';
import { RiskEntity, TenantEntity } from '../schema.ts';
import { tenantDocument, type TenantParams } from './tenant-document.ts';

export const notificationVault = (settings: Settings) =>
  createVault(settings, 'notification_config');
export const notificationContext = (tenantId: string): string => `notification_config ${tenantId}`;

/** `body` as put and patch send it; a rollback has none. */
type Params = TenantParams & { readonly body?: unknown };
type Kind = DocumentKind<Params, NotificationConfig | null, RefusedAddresses>;

/** The document is a column of Tenant, and null until it is set. */
export function notificationKind(settings: () => Settings): Kind {
  const guard = createGuard(settings);
  const shared = tenantDocument<TenantParams, NotificationConfig>({
    resource: 'notifications',
    configType: 'notification_config',
    entity: RiskEntity,
    target: ({ tenant_id }) => tenant_id,
  });
  return {
    ...(shared as unknown as Kind),
    schema: Type.Union([NotificationConfig, Type.Null()]),
    async read(manager, { tenant_id: id }) {
      const row = await manager.findOneBy(TenantEntity, { id });
      return (
        row && {
          document: row.notification_config as NotificationConfig | null,
          revision: row.notification_revision,
          updated_by: row.notification_updated_by,
          updated_at: row.notification_updated_at.toISOString(),
        }
      );
    },
    async save(manager, { tenant_id: id }, row) {
      await manager.update(TenantEntity, { id }, {
        notification_config: row!.document,
        notification_revision: row!.revision,
        notification_updated_by: row!.updated_by,
        notification_updated_at: new Date(row!.updated_at),
      } as never);
    },
    prepare: ({ body }) => refusedAddresses(body, settings().approval_webhook_endpoints_cap, guard),
    settle: (draft) => draft,
    check: (next, _params, _current, refused) =>
      notificationProblems(next, settings().approval_webhook_endpoints_cap, guard, refused),
    show: concealSecrets,
    conceal: concealSecrets,
    seal: (shown, { tenant_id }, current) =>
      sealSecrets(
        shown,
        notificationSecrets,
        notificationVault(settings()),
        notificationContext(tenant_id),
        current,
      ),
  };
}
