/**
 * Changes that end by themselves: a write with `until` keeps beside its document what each field was
 * before, and at that time each becomes it again (`tenant-config.temporary-changes.end`).
 *
 * | A field that                               | at the end                        |
 * | ------------------------------------------ | --------------------------------- |
 * | nobody has changed since                   | becomes what it was before        |
 * | was changed since, for good                | stays as it is                    |
 * | was changed since, until another time      | becomes what the first one found  |
 *
 * Without such a change there is nothing: the counter of a scope says whether there ever was one, and
 * only then a write looks here.
 */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { DataSource, EntityManager } from 'typeorm';
import { namesIn, realmOf } from '../commits/actor-names.ts';
import type { Policies } from '../commits/commit.ts';
import { contractOf } from '../contracts/index.ts';
import { tenantScope } from '../contracts/revision-scopes.ts';
import { TemporaryChange, type TemporaryField } from '../contracts/temporary-changes.ts';
import { runAlone } from '../database/prepared-statements.ts';
import { boundedProblems, invalid, StrataError, type Problem } from '../errors.ts';
import { ancestorsOf, diff, leavesOf, touching, type Difference } from '../schema/diff.ts';
import { isObject, namesOf, pointerToken, valueAt, withValuesAt } from '../schema/json-pointer.ts';
import { viewBy } from '../schema/view.ts';
import type { Both, DocumentKind } from './document-kind.ts';
import { pathOf } from './document-paths.ts';
import { decodeCursor, defaultLimit, pageOf } from './paging.ts';

/** For longer than this something is no exception. */
const mostDays = 366;
/** Of one, in fields and in bytes of JSON: it is kept as often as there are such changes. */
const mostFields = 100;
const mostBytes = 16 * 1024;
/** Open ones of a scope, and those that are kept after they ended. */
const mostOpen = 1000;
const mostEnded = 1000;

/** What a change did, for its end. */
export interface Temporary {
  readonly fields: readonly TemporaryField[];
  /** The objects that it made, which go with their last field. */
  readonly made: readonly string[];
}

export interface StoredTemporary extends Temporary {
  readonly id: string;
  /** Of the document, as its own write has it. */
  readonly path: string;
  readonly until: Date;
  readonly revision: number;
  readonly changed_by: string;
  readonly reason: string | null;
  /** The folder that it came from. */
  readonly managed_by: string | null;
  readonly created_at: Date;
  /** Why its end was refused the last time; null where it was not. */
  readonly note: string | null;
}

/** The value under this name, where there is one. */
const given = (name: 'value' | 'becomes', value: unknown): object =>
  value === undefined ? {} : { [name]: value };

/** Field by field, since others may change the neighbours of one. */
export function temporaryOf(changes: readonly Difference[]): Temporary {
  const fields = changes.flatMap(({ path, before, after }) => {
    const leaves = new Set([before, after].flatMap((side) => leavesIn(side, path)));
    return [...leaves].map((leaf): TemporaryField => {
      const names = namesOf(leaf.slice(path.length));
      return {
        path: leaf,
        ...given('value', valueAt(after, names)),
        ...given('becomes', valueAt(before, names)),
      };
    });
  });
  const made = changes.flatMap(({ path, before, after }) =>
    before === undefined ? objectsIn(after, path) : [],
  );
  return { fields, made };
}

/** Also of empty objects: one hides what lower layers have for its key. */
function leavesIn(side: unknown, path: string): string[] {
  if (side === undefined) return [];
  const empty = objectsIn(side, path).filter((each) =>
    isDeepStrictEqual(valueAt(side, namesOf(each.slice(path.length))), {}),
  );
  return [...leavesOf(side, path), ...empty];
}

/** The pointers of an object and of those inside of it, the innermost first. */
function objectsIn(value: unknown, path: string): string[] {
  if (!isObject(value)) return [];
  const inside = Object.entries(value).flatMap(([name, member]) =>
    objectsIn(member, `${path}/${pointerToken(name)}`),
  );
  return [...inside, path];
}

/** The document after the ends; undefined where no field is any more as a change left it. */
export function restored(document: unknown, ...changes: readonly Temporary[]): unknown {
  const remaining = changes
    .map(({ fields, made }) => ({
      made,
      fields: fields.filter(({ path, value }) =>
        isDeepStrictEqual(valueAt(document, namesOf(path)), value),
      ),
    }))
    .filter(({ fields }) => fields.length > 0);
  if (remaining.length === 0) return undefined;
  // What goes does so first: it may be inside of what takes its place.
  const inOrder = remaining
    .flatMap(({ fields }) => fields)
    .toSorted((one, other) => Number('becomes' in one) - Number('becomes' in other));
  const next = withValuesAt(
    document,
    inOrder.map(({ path, becomes }) => ({ names: namesOf(path), next: becomes })),
  );
  return withoutEmpty(
    next,
    remaining.flatMap(({ made }) => made.map(namesOf)),
  );
}

/** Without the objects at some places that are empty, the innermost first. */
function withoutEmpty(value: unknown, places: readonly (readonly string[])[]): unknown {
  const below = places.filter((names) => names.length > 0);
  const inside = Map.groupBy(below, ([name]) => name!);
  const left = withValuesAt(
    value,
    [...inside].flatMap(([name, paths]) => {
      const member = valueAt(value, [name]);
      if (!isObject(member)) return [];
      const rest = paths.map(([, ...names]) => names);
      return [{ names: [name], next: withoutEmpty(member, rest) }];
    }),
  );
  const mayGo = below.length < places.length;
  return mayGo && isDeepStrictEqual(left, {}) ? undefined : left;
}

/**
 * The change of now, with what its fields were for good where it takes them from earlier ones; a
 * field that becomes just that ends nowhere.
 */
export function following(
  { before, after }: Pick<Difference, 'before' | 'after'>,
  earlier: readonly Temporary[],
  left: readonly Temporary[],
): Temporary {
  const taken = earlier.map((each, index) => {
    const stays = new Set(left[index]!.fields.map(({ path }) => path));
    return { ...each, fields: each.fields.filter(({ path }) => !stays.has(path)) };
  });
  const forGood = restored(before, ...taken) ?? before;
  const { fields, made } = temporaryOf(diff(forGood, after));
  // One that holds none of its fields is emptied by other ends.
  const around = new Set(fields.flatMap(({ path }) => [path, ...ancestorsOf(path)]));
  const others = earlier.flatMap((each) => each.made).filter((path) => around.has(path));
  const all = new Set([...made, ...others]);
  // The innermost first.
  return { fields, made: [...all].toSorted((one, other) => other.length - one.length) };
}

/**
 * What is left of earlier changes, of which a write changes some fields. An object that it makes
 * says nothing of members that were taken out of one before, nor does one that goes with an end.
 */
export function untouched<One extends Temporary>(
  earlier: readonly One[],
  changes: readonly Difference[],
  isEnd = false,
): One[] {
  const changed = changes.flatMap(({ path, before, after }) => {
    const made = before === undefined ? after : isEnd && after === undefined ? before : undefined;
    return made === undefined ? [{ path }] : leavesIn(made, path).map((leaf) => ({ path: leaf }));
  });
  return without(earlier, touching(changed));
}

/**
 * The same beside the change of now. Where one that it takes has put an object in the place of
 * another value, all of that object is a field of it, and ends with it.
 */
export function besides<One extends Temporary>(left: readonly One[], added: Temporary): One[] {
  const own = new Set(added.fields.map(({ path }) => path));
  return without(left, (path) => own.has(path));
}

const without = <One extends Temporary>(
  changes: readonly One[],
  isGone: (path: string) => boolean,
): One[] =>
  changes.map((each) => ({ ...each, fields: each.fields.filter(({ path }) => !isGone(path)) }));

/** What a write does to the temporary changes of its document. */
export interface TemporaryWrite<Document = unknown> {
  readonly scope: string;
  /** What it does once all earlier ones have ended, as if it had no end itself. */
  readonly ended: Both<Document>;
  /** Those of which it changes fields, with the others. */
  readonly touched: readonly StoredTemporary[];
  readonly added?: StoredTemporary;
  /** Says which fields of the document still end. */
  readonly warned: Problem[];
}

type Kind<Address> = Pick<DocumentKind<Address, unknown>, 'actions' | 'tenantId'>;

/** Whether the contract of its writes takes an end. Such a kind has no secrets. */
const mayBeTemporary = (actions: string): boolean =>
  'until' in (contractOf(`${actions}.put`)?.params.properties ?? {});

interface Write<Document = unknown> extends Both<Document> {
  readonly changes: readonly Difference[];
  readonly isRemoved: boolean;
  readonly isNew: boolean;
  /** It ends a temporary change. */
  readonly isEnd: boolean;
  readonly revision: number;
  readonly at: Date;
  readonly by: string;
  readonly reason: string | null;
}
interface Asked {
  readonly until?: string;
  readonly managed_by?: string;
}

/** Undefined where there is nothing to keep. Throws 422 for what cannot end, or not then. */
export async function temporaryAfter<Address, Document>(
  manager: EntityManager,
  kind: Kind<Address>,
  params: Address & Asked,
  { temporary = false }: Policies,
  write: Write<Document>,
): Promise<TemporaryWrite<Document> | undefined> {
  const tenantId = kind.tenantId(params);
  if (tenantId === null || (!temporary && params.until === undefined)) return undefined;
  const scope = tenantScope(tenantId);
  const path = pathOf(kind.actions, params);
  const earlier = temporary ? await openOf(manager, scope, path) : [];
  // A document that goes takes along what a change had removed from it, too.
  const kept = write.isRemoved
    ? earlier.map((each) => ({ ...each, fields: [] }))
    : untouched(earlier, write.changes, write.isEnd);
  const added =
    params.until === undefined
      ? undefined
      : addedBy(kind, { ...params, path }, write, earlier, kept);
  if (earlier.length === 0 && !added) return undefined;
  if (added) await requireRoom(manager, scope);
  const left = added ? besides(kept, added) : kept;
  const warned = boundedProblems(warningsOf(left));
  const touched = left.filter(({ fields }, index) => fields.length < earlier[index]!.fields.length);
  const ended = { before: endedOf(write.before, earlier), after: endedOf(write.after, left) };
  return { scope, ended, touched, ...(added && { added }), warned };
}

/** The document once these have ended. Its rules are not asked: each value was in it before. */
const endedOf = <Document>(document: Document, changes: readonly Temporary[]): Document =>
  (restored(document, ...changes) ?? document) as Document;

function* warningsOf(left: readonly StoredTemporary[]): Iterable<Problem> {
  for (const { fields, until } of left)
    for (const { path, becomes } of fields) {
      const next = becomes === undefined ? 'goes' : `becomes ${JSON.stringify(becomes)}`;
      yield { path, message: `is temporary: at ${until.toISOString()} it ${next} again` };
    }
}

function addedBy(
  { actions }: Pick<Kind<unknown>, 'actions'>,
  { until, managed_by: folder, path }: Asked & { readonly path: string },
  { before, after, changes, isRemoved, isNew, revision, at, by, reason }: Write,
  earlier: readonly StoredTemporary[],
  left: readonly StoredTemporary[],
): StoredTemporary | undefined {
  const ends = new Date(until!);
  const problem = (message: string): StrataError => invalid([{ path: '/until', message }]);
  if (!mayBeTemporary(actions))
    throw problem('is for risk limits, agent configurations and service instances');
  if (isRemoved || isNew) throw problem('is for a document that is there, and stays');
  if (!(ends > at)) throw problem('has passed');
  if (ends.getTime() - at.getTime() > mostDays * 86_400_000)
    throw problem(`is more than ${mostDays} days away`);
  if (changes.length === 0) throw problem('has nothing to end: the write changes nothing');
  const change = following({ before, after }, earlier, left);
  const { fields, made } = change;
  const bytes = Buffer.byteLength(JSON.stringify(change));
  if (fields.length > mostFields || bytes > mostBytes)
    throw problem(`is for at most ${mostFields} fields and ${mostBytes} bytes of changes`);
  if (fields.length === 0) return undefined;
  return {
    id: randomUUID(),
    path,
    until: ends,
    revision,
    fields,
    made,
    changed_by: by,
    reason,
    managed_by: folder ?? null,
    created_at: at,
    note: null,
  };
}

const columns = `id, path, until, revision, fields, made, changed_by, reason, managed_by, created_at, note`;

const openOf = (manager: EntityManager, scope: string, path: string): Promise<StoredTemporary[]> =>
  manager.query(
    `SELECT ${columns} FROM strata.temporary_changes
     WHERE scope = $1 AND path = $2 AND ended_at IS NULL ORDER BY revision`,
    [scope, path],
  );

async function requireRoom(manager: EntityManager, scope: string): Promise<void> {
  const [counted] = await manager.query<{ open: number }[]>(
    'SELECT count(*)::int AS open FROM strata.temporary_changes WHERE scope = $1 AND ended_at IS NULL',
    [scope],
  );
  if (counted!.open >= mostOpen)
    throw new StrataError(
      'quota_exceeded',
      `There are ${mostOpen} temporary changes, as many as there may be. End one first.`,
    );
}

/** Under the lock of the scope's counter. One without a field left has ended. */
export async function storeTemporary(
  manager: EntityManager,
  { scope, touched, added }: TemporaryWrite,
): Promise<void> {
  for (const { id, fields } of touched)
    await manager.query(
      `UPDATE strata.temporary_changes
       SET fields = $2, ended_at = CASE WHEN $3 THEN clock_timestamp() END WHERE id = $1`,
      [id, JSON.stringify(fields), fields.length === 0],
    );
  if (!added) return;
  const { fields, made, until, ...said } = added;
  await manager.query(
    `INSERT INTO strata.temporary_changes (scope, due_at, ${columns})
     VALUES ($1, $4, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
    [
      scope,
      said.id,
      said.path,
      until,
      said.revision,
      JSON.stringify(fields),
      JSON.stringify(made),
      said.changed_by,
      said.reason,
      said.managed_by,
      said.created_at,
      said.note,
    ],
  );
  await manager.query(
    'UPDATE strata.revisions SET temporary = true WHERE scope = $1 AND NOT temporary',
    [scope],
  );
  await manager.query(
    `DELETE FROM strata.temporary_changes WHERE scope = $1 AND ended_at <= (
       SELECT ended_at FROM strata.temporary_changes WHERE scope = $1 AND ended_at IS NOT NULL
       ORDER BY ended_at DESC OFFSET $2 LIMIT 1)`,
    [scope, mostEnded],
  );
}

/** One whose time has come, by the database's clock; undefined where it has ended. */
export async function dueTemporary(
  manager: EntityManager,
  scope: string,
  id: string,
): Promise<StoredTemporary | undefined> {
  const [row] = await manager.query<StoredTemporary[]>(
    `SELECT ${columns} FROM strata.temporary_changes
     WHERE scope = $1 AND id = $2 AND ended_at IS NULL AND until <= clock_timestamp()`,
    [scope, id],
  );
  return row;
}

/** Whatever it has left: what is not restored by now is not to be. */
export async function endTemporary(manager: EntityManager, id: string): Promise<void> {
  await manager.query(
    `UPDATE strata.temporary_changes SET ended_at = clock_timestamp(), note = NULL
     WHERE id = $1 AND ended_at IS NULL`,
    [id],
  );
}

const againAfter = '1 minute';
/** The others come first until then. */
export async function tryLater(
  manager: EntityManager,
  id: string,
  /** Why it was refused. */
  note: string | null = null,
): Promise<void> {
  await manager.query(
    `UPDATE strata.temporary_changes SET note = $2, due_at = clock_timestamp() + interval '${againAfter}'
     WHERE id = $1 AND ended_at IS NULL`,
    [id, note?.slice(0, 1000) ?? null],
  );
}

/**
 * Those whose end is to be tried now, the first of each scope before the second of any: very many of
 * one hold up no other.
 */
export const dueTemporaries = (
  db: DataSource,
  limit: number,
): Promise<{ id: string; scope: string }[]> =>
  runAlone(
    db,
    {
      name: 'strata_temporary_changes_due',
      text: `SELECT id, scope FROM (
         SELECT id, scope, due_at, row_number() OVER (PARTITION BY scope ORDER BY due_at, id) AS place
         FROM strata.temporary_changes WHERE ended_at IS NULL AND due_at <= now()
       ) AS due
       ORDER BY place, due_at LIMIT $1`,
    },
    [limit],
  );

/**
 * For how many seconds the one that should have ended first has been late; 0 where none is. Without
 * those that a rule refuses, which is the tenant's to see to.
 */
export async function secondsLate(manager: EntityManager): Promise<number> {
  const [row] = await manager.query<{ late: number }[]>(
    `SELECT coalesce(extract(epoch FROM now() - min(until)), 0)::float8 AS late
     FROM strata.temporary_changes
     WHERE ended_at IS NULL AND note IS NULL AND until <= now() AND due_at <= now() + interval '${againAfter}'`,
  );
  return row!.late;
}

/** When writes of these revisions end, or have ended, also early, by revision. */
export async function untilOfRevisions(
  manager: EntityManager,
  scope: string,
  revisions: readonly number[],
): Promise<ReadonlyMap<number, string>> {
  const rows = await manager.query<{ revision: number; until: Date }[]>(
    `SELECT revision, LEAST(until, ended_at) AS until FROM strata.temporary_changes
     WHERE scope = $1 AND revision = ANY ($2)`,
    [scope, revisions],
  );
  return new Map(rows.map(({ revision, until }) => [revision, until.toISOString()]));
}

export async function openTemporaries(
  manager: EntityManager,
  tenantId: string,
  {
    document,
    limit = defaultLimit,
    cursor,
  }: { readonly document?: string; readonly limit?: number; readonly cursor?: string },
) {
  const [time, id] = decodeCursor(cursor, 'time')?.split(' ') ?? [];
  const rows = await manager.query<StoredTemporary[]>(
    `SELECT ${columns} FROM strata.temporary_changes
     WHERE scope = $1 AND ended_at IS NULL AND ($2::text IS NULL OR path = $2)
       AND ($3::timestamptz IS NULL OR (until, id) > ($3::timestamptz, $4::uuid))
     ORDER BY until, id LIMIT $5`,
    [tenantScope(tenantId), document ?? null, time ?? null, id ?? null, limit + 1],
  );
  const authors = rows.map(({ changed_by: author }) => author);
  const names = await namesIn(manager, realmOf(tenantId), authors);
  return pageOf(
    rows,
    limit,
    (row) => `${row.until.toISOString()} ${row.id}`,
    (row) => viewOf(row, names.of(row.changed_by)),
  );
}

const viewOf = (row: StoredTemporary, name: string | null): TemporaryChange => ({
  ...viewBy(TemporaryChange, row),
  document: row.path,
  fields: [...row.fields],
  changed_by_name: name,
});
