/**
 * Checkpoints of the audit at a terminal: to keep them, and to verify chains against those that
 * were kept. Nothing that the server says is trusted but what its exported events prove: their
 * hashes are computed here, and the notes are verified with a key that was pinned earlier.
 */
import { readFileSync } from 'node:fs';
import {
  ExportedChain,
  platformChain,
  type Break,
  type ExportedEvent,
  type Position,
} from '../../shared/security/audit-chain.ts';
import {
  CheckpointComparison,
  openCheckpoint,
  type Checkpoint,
} from '../../shared/security/audit-checkpoint.ts';
import { groupedBy } from '../../shared/schema/grouped-by.ts';
import { notesIn } from '../../shared/security/signed-note.ts';
import { Misused, type Command } from '../command.ts';
import { columns } from '../output.ts';
import { allItems, itemsOf } from '../pages.ts';
import type { Session } from '../session.ts';
import { textOf } from '../typed.ts';

export const checkpoints: Command = {
  name: 'audit checkpoints',
  parameters: '',
  summary: 'the newest signed checkpoint of each chain, as notes to be kept elsewhere',
  flags: { tenant: { type: 'string', summary: 'only this tenant' } },
  async run({ session, flags, answer, signal }) {
    const filter = { tenant_id: textOf(flags.tenant) };
    const items = await allItems(session, 'audit.checkpoints.list', filter, signal);
    answer(items, () =>
      items
        .map(({ note }) => note)
        .join('\n')
        .trimEnd(),
    );
  },
};

/** The checkpoints of a file, by chain; the platform's first, which tells of the others. */
function checkpointsIn(file: string, keys: readonly string[]): Map<string, Checkpoint[]> {
  const notes = notesIn(readFileSync(file, 'utf8'));
  if (notes.length === 0) throw new Misused(`${file} has no checkpoint`);
  const read = notes.map((note) => openCheckpoint(note, keys));
  const last = (chain: string): string => (chain === platformChain ? '' : chain);
  const sorted = read.toSorted((one, other) => (last(one.chain) < last(other.chain) ? -1 : 1));
  return groupedBy(sorted, ({ chain }) => chain);
}

/** How far chains had come when they were erased, by the events of the platform's chain. */
type Erased = Map<string, Position>;

type Row = {
  readonly chain: string;
  readonly events: number;
  readonly head: string | null;
  /** How many checkpoints there are of it. */
  readonly checkpoints: number;
  /** The number of its first event, where the chain was cut. */
  readonly begins_at?: number;
  readonly erased?: true;
  readonly broken_at?: number;
  readonly problem?: string;
};

/** All events are wanted, so no line stands for others. */
function exported(session: Session, chain: string, signal: AbortSignal) {
  const filter = chain === platformChain ? {} : { tenant_id: chain };
  const stopped = 'Stopped before everything was verified.';
  const lines = itemsOf(session, 'audit.export', filter, signal, stopped);
  return lines as AsyncIterable<ExportedEvent>;
}

async function verifyChain(
  session: Session,
  chain: string,
  kept: readonly Checkpoint[],
  erased: Erased,
  signal: AbortSignal,
): Promise<Row> {
  const exportedChain = new ExportedChain(chain);
  const comparison = new CheckpointComparison(kept);
  let rewritten: Break | undefined;
  for await (const event of exported(session, chain, signal)) {
    const isFirst = exportedChain.begin === undefined;
    if (!exportedChain.add(event)) break;
    rewritten =
      (isFirst ? comparison.begin(exportedChain.begin!) : undefined) ?? comparison.event(event);
    if (rewritten) break;
    if (chain === platformChain) noteErased(event, erased);
  }
  const { begin, reached } = exportedChain;
  const isErased = begin === undefined && comparison.isErased(erased.get(chain));
  if (isErased)
    return { chain, events: reached.seq, head: null, checkpoints: kept.length, erased: true };
  const broken = exportedChain.end() ?? rewritten ?? comparison.end(reached.seq);
  return {
    chain,
    events: rewritten ? comparison.agreed : reached.seq,
    head: broken ? null : reached.hash,
    checkpoints: kept.length,
    ...(begin && begin.seq > 0 && { begins_at: begin.seq + 1 }),
    ...(broken && { broken_at: broken.seq, problem: broken.problem }),
  };
}

function noteErased({ action, target, payload }: ExportedEvent, erased: Erased): void {
  if (action !== 'audit.chain_erased' || target === null) return;
  const { events, head } = payload as { events: number; head: string };
  erased.set(target, { seq: events, hash: head });
}

/** Verifies the chains that a file has checkpoints of. Prints a row for each. */
export async function verifyAgainst(
  file: string,
  { session, flags, answer, signal }: Parameters<Command['run']>[0],
): Promise<void> {
  const keys = [flags.key].flat().flatMap((key) => textOf(key) ?? []);
  if (keys.length === 0)
    throw new Misused(
      '--key is needed: the verifier_key that was pinned when the server was trusted',
    );
  const erased: Erased = new Map();
  const rows: Row[] = [];
  for (const [chain, kept] of checkpointsIn(file, keys)) {
    const isWanted = flags.tenant === undefined || flags.tenant === chain;
    if (isWanted) rows.push(await verifyChain(session, chain, kept, erased, signal));
  }
  answer(rows, () => columns(rows));
  if (rows.length === 0) throw new Error(`${file} has no checkpoint of this chain.`);
  if (rows.some(({ broken_at }) => broken_at !== undefined))
    throw new Error('A chain is not what its checkpoints say; broken_at says where.');
}
