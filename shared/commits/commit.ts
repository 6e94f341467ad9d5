import { randomUUID } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import type { Caller } from '../access.ts';
import type { Static } from 'typebox';
import type { AuditFacts } from '../contracts/audit.ts';
import type { ChangeRecord } from '../contracts/cluster.ts';

export type AuditEventFacts = Static<typeof AuditFacts>;
export type Change = Static<typeof ChangeRecord>;

/** Who commits, for which request. What was committed is added to `committed`, and the middleware makes it known. */
export interface Committing {
  readonly caller: Caller;
  readonly requestId: string;
  readonly committed: Change[];
}

/** An audit event before it has an id; the actor is the caller unless told. */
export interface EventDraft {
  readonly action: string;
  readonly tenant_id: string | null;
  readonly target: string | null;
  readonly payload: unknown;
  readonly actor?: AuditEventFacts['actor'];
}

export const auditFacts = (
  draft: EventDraft,
  by: { caller: Caller; requestId: string },
): AuditEventFacts => ({
  id: randomUUID(),
  action: draft.action,
  actor: draft.actor ?? { type: by.caller.type, id: by.caller.id },
  tenant_id: draft.tenant_id,
  target: draft.target,
  payload: draft.payload,
  request_id: by.requestId,
  occurred_at: new Date().toISOString(),
});

export interface Outcome<T> {
  readonly result: T;
  /** Exact cache keys that this change makes stale. */
  readonly keys: readonly string[];
  readonly events: readonly EventDraft[];
}

class Discarded<T> extends Error {
  readonly result: T;
  constructor(result: T) {
    super('discarded');
    this.result = result;
  }
}

/**
 * One change of a scope (`platform`, `auth` or `tenant:<id>`): rows, revision, change record and audit events in one transaction.
 * The scope's counter row is locked first, so writers of one scope follow each other, revisions have no gaps, and what `work`
 * reads is current. `work` gets the revision that its rows will carry. With `discard` everything is done and then undone.
 */
export async function commitChange<T>(
  db: DataSource,
  by: Committing,
  scope: string,
  work: (manager: EntityManager, revision: number) => Promise<Outcome<T>>,
  { discard = false } = {},
): Promise<Outcome<T>> {
  const committed: Change[] = [];
  let outcome: Outcome<T>;
  try {
    outcome = await db.transaction(async (manager) => {
      const [row] = await manager.query<{ revision: number }[]>(
        `INSERT INTO strata.revisions AS r (scope, revision) VALUES ($1, 1)
         ON CONFLICT (scope) DO UPDATE SET revision = r.revision + 1 RETURNING revision`,
        [scope],
      );
      const revision = row!.revision;
      const done = await work(manager, revision);
      if (discard) throw new Discarded(done);
      const events = done.events.map((draft) => auditFacts(draft, by));
      const [change] = await manager.query<{ id: string }[]>(
        `WITH events AS (
           INSERT INTO strata.outbox (event_id, event, created_at)
           SELECT (e->>'id')::uuid, e, clock_timestamp() FROM json_array_elements($4::json) e
         )
         INSERT INTO strata.changes (id, scope, revision, keys, created_at)
         VALUES (pg_current_xact_id(), $1, $2, $3, clock_timestamp()) RETURNING id::text`,
        [scope, revision, done.keys, JSON.stringify(events)],
      );
      committed.push({ id: change!.id, scope, revision, keys: [...done.keys] });
      return done;
    });
  } catch (error) {
    if (error instanceof Discarded) return error.result as Outcome<T>;
    throw error;
  }
  by.committed.push(...committed);
  return outcome;
}

/** Audit events without a change of configuration, inside the caller's transaction. */
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

/** The scope's changes after a revision, oldest first, as far as the feed still keeps them. */
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
 * A value and exactly the revision that it is from, in one snapshot. A value newer than the revision it is labelled with would let
 * a node show it first and an older one, cached under that revision, afterwards.
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
