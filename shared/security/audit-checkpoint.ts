/**
 * Checkpoints of audit chains: how far a chain reached at a moment, and its hash there, as a signed
 * note. A chain alone shows what was changed in it; against a checkpoint that is kept elsewhere
 * also a rewrite up to the newest event shows, and events that went with the database's files or
 * in a failover.
 */
import { openNote, signNote, type NoteSigner } from './signed-note.ts';
import type { Break, Position } from './audit-chain.ts';

export interface Checkpoint extends Position {
  readonly chain: string;
  /** RFC 3339. */
  readonly made_at: string;
}

/** The first line of the note, which no other note has. */
const kind = 'strata/audit/checkpoint/v1';

export const signCheckpoint = (
  { chain, seq, hash, made_at }: Checkpoint,
  signers: readonly NoteSigner[],
): string => signNote(`${[kind, chain, seq, hash, made_at].join('\n')}\n`, signers);

const form = new RegExp(
  `^${kind}\\n(platform|[0-9a-f-]{36})\\n([1-9][0-9]{0,14})\\n([0-9a-f]{64})\\n([0-9T:.Z-]{20,24})\\n$`,
);

function checkpointOf(text: string): Checkpoint {
  const found = form.exec(text);
  if (!found) throw new Error('the note is no checkpoint of an audit');
  const [, chain, seq, hash, madeAt] = found;
  return { chain: chain!, seq: Number(seq), hash: hash!, made_at: madeAt! };
}

/** What a note says that one of these keys has signed. Throws for any other. */
export const openCheckpoint = (note: string, verifierKeys: readonly string[]): Checkpoint =>
  checkpointOf(openNote(note, verifierKeys));

/** The event is another than the one that the checkpoint has. */
const rewrittenSince = ({ seq, made_at }: Checkpoint): Break => ({
  seq,
  id: null,
  problem: `rewritten: the checkpoint of ${made_at} has another hash of this event`,
});

/** Nothing is left that the checkpoint could be compared with. */
const cutOffSince = ({ seq, made_at }: Checkpoint): Break => ({
  seq,
  id: null,
  problem: `cut off: no event is left up to that of the checkpoint of ${made_at}; only an export from before proves it`,
});

/** The chain ends before the checkpoint. */
const lostSince = (end: number, { seq, made_at }: Checkpoint): Break => ({
  seq: end + 1,
  id: null,
  problem: `lost: the chain ends here, and the checkpoint of ${made_at} has events up to ${seq}`,
});

/**
 * Compares a chain with its checkpoints while it is walked, in order. `agreed` is the number up to
 * which it has kept to them.
 */
export class CheckpointComparison {
  readonly #waiting: Checkpoint[];
  /** Those of events that were cut off. */
  #cutOff: Checkpoint | undefined;
  #compared = 0;
  agreed = 0;

  constructor(checkpoints: readonly Checkpoint[]) {
    this.#waiting = checkpoints.toSorted((one, other) => one.seq - other.seq);
  }

  /** The chain begins after this position, as it says. */
  begin(position: Position): Break | undefined {
    while (this.#waiting[0] && this.#waiting[0].seq < position.seq)
      this.#cutOff = this.#waiting.shift();
    this.agreed = position.seq;
    return this.event(position);
  }

  /** Answers where the event is not that of its checkpoint. */
  event({ seq, hash }: Position): Break | undefined {
    while (this.#waiting[0]?.seq === seq) {
      const checkpoint = this.#waiting.shift()!;
      this.#compared += 1;
      if (checkpoint.hash !== hash) return rewrittenSince(checkpoint);
      this.agreed = seq;
    }
    return undefined;
  }

  /** The chain ends at this number. */
  end(seq: number): Break | undefined {
    const last = this.#waiting.at(-1);
    if (last) return lostSince(seq, last);
    return this.#cutOff && this.#compared === 0 ? cutOffSince(this.#cutOff) : undefined;
  }

  /** Whether a chain that ended there, as the platform's chain tells, had all of them. */
  isErased(end: Position | undefined): boolean {
    const last = this.#waiting.at(-1);
    if (!end || !last) return false;
    return last.seq < end.seq || (last.seq === end.seq && last.hash === end.hash);
  }
}
