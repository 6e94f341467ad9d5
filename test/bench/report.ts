/** How measurements are taken, by turns with those of a baseline, and how they are printed. */

import type { Costs } from './simulation/visible-write.ts';

/** How long a group of measurements takes, from the command line. */
export interface Rounds {
  readonly rounds: number;
  /** Of each turn of each round. */
  readonly seconds: number;
  /** Watch streams of the group that measures these. */
  readonly streams: number;
}

/** One row of the table: Strata beside something that does the same, or the least of it. */
export interface Comparison {
  readonly what: string;
  /** What the baseline is, in words. */
  readonly peer: string;
  readonly unit: string;
  /** One measurement a round. */
  readonly strata: readonly number[];
  readonly baseline: readonly number[];
  /** For the ratio, which is Strata's measurement divided by that of its baseline or peer. */
  readonly goal?: Goal;
}
export type Goal = { readonly atLeast: number } | { readonly atMost: number };

/** A measurement with nothing beside it. */
export interface Fact {
  readonly what: string;
  readonly result: string;
}
export interface Findings {
  readonly rows: readonly Comparison[];
  readonly facts?: readonly Fact[];
  /** What `npm run simulate` calculates with. */
  readonly costs?: Costs;
}

/** One group of measurements; starts and stops everything that it needs. */
export type Group = (rounds: Rounds) => Promise<Findings>;

export function median(measured: readonly number[]): number {
  const sorted = measured.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return (sorted[Math.floor(middle)]! + sorted[Math.ceil(middle)]!) / 2;
}

const warmUpRounds = 2;

/**
 * Measures both sides in every round, and swaps their order from round to round, so that neither
 * gains by what else the machine does. The first rounds are not counted: code is not compiled yet.
 */
export async function alternate(
  rounds: number,
  measureStrata: () => Promise<number>,
  measureBaseline: () => Promise<number>,
): Promise<{ strata: number[]; baseline: number[] }> {
  const strata: number[] = [];
  const baseline: number[] = [];
  const turns = [
    async () => strata.push(await measureStrata()),
    async () => baseline.push(await measureBaseline()),
  ];
  for (let round = 0; round < warmUpRounds + rounds; round += 1) {
    const inOrder = round % 2 === 0 ? turns : turns.toReversed();
    for (const takeTurn of inOrder) await takeTurn();
  }
  return { strata: strata.slice(warmUpRounds), baseline: baseline.slice(warmUpRounds) };
}

/** The ratio of each round, whose two sides saw the machine in about the same state. */
export const ratios = ({ strata, baseline }: Pick<Comparison, 'strata' | 'baseline'>): number[] =>
  strata.map((result, round) => result / baseline[round]!);

/** Whether the median ratio meets the row's goal; undefined without a goal. */
export function met(row: Comparison): boolean | undefined {
  if (!row.goal) return undefined;
  const ratio = median(ratios(row));
  return 'atLeast' in row.goal ? ratio >= row.goal.atLeast : ratio <= row.goal.atMost;
}

/** The rows and the facts as two tables in Markdown. */
export function markdown(rows: readonly Comparison[], facts: readonly Fact[]): string {
  const lines: string[] = [];
  if (rows.length > 0)
    lines.push(
      '| What | Baseline or peer | its figure | Strata | ratio | goal | |',
      '|---|---|---|---|---|---|---|',
      ...rows.map(lineOf),
    );
  if (facts.length > 0)
    lines.push(
      '',
      '| Figure | |',
      '|---|---|',
      ...facts.map(({ what, result }) => `| ${what} | ${result} |`),
    );
  return lines.join('\n');
}

function lineOf(row: Comparison): string {
  const sorted = ratios(row).toSorted((a, b) => a - b);
  const least = sorted[0]!.toFixed(2);
  const most = sorted.at(-1)!.toFixed(2);
  const cells = [
    row.what,
    row.peer,
    spreadOf(row.baseline, row.unit),
    spreadOf(row.strata, row.unit),
    `${median(sorted).toFixed(2)} × (${least}–${most})`,
    goalText(row.goal),
    verdictText(met(row)),
  ];
  return `| ${cells.join(' | ')} |`;
}

function goalText(goal: Goal | undefined): string {
  if (goal === undefined) return '';
  return 'atLeast' in goal ? `≥ ${goal.atLeast} ×` : `≤ ${goal.atMost} ×`;
}

function verdictText(isMet: boolean | undefined): string {
  if (isMet === undefined) return '';
  return isMet ? 'met' : 'missed';
}

/** The median with the least and the most. */
const spreadOf = (measured: readonly number[], unit: string): string =>
  `${shown(median(measured))} ${unit} (${shown(Math.min(...measured))}–${shown(Math.max(...measured))})`;

function shown(result: number): string {
  if (result >= 1000) return `${(result / 1000).toFixed(1)} k`;
  return result >= 100 ? result.toFixed(0) : result.toPrecision(3);
}
