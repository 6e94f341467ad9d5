/** Rollback: looks up what a revision of the platform left behind, and lets the kind of that document restore it. */
import type { DataSource } from 'typeorm';
import { seesPlatform } from '../../../shared/access.ts';
import type { Handlers, Request } from '../../../shared/cluster/request.ts';
import { platformBoundsKey } from '../../../shared/contracts/bounds.ts';
import type { PlatformConfigType } from '../../../shared/contracts/history.ts';
import { serviceTypeKey } from '../../../shared/contracts/service-types.ts';
import { documentActions, type WrittenDocument } from '../../../shared/documents/document.ts';
import { asksForImpact } from '../../../shared/documents/trial.ts';
import { StrataError } from '../../../shared/errors.ts';
import { boundsKind } from '../documents/bounds.ts';
import { serviceTypeAddress, serviceTypeKind } from '../documents/service-type.ts';
import { findLeft, type Left } from '../stores/history.ts';
import { entryRollback, type RollbackOptions } from './entries.ts';
import type { Planner } from './plan.ts';

/** Puts one document, by its name in the history, back to what an entry calls `after`. */
type Restore = (
  resourceId: string,
  after: unknown,
  options: RollbackOptions,
  request: Request,
) => Promise<WrittenDocument<unknown>>;

/** The write that puts a document to what an entry calls `after`: what a rollback would change, it changes. */
function sameWrite({ config_type, resource_id, after }: Left) {
  const verb = after === null ? 'delete' : 'put';
  switch (config_type) {
    case 'global_config': {
      const { config_key: _key, ...body } = (after ?? {}) as Readonly<Record<string, unknown>>;
      return { kind: 'entries', verb, address: { key: resource_id }, body } as const;
    }
    case 'service_type_config': {
      const address = serviceTypeAddress(resource_id);
      return { kind: 'service-types', verb, address, body: after } as const;
    }
    case 'bounds_config':
      return { kind: 'bounds', verb, address: {}, body: after } as const;
  }
}

export function rollbackAction(db: DataSource, planner: Planner) {
  const types = documentActions(db, serviceTypeKind);
  const bounds = documentActions(db, boundsKind);
  const restorers: Readonly<Record<PlatformConfigType, Restore>> = {
    global_config: entryRollback(db),
    service_type_config(resourceId, after, options, request) {
      const address = serviceTypeAddress(resourceId);
      const keys = [serviceTypeKey(address)];
      return types.rollback({ ...options, ...address }, request, after, keys);
    },
    async bounds_config(_resourceId, after, options, request) {
      // What bounds were is for their readers, and a restored document is answered.
      if (!seesPlatform(request.caller)) throw new StrataError('not_found');
      return bounds.rollback(options, request, after, [platformBoundsKey]);
    },
  };
  return {
    /** Restores what the resource of a revision held right after it, as a new revision under the same rules as any write. */
    async 'global-config.rollback'({ body, ...options }, request) {
      const { revision, reason = options.reason } = body;
      const left = await findLeft(db.manager, revision);
      if (asksForImpact(options)) {
        const { kind, verb, address, body: restored } = sameWrite(left);
        const sent = verb === 'put' ? { body: restored } : {};
        return planner.tryOne(kind, verb, { ...options, ...address, ...sent }, request);
      }
      const writeOptions = { ...options, ...(reason !== undefined && { reason }) };
      return restorers[left.config_type](left.resource_id, left.after, writeOptions, request);
    },
  } satisfies Handlers;
}
