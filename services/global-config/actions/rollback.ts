/**
 * Rollback: looks up what a revision of the platform left behind, or found, and lets the kind of
 * that document restore it.
 */
import type { DataSource } from 'typeorm';
import { seesPlatform } from '../../../shared/access.ts';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { platformBoundsKey } from '../../../shared/contracts/bounds.ts';
import type { PlatformConfigType } from '../../../shared/contracts/history.ts';
import { serviceTypeKey } from '../../../shared/contracts/service-types.ts';
import { documentActions, type WrittenDocument } from '../../../shared/documents/document.ts';
import { takeBackOf } from '../../../shared/documents/history.ts';
import { asksForImpact } from '../../../shared/documents/trial.ts';
import { StrataError } from '../../../shared/errors.ts';
import { boundsKind } from '../documents/bounds.ts';
import { serviceTypeAddress, serviceTypeKind } from '../documents/service-type.ts';
import { findRestored, type Restored } from '../stores/history.ts';
import { entryRollback, type RollbackOptions } from './entries.ts';
import type { Planner } from './plan.ts';

/**
 * Puts one document, by its name in the history, back to what an entry calls `before` or `after`.
 */
type Restore = (
  resourceId: string,
  document: unknown,
  options: RollbackOptions,
  request: Request,
) => Promise<WrittenDocument<unknown>>;

/**
 * The write that puts a document to what an entry has: what a rollback would change, it changes.
 */
function sameWrite({ config_type, resource_id, document }: Restored) {
  const verb = document === null ? 'delete' : 'put';
  switch (config_type) {
    case 'global_config': {
      const { config_key: _key, ...body } = (document ?? {}) as Readonly<Record<string, unknown>>;
      return { kind: 'entries', verb, address: { key: resource_id }, body } as const;
    }
    case 'service_type_config': {
      const address = serviceTypeAddress(resource_id);
      return { kind: 'service-types', verb, address, body: document } as const;
    }
    case 'bounds_config':
      return { kind: 'bounds', verb, address: {}, body: document } as const;
  }
}

export function rollbackAction(db: DataSource, planner: Planner) {
  const types = documentActions(db, serviceTypeKind);
  const bounds = documentActions(db, boundsKind);
  const restorers: Readonly<Record<PlatformConfigType, Restore>> = {
    global_config: entryRollback(db),
    service_type_config(resourceId, document, options, request) {
      const address = serviceTypeAddress(resourceId);
      const keys = [serviceTypeKey(address)];
      return types.rollback({ ...options, ...address }, request, document, keys);
    },
    async bounds_config(_resourceId, document, options, request) {
      // What bounds were is for their readers, and a restored document is answered.
      if (!seesPlatform(request.caller)) throw new StrataError('not_found');
      return bounds.rollback(options, request, document, [platformBoundsKey]);
    },
  };
  return {
    /**
     * Restores what the resource of a revision held right after it, or before it, as a new revision
     * under the same rules as any write.
     */
    async 'global-config.rollback'({ body, ...options }, request) {
      const { reason = options.reason } = body;
      const restored = await findRestored(db.manager, takeBackOf(body));
      if (asksForImpact(options)) {
        const { kind, verb, address, body: written } = sameWrite(restored);
        const sent = verb === 'put' ? { body: written } : {};
        return planner.tryOne(kind, verb, { ...options, ...address, ...sent }, request);
      }
      const writeOptions = { ...options, ...(reason !== undefined && { reason }) };
      const { config_type: type, resource_id: resourceId, document } = restored;
      return restorers[type](resourceId, document, writeOptions, request);
    },
  } satisfies Handlers;
}
