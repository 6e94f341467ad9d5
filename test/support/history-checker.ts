/**
 * A checker of what clients saw that write and read all the time everywhere (observe.ts).
 *
 * Each write of a register carries a number that no other write has. An operation is recorded with
 * its node, when it began and ended, its value and its revision. What must hold:
 *
 * | Rule | In words |
 * |---|---|
 * | no stale read | a read that began after a write was answered is not of an older revision |
 * | no step back | on one node, of two reads that follow each other the second is not of an older revision |
 * | one value a revision | a revision has the same value wherever it is read |
 * | no invention | nothing is read that was never written |
 * | nothing torn | an answer that shows a register in several places shows one value of it |
 * | one answer a label | merged answers that name the same revisions show the same values |
 *
 * A right that is taken away is a register, too: 0 while it is there, 1 once it is gone.
 *
 * Answers that are marked X-Config-Stale are not judged. Revisions are compared, not values: a
 * write that was answered with a time-out may be committed after its successor. Where the database
 * went back to an older state, what was before it and what came after all nodes had to know it are
 * judged by themselves; only a revision has one value throughout, since none is given out twice.
 */

export interface Operation {
  readonly register: string;
  readonly node: string;
  readonly began: number;
  readonly ended: number;
  readonly value: number;
  readonly revision: number | undefined;
  readonly stale: boolean;
}
/** An answer that was merged from several registers. */
export interface MergedRead {
  readonly node: string;
  readonly began: number;
  readonly ended: number;
  /** What was asked for, and the revisions that the answer names. */
  readonly label: string;
  /** The registers' values as text. */
  readonly shown: string;
  readonly stale: boolean;
}
/** The database lost what was committed last. In milliseconds of performance.now(). */
export interface WentBack {
  /** When it stopped answering in its newer state. */
  readonly at: number;
  /** When no node may answer from the lost state any more. */
  readonly until: number;
}
export interface Observed {
  /** Answered writes. */
  readonly writes: Operation[];
  /** By register: the last value that was sent, answered or not. */
  readonly attempted: Map<string, number>;
  readonly reads: Operation[];
  readonly merged: MergedRead[];
  /** Answers that showed two values of one register, in words. */
  readonly torn: string[];
  /** What clients were told instead of an answer, and how often. */
  readonly errors: Map<string, number>;
  /** Of answered writes and reads. */
  readonly slowestWriteMs: number;
  readonly slowestReadMs: number;
  /** The longest that anyone waited for an answer or an error. */
  readonly slowestMs: number;
  /** How late this process itself was, at most, because the machine had other things to do. */
  readonly lateMs: number;
  readonly wentBack?: WentBack | undefined;
}

/** An operation whose revision is known. */
type Placed = Operation & { readonly revision: number };

/** Every violation of the rules above, in words; none where the history is coherent. */
export function violations(observed: Observed): string[] {
  const { torn, attempted, wentBack, writes, reads } = observed;
  const parts = wentBack
    ? [upTo(wentBack.at, observed), from(wentBack.until, observed)]
    : [observed];
  const byRegister = Map.groupBy([...writes, ...reads], ({ register }) => register);
  return [
    ...torn,
    ...[...byRegister.values()].flatMap(doubleValues),
    ...parts.flatMap((part) => violationsIn(part, attempted)),
  ];
}

type History = Pick<Observed, 'writes' | 'reads' | 'merged'>;

function upTo(at: number, { writes, reads, merged }: History): History {
  const isBefore = ({ ended }: { readonly ended: number }): boolean => ended <= at;
  return {
    writes: writes.filter(isBefore),
    reads: reads.filter(isBefore),
    merged: merged.filter(isBefore),
  };
}

/**
 * Rights that were taken away before may be back: of these, what is judged was first read
 * afterwards.
 */
function from(until: number, { writes, reads, merged }: History): History {
  const isAfter = ({ began }: { readonly began: number }): boolean => began >= until;
  const olderRights = new Set(
    reads.filter((read) => isRight(read.register) && !isAfter(read)).map((read) => read.register),
  );
  const isChecked = (operation: Operation): boolean =>
    isAfter(operation) && !olderRights.has(operation.register);
  return {
    writes: writes.filter(isChecked),
    reads: reads.filter(isChecked),
    merged: merged.filter(isAfter),
  };
}

const rightPrefix = 'right: ';
/** The register of a right that can be taken away. */
export const rightRegister = (name: string): string => `${rightPrefix}${name}`;
export const isRight = (register: string): boolean => register.startsWith(rightPrefix);

function violationsIn(
  { writes, reads, merged }: History,
  attempted: Observed['attempted'],
): string[] {
  const registerNames = new Set(reads.map((read) => read.register));
  const ofRegisters = [...registerNames].flatMap((register) => {
    const isOf = (operation: Operation): boolean => operation.register === register;
    const ownWrites = writes.filter(isOf);
    const ownReads = reads.filter(isOf);
    const all = [...ownWrites, ...ownReads];
    const revisions = revisionsByValue(all);
    const freshReads = place(ownReads, revisions);
    return [
      ...inventions(all, attempted.get(register) ?? 0),
      ...staleReads(freshReads, place(ownWrites, revisions)),
      ...stepsBack(freshReads),
    ];
  });
  return [...ofRegisters, ...doubleAnswers(merged)];
}

const revisionsByValue = (all: readonly Operation[]): Map<number, number> =>
  new Map(
    all.flatMap(({ value, revision }) => (revision === undefined ? [] : [[value, revision]])),
  );

/**
 * The operations with their revisions, without those marked stale. A merged value has the revision
 * that it was written or read under by itself; one from a write without an answer that nobody read
 * by itself is passed over.
 */
const place = (
  operations: readonly Operation[],
  revisions: ReadonlyMap<number, number>,
): Placed[] =>
  operations
    .filter(({ stale }) => !stale)
    .flatMap((operation) => {
      const revision = operation.revision ?? revisions.get(operation.value);
      return revision === undefined ? [] : [{ ...operation, revision }];
    });

/** Values above the last one that was sent: values only increase. */
const inventions = (all: readonly Operation[], lastSent: number): string[] =>
  all
    .filter(({ value }) => value > lastSent)
    .map(
      ({ register, node, value }) =>
        `${register} on ${node}: read ${value}, which was never written`,
    );

/** Revisions under which two values were seen. */
function doubleValues(all: readonly Operation[]): string[] {
  const found: string[] = [];
  const values = new Map<number, number>();
  for (const { register, node, value, revision } of all) {
    if (revision === undefined) continue;
    const known = values.get(revision) ?? value;
    if (known !== value)
      found.push(`${register} on ${node}: ${value} under revision ${revision}, which is ${known}`);
    values.set(revision, value);
  }
  return found;
}

/** Reads that began after a newer revision was answered to its writer. */
function staleReads(reads: readonly Placed[], writes: readonly Placed[]): string[] {
  const found: string[] = [];
  const answered = writes.toSorted((a, b) => a.ended - b.ended);
  let next = 0;
  let newest = 0;
  for (const read of reads.toSorted((a, b) => a.began - b.began)) {
    while (next < answered.length && answered[next]!.ended <= read.began) {
      newest = Math.max(newest, answered[next]!.revision);
      next += 1;
    }
    if (read.revision < newest)
      found.push(
        `${read.register} on ${read.node}: read revision ${read.revision} after ${newest} was answered (${Math.round(read.began)})`,
      );
  }
  return found;
}

/** Reads of one node that are of an older revision than one that had ended when they began. */
function stepsBack(reads: readonly Placed[]): string[] {
  const found: string[] = [];
  for (const [node, ofNode] of Map.groupBy(reads, (read) => read.node)) {
    let highest = 0;
    let ended = -Infinity;
    for (const read of ofNode.toSorted((a, b) => a.ended - b.ended)) {
      if (read.began >= ended && read.revision < highest)
        found.push(
          `${read.register} on ${node}: went back from revision ${highest} to ${read.revision}`,
        );
      if (read.revision > highest) {
        highest = read.revision;
        ended = read.ended;
      }
    }
  }
  return found;
}

/** Merged answers that name the same revisions and show different values. */
function doubleAnswers(merged: readonly MergedRead[]): string[] {
  const found: string[] = [];
  const answers = new Map<string, string>();
  for (const { node, label, shown, stale } of merged) {
    if (stale) continue;
    const known = answers.get(label) ?? shown;
    if (known !== shown) found.push(`${label} on ${node}: ${shown}, which elsewhere is ${known}`);
    answers.set(label, known);
  }
  return found;
}
