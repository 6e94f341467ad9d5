/**
 * The lines of a part of a chain, as it is exported and pushed: each says by its hash, and the
 * previous one, that none is missing.
 */
import type { EntityManager } from 'typeorm';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import type { Position } from '../../../shared/security/audit-chain.ts';
import { eventFrom, type EventRow } from '../schema.ts';
import { hashesAt } from './chains.ts';
import { readCut } from './cuts.ts';

export type Line = ResultOf<'audit.export'>['items'][number];

export interface Joined {
  readonly manager: EntityManager;
  readonly chain: string;
  /** The part begins after this number, and ends with the other. */
  readonly begin: number;
  readonly end: number;
}

/** The events, and between them lines for those that were not asked for. */
export async function withSkipped(
  { manager, chain, begin, end }: Joined,
  rows: readonly EventRow[],
): Promise<Line[]> {
  const wanted = rows.map(({ seq }) => seq);
  const hashes = await hashesAt(manager, chain, [begin, end, ...wanted.map((seq) => seq - 1)]);
  const lines: Line[] = [];
  let reached: Position = { seq: begin, hash: hashes(begin) };
  const skipTo = (seq: number): void => {
    if (seq <= reached.seq) return;
    const hash = hashes(seq);
    lines.push({ skipped: 'filtered', from: reached.seq + 1, seq, hash, previous: reached.hash });
    reached = { seq, hash };
  };
  for (const row of rows) {
    skipTo(row.seq - 1);
    lines.push({ ...eventFrom(row), seq: row.seq, hash: row.hash, previous: reached.hash });
    reached = row;
  }
  skipTo(end);
  return lines;
}

/** The same where all are wanted: one that is missing is a gap, and no line stands for it. */
export async function joined(
  { manager, chain, begin }: Joined,
  rows: readonly EventRow[],
): Promise<Line[]> {
  const first = rows[0]?.seq ?? begin + 1;
  const hashes = await hashesAt(manager, chain, [first - 1]);
  return rows.map((row, index) => ({
    ...eventFrom(row),
    seq: row.seq,
    hash: row.hash,
    previous: rows[index - 1]?.hash ?? hashes(first - 1),
  }));
}

/** For whoever asks after a number that was cut off since: what went, up to where the chain begins. */
export async function cutOff(
  manager: EntityManager,
  chain: string,
  begin: number,
): Promise<Line[]> {
  const cut = await readCut(manager, chain);
  if (!cut || cut.seq <= begin) return [];
  return [{ skipped: 'cut', from: begin + 1, seq: cut.seq, hash: cut.hash, previous: null }];
}
