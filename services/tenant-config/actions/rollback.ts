/**
 * Rollback: looks up what a revision left behind, or found, and lets the kind of that document
 * restore it.
 */
import type { DataSource } from 'typeorm';
import { actsByRoles, requirePower, requireRole, type Caller } from '../../../shared/access.ts';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { powerOf } from '../../../shared/contracts/consequences.ts';
import { contractOf } from '../../../shared/contracts/index.ts';
import { addressOf } from '../../../shared/documents/document-paths.ts';
import type { AllDocuments } from '../../../shared/documents/document.ts';
import { takeBackOf } from '../../../shared/documents/history.ts';
import { StrataError } from '../../../shared/errors.ts';
import { requireWithin } from '../../../shared/narrow-keys.ts';
import { HistoryEntity } from '../schema.ts';

/**
 * What comes back was written by somebody who might: which fields of a document are an
 * administrator's alone is no question for those who only take changes back.
 */
const restoring = (caller: Caller): Caller =>
  actsByRoles(caller) ? { ...caller, roles: ['tenant_admin'] } : caller;

export const rollbackAction = (db: DataSource, all: AllDocuments) =>
  ({
    /**
     * Restores what the resource of a revision held right after it, or before it, as a new revision
     * under the same rules as any write.
     */
    async 'tenant-config.rollback'({ tenant_id, body, ...options }, request) {
      const { reason = options.reason } = body;
      const { revision, side } = takeBackOf(body);
      const entry = await db.manager.findOneBy(HistoryEntity, { tenant_id, revision });
      if (!entry) throw new StrataError('not_found', 'The history has no such revision.');
      const documents = all.find(({ kind }) => kind.configType === entry.config_type)!;
      const { actions } = documents.kind;
      const address = addressOf(actions, tenant_id, entry.resource_id);
      const write = contractOf(`${actions}.put`)!;
      // What brings back whose approval counts takes what writing that takes, for example.
      const power = powerOf(write.leadsTo, address);
      if (power !== undefined) {
        requireRole(request.caller, ['tenant_admin']);
        requirePower(request.caller, power);
      }
      const { narrowed_to: narrowedTo } = request.caller;
      if (narrowedTo !== undefined) requireWithin(write, narrowedTo, address);
      const own = {
        ...request,
        caller: restoring(request.caller),
        ...(power !== undefined && { power }),
      };
      const params = { ...options, ...address, ...(reason !== undefined && { reason }) };
      return documents.rollback(params, own, entry[side]);
    },
  }) satisfies Handlers;
