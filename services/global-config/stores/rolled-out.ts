/** The documents of the platform that are layers, as rollouts write them. */
import type { DataSource, EntityManager } from 'typeorm';
import type { RolloutItem } from '../../../shared/contracts/rollouts.ts';
import type { Policies, Work } from '../../../shared/commits/commit.ts';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import { approvalRequired, requiredOf } from '../../../shared/documents/change-policy.ts';
import {
  addressOf,
  parametersIn,
  pathOf,
  templateOf,
} from '../../../shared/documents/document-paths.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import {
  documentActions,
  type Attempt,
  type DocumentActions,
} from '../../../shared/documents/document.ts';
import {
  managedAfter,
  readManaged,
  requireTaken,
  type Claims,
} from '../../../shared/documents/managed-fields.ts';
import { platformScope } from '../../../shared/contracts/revision-scopes.ts';
import { StrataError, type ErrorData } from '../../../shared/errors.ts';
import { diff } from '../../../shared/schema/diff.ts';
import { rolledOutEntryKind } from '../documents/global-entry.ts';
import { rolledOutTypeKind } from '../documents/service-type.ts';

type LayerType = RolloutItem['config_type'];

// Each is given what it made itself: its own addresses and documents.
const layers: Readonly<Record<LayerType, DocumentKind<object, unknown>>> = {
  global_config: rolledOutEntryKind as unknown as DocumentKind<object, unknown>,
  service_type_config: rolledOutTypeKind as unknown as DocumentKind<object, unknown>,
};
const layerTypes = Object.keys(layers) as LayerType[];

/** What the history calls the document of a path; undefined for what is no layer. */
export function layerAt(
  path: string,
): Pick<RolloutItem, 'config_type' | 'resource_id'> | undefined {
  for (const config_type of layerTypes) {
    const kind = layers[config_type];
    const address = parametersIn(path, templateOf(kind.actions));
    if (address) return { config_type, resource_id: kind.resourceId(address) };
  }
  return undefined;
}

export interface Approvals {
  readonly approvals: number;
  readonly approver_groups: readonly string[];
}

/** Throws as a write of them would where policies ask for more approvals than there are. */
export function requireApproved(
  items: readonly RolloutItem[],
  { approvals, approver_groups: groups }: Approvals,
  policies: Policies,
  said: Claims & { readonly reason: string },
): void {
  for (const { config_type, resource_id, before, after } of items) {
    const kind = layers[config_type];
    const address = addressOf(kind.actions, null, resource_id);
    const changes = diff(before ?? undefined, after ?? undefined);
    const asked = requiredOf(kind, address, policies, { before, after, changes });
    if (!asked) continue;
    const isOfGroups = asked.groups.length === 0 || asked.groups.join() === groups.join();
    if (approvals >= asked.required && isOfGroups) continue;
    const left = after === null ? undefined : { document: after };
    throw withAll(approvalRequired(kind, address, {}, left, said), items);
  }
}

/** Throws as a write of them would where folders own fields that are not taken over. */
export async function requireTakenOver(
  manager: EntityManager,
  items: readonly RolloutItem[],
  claims: Claims,
): Promise<void> {
  for (const { config_type, resource_id, before, after } of items) {
    const kind = layers[config_type];
    const path = pathOf(kind.actions, addressOf(kind.actions, null, resource_id));
    const write = {
      ...claims,
      changes: diff(before ?? undefined, after ?? undefined),
      sent: after === null ? null : (kind.bodyOf?.(after) ?? after),
      after,
      isPatch: false,
      by: '',
      at: '',
    };
    const stored = await readManaged(manager, platformScope, path);
    await requireTaken(manager, platformScope, path, managedAfter(stored, write));
  }
}

/** The change set that it would be has all of the writes, which a rollout is then made of. */
function withAll(error: StrataError, items: readonly RolloutItem[]): StrataError {
  const { change_set: proposed } = error.data as ErrorData;
  if (!proposed) return error;
  const written = items.map(({ config_type: type, path, after }) => ({
    action: after === null ? ('delete' as const) : ('put' as const),
    path,
    ...(after !== null && { body: layers[type].bodyOf?.(after) ?? after }),
  }));
  const body = { ...proposed.body, items: written, apply: 'manual' as const };
  return new StrataError('change_approval_required', error.message, {
    change_set: { ...proposed, body },
  });
}

/** Which of the documents are not at these revisions; null for none. */
export async function movedFrom(
  manager: EntityManager,
  items: readonly RolloutItem[],
  revisions: readonly (number | null)[],
): Promise<string[]> {
  const moved: string[] = [];
  for (const [index, { config_type, resource_id, path }] of items.entries()) {
    const kind = layers[config_type];
    const address = addressOf(kind.actions, null, resource_id);
    const { current } = await kind.load(manager, address);
    if ((current?.revision ?? null) === revisions[index]) continue;
    moved.push(current ? `${path} (revision ${current.revision} by ${current.updated_by})` : path);
  }
  return moved;
}

/** Which of the documents somebody has written after these revisions, whatever became of them. */
export async function writtenAfter(
  manager: EntityManager,
  items: readonly RolloutItem[],
  revisions: readonly number[],
): Promise<string[]> {
  const named = items.map(({ path, config_type, resource_id }, index) => ({
    path,
    config_type,
    resource_id,
    revision: revisions[index],
  }));
  const rows = await manager.query<{ path: string }[]>(
    `SELECT path FROM json_to_recordset($1) AS n (path text, config_type text, resource_id text, revision int8)
     WHERE EXISTS (SELECT FROM global_config.configuration_history h
       WHERE h.config_type = n.config_type AND h.resource_id = n.resource_id AND h.revision > n.revision)`,
    [JSON.stringify(named)],
  );
  return rows.map(({ path }) => path);
}

export class RolledOut {
  readonly #documents: Readonly<Record<LayerType, DocumentActions<object, unknown>>>;

  constructor(db: DataSource) {
    const actionsOf = (type: LayerType) =>
      documentActions(db, { ...layers[type], approvedElsewhere: true });
    this.#documents = {
      global_config: actionsOf('global_config'),
      service_type_config: actionsOf('service_type_config'),
    };
  }

  /** The write that makes the document of an item this one. */
  work(
    { config_type: type, resource_id: id, action, body }: RolloutItem,
    document: unknown,
    said: Pick<Claims, 'managed_by'> & { readonly reason: string },
    request: Request,
  ): Promise<Work<Attempt<unknown>>> {
    const own = { ...request, checkAnswer: () => undefined };
    const params = { ...addressOf(layers[type].actions, null, id), ...said };
    const sent = { verb: action, ...(body !== undefined && { body }) };
    return this.#documents[type].place(params, own, document, sent);
  }
}
