/** Reading the delivery log, and sending a notice again. */
import type { DataSource, EntityManager } from 'typeorm';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { Attempt, Delivery as DeliverySchema } from '../../../shared/contracts/notifier.ts';
import { StrataError } from '../../../shared/errors.ts';
import { auditFacts, recordEvents } from '../../../shared/commits/commit.ts';
import { lockRow } from '../../../shared/database/locked-row.ts';
import { newestFirst } from '../../../shared/documents/paging.ts';
import { viewBy } from '../../../shared/schema/view.ts';
import { webhookId } from '../rules/notice.ts';
import { AttemptEntity, DeliveryEntity, type DeliveryRow } from '../schema.ts';
import type { TakeMails } from '../stores/mail-shares.ts';

type Delivery = ResultOf<'notifier.deliveries.replay'>;

const deliveryView = (row: DeliveryRow): Delivery => ({
  ...viewBy(DeliverySchema, row),
  webhook_id: webhookId(row.id),
  next_attempt_at: row.state === 'pending' ? row.next_attempt_at.toISOString() : null,
});

export function deliveryActions(db: DataSource, onQueued: () => void, takeMails: TakeMails) {
  return {
    'notifier.deliveries.list': (params) => newestFirst(db, DeliveryEntity, params, deliveryView),

    async 'notifier.deliveries.get'({ tenant_id: tenantId, delivery_id: id }) {
      const row = found(await db.manager.findOneBy(DeliveryEntity, { id, tenant_id: tenantId }));
      const attempts = await db.manager.find(AttemptEntity, {
        where: { delivery_id: id },
        order: { n: 'ASC' },
      });
      return { ...deliveryView(row), log: attempts.map((each) => viewBy(Attempt, each)) };
    },

    async 'notifier.deliveries.replay'({ tenant_id: tenantId, delivery_id: id }, request) {
      const address = { id, tenant_id: tenantId };
      const { channel } = found(await db.manager.findOneBy(DeliveryEntity, address));
      if (channel === 'email') await takeMails(tenantId, request.caller, 1);
      const row = await db.transaction((manager) => replay(manager, tenantId, id, request));
      onQueued();
      return deliveryView(row);
    },
  } satisfies Handlers;
}

function found(row: DeliveryRow | null): DeliveryRow {
  if (!row) throw new StrataError('not_found', 'The tenant has no such delivery.');
  return row;
}

/**
 * Begins a new round of attempts with the same bytes and webhook-id, and ends the endpoint's pause;
 * it may be gone (retention.ts).
 */
async function replay(
  manager: EntityManager,
  tenantId: string,
  id: string,
  request: Request,
): Promise<DeliveryRow> {
  const locked = await lockRow(manager, DeliveryEntity, { id, tenant_id: tenantId });
  const row = found(locked);
  if (row.state === 'pending') throw new StrataError('conflict', 'It is being sent.');
  await manager.query(
    `INSERT INTO notifier.endpoints (key, served_at, failures) VALUES ($1, now(), 0)
     ON CONFLICT (key) DO UPDATE SET paused_revision = NULL, blocked_until = NULL`,
    [row.endpoint_key],
  );
  await manager.query(
    `UPDATE notifier.deliveries SET
       state = 'pending', round = 0, next_attempt_at = now(), settled_at = NULL, reason = NULL,
       lease = NULL, lease_until = NULL, fresh = true
     WHERE id = $1`,
    [id],
  );
  const event = {
    action: 'approval.notice_replayed',
    tenant_id: tenantId,
    target: row.approval_id,
    payload: { delivery_id: id, channel: row.channel, target: row.target },
  };
  await recordEvents(manager, [auditFacts(event, request)]);
  return manager.findOneByOrFail(DeliveryEntity, { id });
}
