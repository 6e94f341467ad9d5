import type { EntityManager, EntityTarget, FindOptionsWhere, ObjectLiteral } from 'typeorm';

/** The row, which nobody else changes until the transaction ends; null where there is none. */
export const lockRow = <Row extends ObjectLiteral>(
  manager: EntityManager,
  entity: EntityTarget<Row>,
  where: FindOptionsWhere<Row>,
): Promise<Row | null> => manager.findOne(entity, { where, lock: { mode: 'pessimistic_write' } });
