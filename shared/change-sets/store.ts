/** Change sets as their rows. */
import type { EntityManager, EntitySchema } from 'typeorm';
import { auditFacts, countChange, recordEvents, type Committing } from '../commits/commit.ts';
import { Outdated } from '../commits/held-rights.ts';
import { changeSetScope } from '../contracts/revision-scopes.ts';
import { lockExclusively } from '../database/fair-locks.ts';
import { StrataError } from '../errors.ts';
import { breakerOf, openStates } from './rules.ts';
import type { ChangeSetRow, Content } from './schema.ts';

/** Change sets that are open at once, and those that are kept after they ended. */
const mostOpen = 100;
const mostEnded = 1000;
/** Of one, in bytes of JSON: its documents before and after, and what differs. */
const mostBytes = 8 * 1024 * 1024;

export interface Of {
  readonly entity: EntitySchema<ChangeSetRow>;
  readonly tenantId: string | null;
}

/** SQL's table, which the entity's constants name. */
export const tableOf = (entity: Of['entity']): string =>
  `${entity.options.schema}.${entity.options.tableName}`;

export async function findChangeSet(
  manager: EntityManager,
  { entity, tenantId }: Of,
  id: string,
): Promise<ChangeSetRow> {
  const row = await manager.findOneBy(entity, { id });
  if (row?.tenant_id === tenantId) return row;
  throw new StrataError('not_found', 'There is no such change set.');
}

/** Whoever locks it first settles every race. Throws `Outdated` where it is not as it was read. */
export async function lockAsRead(
  manager: EntityManager,
  of: Of,
  { id, updated_at: at }: ChangeSetRow,
): Promise<Date> {
  const [row] = await manager.query<{ updated_at: Date; now: Date }[]>(
    `SELECT updated_at, GREATEST(clock_timestamp(), updated_at + interval '1 millisecond') AS now
     FROM ${tableOf(of.entity)} WHERE id = $1 FOR UPDATE`,
    [id],
  );
  if (row?.updated_at.getTime() !== at.getTime()) throw new Outdated();
  return row.now;
}

export type Change = Partial<Pick<ChangeSetRow, 'state' | 'digest' | 'due_at'>> & {
  readonly content?: Partial<Content>;
};

/** Under its lock: what becomes of it. Nothing else is locked after this: it counts the change. */
export async function changeRow(
  manager: EntityManager,
  of: Of,
  row: ChangeSetRow,
  now: Date,
  { content, ...columns }: Change,
): Promise<ChangeSetRow> {
  const next = { ...columns, content: { ...row.content, ...content }, updated_at: now };
  requireSize(next.content);
  await manager.update(of.entity, { id: row.id }, next as object);
  await countRow(manager, of, row.id);
  return { ...row, ...next };
}

/** That it changed, for whoever watches change sets. */
export async function countRow(
  manager: EntityManager,
  { entity, tenantId }: Of,
  id: string,
): Promise<void> {
  const revision = await countChange(manager, changeSetScope(tenantId));
  await manager.update(entity, { id }, { revision });
}

export async function insertRow(
  manager: EntityManager,
  of: Of,
  row: Omit<ChangeSetRow, 'created_at' | 'updated_at' | 'revision'>,
): Promise<ChangeSetRow> {
  requireSize(row.content);
  const [{ now }] = await manager.query<[{ now: Date }]>(
    `SELECT date_trunc('milliseconds', clock_timestamp()) AS now`,
  );
  // The contents of those that stay are not looked at: there may be gigabytes of them.
  await manager.query(
    `DELETE FROM ${tableOf(of.entity)} WHERE id IN (SELECT id FROM (
       SELECT id, content FROM ${tableOf(of.entity)}
       WHERE tenant_id IS NOT DISTINCT FROM $1 AND state <> ALL ($2)
       ORDER BY created_at DESC OFFSET ${mostEnded}) AS old
     WHERE content->'break_glass' IS NULL OR content->'break_glass'->>'reviewed_by' IS NOT NULL)`,
    [row.tenant_id, openStates],
  );
  const whole = { ...row, created_at: now, updated_at: now, revision: null };
  await manager.insert(of.entity, whole as object);
  return whole;
}

/**
 * Throws 422 where more are open than may be. Whoever opens one is counted by then, and so has waited
 * for the others; what is applied at once in an emergency is not open.
 */
export async function requireFewOpen(
  manager: EntityManager,
  { entity, tenantId }: Of,
): Promise<void> {
  const [{ open }] = await manager.query<[{ open: number }]>(
    `SELECT count(*)::int AS open FROM ${tableOf(entity)}
     WHERE tenant_id IS NOT DISTINCT FROM $1 AND state = ANY ($2)`,
    [tenantId, openStates],
  );
  if (open > mostOpen)
    throw new StrataError(
      'quota_exceeded',
      `There are ${mostOpen} open change sets, as many as there may be. Cancel one first.`,
    );
}

function requireSize(content: Content): void {
  if (Buffer.byteLength(JSON.stringify(content)) <= mostBytes) return;
  throw new StrataError(
    'payload_too_large',
    'The documents of the change set are too large together.',
  );
}

type By = Pick<Committing, 'caller' | 'requestId'>;
/** What a service does beside the audit event of a step, in its transaction. */
export type OnStep = (
  manager: EntityManager,
  step: string,
  row: ChangeSetRow,
  by: By,
) => Promise<void>;

/** The audit event of a step. */
export async function recordStep(
  manager: EntityManager,
  step: string,
  row: ChangeSetRow,
  by: By,
  onStep?: OnStep,
): Promise<void> {
  const { id, tenant_id, state, digest, content } = row;
  await onStep?.(manager, step, row, by);
  await recordEvents(manager, [
    auditFacts(
      {
        action: `changeset.${step}`,
        tenant_id,
        target: id,
        payload: {
          state,
          digest,
          title: content.title,
          paths: content.items.map(({ path }) => path),
          apply: content.apply,
          authors: [...new Set(content.authors.flatMap(({ principals }) => principals))],
          groups: content.groups,
          approved_by: content.approved_by.map((approval) => approval.id),
          note: content.note,
          ...(content.break_glass && { break_glass: content.break_glass }),
        },
      },
      by,
    ),
  ]);
}

/**
 * Throws 409 where this person broke the glass before and nobody else has looked at it. Two of theirs
 * at once follow each other. Found by the index of these: an emergency waits for no other content.
 */
export async function requireReviewed(
  manager: EntityManager,
  { entity, tenantId }: Of,
  by: string,
): Promise<void> {
  const breaker = breakerOf(by);
  await lockExclusively(manager, `strata break-glass ${breaker}`);
  const unreviewed = await manager.query<{ id: string; by: string }[]>(
    `SELECT id, content->'break_glass'->>'by' AS by FROM ${tableOf(entity)}
     WHERE tenant_id IS NOT DISTINCT FROM $1 AND state = 'applied'
       AND content->'break_glass'->>'at' IS NOT NULL AND content->'break_glass'->>'reviewed_by' IS NULL`,
    [tenantId],
  );
  const waiting = unreviewed.find((each) => breakerOf(each.by) === breaker);
  if (waiting)
    throw new StrataError(
      'conflict',
      `Somebody else has to review the emergency of ${waiting.id} first.`,
    );
}

/** Those that changed after a revision, each as it is by now, in the order of their last changes. */
export const changedAfter = (
  manager: EntityManager,
  { entity, tenantId }: Of,
  after: number,
  limit: number,
): Promise<{ revision: number; changeset_id: string; state: ChangeSetRow['state'] }[]> =>
  manager.query(
    `SELECT revision, id AS changeset_id, state FROM ${tableOf(entity)}
     WHERE tenant_id IS NOT DISTINCT FROM $1 AND revision > $2 ORDER BY revision LIMIT $3`,
    [tenantId, after, limit],
  );
