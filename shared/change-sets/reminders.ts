/**
 * Reminds those who are asked to approve a change set, once, by an audit event of which mail tells
 * them. Each is claimed and recorded in one transaction: a node that dies reminds nobody, and
 * another one does.
 */
import { randomUUID } from 'node:crypto';
import type { DataSource } from 'typeorm';
import { serviceCaller } from '../access.ts';
import { runAlone } from '../database/prepared-statements.ts';
import { recordStep, tableOf, type Of } from './store.ts';

/** Of so many one look sees to. */
const batch = 20;

/** `service` is who records it. Resolves to how many were due. */
export async function remindDue(
  db: DataSource,
  entity: Of['entity'],
  service: string,
): Promise<number> {
  // now() stays what it is within a statement, so that the index is used by it.
  const isDue = `state = 'pending' AND due_at <= now()`;
  const [found] = await runAlone(db, {
    name: `${tableOf(entity)}_to_remind`,
    text: `SELECT id FROM ${tableOf(entity)} WHERE ${isDue} LIMIT 1`,
  });
  if (!found) return 0;
  return db.transaction(async (manager) => {
    // The first element are the rows. Who watches change sets sees no change in it.
    const [due] = await manager.query<[{ id: string }[], number]>(
      `UPDATE ${tableOf(entity)} SET due_at = NULL WHERE id IN (
         SELECT id FROM ${tableOf(entity)} WHERE ${isDue} ORDER BY due_at LIMIT ${batch} FOR UPDATE SKIP LOCKED
       ) RETURNING id`,
    );
    const by = { caller: serviceCaller(service), requestId: randomUUID() };
    for (const { id } of due)
      await recordStep(manager, 'reminded', await manager.findOneByOrFail(entity, { id }), by);
    return due.length;
  });
}
