/** Chains whose next event waits in the outbox, because the audit does not accept it. */
import type { EntityManager } from 'typeorm';

export interface WaitingChainRow {
  readonly chain: string;
  readonly event_id: string;
  readonly since: Date;
  readonly action: string | null;
  readonly error: string;
  readonly tries: number;
  readonly retry_at: Date;
}

/** In the order of their names, after one. */
export const waitingChains = (
  manager: EntityManager,
  after: string,
  count: number,
): Promise<WaitingChainRow[]> =>
  manager.query(
    `SELECT w.*, o.event->>'action' AS action
     FROM strata.chain_waits w LEFT JOIN strata.outbox o USING (event_id)
     WHERE w.chain COLLATE "C" > $1 ORDER BY w.chain COLLATE "C" LIMIT $2`,
    [after, count],
  );

/** What the chains wait for, of those that wait. */
export async function waitsOf(
  manager: EntityManager,
  chains: readonly string[],
): Promise<Map<string, { readonly event_id: string; readonly since: string }>> {
  const rows = await manager.query<WaitingChainRow[]>(
    'SELECT chain, event_id, since FROM strata.chain_waits WHERE chain = ANY($1)',
    [chains],
  );
  return new Map(
    rows.map(({ chain, event_id, since }) => [chain, { event_id, since: since.toISOString() }]),
  );
}

/** Has the relay try a chain, or all, at its next look. Resolves to how many. */
export async function tryChainsAgain(
  manager: EntityManager,
  chain: string | undefined,
): Promise<number> {
  const [, chains] = await manager.query<[unknown[], number]>(
    `UPDATE strata.chain_waits SET retry_at = clock_timestamp()
     WHERE $1::text IS NULL OR chain = $1`,
    [chain ?? null],
  );
  return chains;
}
