/**
 * Commits: what is written, the revision it has, the change record for the caches and the audit
 * events are in one transaction, so that an answered write has all of them and a failed one none.
 * Used by the services for every write.
 */
import { randomUUID } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import type { Caller } from '../access.ts';
import type { Static } from 'typebox';
import type { AuditFacts } from '../contracts/audit.ts';
import type { PowerName } from '../contracts/consequences.ts';
import { settingsReloadedKey, settingsReplacedKey, type ChangeRecord } from '../contracts/feed.ts';
import { authScope, memberScope, tenantOfScope } from '../contracts/revision-scopes.ts';
import { hasBegun } from '../database/pipelined-transaction.ts';
import { isSerializationFailure } from '../database/failures.ts';
import { lockExpression, lockShared } from '../database/fair-locks.ts';
import { run, type Statement } from '../database/prepared-statements.ts';
import { StrataError } from '../errors.ts';
import { synchronizedNow } from '../process/synchronized-clock.ts';
import { noteIfOfPlatform, realmOf } from './actor-names.ts';

export type AuditEventFacts = Static<typeof AuditFacts>;
export type Change = Static<typeof ChangeRecord>;

/** Who commits, for which request. */
export interface Committing {
  readonly caller: Caller;
  readonly requestId: string;
  /**
   * What was committed is added here; the contract middleware makes it known to all nodes before it
   * answers.
   */
  readonly committed: Change[];
  /** The power that the call takes (`shared/contracts/consequences.ts`); its audit events say it. */
  readonly power?: PowerName;
}

/** An audit event before it has an id. */
export interface EventDraft {
  readonly action: string;
  readonly tenant_id: string | null;
  readonly target: string | null;
  readonly payload: unknown;
  /** The caller, where absent. */
  readonly actor?: AuditEventFacts['actor'];
}

/** The caller as the audit names them: a service account is a service, and its id says which. */
export const actorOf = ({ type, id }: Caller): AuditEventFacts['actor'] => ({
  type: type === 'service_account' ? 'service' : type,
  id,
});

export const auditFacts = (
  draft: EventDraft,
  by: { readonly caller: Caller; readonly requestId: string; readonly power?: PowerName },
  at = new Date(synchronizedNow()),
): AuditEventFacts => ({
  id: randomUUID(),
  action: draft.action,
  actor: draft.actor ?? actorOf(by.caller),
  tenant_id: draft.tenant_id,
  target: draft.target,
  payload: by.power === undefined ? draft.payload : withPower(draft.payload, by.power),
  request_id: by.requestId,
  occurred_at: at.toISOString(),
});

/** So that everything powerful can be found in the audit, whatever its event is called. */
const withPower = (payload: unknown, power: PowerName): object =>
  typeof payload === 'object' && payload !== null ? { ...payload, power } : { power };

export interface Outcome<T> {
  readonly result: T;
  /** Exact cache keys that this change makes outdated. */
  readonly keys: readonly string[];
  readonly events: readonly EventDraft[];
}

/** Thrown inside the transaction to roll it back, and caught outside by the same call. */
class Discarded<T> extends Error {
  readonly outcomes: readonly Outcome<T>[];
  constructor(outcomes: readonly Outcome<T>[]) {
    super('discarded');
    this.outcomes = outcomes;
  }
}

/**
 * What one change writes: given the time of the change, and the revision that its rows will carry.
 */
export type Work<T> = (
  manager: EntityManager,
  at: Date,
  revision: number,
  policies: Policies,
) => Promise<Outcome<T>>;

/**
 * The change policies in force as the counter of the scope has them (documents/change-policy.ts), so
 * that a write knows them under its lock without another statement.
 */
export interface Policies {
  readonly own: unknown;
  readonly platform: unknown;
  /**
   * Whether folders own fields of its documents (documents/managed-fields.ts). The first write that
   * makes it so says it to those that follow in the transaction.
   */
  managed?: boolean;
  /** Likewise, whether it ever had changes that end by themselves (documents/temporary-changes.ts). */
  temporary?: boolean;
}
/** For what is looked at and rolled back: a plan shows also what would be refused. */
const noPolicies: Policies = { own: null, platform: null };

/**
 * One change of a revision scope: `platform`, `auth`, `tenant:<id>` or `members:<id>`.
 *
 * The scope's counter is locked first. So writers of one scope follow each other, revisions have no
 * gaps, and what `work` reads is current. The time that it is given is the database's, taken under
 * the lock: clocks of nodes differ, and a later revision must not look older. With `discard`
 * everything is done and then rolled back, and the result is what it would have been. Throws what
 * `work` and the database throw; then nothing is committed.
 */
export async function commitChange<T>(
  db: DataSource,
  by: Committing,
  scope: string,
  work: Work<T>,
  options: { readonly discard?: boolean } = {},
): Promise<T> {
  const [outcome] = await commitChanges(db, by, scope, [work], options);
  return outcome!.result;
}

type Finished<T> = (manager: EntityManager, outcomes: readonly Outcome<T>[]) => Promise<void>;

/**
 * Several changes of one scope in one transaction, all or none: each has a revision and a change
 * record of its own, in this order, and finds what those before it wrote. Nodes are told of all of
 * them at once, with the keys of each and the last revision: acknowledgements are of a transaction.
 * `begin` comes before the lock of the scope, for what is locked before it; `finished` looks at all of
 * it before the commit, and may refuse it by throwing.
 */
export async function commitChanges<T>(
  db: DataSource,
  by: Committing,
  scope: string,
  works: readonly Work<T>[],
  {
    discard = false,
    begin,
    finished,
  }: {
    readonly discard?: boolean;
    readonly begin?: (manager: EntityManager) => Promise<void>;
    readonly finished?: Finished<T>;
  } = {},
): Promise<Outcome<T>[]> {
  try {
    const { outcomes, change } = await db.transaction(async (manager) => {
      await begin?.(manager);
      const outcomes: Outcome<T>[] = [];
      let change: Change | undefined;
      for (const work of works) {
        const { revision, changed_at: at, policies } = await lockAndCount(manager, scope);
        const done = await work(manager, at, revision, policies);
        outcomes.push(done);
        if (discard) continue;
        const { id, recent } = await recordChanges(manager, scope, [
          recordOf(by, { revision, at }, done),
        ]);
        change = { id, scope, revision, keys: [...(change?.keys ?? []), ...done.keys, ...recent] };
      }
      await noteIfOfPlatform(manager, realmOf(tenantOfScope(scope)), by.caller);
      await finished?.(manager, outcomes);
      if (discard) throw new Discarded(outcomes);
      return { outcomes, change };
    });
    if (change) by.committed.push(change);
    return outcomes;
  } catch (error) {
    if (error instanceof Discarded) return error.outcomes as Outcome<T>[];
    throw error;
  }
}

/** How often a trial is repeated whose rows others change; the last time they wait for it. */
const mostTrials = 5;

/**
 * As `commitChanges` that are discarded, but without the lock: on one snapshot, which is as good
 * where nothing is committed. So writers of the scope do not wait while much is read for a plan. Its
 * works write no row that a writer of another document would write, such as an entry of the history.
 */
export async function tryChanges<T>(
  db: DataSource,
  scope: string,
  works: readonly Work<T>[],
  finished: Finished<T>,
): Promise<Outcome<T>[]> {
  const attempt = (isLast: boolean): Promise<never> =>
    db.transaction(isLast ? 'READ COMMITTED' : 'REPEATABLE READ', async (manager) => {
      const count = isLast ? lockAndCount : nextOf;
      const { revision, changed_at: at } = await count(manager, scope);
      const outcomes: Outcome<T>[] = [];
      for (const work of works)
        outcomes.push(await work(manager, at, revision + outcomes.length, noPolicies));
      await finished(manager, outcomes);
      throw new Discarded(outcomes);
    });
  for (let trial = 1; ; trial += 1) {
    try {
      await attempt(trial === mostTrials);
    } catch (error) {
      if (error instanceof Discarded) return error.outcomes as Outcome<T>[];
      if (trial === mostTrials || !isSerializationFailure(error)) throw error;
    }
  }
}

interface RevisionRow {
  readonly revision: number;
  /** Never before that of the revision before, also where the database's clock is set back. */
  readonly changed_at: Date;
}
/** What a change of a scope has under the scope's lock. */
interface CountedRow extends RevisionRow {
  readonly policies: Policies;
}

/** The lock of a scope: who changes it has it alone, who goes by its revision shares it. */
const lockName = (scope: string): string => `strata scope ${scope}`;

/**
 * Where the server is not the one that the feed has met, its revisions may be older than what was
 * answered, and nobody is given one: the next poll meets it (coherence/feed.ts).
 */
const nextRevision = (name: string, condition: string): Statement => ({
  name,
  text: `INSERT INTO strata.revisions AS r (scope, revision, changed_at)
     SELECT $1::text, revisions_from + 1, clock_timestamp()
     FROM strata.feed_state, (SELECT ${lockExpression(`'${lockName('')}' || $1::text`)}) AS locked
     WHERE cluster = strata.cluster() AND started = pg_postmaster_start_time() AND ${condition}
     ON CONFLICT (scope) DO UPDATE SET revision = r.revision + 1, changed_at = GREATEST(r.changed_at, clock_timestamp())
     RETURNING revision, changed_at, json_build_object('own', change_policy, 'managed', managed, 'temporary', temporary,
       'platform', (SELECT p.change_policy FROM strata.revisions p WHERE p.scope = 'platform')) AS policies`,
});
const nextInTransaction = nextRevision('strata_next_revision', 'true');
const nextWhereBegun = nextRevision('strata_next_revision_where_begun', hasBegun);

async function count(
  manager: EntityManager,
  statement: Statement,
  scope: string,
): Promise<CountedRow> {
  const [row] = await run<CountedRow>(manager, statement, [scope]);
  if (row) return row;
  throw new StrataError(
    'service_unavailable',
    'The database has just started, or was replaced. Try again.',
  );
}

/** The revision and time that the next change of the scope would have now. */
async function nextOf(manager: EntityManager, scope: string): Promise<RevisionRow> {
  const [row] = await manager.query<[RevisionRow]>(
    `SELECT coalesce(r.revision, revisions_from) + 1 AS revision, GREATEST(r.changed_at, clock_timestamp()) AS changed_at
     FROM strata.feed_state LEFT JOIN strata.revisions r ON r.scope = $1`,
    [scope],
  );
  return row;
}

/** The scope's next revision and its time. Its counter stays locked until the transaction ends. */
export const lockAndCount = (manager: EntityManager, scope: string): Promise<CountedRow> =>
  count(manager, nextInTransaction, scope);

/** The same as the first statement of a `pipelinedTransaction`. */
export const lockAndCountFirst = (manager: EntityManager, scope: string): Promise<CountedRow> =>
  count(manager, nextWhereBegun, scope);

/**
 * For further revisions of the same transaction: the counter goes up to this one, and has its time.
 */
export async function countUpTo(
  manager: EntityManager,
  scope: string,
  revision: number,
  at: Date,
): Promise<void> {
  await manager.query(
    'UPDATE strata.revisions SET revision = $2, changed_at = GREATEST(changed_at, $3) WHERE scope = $1',
    [scope, revision, at],
  );
}

/** What a change leaves beside its rows. */
export interface ChangeToRecord {
  readonly revision: number;
  readonly keys: readonly string[];
  readonly facts: readonly AuditEventFacts[];
}

export function recordOf(
  by: Committing,
  { revision, at }: { readonly revision: number; readonly at: Date },
  { keys, events }: Outcome<unknown>,
): ChangeToRecord {
  const facts = events.map((draft) => auditFacts(draft, by, at));
  return { revision, keys, facts };
}

/** So many changes of all scopes are searched: more than are made while a lease lasts. */
export const newestChanges = 20_000;

/** What the scope $1 has dropped since a poll whose lease may still last; no settings. */
const recent = `SELECT DISTINCT unnest(keys)
   FROM (SELECT scope, keys, created_at FROM strata.changes ORDER BY id DESC LIMIT ${newestChanges}) AS newest
   WHERE scope = $1 AND NOT keys && '{${settingsReplacedKey},${settingsReloadedKey}}'
     AND created_at > clock_timestamp() - (SELECT max(fence_ms) FROM strata.leases) * interval '1 ms'`;

const changesAndEvents: Statement = {
  name: 'strata_changes_and_events',
  text: `WITH events AS (
       INSERT INTO strata.outbox (event_id, event, created_at)
       SELECT (e->>'id')::uuid, e, clock_timestamp() FROM json_array_elements($3::json) e
     )
     INSERT INTO strata.changes (id, scope, revision, keys, created_at)
     SELECT pg_current_xact_id(), $1, revision, keys, clock_timestamp()
     FROM json_to_recordset($2::json) AS change (revision int8, keys text[])
     RETURNING id::text, CASE WHEN $4::boolean THEN ARRAY(${recent}) ELSE '{}' END AS recent`,
};

interface Recorded {
  /** The transaction's. */
  readonly id: string;
  /**
   * Keys to drop as well. A write that finds done what it asks for, such as that an account is
   * disabled, drops nothing itself; but the process that did it may have died before it notified
   * any node. For documents combined-commits.ts does this.
   */
  readonly recent: readonly string[];
}

const isOfIdentities = (scope: string): boolean =>
  scope === authScope || scope.startsWith(memberScope(''));

/** Writes change records and audit events in one statement. */
export async function recordChanges(
  manager: EntityManager,
  scope: string,
  changes: readonly ChangeToRecord[],
): Promise<Recorded> {
  const revisions = changes.map(({ revision, keys }) => ({ revision, keys }));
  const facts = changes.flatMap((change) => change.facts);
  const isDoneAlready = facts.length === 0 && isOfIdentities(scope);
  const [recorded] = await run<Recorded>(manager, changesAndEvents, [
    scope,
    JSON.stringify(revisions),
    JSON.stringify(facts),
    isDoneAlready,
  ]);
  return recorded!;
}

/**
 * Counts a change of a scope whose values nobody caches, inside the caller's transaction: nothing
 * waits for other nodes, and watch streams hear of it from the feed. Answers the revision that the
 * changed rows carry. The counter stays locked until the transaction ends, so lock whatever else is
 * locked first.
 */
export async function countChange(manager: EntityManager, scope: string): Promise<number> {
  const { revision } = await lockAndCount(manager, scope);
  await manager.query(
    `INSERT INTO strata.changes (id, scope, revision, keys, created_at)
     VALUES (pg_current_xact_id(), $1, $2, '{}', clock_timestamp())`,
    [scope, revision],
  );
  return revision;
}

/**
 * Audit events without a change of configuration, inside the caller's transaction. An event that is
 * there already is passed over.
 */
export async function recordEvents(
  manager: EntityManager,
  events: readonly AuditEventFacts[],
): Promise<void> {
  await manager.query(
    `INSERT INTO strata.outbox (event_id, event, created_at)
     SELECT (e->>'id')::uuid, e, clock_timestamp() FROM json_array_elements($1::json) e ON CONFLICT (event_id) DO NOTHING`,
    [JSON.stringify(events)],
  );
}

/** The scope's revision; 0 before its first change. */
export async function revisionOf(manager: EntityManager, scope: string): Promise<number> {
  const [row] = await manager.query<{ revision: number }[]>(
    'SELECT revision FROM strata.revisions WHERE scope = $1',
    [scope],
  );
  return row?.revision ?? 0;
}

/**
 * The revisions of scopes, which do not change before the transaction ends: what is written by a
 * configuration of exactly these revisions comes before the next change. 0 for a scope without a
 * change. Nobody holds them while another node is asked: whoever changes one of them waits, and all
 * others behind that.
 */
export async function holdRevisions(
  manager: EntityManager,
  scopes: readonly string[],
): Promise<Record<string, number>> {
  await lockShared(manager, scopes.map(lockName));
  // Another statement, since each sees what was committed before it began.
  return revisionsOf(manager, scopes);
}

/** The revisions of scopes in one statement; 0 for a scope without a change. */
export async function revisionsOf(
  manager: EntityManager,
  scopes: readonly string[],
): Promise<Record<string, number>> {
  const rows = await manager.query<RevisionOfScope[]>(
    'SELECT scope, revision FROM strata.revisions WHERE scope = ANY($1)',
    [scopes],
  );
  return byScope(scopes, rows);
}

interface RevisionOfScope {
  readonly scope: string;
  readonly revision: number;
}

function byScope(
  scopes: readonly string[],
  rows: readonly RevisionOfScope[],
): Record<string, number> {
  const known = new Map(rows.map(({ scope, revision }) => [scope, revision]));
  return Object.fromEntries(scopes.map((scope) => [scope, known.get(scope) ?? 0]));
}

/**
 * The scope's changes after a revision, oldest first, as far as the feed still keeps them
 * (feed.ts).
 */
export const changesAfter = (
  manager: EntityManager,
  scope: string,
  after: number,
  limit: number,
): Promise<{ revision: number; keys: string[]; created_at: Date }[]> =>
  manager.query(
    'SELECT revision, keys, created_at FROM strata.changes WHERE scope = $1 AND revision > $2 ORDER BY revision LIMIT $3',
    [scope, after, limit],
  );

/**
 * A value and exactly the revision that it is from, in one snapshot. If a value were newer than its
 * revision says, a node could show it, and afterwards an older value that it had cached under that
 * same revision.
 */
export const readSnapshot = <T>(
  db: DataSource,
  scope: string,
  read: (manager: EntityManager) => Promise<T>,
): Promise<{ value: T; asOf: Record<string, number> }> =>
  db.transaction('REPEATABLE READ', async (manager) => ({
    asOf: { [scope]: await revisionOf(manager, scope) },
    value: await read(manager),
  }));

/**
 * For `X-Min-Revision`: throws `precondition_failed` where the answer is from before the revision
 * that the caller asked for. The owner has just been asked, because no cache serves anything so
 * old, and so the revision does not exist yet.
 */
export function refuseOlderThan(
  min: Readonly<Record<string, number>>,
  asOf: Readonly<Record<string, number>>,
): void {
  for (const [scope, wanted] of Object.entries(min)) {
    const newest = asOf[scope] ?? 0;
    if (newest < wanted)
      throw new StrataError(
        'precondition_failed',
        `Revision ${wanted} does not exist yet; the newest is ${newest}.`,
      );
  }
}
