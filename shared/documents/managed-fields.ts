/**
 * Fields of documents that a folder owns: whoever applies a folder names it (`managed_by`), and then
 * owns the fields that it sets. Somebody else who changes one of them has to take it over by the
 * name of its owner, and so has the owner what others took over. It keeps people from overwriting
 * each other by mistake; it is no right, since whoever may write may say any name.
 *
 * | A write of         | of a field that      | needs `take_over` | leaves the field      |
 * | ------------------ | -------------------- | ----------------- | --------------------- |
 * | its owner          | is the owner's       |                   | the owner's           |
 * | its owner          | was taken over       | yes               | the owner's           |
 * | its owner          | is not set any more  |                   | nobody's              |
 * | another folder     | it sets, too         | yes               | the other folder's    |
 * | somebody by hand   | is the owner's       | yes               | taken over            |
 * | somebody by hand   | was taken over       |                   | taken over            |
 * | anybody            | keeps its value      |                   | as it was             |
 *
 * Without a folder there is nothing: the counter of a scope says whether any document of it has an
 * owner, and only then a write looks here.
 */
import { isDeepStrictEqual } from 'node:util';
import type { EntityManager } from 'typeorm';
import { namesIn, realmOf } from '../commits/actor-names.ts';
import type { Policies } from '../commits/commit.ts';
import type { ManagedDocument, ManagedField } from '../contracts/managed-fields.ts';
import { documentScope, tenantOfScope } from '../contracts/revision-scopes.ts';
import { invalid, StrataError } from '../errors.ts';
import { ancestorsOf, leavesOf, touching, type Difference } from '../schema/diff.ts';
import type { DocumentKind } from './document-kind.ts';
import { pathOf } from './document-paths.ts';
import { decodeCursor, defaultLimit, encodeCursor } from './paging.ts';

export type StoredField = Omit<ManagedField, 'taken_by_name'>;

/** What a write says of itself beside its body, also as an item of a change set. */
export interface Claims {
  /** The folder that it comes from. */
  readonly managed_by?: string;
  /** Owners whose fields it may change, with commas between them. */
  readonly take_over?: string;
  /** When it ends by itself (`temporary-changes.ts`). */
  readonly until?: string;
}

export const claimsOf = ({ managed_by, take_over, until }: Claims): Claims => ({
  ...(managed_by !== undefined && { managed_by }),
  ...(take_over !== undefined && { take_over }),
  ...(until !== undefined && { until }),
});

export interface ManagedWrite extends Claims {
  readonly changes: readonly Difference[];
  /** What was sent: its fields become the folder's. */
  readonly sent: unknown;
  /** Null for a removal. */
  readonly after: unknown;
  /** The fields that a merge patch does not name stay whose they were. */
  readonly isPatch: boolean;
  readonly by: string;
  readonly at: string;
}

/** As many as one document may have owners for. */
const mostFields = 2000;
/** Removed documents that a scope remembers the owners of. */
const mostRemoved = 1000;
/** How many one refusal names. */
const mostNamed = 20;

/** Whose the fields are after a write, and which of them it may not change. */
export function managedAfter(
  stored: readonly StoredField[],
  {
    managed_by: folder,
    take_over: names = '',
    changes,
    sent,
    after,
    isPatch,
    by,
    at,
  }: ManagedWrite,
): { readonly fields: readonly StoredField[]; readonly refused: readonly StoredField[] } {
  const isTouched = touching(changes);
  const mayTake = new Set(names.split(',').map((name) => name.trim()));
  const isRemoved = after === null;
  const kept = new Set(isRemoved ? [] : leavesOf(after));
  const around = new Set([...kept].flatMap((path) => [...ancestorsOf(path)]));
  const isThere = (path: string): boolean => kept.has(path) || around.has(path);
  const mine = new Set(folder === undefined ? [] : leavesOf(sent).filter(isThere));
  const fields: StoredField[] = [];
  const refused: StoredField[] = [];
  for (const field of stored) {
    const { owner, path, taken_by: taker } = field;
    const isOwn = owner === folder;
    const isTaken = taker !== undefined;
    const isChanged = isTouched(path);
    if (isChanged && isOwn === isTaken && !mayTake.has(owner)) refused.push(field);
    if (isOwn) {
      if (isPatch && !isChanged && !mine.has(path)) fields.push(field);
    } else if (!isChanged) {
      fields.push(field);
      mine.delete(path);
    } else if (!mine.has(path))
      fields.push(isTaken ? field : { path, owner, taken_by: by, taken_at: at });
  }
  if (isRemoved) return { fields: ownersOf(fields), refused };
  for (const path of mine) fields.push({ path, owner: folder! });
  return { fields: inOrder(fields), refused };
}

/** So that the same owners of the same fields are the same. */
const inOrder = (fields: readonly StoredField[]): StoredField[] =>
  fields.toSorted((one, other) => (one.path < other.path ? -1 : 1));

/** Of a document that is gone: whose fields were taken over with it. */
function ownersOf(fields: readonly StoredField[]): StoredField[] {
  const byOwner = new Map(fields.map((field) => [field.owner, { ...field, path: '' }]));
  return [...byOwner.values()];
}

export async function readManaged(
  manager: EntityManager,
  scope: string,
  path: string,
): Promise<readonly StoredField[]> {
  const [row] = await manager.query<{ fields: StoredField[] }[]>(
    'SELECT fields FROM strata.managed_fields WHERE scope = $1 AND path = $2',
    [scope, path],
  );
  return row?.fields ?? [];
}

type Kind<Address, Document> = Pick<
  DocumentKind<Address, Document>,
  'actions' | 'tenantId' | 'bodyOf' | 'approvedElsewhere' | 'hasNoPut'
>;

/** Whose the fields of a document are, to be stored. */
export interface Owners {
  readonly scope: string;
  readonly path: string;
  readonly fields: readonly StoredField[];
  /** The document is gone. */
  readonly isRemoved: boolean;
}

/** How a write was sent, and what it changes. */
type Sending = Pick<ManagedWrite, 'changes' | 'after' | 'by' | 'at'> & {
  readonly verb?: string;
  readonly body?: unknown;
};

/**
 * Whose the fields of a document are after a write, where that is another than before. Throws 409
 * where they are not the caller's to change. Asks nothing where the scope has no owners.
 */
export async function ownersAfter<Address, Document>(
  manager: EntityManager,
  kind: Kind<Address, Document>,
  params: Address & Claims,
  { managed = false }: Policies,
  { verb, body, after, ...change }: Sending,
): Promise<Owners | undefined> {
  const mayHave = managed || params.managed_by !== undefined;
  if (!mayHave || kind.hasNoPut) return undefined;
  const scope = documentScope(kind.tenantId(params));
  const path = pathOf(kind.actions, params);
  const stored = managed ? await readManaged(manager, scope, path) : [];
  const whole = after === null ? null : (kind.bodyOf?.(after as Document) ?? after);
  const next = managedAfter(stored, {
    ...change,
    ...claimsOf(params),
    after,
    sent: body ?? whole,
    isPatch: verb === 'patch',
  });
  // What is rolled out was asked when that was planned, and one that is reverted asks nobody.
  if (!kind.approvedElsewhere) await requireTaken(manager, scope, path, next);
  if (isDeepStrictEqual(next.fields, stored)) return undefined;
  return { scope, path, fields: next.fields, isRemoved: after === null };
}

/** Under the lock of the scope's counter. */
export async function storeManaged(
  manager: EntityManager,
  { scope, path, fields, isRemoved }: Owners,
): Promise<void> {
  if (fields.length === 0) {
    await manager.query('DELETE FROM strata.managed_fields WHERE scope = $1 AND path = $2', [
      scope,
      path,
    ]);
    return;
  }
  await manager.query(
    `INSERT INTO strata.managed_fields (scope, path, fields, removed_at)
     VALUES ($1, $2, $3, CASE WHEN $4 THEN clock_timestamp() END)
     ON CONFLICT (scope, path) DO UPDATE SET fields = excluded.fields, removed_at = excluded.removed_at`,
    [scope, path, JSON.stringify(fields), isRemoved],
  );
  await manager.query(
    'UPDATE strata.revisions SET managed = true WHERE scope = $1 AND NOT managed',
    [scope],
  );
  if (!isRemoved) return;
  await manager.query(
    `DELETE FROM strata.managed_fields WHERE scope = $1 AND removed_at <= (
       SELECT removed_at FROM strata.managed_fields WHERE scope = $1 AND removed_at IS NOT NULL
       ORDER BY removed_at DESC OFFSET $2 LIMIT 1)`,
    [scope, mostRemoved],
  );
}

/** Throws 409 with the fields that a write may not change, 422 where there would be too many. */
export async function requireTaken(
  manager: EntityManager,
  scope: string,
  path: string,
  { fields, refused }: ReturnType<typeof managedAfter>,
): Promise<void> {
  if (fields.length > mostFields)
    throw invalid([
      { path: '/managed_by', message: `cannot own more than ${mostFields} fields of a document` },
    ]);
  const [first] = refused;
  if (!first) return;
  const named = await withNames(manager, scope, refused.slice(0, mostNamed));
  throw new StrataError('field_managed', refusalOf(named[0]!, path), { managed_fields: named });
}

function refusalOf(field: ManagedField, document: string): string {
  const what = field.path === '' ? document : `${field.path} of ${document}`;
  const { owner, taken_by: by, taken_by_name: name, taken_at: at } = field;
  return by === undefined
    ? `${what} is managed by ${owner}. Change it there, or send X-Take-Over: ${owner} to take it over.`
    : `${what} is managed by ${owner}, and ${name ?? by} took it over at ${at}. Change it there to what it is now, or send X-Take-Over: ${owner} to write over it.`;
}

async function withNames(
  manager: EntityManager,
  scope: string,
  fields: readonly StoredField[],
): Promise<ManagedField[]> {
  const ids = fields.flatMap(({ taken_by: id }) => id ?? []);
  const names = await namesIn(manager, realmOf(tenantOfScope(scope)), ids);
  return fields.map((field) =>
    field.taken_by === undefined ? field : { ...field, taken_by_name: names.of(field.taken_by) },
  );
}

/** Bytes of JSON after which a page ends, unless its first document alone has more. */
const maxPageBytes = 1024 * 1024;

interface Asked {
  readonly document?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

export async function managedDocuments(
  manager: EntityManager,
  scope: string,
  { document, limit = defaultLimit, cursor }: Asked,
): Promise<{ items: ManagedDocument[]; next_cursor: string | null }> {
  const rows = await manager.query<{ path: string; fields: StoredField[]; found: number }[]>(
    `SELECT path, fields, found FROM (
       SELECT path, fields, count(*) OVER ()::int AS found,
         sum(octet_length(fields::text)) OVER (ORDER BY path) - octet_length(fields::text) AS before
       FROM (SELECT path, fields FROM strata.managed_fields
             WHERE scope = $1 AND path > $2 AND ($5::text IS NULL OR path = $5) ORDER BY path LIMIT $3) AS next) AS sized
     WHERE before < $4 ORDER BY path`,
    [scope, decodeCursor(cursor) ?? '', limit + 1, maxPageBytes, document ?? null],
  );
  const shown = rows.slice(0, limit);
  const named = await withNames(
    manager,
    scope,
    shown.flatMap(({ fields }) => fields),
  );
  let from = 0;
  const items = shown.map(({ path, fields }) => {
    from += fields.length;
    return { path, fields: named.slice(from - fields.length, from) };
  });
  const isEnd = rows.length === 0 || rows[0]!.found === shown.length;
  return { items, next_cursor: isEnd ? null : encodeCursor(shown.at(-1)!.path) };
}
