/**
 * The cut of a chain: its events up to a number go, and a signed statement of that number and its
 * hash takes their place, from which the chain continues. Whoever cuts names the hash of the last
 * event, and so has read it; what goes was verified before. The statement is also an event in the
 * platform's chain, which proves it when SECRET_KEY has long been another.
 */
import { sign, verify, type KeyObject } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { EntityManager } from 'typeorm';
import { createKeyRing, type SecretKeys } from '../../../shared/security/derived-keys.ts';
import { privateKeyOf, publicKeyOf, rawPublicKey } from '../../../shared/security/ed25519.ts';
import { platformChain, type Break, type Position } from '../../../shared/security/audit-chain.ts';

/** The event in the platform's chain; its target is the chain, its payload the statement. */
export const cutAction = 'audit.cut';

export interface Statement extends Position {
  readonly chain: string;
  /** RFC 3339. */
  readonly cut_at: string;
  readonly cut_by: string;
}
export interface Cut extends Statement {
  /** Ed25519 (RFC 8032), raw, in base64url. */
  readonly public_key: string;
  /** Over the canonical JSON (RFC 8785) of the statement, in base64url. */
  readonly signature: string;
}

const bytesOf = ({ chain, seq, hash, cut_at, cut_by }: Statement): Buffer =>
  Buffer.from(canonicalize({ chain, seq, hash, cut_at, cut_by })!);

const signingKeys = (settings: SecretKeys): KeyObject[] =>
  createKeyRing(settings, { label: 'audit cut', neededTo: 'cut the audit' }).all.map(({ bytes }) =>
    privateKeyOf(bytes),
  );

export function signed(statement: Statement, settings: SecretKeys): Cut {
  const [key] = signingKeys(settings);
  return {
    ...statement,
    public_key: rawPublicKey(key!).toString('base64url'),
    signature: sign(null, bytesOf(statement), key!).toString('base64url'),
  };
}

function isSigned(cut: Cut): boolean {
  const key = publicKeyOf(Buffer.from(cut.public_key, 'base64url'));
  return verify(null, bytesOf(cut), key, Buffer.from(cut.signature, 'base64url'));
}

/**
 * Whether this installation has made the statement: with its keys, or because the platform's chain
 * has it.
 */
async function isOurs(manager: EntityManager, cut: Cut, settings: SecretKeys): Promise<boolean> {
  const ours = signingKeys(settings).map((key) => rawPublicKey(key).toString('base64url'));
  if (ours.includes(cut.public_key)) return true;
  const [found] = await manager.query<unknown[]>(
    `SELECT FROM audit.events WHERE chain = $1 AND action = $2 AND target = $3 AND payload->>'signature' = $4`,
    [platformChain, cutAction, cut.chain, cut.signature],
  );
  return found !== undefined;
}

export async function readCut(manager: EntityManager, chain: string): Promise<Cut | null> {
  const [row] = await manager.query<(Omit<Cut, 'cut_at'> & { cut_at: Date })[]>(
    'SELECT * FROM audit.cuts WHERE chain = $1',
    [chain],
  );
  return row ? { ...row, cut_at: row.cut_at.toISOString() } : null;
}

/**
 * Where the statement does not hold, or the chain does not begin right after it; undefined where
 * all is well.
 */
export async function breakOfCut(
  manager: EntityManager,
  cut: Cut,
  settings: SecretKeys,
): Promise<Break | undefined> {
  if (isSigned(cut) && (await isOurs(manager, cut, settings))) return undefined;
  const problem = 'the statement of the cut was not signed by this installation';
  return { seq: cut.seq, id: null, problem };
}

/** Of two cuts the later stays: it says all that the earlier did. */
export async function putCut(manager: EntityManager, cut: Cut): Promise<void> {
  await manager.query(
    `INSERT INTO audit.cuts (chain, seq, hash, cut_at, cut_by, public_key, signature)
     VALUES ($1, $2, $3, $4, $5, $6, $7)
     ON CONFLICT (chain) DO UPDATE SET (seq, hash, cut_at, cut_by, public_key, signature)
       = ROW (excluded.seq, excluded.hash, excluded.cut_at, excluded.cut_by, excluded.public_key, excluded.signature)`,
    [cut.chain, cut.seq, cut.hash, cut.cut_at, cut.cut_by, cut.public_key, cut.signature],
  );
}

/**
 * Removes some events that a cut stands for, of any chain. Answers whether there may be more. Of each
 * cut by itself: as a join the planner would read the events of all chains, also where none is left.
 */
export async function removeCutEvents(manager: EntityManager, most: number): Promise<boolean> {
  await manager.query(`SELECT set_config('strata.erases_audit', 'on', true)`);
  const [, removed] = await manager.query<[unknown[], number]>(
    `DELETE FROM audit.events WHERE (chain, seq) IN (
       SELECT e.chain, e.seq FROM audit.cuts c CROSS JOIN LATERAL (
         SELECT chain, seq FROM audit.events WHERE chain = c.chain AND seq <= c.seq ORDER BY seq LIMIT $1
       ) e LIMIT $1)`,
    [most],
  );
  return removed === most;
}
