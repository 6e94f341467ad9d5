import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/cluster/request.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { StrataError } from '../../../shared/errors.ts';
import { auditFacts, recordEvents } from '../../../shared/commits/commit.ts';
import { decodeTimeCursor, defaultLimit, pageOf } from '../../../shared/documents/paging.ts';
import { webhookId } from '../rules/notice.ts';
import { AttemptEntity, DeliveryEntity, EndpointEntity, type DeliveryRow } from '../schema.ts';

type Delivery = ResultOf<'notifier.deliveries.replay'>;
const deliveryView = (row: DeliveryRow): Delivery => ({
  id: row.id,
  approval_id: row.approval_id,
  webhook_id: webhookId(row.id),
  type: row.type,
  hop: row.hop,
  channel: row.channel,
  target: row.target,
  state: row.state,
  attempts: row.attempts,
  next_attempt_at: row.state === 'pending' ? row.next_attempt_at.toISOString() : null,
  created_at: row.created_at.toISOString(),
  settled_at: row.settled_at?.toISOString() ?? null,
  reason: row.reason,
});

export function deliveryActions(db: DataSource, onQueued: () => void) {
  return {
    async 'notifier.deliveries.list'({
      tenant_id: tenantId,
      approval_id: approvalId,
      state,
      channel,
      limit = defaultLimit,
      cursor,
    }) {
      const after = decodeTimeCursor(cursor);
      const query = db.manager
        .createQueryBuilder(DeliveryEntity, 'd')
        .where('d.tenant_id = :tenantId', { tenantId });
      if (approvalId !== undefined) query.andWhere('d.approval_id = :approvalId', { approvalId });
      if (state !== undefined) query.andWhere('d.state = :state', { state });
      if (channel !== undefined) query.andWhere('d.channel = :channel', { channel });
      if (after) query.andWhere('(d.created_at, d.id) < (:time, :id)', after);
      const rows = await query
        .orderBy({ 'd.created_at': 'DESC', 'd.id': 'DESC' })
        .limit(limit + 1)
        .getMany();
      return pageOf(
        rows,
        limit,
        (row) => `${row.created_at.toISOString()} ${row.id}`,
        deliveryView,
      );
    },

    async 'notifier.deliveries.get'({ tenant_id: tenantId, delivery_id: id }) {
      const row = await db.manager.findOneBy(DeliveryEntity, { id, tenant_id: tenantId });
      if (!row) throw new StrataError('not_found', 'The tenant has no such delivery.');
      const log = await db.manager.find(AttemptEntity, {
        where: { delivery_id: id },
        order: { n: 'ASC' },
      });
      return {
        ...deliveryView(row),
        log: log.map(({ at, duration_ms, status, answer, error }) => ({
          at: at.toISOString(),
          duration_ms,
          status,
          answer,
          error,
        })),
      };
    },

    /** A new round of attempts with the same bytes and webhook-id; it also ends the endpoint's pause. */
    async 'notifier.deliveries.replay'({ tenant_id: tenantId, delivery_id: id }, request) {
      const row = await db.transaction(async (manager) => {
        const found = await manager.findOne(DeliveryEntity, {
          where: { id, tenant_id: tenantId },
          lock: { mode: 'pessimistic_write' },
        });
        if (!found) throw new StrataError('not_found', 'The tenant has no such delivery.');
        if (found.state === 'pending') throw new StrataError('conflict', 'It is on its way.');
        await manager.update(
          EndpointEntity,
          { key: found.endpoint_key },
          { paused_revision: null, blocked_until: null },
        );
        await manager.query(
          `UPDATE notifier.deliveries SET state = 'pending', round = 0, next_attempt_at = now(), settled_at = NULL, reason = NULL, lease = NULL, lease_until = NULL WHERE id = $1`,
          [id],
        );
        await recordEvents(manager, [
          auditFacts(
            {
              action: 'approval.notice_replayed',
              tenant_id: tenantId,
              target: found.approval_id,
              payload: { delivery_id: id, channel: found.channel, target: found.target },
            },
            request,
          ),
        ]);
        return manager.findOneByOrFail(DeliveryEntity, { id });
      });
      onQueued();
      return deliveryView(row);
    },
  } satisfies Handlers;
}
