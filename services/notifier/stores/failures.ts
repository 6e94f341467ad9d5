/** The audit's part of a delivery that has failed. */
import type { EntityManager } from 'typeorm';
import { recordEvents } from '../../../shared/commits/commit.ts';
import type { DeliveryRow } from '../schema.ts';
import { ownFacts } from './own-events.ts';

export type FailedDelivery = Pick<
  DeliveryRow,
  'id' | 'tenant_id' | 'approval_id' | 'channel' | 'target' | 'reason'
> & {
  /** HTTP status of the last attempt; null where there was no response, or no attempt. */
  readonly status: number | null;
};

/**
 * One event for each failed delivery, in the transaction that fails it: an operator must be able to
 * see in the audit whom an approval has not reached. The delivery's id takes the place of the id of a
 * request, since no request waits for its outcome.
 */
export async function auditFailures(
  manager: EntityManager,
  failed: readonly FailedDelivery[],
): Promise<void> {
  if (failed.length === 0) return;
  const events = failed.map((delivery) =>
    ownFacts(
      {
        action: 'approval.delivery_failed',
        tenant_id: delivery.tenant_id,
        target: delivery.approval_id,
        payload: {
          delivery_id: delivery.id,
          channel: delivery.channel,
          target: delivery.target,
          status: delivery.status,
          reason: delivery.reason,
        },
      },
      delivery.id,
    ),
  );
  await recordEvents(manager, events);
}
