/**
 * What directories send of groups (RFC 7643, 4.2), and how SCIM shows them.
 *
 * | Sent by | Form of a PATCH                                                            |
 * | ------- | -------------------------------------------------------------------------- |
 * | Okta    | `{op: "remove", path: "members[value eq \"…\"]"}`                           |
 * | Okta    | `{op: "replace", value: {id: "…", displayName: "…"}}`                       |
 * | Entra   | `{op: "Add", path: "members", value: [{value: "…"}]}`                       |
 * | Entra   | `{op: "Remove", path: "members", value: [{value: "…"}]}`, of these alone    |
 */
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { mostInDirectoryGroup, type SentGroup } from '../../../shared/contracts/scim-groups.ts';
import { scimSchemas, type ScimOperation } from '../../../shared/contracts/scim.ts';
import { invalid, StrataError } from '../../../shared/errors.ts';
import type { DirectoryGroupRow } from '../schema.ts';
import { objectOf, pathOf, textOf } from './scim.ts';
import { present } from './scim-views.ts';

export interface GroupState {
  readonly displayName: string;
  readonly externalId: string | null;
  /** Ids of people, each once. */
  readonly members: readonly string[];
}

export const groupState = (sent: SentGroup): GroupState => ({
  displayName: sent.displayName,
  externalId: sent.externalId ?? null,
  members: [...idsOf(sent.members ?? [])],
});

export const groupStateOfRow = (row: DirectoryGroupRow): GroupState => ({
  displayName: row.display_name,
  externalId: row.external_id,
  members: row.members,
});

function idsOf(value: unknown): Set<string> {
  const all: readonly unknown[] = Array.isArray(value) ? value : [value];
  const ids = all.map((each) => {
    const { value: id } = objectOf(each, 'members') as { readonly value?: unknown };
    if (typeof id === 'string') return id.toLowerCase();
    throw invalid([{ path: '/members', message: 'must have a value each: the id of a person' }]);
  });
  return new Set(ids);
}

function nameIn(value: unknown): string {
  const name = textOf(value, 'displayName');
  if (name !== null) return name;
  throw invalid([{ path: '/displayName', message: 'must be there' }]);
}

/** The id in `members[value eq "…"]`, in lower case; undefined for another path. */
const memberIn = (path: string): string | undefined =>
  /^members\[\s*value\s+eq\s+"([^"\\]*)"\s*\]$/.exec(path)?.[1];

function assign(state: GroupState, operation: ScimOperation, sentPath: string): GroupState {
  const path = pathOf(sentPath);
  const { value } = operation;
  const op = operation.op.toLowerCase();
  const given = op === 'remove' ? null : value;
  if (path === 'displayname') return { ...state, displayName: nameIn(given) };
  if (path === 'externalid') return { ...state, externalId: textOf(given, 'externalId') };
  if (path === 'schemas') return state;
  if (path === 'members') return { ...state, members: membersAfter(state.members, op, value) };
  const one = memberIn(path);
  if (one !== undefined && op === 'remove')
    return { ...state, members: state.members.filter((id) => id !== one) };
  if (path === 'id' || path === 'meta')
    throw new StrataError('scim_mutability', `${path} is not for directories to change.`);
  throw new StrataError('scim_path_invalid', `There is no ${JSON.stringify(sentPath)} to change.`);
}

function membersAfter(before: readonly string[], op: string, value: unknown): readonly string[] {
  // All of them, as RFC 7644 has it (3.5.2.2); Entra names those that it means.
  if (op === 'remove' && (value === undefined || value === null)) return [];
  const ids = idsOf(value);
  if (op === 'remove') return before.filter((id) => !ids.has(id));
  return [...(op === 'add' ? new Set(before).union(ids) : ids)];
}

/** The state after all operations. Throws where one of them is none. */
export const patchedGroup = (
  id: string,
  state: GroupState,
  operations: readonly ScimOperation[],
): GroupState =>
  operations.reduce((after, operation) => {
    const { op, path, value } = operation;
    if (path !== undefined) return assign(after, operation, path);
    if (op.toLowerCase() === 'remove')
      throw new StrataError('scim_path_invalid', 'Name in path what is removed.');
    return Object.entries(objectOf(value, 'value'))
      .filter(([name, each]) => name !== 'id' || each !== id)
      .reduce((next, [name, each]) => assign(next, { op, value: each }, name), after);
  }, state);

/** Throws where the group is larger than one may be. */
export function requireBoundedGroup({ members }: GroupState): void {
  if (members.length <= mostInDirectoryGroup) return;
  const message = `must be at most ${mostInDirectoryGroup}, and would be ${members.length}`;
  throw invalid([{ path: '/members', message }]);
}

/** `names` are userNames by id; null leaves the members out. */
export const scimGroup = (
  row: DirectoryGroupRow,
  names: ReadonlyMap<string, string> | null,
  baseUrl: string,
): ResultOf<'tenant-config.scim.groups.get'> => ({
  schemas: [scimSchemas.group],
  id: row.id,
  ...present({ externalId: row.external_id }),
  displayName: row.display_name,
  ...(names && {
    members: row.members.map((id) => ({ value: id, display: names.get(id) ?? '' })),
  }),
  meta: {
    resourceType: 'Group',
    created: row.created_at.toISOString(),
    lastModified: row.updated_at.toISOString(),
    location: `${baseUrl}/tenants/${row.tenant_id}/scim/v2/Groups/${row.id}`,
  },
});

/** `members` are how many. */
export const directoryGroup = (
  row: Omit<DirectoryGroupRow, 'members'> & { readonly members: number },
): ResultOf<'tenant-config.directory-groups.put'> => ({
  id: row.id,
  display_name: row.display_name,
  external_id: row.external_id,
  members: row.members,
  roles: row.roles.filter((role) => role !== 'tenant_admin'),
  groups: row.groups,
  updated_at: row.updated_at.toISOString(),
});
