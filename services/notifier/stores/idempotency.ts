/** Requests with an idempotency key: what was made by the first is the answer of the others. */
import type { EntityManager, EntitySchema, FindOptionsWhere } from 'typeorm';
import { StrataError } from '../../../shared/errors.ts';
import { canonicalHash } from '../../../shared/schema/canonical-hash.ts';
import type { ApprovalRow } from '../schema.ts';

type Keyed = Pick<ApprovalRow, 'tenant_id' | 'idempotency_key' | 'request_hash'>;

/**
 * What was made under the request's idempotency key, if anything; refuses the key for another
 * request.
 */
export async function findRepeated<Row extends Keyed>(
  manager: EntityManager,
  entity: EntitySchema<Row>,
  tenantId: string,
  body: { readonly idempotency_key?: string },
): Promise<Row | null> {
  const { idempotency_key: key } = body;
  if (key === undefined) return null;
  const address = { tenant_id: tenantId, idempotency_key: key } as FindOptionsWhere<Row>;
  const row = await manager.findOneBy(entity, address);
  if (row && row.request_hash !== canonicalHash(body))
    throw new StrataError('conflict', 'This idempotency_key was used for another request.');
  return row;
}
