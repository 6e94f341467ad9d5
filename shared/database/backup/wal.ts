/**
 * PostgreSQL's log of changes (WAL), as it lies in a backup directory: names of its files, and
 * which timeline follows which.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';

/** Segments have 16 MiB, initdb's default, so that each 4 GiB of log has so many. */
const segmentsPerLog = 256;
const segmentBytes = 16n * 1024n * 1024n;
/** How the archive names what it has compressed. */
export const compressed = '.gz';

/**
 * A whole segment, one that a timeline ended within, the note of a base backup, or the history of a
 * timeline.
 */
export const isWalFile = (name: string): boolean =>
  /^(?:[0-9A-F]{24}(?:\.partial|\.[0-9A-F]{8}\.backup)?|[0-9A-F]{8}\.history)$/.test(name);

export interface Segment {
  readonly timeline: number;
  /** Counted from the first of the log. */
  readonly number: number;
}

/** Undefined where the name is not a whole segment's. */
export function segmentOf(name: string): Segment | undefined {
  const parts = /^([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})$/.exec(name);
  if (!parts) return undefined;
  const [timeline, log, within] = parts.slice(1).map((digits) => Number.parseInt(digits, 16));
  return { timeline: timeline!, number: log! * segmentsPerLog + within! };
}

const hex = (value: number): string => value.toString(16).toUpperCase().padStart(8, '0');

export const nameOf = ({ timeline, number }: Segment): string =>
  hex(timeline) + hex(Math.floor(number / segmentsPerLog)) + hex(number % segmentsPerLog);

/** Where it begins. */
export const positionAt = ({ number }: Segment): bigint => BigInt(number) * segmentBytes;

/** The names of both, and of those between, which are of one timeline. */
export function segmentsFrom(first: string, last: string): string[] {
  const { timeline, number } = segmentOf(first)!;
  const count = segmentOf(last)!.number - number + 1;
  return Array.from({ length: count }, (_none, index) =>
    nameOf({ timeline, number: number + index }),
  );
}

/**
 * The names of files of the log in a directory, whether it is compressed there or not. None where
 * there is no directory.
 */
export function walFilesIn(directory: string): string[] {
  try {
    return readdirSync(directory)
      .map((name) => (name.endsWith(compressed) ? name.slice(0, -compressed.length) : name))
      .filter(isWalFile);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** Where a timeline left the previous one: what that one wrote after `position` is not part of it. */
export interface Fork {
  readonly from: number;
  readonly position: bigint;
}

export interface Timeline {
  readonly number: number;
  /** Of all timelines before it, the oldest first. */
  readonly forks: readonly Fork[];
}

/** A position in the log, as PostgreSQL writes it: `16/B374D848`. */
export function positionOf(text: string): bigint {
  const [high = '0', low = '0'] = text.split('/');
  return (BigInt(`0x${high}`) << 32n) + BigInt(`0x${low}`);
}

/**
 * The newest timeline of which one of the directories has the history; the first where none has
 * any.
 */
export function newestTimeline(directories: readonly string[]): Timeline {
  const histories = directories.flatMap((directory) =>
    walFilesIn(directory)
      .filter((name) => name.endsWith('.history'))
      .map((name) => ({ directory, name, number: Number.parseInt(name, 16) })),
  );
  const [newest] = histories.sort((one, other) => other.number - one.number);
  if (!newest) return { number: 1, forks: [] };
  const text = readWalFile(newest.directory, newest.name).toString();
  const forks = [...text.matchAll(/^\s*(\d+)\s+([0-9A-F]+\/[0-9A-F]+)/gm)].map(
    ([, from, position]): Fork => ({ from: Number(from), position: positionOf(position!) }),
  );
  return { number: newest.number, forks };
}

function readWalFile(directory: string, name: string): Buffer {
  const isCompressed = readdirSync(directory).includes(name + compressed);
  const content = readFileSync(join(directory, isCompressed ? name + compressed : name));
  return isCompressed ? gunzipSync(content) : content;
}

/** Whether what `timeline` wrote until `position` is a part of the other timeline. */
export function leadsTo(
  { number, forks }: Timeline,
  { timeline, position }: { readonly timeline: number; readonly position: bigint },
): boolean {
  if (timeline === number) return true;
  return forks.some((fork) => fork.from === timeline && position <= fork.position);
}

/**
 * The first number from `first` on that none of the segments has, though one has a later; undefined
 * where they are without gap.
 */
export function gapIn(segments: readonly Segment[], first: number): number | undefined {
  const there = new Set(segments.map(({ number }) => number));
  const last = Math.max(first, ...there);
  for (let number = first; number <= last; number += 1) if (!there.has(number)) return number;
  return undefined;
}
