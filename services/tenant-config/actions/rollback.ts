import type { DataSource } from 'typeorm';
import type { Request } from '../../../shared/cluster/request.ts';
import type { ConfigType } from '../../../shared/contracts/history.ts';
import { contracts } from '../../../shared/contracts/index.ts';
import { StrataError } from '../../../shared/errors.ts';
import type { WrittenDocument } from '../../../shared/documents/document.ts';
import { HistoryEntity } from '../schema.ts';

interface Kinds {
  readonly [kind: string]: { readonly change: unknown };
}

/** config_type → the kind that restores it, the name of its id, and the contract that knows its cache key. */
const kinds = {
  tenant_risk_config: ['risk', 'tenant_id', 'tenant-config.risk.put'],
  agent_config: ['agents', 'agent_type', 'tenant-config.agents.put'],
  service_config: ['services', 'service_id', 'tenant-config.services.put'],
  project_config: ['projects', 'project_id', 'tenant-config.projects.put'],
  notification_config: ['notification', 'tenant_id', 'tenant-config.notifications.put'],
} as const satisfies Record<ConfigType, readonly [string, string, keyof typeof contracts]>;

interface Params {
  readonly tenant_id: string;
  readonly body: { readonly revision: number; readonly reason?: string };
  readonly if_match?: string;
  readonly dry_run?: boolean;
  readonly reason?: string;
}

/** Restores what the resource of a revision held right after it, as a new revision under the same rules as any write. */
export const rollbackAction = (db: DataSource, actions: Kinds) => ({
  async 'tenant-config.rollback'(
    { body, reason, ...params }: Params,
    request: Request,
  ): Promise<WrittenDocument<unknown>> {
    const entry = await db.manager.findOneBy(HistoryEntity, {
      tenant_id: params.tenant_id,
      revision: body.revision,
    });
    if (!entry) throw new StrataError('not_found', 'The history has no such revision.');
    const [kind, id, contract] = kinds[entry.config_type as ConfigType];
    const address = { tenant_id: params.tenant_id, [id]: entry.resource_id };
    const keys = contracts[contract].drops!(address);
    const nullable = entry.config_type === 'notification_config';
    const { change } = actions[kind] as unknown as {
      change: (...args: unknown[]) => Promise<WrittenDocument<unknown>>;
    };
    return change({ ...params, ...address, reason: body.reason ?? reason }, request, keys, () =>
      entry.after === null && !nullable
        ? { action: 'rollback', draft: null, remove: true }
        : { action: 'rollback', draft: null, restore: entry.after },
    );
  },
});
