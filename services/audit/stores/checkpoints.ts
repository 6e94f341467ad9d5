/**
 * Stored checkpoints: a signed note of each chain's head, made in the hours in which it moved. They
 * go with the database where it is put back, so whoever wants to notice that keeps copies elsewhere.
 */
import type { EntityManager } from 'typeorm';
import { platformChain } from '../../../shared/security/audit-chain.ts';
import {
  openCheckpoint,
  signCheckpoint,
  type Checkpoint,
} from '../../../shared/security/audit-checkpoint.ts';
import { createKeyRing, type SecretKeys } from '../../../shared/security/derived-keys.ts';
import {
  noteSigner,
  verifierKeyOf,
  type NoteSigner,
} from '../../../shared/security/signed-note.ts';
import type { DestinationRow } from '../schema.ts';

const signerName = 'strata-audit';

/**
 * While SECRET_KEY is being rotated the previous key signs as well, so that whoever has pinned it
 * can verify until they have pinned the next one.
 */
const signersOf = (settings: SecretKeys): NoteSigner[] =>
  createKeyRing(settings, {
    label: 'audit checkpoint',
    neededTo: 'sign checkpoints of the audit',
  }).all.map(({ bytes }) => noteSigner(signerName, bytes));

/** What verifies the notes that are made now. */
export const currentVerifierKey = (settings: SecretKeys): string =>
  verifierKeyOf(signersOf(settings)[0]!);

const signing = `hashtextextended('strata audit checkpoints', 0)`;

/** Until the end of the transaction nobody else signs. */
export const lockSigning = (manager: EntityManager): Promise<unknown> =>
  manager.query(`SELECT pg_advisory_xact_lock(${signing})`);

/** False where another node is signing. */
export async function mayLockSigning(manager: EntityManager): Promise<boolean> {
  const [lock] = await manager.query<[{ mine: boolean }]>(
    `SELECT pg_try_advisory_xact_lock(${signing}) AS mine`,
  );
  return lock.mine;
}

/** Whether the chain still has what its checkpoint `n` says, or was cut behind it. */
const agrees = `(
  COALESCE((SELECT e.hash FROM audit.events e WHERE e.chain = n.chain AND e.seq = n.seq),
    (SELECT l.hash FROM audit.erased_links l WHERE l.chain = n.chain AND l.seq = n.seq)) IS NOT DISTINCT FROM n.hash
  OR EXISTS (SELECT FROM audit.cuts t WHERE t.chain = n.chain AND t.seq >= n.seq))`;

/** The newest of each chain after a name, chain by chain by the index. */
const newestOfEach = `newest AS (
  (SELECT * FROM audit.checkpoints WHERE chain = (SELECT min(chain) FROM audit.checkpoints WHERE chain > $1)
   ORDER BY seq DESC LIMIT 1)
  UNION ALL
  SELECT next.* FROM newest n, LATERAL (
    SELECT * FROM audit.checkpoints
    WHERE chain = (SELECT min(chain) FROM audit.checkpoints WHERE chain > n.chain)
    ORDER BY seq DESC LIMIT 1) AS next
)`;

/**
 * Signs the heads of some chains that have moved since their newest checkpoint, which is of an
 * earlier hour. One that no longer agrees with it is not signed: that would make a rewritten chain
 * a proven one. Resolves to the name after which there may be more.
 */
export async function signHeads(
  manager: EntityManager,
  settings: SecretKeys,
  most: number,
  /** Of chains with later names, so that none is looked at once for each hundred that are signed. */
  after = '',
): Promise<string | undefined> {
  const signers = signersOf(settings);
  const heads = await manager.query<(Omit<Checkpoint, 'made_at'> & { made_at: Date })[]>(
    `SELECT c.chain, c.seq, c.hash, clock_timestamp() AS made_at
     FROM audit.chains c LEFT JOIN LATERAL (
       SELECT * FROM audit.checkpoints k WHERE k.chain = c.chain ORDER BY k.seq DESC LIMIT 1
     ) AS n ON true
     WHERE c.chain > $2 AND c.seq > 0 AND (n.seq IS NULL
       OR (c.seq > n.seq AND n.made_at < date_trunc('hour', clock_timestamp()) AND ${agrees}))
     ORDER BY c.chain LIMIT $1`,
    [most, after],
  );
  const rows = heads.map(({ made_at, ...head }) => {
    const checkpoint = { ...head, made_at: made_at.toISOString() };
    return { ...checkpoint, note: signCheckpoint(checkpoint, signers) };
  });
  await manager.query(
    `WITH made AS (
       INSERT INTO audit.checkpoints (chain, seq, hash, made_at, note)
       SELECT chain, seq, hash, made_at, note FROM json_to_recordset($1)
         AS c (chain text, seq int8, hash text, made_at timestamptz, note text)
       ON CONFLICT DO NOTHING RETURNING chain, number
     ), newest AS (
       SELECT chain, max(number) AS number FROM made GROUP BY chain
       UNION ALL SELECT '${platformChain}', max(number) FROM made HAVING count(*) > 0
     )
     UPDATE audit.destinations d SET checkpoint_head = n.number
     FROM (SELECT chain, max(number) AS number FROM newest GROUP BY chain) AS n
     WHERE d.chain = n.chain AND d.checkpoints`,
    [JSON.stringify(rows)],
  );
  return rows.length < most ? undefined : rows.at(-1)?.chain;
}

/** Chains that no longer agree with their newest checkpoint, each with its number. */
export const disagreeing = (manager: EntityManager): Promise<{ chain: string; seq: number }[]> =>
  manager.query(
    `WITH RECURSIVE ${newestOfEach} SELECT n.chain, n.seq FROM newest n WHERE NOT ${agrees}`,
    [''],
  );

/** The first event of a part of a chain that is not that of its checkpoint; undefined where there is none. */
export async function rewrittenBetween(
  manager: EntityManager,
  chain: string,
  after: number,
  until: number,
): Promise<number | undefined> {
  const [first] = await manager.query<{ seq: number }[]>(
    `SELECT n.seq FROM audit.checkpoints n
     WHERE n.chain = $1 AND n.seq > $2 AND n.seq <= $3 AND NOT ${agrees} ORDER BY n.seq LIMIT 1`,
    [chain, after, until],
  );
  return first?.seq;
}

const shown = 'chain, seq, hash, made_at, note';

export interface StoredCheckpoint {
  readonly chain: string;
  readonly seq: number;
  readonly hash: string;
  readonly made_at: Date;
  readonly note: string;
}

/** The newest of each chain, in the order of their names, after one. */
export const newestCheckpoints = (
  manager: EntityManager,
  after: string,
  count: number,
): Promise<StoredCheckpoint[]> =>
  manager.query(`WITH RECURSIVE ${newestOfEach} SELECT ${shown} FROM newest LIMIT $2`, [
    after,
    count,
  ]);

export const newestCheckpoint = (
  manager: EntityManager,
  chain: string,
): Promise<StoredCheckpoint[]> =>
  manager.query(
    `SELECT ${shown} FROM audit.checkpoints WHERE chain = $1 ORDER BY seq DESC LIMIT 1`,
    [chain],
  );

/**
 * Whether the platform's newest checkpoint was signed under neither SECRET_KEY nor
 * SECRET_KEY_PREVIOUS: nothing that was sealed then opens now.
 */
export async function isSignedByAnother(
  manager: EntityManager,
  settings: SecretKeys,
): Promise<boolean> {
  const [newest] = await newestCheckpoint(manager, platformChain);
  if (!newest) return false;
  try {
    openCheckpoint(newest.note, signersOf(settings).map(verifierKeyOf));
    return false;
  } catch {
    return true;
  }
}

/** All of a chain after a number. */
export async function checkpointsOf(
  manager: EntityManager,
  chain: string,
  after: number,
): Promise<Checkpoint[]> {
  const rows = await manager.query<StoredCheckpoint[]>(
    'SELECT chain, seq, hash, made_at FROM audit.checkpoints WHERE chain = $1 AND seq > $2',
    [chain, after],
  );
  return rows.map((row) => ({ ...row, made_at: row.made_at.toISOString() }));
}

/** In one request to a destination: each takes some 400 bytes. */
const mostPushed = 50;

export interface PushedCheckpoint extends Checkpoint {
  readonly note: string;
}

/** Those that a destination is to get next, and the number of the last one. */
export async function checkpointsFor(
  manager: EntityManager,
  { chain, checkpoint_sent: sent }: DestinationRow,
): Promise<{ readonly checkpoints: PushedCheckpoint[]; readonly last: number }> {
  const rows = await manager.query<(StoredCheckpoint & { number: number })[]>(
    `SELECT number, ${shown} FROM audit.checkpoints
     WHERE number > $1 AND ($2 = '${platformChain}' OR chain = $2) ORDER BY number LIMIT ${mostPushed}`,
    [sent, chain],
  );
  return {
    checkpoints: rows.map(({ number: _number, made_at, ...row }) => ({
      ...row,
      made_at: made_at.toISOString(),
    })),
    last: rows.at(-1)?.number ?? sent,
  };
}

const keptDays = 31;

/** Those that are older go, but for the newest of a chain, which covers all before it. */
export async function removeOldCheckpoints(manager: EntityManager, most: number) {
  const [, checkpoints] = await manager.query<[unknown[], number]>(
    `DELETE FROM audit.checkpoints WHERE (chain, seq) IN (
       SELECT k.chain, k.seq FROM audit.checkpoints k
       WHERE k.made_at < now() - make_interval(days => $1)
         AND EXISTS (SELECT FROM audit.checkpoints newer WHERE newer.chain = k.chain AND newer.seq > k.seq)
       LIMIT $2)`,
    [keptDays, most],
  );
  return { checkpoints };
}
