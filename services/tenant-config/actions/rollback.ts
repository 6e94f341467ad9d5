/**
 * Rollback: looks up what a revision left behind, or found, and lets the kind of that document
 * restore it.
 */
import type { DataSource } from 'typeorm';
import { actsByRoles, requirePower, requireRole, type Caller } from '../../../shared/access.ts';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import type { PowerName } from '../../../shared/contracts/consequences.ts';
import type { ConfigType } from '../../../shared/contracts/history.ts';
import { contractOf, type ParamsOf } from '../../../shared/contracts/index.ts';
import type { DocumentActions, WrittenDocument } from '../../../shared/documents/document.ts';
import { takeBackOf } from '../../../shared/documents/history.ts';
import { StrataError } from '../../../shared/errors.ts';
import { requireWithin } from '../../../shared/narrow-keys.ts';
import { HistoryEntity } from '../schema.ts';

type Options = Omit<ParamsOf<'tenant-config.rollback'>, 'tenant_id' | 'body'>;

/** Puts one document back to what a history entry calls `before` or `after`. */
type Restore = (
  tenantId: string,
  resourceId: string,
  document: unknown,
  options: Options,
  request: Request,
) => Promise<WrittenDocument<unknown>>;

/**
 * Of what brings back whose approval counts, or who gets the proof of what was done: it takes what
 * writing that takes.
 */
const powers: Readonly<Partial<Record<ConfigType, PowerName>>> = {
  notification_config: 'approvers',
  change_policy_config: 'approvers',
  event_destinations_config: 'proof',
};

/** How each kind of document, by its name in the history, is restored. */
export type Restorers = Readonly<Record<ConfigType, Restore>>;

/**
 * `addressOf` is the way back from `resourceId`, which the history keeps, to the document's
 * address.
 */
export const restorer =
  <Address extends object, Document>(
    actions: DocumentActions<Address, Document>,
    cacheKey: (address: Address) => string,
    addressOf: (tenantId: string, resourceId: string) => Address,
  ): Restore =>
  (tenantId, resourceId, document, options, request) => {
    const address = addressOf(tenantId, resourceId);
    const { narrowed_to: narrowedTo } = request.caller;
    if (narrowedTo !== undefined)
      requireWithin(contractOf(`${actions.actions}.put`)!, narrowedTo, { ...(address as object) });
    return actions.rollback({ ...options, ...address }, request, document, [cacheKey(address)]);
  };

/**
 * What comes back was written by somebody who might: which fields of a document are an
 * administrator's alone is no question for those who only take changes back.
 */
const restoring = (caller: Caller): Caller =>
  actsByRoles(caller) ? { ...caller, roles: ['tenant_admin'] } : caller;

export const rollbackAction = (db: DataSource, restorers: Restorers) =>
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
      const power = powers[entry.config_type];
      if (power !== undefined) {
        requireRole(request.caller, ['tenant_admin']);
        requirePower(request.caller, power);
      }
      const restore = restorers[entry.config_type];
      const writeOptions = { ...options, ...(reason !== undefined && { reason }) };
      return restore(tenant_id, entry.resource_id, entry[side], writeOptions, {
        ...request,
        caller: restoring(request.caller),
        ...(power !== undefined && { power }),
      });
    },
  }) satisfies Handlers;
