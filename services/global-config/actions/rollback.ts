/**
 * Rollback: looks up what a revision of the platform left behind, or found, and lets the kind of
 * that document restore it.
 */
import type { DataSource } from 'typeorm';
import { requirePower, seesPlatform } from '../../../shared/access.ts';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { powerOf } from '../../../shared/contracts/consequences.ts';
import type { PlatformConfigType } from '../../../shared/contracts/history.ts';
import { contractOf } from '../../../shared/contracts/index.ts';
import { addressOf } from '../../../shared/documents/document-paths.ts';
import type { AllDocuments } from '../../../shared/documents/document.ts';
import { takeBackOf } from '../../../shared/documents/history.ts';
import { asksForImpact } from '../../../shared/documents/trial.ts';
import { invalid, StrataError } from '../../../shared/errors.ts';
import type { PlatformDocuments } from '../documents/platform-documents.ts';
import { plannedKinds } from '../rules/plan-items.ts';
import { findRestored } from '../stores/history.ts';
import { writing } from './entries.ts';
import type { Planner } from './plan.ts';

/** Those that are in every effective configuration: others have to see what is the platform's. */
const layers: readonly PlatformConfigType[] = ['global_config', 'service_type_config'];

const notPlanned = (type: PlatformConfigType): StrataError => {
  const what = type === 'change_policy_config' ? 'a change_policy' : 'event_destinations';
  return invalid([{ path: '/impact', message: `is not for ${what}` }]);
};

export const rollbackAction = (db: DataSource, documents: PlatformDocuments, planner: Planner) =>
  ({
    /**
     * Restores what the resource of a revision held right after it, or before it, as a new revision
     * under the same rules as any write.
     */
    async 'global-config.rollback'({ body: asked, ...options }, request) {
      const { reason = options.reason } = asked;
      const restored = await findRestored(db.manager, takeBackOf(asked));
      const { config_type: type, resource_id: id, document } = restored;
      const all: AllDocuments = Object.values(documents);
      const found = all.find(({ kind }) => kind.configType === type);
      if (!found)
        throw new StrataError('conflict', 'A rollout is reverted, not rolled back: POST …/revert.');
      const { actions } = found.kind;
      const address = addressOf(actions, null, id);
      // What brings back whose approval counts takes what writing that takes, for example.
      const power = powerOf(contractOf(`${actions}.put`)!.leadsTo, address);
      if (power !== undefined) requirePower(request.caller, power);
      if (asksForImpact(options)) {
        const kind = plannedKinds.find((each) => actions === `global-config.${each}`);
        if (!kind) throw notPlanned(type);
        if (document === null)
          return planner.tryOne(kind, 'delete', { ...options, ...address }, request);
        const body = found.kind.bodyOf?.(document) ?? document;
        return planner.tryOne(kind, 'put', { ...options, ...address, body }, request);
      }
      if (!layers.includes(type) && !seesPlatform(request.caller))
        throw new StrataError('not_found');
      const own = { ...request, ...(power !== undefined && { power }) };
      const params = { ...options, ...address, ...(reason !== undefined && { reason }) };
      return type === 'global_config'
        ? writing(documents.entries.rollback)({ ...params, key: id }, own, document)
        : found.rollback(params, own, document);
    },
  }) satisfies Handlers;
