/**
 * Whether something has ended, by the database's clock: a node's may jump, and what is found ended
 * is removed, or remembered so by gateways.
 */
import { Raw, type FindOperator } from 'typeorm';

/** Of a column with a time. */
export const hasPassed = (): FindOperator<Date> => Raw((column) => `${column} <= now()`);
