/**
 * What the change policies in force ask of one write, for `document.ts`, where all documents are
 * written.
 *
 * | Scope      | Policies in force                                                      |
 * | ---------- | ---------------------------------------------------------------------- |
 * | a tenant's | the tenant's own, and `tenants` of the platform's                      |
 * | platform   | `platform` of the platform's                                           |
 *
 * A policy that is there guards itself: it is only loosened with an approval.
 */
import type { Policies } from '../commits/commit.ts';
import type { ChangePolicy, PlatformChangePolicy } from '../contracts/change-policy.ts';
import { documentScope } from '../contracts/revision-scopes.ts';
import { StrataError } from '../errors.ts';
import type { Both, DocumentKind } from './document-kind.ts';
import { pathOf } from './document-paths.ts';
import { claimsOf, type Claims } from './managed-fields.ts';
import type { Difference } from '../schema/diff.ts';

const policyType = 'change_policy_config';

/** The policy of a tenant, or the part of the platform's that is for its own documents. */
export type Policy = Omit<ChangePolicy, 'config_types'> & { readonly config_types?: string[] };

/** A write of a document, as policies see it. */
export interface GuardedWrite {
  readonly configType: string;
  readonly resourceId: string;
  readonly before: unknown;
  readonly after: unknown;
  readonly changes: readonly Difference[];
  /** Whether it can only deny automation more. */
  readonly tightens: boolean;
}

/** What it takes to write something; null where it takes no approval. */
export interface Required {
  readonly required: number;
  /** Empty for none: whoever may decide approvals does. */
  readonly groups: readonly string[];
}

/** The policies that the counter of a scope has. */
function policiesInForce({ own, platform }: Policies, isOfTenant: boolean): Policy[] {
  // Both passed their schema when they were written.
  const ofPlatform = (platform ?? {}) as PlatformChangePolicy;
  const all = isOfTenant ? [ofPlatform.tenants, own as Policy | null] : [ofPlatform.platform];
  return all.filter((policy) => policy !== undefined && policy !== null);
}

/** What the policies ask together: as many as the strictest, of the groups of the first. */
export function requiredFor(policies: readonly Policy[], write: GuardedWrite): Required | null {
  const guarding = policies.filter((policy) => guards(policy, write));
  if (guarding.length === 0) return null;
  return {
    required: Math.max(...guarding.map(({ required = 1 }) => required)),
    groups: guarding.find((policy) => policy.groups !== undefined)?.groups ?? [],
  };
}

function guards(policy: Policy, write: GuardedWrite): boolean {
  const { configType, before, after, changes } = write;
  // What changes nothing is a write, too: it would make what others proposed stale.
  if (configType === policyType) return changes.length === 0 || isLooser(after, before);
  if (write.tightens && policy.tightening === 'free') return false;
  const { config_types: types, keys } = policy;
  if (types === undefined && keys === undefined) return true;
  if (types?.includes(configType)) return true;
  return keys !== undefined && touches(write, new Set(keys));
}

/** Whether a key is the document, stands in the path of a change, or in what it adds or removes. */
function touches({ resourceId, changes }: GuardedWrite, keys: ReadonlySet<string>): boolean {
  const holds = (value: unknown): boolean =>
    typeof value === 'object' &&
    value !== null &&
    Object.entries(value).some(
      ([name, member]) => (!Array.isArray(value) && keys.has(name)) || holds(member),
    );
  const segmentsOf = (path: string): string[] =>
    path.split('/').map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'));
  return (
    keys.has(resourceId) ||
    changes.some(
      ({ path, before, after }) =>
        segmentsOf(path).some((segment) => keys.has(segment)) || holds(before) || holds(after),
    )
  );
}

/** Whether something that is guarded by what was is less so by what comes. */
function isLooser(next: unknown, current: unknown): boolean {
  if (current === null) return false;
  if (next === null) return true;
  const [after, before] = [next, current] as [PlatformChangePolicy, PlatformChangePolicy];
  const parts = ['platform', 'tenants'] as const;
  // A tenant's policy has none of these parts, and the platform's has nothing else.
  if (parts.some((part) => part in before || part in after))
    return parts.some((part) => isLooserPart(after[part] ?? null, before[part] ?? null));
  return isLooserPart(next as Policy, current as Policy);
}

function isLooserPart(next: Policy | null, current: Policy | null): boolean {
  if (current === null) return false;
  if (next === null) return true;
  const { required: now = 1, tightening = 'guarded' } = next;
  const { required: before = 1, tightening: earlier = 'guarded' } = current;
  if (now < before || (tightening === 'free' && earlier === 'guarded')) return true;
  // Other groups are neither more nor less than those before.
  if (
    [...(next.groups ?? [])].toSorted().join(' ') !==
    [...(current.groups ?? [])].toSorted().join(' ')
  )
    return true;
  return !covers(next, current);
}

function covers(next: Policy, current: Policy): boolean {
  const isAll = ({ config_types: types, keys }: Policy) =>
    types === undefined && keys === undefined;
  if (isAll(next)) return true;
  if (isAll(current)) return false;
  const includes = (all: readonly string[] = [], some: readonly string[] = []) =>
    some.every((each) => all.includes(each));
  return includes(next.config_types, current.config_types) && includes(next.keys, current.keys);
}

/** The kind of a policy: where one is stored, the counter of its scope has a copy. */
export const guardingItself = <Address, Document>(
  kind: DocumentKind<Address, Document>,
): DocumentKind<Address, Document> => ({
  ...kind,
  commitsAlone: true,
  async store(manager, address, record, request) {
    const scope = documentScope(kind.tenantId(address));
    await kind.store(manager, address, record, request);
    const copy = record.after === null ? null : JSON.stringify(record.after);
    await manager.query('UPDATE strata.revisions SET change_policy = $2 WHERE scope = $1', [
      scope,
      copy,
    ]);
  },
});

export const writeVerbs = ['put', 'patch', 'delete'] as const;
export type WriteVerb = (typeof writeVerbs)[number];

/** How a write was sent; nothing of a rollback. */
export interface Sent {
  readonly verb?: WriteVerb;
  readonly body?: unknown;
  /** By itself: not as a part of a plan or change set, whose items each have a revision. */
  readonly isAlone?: boolean;
  /** How a write whose document is known was sent when it was proposed. */
  readonly proposed?: Pick<Sent, 'verb' | 'body'>;
}

type Kind<Address, Document> = Pick<
  DocumentKind<Address, Document>,
  'actions' | 'configType' | 'tenantId' | 'resourceId' | 'tightens' | 'bodyOf'
>;

/** What the policies in force ask for a change; null where it needs no approval. */
export function requiredOf<Address, Document>(
  kind: Kind<Address, Document>,
  address: Address,
  policies: Policies,
  change: Both<Document> & { readonly changes: readonly Difference[] },
  /** The same once temporary changes have ended: what is less than they allow may be more then. */
  ended?: Both<Document>,
): Required | null {
  const inForce = policiesInForce(policies, kind.tenantId(address) !== null);
  if (inForce.length === 0) return null;
  const tightens = ({ before, after }: Both<Document>): boolean =>
    kind.tightens?.(before, after) === true;
  return requiredFor(inForce, {
    configType: kind.configType,
    resourceId: kind.resourceId(address),
    ...change,
    tightens: change.changes.length > 0 && tightens(change) && (!ended || tightens(ended)),
  });
}

/**
 * Thrown where a write needs an approval, with the change set that it would be. A write without a
 * verb of its own, such as a rollback, would be the document that it leaves; undefined where none.
 */
export function approvalRequired<Address, Document>(
  kind: Kind<Address, Document>,
  address: Address,
  { verb, body }: Sent,
  left: { readonly document: Document } | undefined,
  said: Claims & { readonly reason?: string },
): StrataError {
  const path = pathOf(kind.actions, address);
  const tenantId = kind.tenantId(address);
  const action = verb ?? (left ? 'put' : 'delete');
  const whole = left && (kind.bodyOf?.(left.document) ?? left.document);
  const written = verb === undefined ? whole : body;
  const title = `${action} ${path}`.slice(0, 200);
  return new StrataError('change_approval_required', undefined, {
    change_set: {
      path: `${tenantId === null ? '' : `/tenants/${tenantId}`}/config/changesets`,
      body: {
        title,
        // It is sent as it is, and a change set has a reason.
        reason: said.reason || title,
        items: [{ action, path, ...(written !== undefined && { body: written }) }],
        ...claimsOf(said),
      },
    },
  });
}
