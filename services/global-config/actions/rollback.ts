/**
 * Rollback: looks up what a revision of the platform left behind, or found, and lets the kind of
 * that document restore it.
 */
import type { DataSource } from 'typeorm';
import { requirePower, seesPlatform } from '../../../shared/access.ts';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { platformBoundsKey } from '../../../shared/contracts/bounds.ts';
import { platformBudgetsKey } from '../../../shared/contracts/budgets.ts';
import { platformChangePolicyKey } from '../../../shared/contracts/change-policy.ts';
import type { PowerName } from '../../../shared/contracts/consequences.ts';
import { platformEventDestinationsKey } from '../../../shared/contracts/event-destinations.ts';
import { platformFreezesKey } from '../../../shared/contracts/freezes.ts';
import type { PlatformConfigType } from '../../../shared/contracts/history.ts';
import { serviceTypeKey } from '../../../shared/contracts/service-types.ts';
import { documentActions, type WrittenDocument } from '../../../shared/documents/document.ts';
import { takeBackOf } from '../../../shared/documents/history.ts';
import { asksForImpact } from '../../../shared/documents/trial.ts';
import { invalid, StrataError } from '../../../shared/errors.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { boundsKind } from '../documents/bounds.ts';
import { changePolicyKind } from '../documents/change-policy.ts';
import { budgetsKind } from '../documents/budgets.ts';
import { eventDestinationsKind } from '../documents/event-destinations.ts';
import { freezesKind } from '../documents/freezes.ts';
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
    case 'budgets_config':
      return { kind: 'budgets', verb, address: {}, body: document } as const;
    case 'freezes_config':
      return { kind: 'freezes', verb, address: {}, body: document } as const;
    case 'change_policy_config':
      throw invalid([{ path: '/impact', message: 'is not for a change_policy' }]);
    case 'event_destinations_config':
      throw invalid([{ path: '/impact', message: 'is not for event_destinations' }]);
    case 'rollout_config':
      throw isRollout();
  }
}

/**
 * Of what brings back whose approval counts, or who gets the proof of what was done: it takes what
 * writing that takes.
 */
const powers: Readonly<Partial<Record<PlatformConfigType, PowerName>>> = {
  change_policy_config: 'approvers',
  event_destinations_config: 'proof',
};

const isRollout = (): StrataError =>
  new StrataError('conflict', 'A rollout is reverted, not rolled back: POST …/revert.');

/** What such a document was is for its readers, and a restored document is answered. */
const forReaders =
  (
    restore: (
      document: unknown,
      options: RollbackOptions,
      request: Request,
    ) => Promise<WrittenDocument<unknown>>,
  ): Restore =>
  async (_resourceId, document, options, request) => {
    if (!seesPlatform(request.caller)) throw new StrataError('not_found');
    return restore(document, options, request);
  };

export function rollbackAction(db: DataSource, planner: Planner, settings: () => Settings) {
  const types = documentActions(db, serviceTypeKind);
  const bounds = documentActions(db, boundsKind);
  const budgets = documentActions(db, budgetsKind);
  const freezes = documentActions(db, freezesKind);
  const policy = documentActions(db, changePolicyKind);
  const destinations = documentActions(db, eventDestinationsKind(settings));
  const restorers: Readonly<Record<PlatformConfigType, Restore>> = {
    global_config: entryRollback(db),
    service_type_config(resourceId, document, options, request) {
      const address = serviceTypeAddress(resourceId);
      const keys = [serviceTypeKey(address)];
      return types.rollback({ ...options, ...address }, request, document, keys);
    },
    bounds_config: forReaders((document, options, request) =>
      bounds.rollback(options, request, document, [platformBoundsKey]),
    ),
    budgets_config: forReaders((document, options, request) =>
      budgets.rollback(options, request, document, [platformBudgetsKey]),
    ),
    freezes_config: forReaders((document, options, request) =>
      freezes.rollback(options, request, document, [platformFreezesKey]),
    ),
    change_policy_config: forReaders((document, options, request) =>
      policy.rollback(options, request, document, [platformChangePolicyKey]),
    ),
    event_destinations_config: forReaders((document, options, request) =>
      destinations.rollback(options, request, document, [platformEventDestinationsKey]),
    ),
    rollout_config: () => Promise.reject(isRollout()),
  };
  return {
    /**
     * Restores what the resource of a revision held right after it, or before it, as a new revision
     * under the same rules as any write.
     */
    async 'global-config.rollback'({ body, ...options }, request) {
      const { reason = options.reason } = body;
      const restored = await findRestored(db.manager, takeBackOf(body));
      const power = powers[restored.config_type];
      if (power !== undefined) requirePower(request.caller, power);
      if (asksForImpact(options)) {
        const { kind, verb, address, body: written } = sameWrite(restored);
        const sent = verb === 'put' ? { body: written } : {};
        return planner.tryOne(kind, verb, { ...options, ...address, ...sent }, request);
      }
      const writeOptions = { ...options, ...(reason !== undefined && { reason }) };
      const { config_type: type, resource_id: resourceId, document } = restored;
      return restorers[type](resourceId, document, writeOptions, {
        ...request,
        ...(power !== undefined && { power }),
      });
    },
  } satisfies Handlers;
}
