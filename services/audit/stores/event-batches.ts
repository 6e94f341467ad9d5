/** The next lines for a destination, from its cursor on. */
import type { EntityManager } from 'typeorm';
import type { Position } from '../../../shared/security/audit-chain.ts';
import { EventEntity, type DestinationRow } from '../schema.ts';
import { cutOff, joined, withSkipped, type Line } from './lines.ts';

/** How many events one look goes through for those that are wanted. */
const mostSearched = 10_000;
/** A batch ends with the event that reaches this size. */
const batchBytes = 512 * 1024;
/** What an event takes beside its payload, about. */
const bytesBeside = 500;

/** In place of an event that the receiver does not take even by itself. */
export interface TooLarge extends Position {
  readonly skipped: 'too_large';
  readonly from: number;
  readonly previous: string;
}
export type PushedLine = Line | TooLarge;

export interface EventBatch {
  readonly lines: readonly PushedLine[];
  /** Of the lines, those that are events. */
  readonly events: readonly number[];
  readonly first_seq: number;
  readonly last_seq: number;
  readonly head: Position;
}

interface Wanted {
  /** Beginnings of actions; undefined for all. */
  readonly types: readonly string[] | undefined;
  readonly mostEvents: number;
}

/**
 * The batch after the cursor of a destination; where nothing is wanted, up to which number that is
 * so. `manager` reads one snapshot.
 */
export async function readBatch(
  manager: EntityManager,
  { chain, seq, searched, until_seq: until, too_large_seq: tooLarge }: DestinationRow,
  { types, mostEvents }: Wanted,
): Promise<EventBatch | { readonly searched: number }> {
  const [head] = await manager.query<[Position]>(
    'SELECT seq, hash FROM audit.chains WHERE chain = $1',
    [chain],
  );
  const gone = await cutOff(manager, chain, seq);
  const begin = gone.at(-1)?.seq ?? seq;
  const from = Math.max(begin, searched);
  // What a batch that failed had may have been cut off meanwhile, to its end.
  const last = until !== null && until > from ? until : head.seq;
  const end = Math.min(last, from + mostSearched);
  const prefixes = types?.map((type) => type.replace(/\*$/, ''));
  const found = await manager.query<{ seq: number; bytes: number }[]>(
    `SELECT seq, octet_length(payload::text) + ${bytesBeside} AS bytes FROM audit.events
     WHERE chain = $1 AND seq > $2 AND seq <= $3
       AND ($4::text[] IS NULL OR EXISTS (SELECT FROM unnest($4::text[]) p WHERE starts_with(action, p)))
     ORDER BY seq LIMIT $5`,
    [chain, from, end, prefixes ?? null, mostEvents],
  );
  const numbers = fitting(found);
  if (numbers.length === 0) return { searched: end };
  const isRest = numbers.length === found.length && found.length < mostEvents;
  const reached = isRest ? end : numbers.at(-1)!;
  const rows = await manager
    .createQueryBuilder(EventEntity, 'e')
    .where('e.chain = :chain AND e.seq = ANY(:numbers)', { chain, numbers })
    .orderBy('e.seq', 'ASC')
    .getMany();
  const part = { manager, chain, begin, end: reached };
  // Where all are wanted, one that is missing is a gap, and no line stands for it.
  const lines = prefixes ? await withSkipped(part, rows) : await joined(part, rows);
  const all = [
    ...gone,
    ...lines.map((line) => (line.seq === tooLarge ? withoutEvent(line) : line)),
  ];
  return {
    lines: all,
    events: all.flatMap((line) => ('skipped' in line ? [] : [line.seq])),
    first_seq: seq + 1,
    last_seq: reached,
    head,
  };
}

/** The numbers of those that fit into one batch, of which the first always does. */
function fitting(found: readonly { seq: number; bytes: number }[]): number[] {
  let bytes = 0;
  const numbers: number[] = [];
  for (const event of found) {
    bytes += event.bytes;
    if (bytes > batchBytes && numbers.length > 0) break;
    numbers.push(event.seq);
  }
  return numbers;
}

const withoutEvent = (line: Line): PushedLine =>
  'skipped' in line
    ? line
    : {
        skipped: 'too_large',
        from: line.seq,
        seq: line.seq,
        hash: line.hash,
        previous: line.previous,
      };
