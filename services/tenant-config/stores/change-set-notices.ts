/**
 * Steps of change sets that webhooks and chat are still to be told of: written with the step, so
 * that one that was made is told also after a kill.
 */
import { randomUUID } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import type { Caller } from '../../../shared/access.ts';
import type { ChangeSetRow } from '../../../shared/change-sets/schema.ts';
import type { ChangeSetStep } from '../../../shared/contracts/change-set-notices.ts';
import { isOfChangeSet } from '../../../shared/contracts/notifier.ts';
import { runAlone } from '../../../shared/database/prepared-statements.ts';

/** Of so many one look sees to. */
const mostAtOnce = 50;
/** Another node, or this one, tries again what was claimed and not told. */
const claimSeconds = 10;

export async function noteStep(
  manager: EntityManager,
  step: string,
  { id, tenant_id: tenantId, state, digest, content, updated_at: at }: ChangeSetRow,
  caller: Caller,
): Promise<void> {
  const type = `changeset.${step}`;
  if (tenantId === null || !isOfChangeSet(type)) return;
  const { title, reason, apply, required, groups, note } = content;
  const notice: ChangeSetStep = {
    id: randomUUID(),
    type,
    timestamp: at.toISOString(),
    data: {
      tenant_id: tenantId,
      changeset_id: id,
      state,
      by: caller.id,
      title,
      reason,
      paths: content.items.map(({ path }) => path),
      apply,
      digest,
      required,
      groups: [...groups],
      authors: content.authors.map((author) => author.id),
      approved_by: content.approved_by.map((approval) => approval.id),
      note,
      emergency: content.break_glass?.reason ?? null,
    },
  };
  await manager.query(
    `INSERT INTO tenant_config.change_set_notices (id, tenant_id, notice, due_at)
     VALUES ($1, $2, $3, clock_timestamp())`,
    [notice.id, tenantId, JSON.stringify(notice)],
  );
}

export interface DueNotice {
  readonly id: string;
  readonly tenant_id: string;
  readonly notice: ChangeSetStep;
}

/** Claims the oldest that are due, in order. A node that dies loses its claims and nothing else. */
export const claimNotices = (db: DataSource): Promise<DueNotice[]> =>
  runAlone<DueNotice>(db, {
    name: 'strata_tenant_claim_notices',
    text: `WITH due AS (
       SELECT id FROM tenant_config.change_set_notices WHERE due_at <= clock_timestamp()
       ORDER BY due_at LIMIT ${mostAtOnce} FOR UPDATE SKIP LOCKED
     ),
     claimed AS (
       UPDATE tenant_config.change_set_notices n
       SET due_at = clock_timestamp() + interval '${claimSeconds} seconds'
       FROM due WHERE n.id = due.id RETURNING n.id, n.tenant_id, n.notice
     )
     SELECT * FROM claimed ORDER BY notice ->> 'timestamp'`,
  });

export const removeNotices = (db: DataSource, notified: readonly DueNotice[]): Promise<unknown> =>
  db.query('DELETE FROM tenant_config.change_set_notices WHERE id = ANY ($1)', [
    notified.map(({ id }) => id),
  ]);
