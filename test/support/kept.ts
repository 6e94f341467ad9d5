/**
 * Guarantee G2 after a fault: the database's history has every answered write and everything that
 * was read.
 */
import assert from 'node:assert/strict';
import type { Cluster } from './cluster.ts';
import type { Observed, Operation } from './history-checker.ts';

/** A revision of the tenant's, and the value of the register that it wrote. */
interface Revised {
  readonly revision: number;
  readonly value: number | null;
}

/** Their documents, which the history has: the platform's entries have none. */
const documented = new Set(['risk', 'agent', 'instance']);

/**
 * Throws if an answered write is missing from the history, or if something was read that is not in
 * it. Where the database went back, this goes for what began after all nodes had to know; returns
 * the answered writes from before that it lost.
 */
export async function lostWrites(
  { database, tenant }: Cluster,
  { writes, reads, wentBack }: Observed,
): Promise<readonly Operation[]> {
  const isKeptIn = ({ register, revision }: Operation): boolean =>
    documented.has(register) && revision !== undefined;
  const written = writes.filter(isKeptIn);
  const read = reads.filter((operation) => isKeptIn(operation) && !operation.stale);
  const least = Math.min(...[...written, ...read].map(({ revision }) => revision!));
  const history = await database.query<Revised>(
    `SELECT revision::float8 AS revision,
       COALESCE(after #>> '{service_overrides,cloud_run,risk_register}', after #>> '{custom,value}', after #>> '{custom_thresholds,value}')::float8 AS value
     FROM tenant_config.configuration_history WHERE tenant_id = $1 AND revision >= $2`,
    [tenant.id, least],
  );
  const values = new Map(history.map(({ revision, value }) => [revision, value]));
  const isKept = ({ revision, value }: Operation): boolean => values.get(revision!) === value;
  const from = wentBack?.until ?? -Infinity;
  const missing = [...written, ...read].filter((each) => each.began >= from && !isKept(each));
  const examples = missing
    .slice(0, 5)
    .map(({ register, node, value, revision }) => `${register} ${value} at ${revision} (${node})`);
  assert.deepEqual(examples, [], `${missing.length} answers that the database does not have`);
  return wentBack ? written.filter((each) => each.ended <= wentBack.at && !isKept(each)) : [];
}
