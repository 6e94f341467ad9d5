/** Rounds, medians and the table. */

export interface Rounds {
  readonly rounds: number;
  readonly seconds: number;
}

export interface Comparison {
  readonly what: string;
  readonly peer: string;
  readonly unit: string;
  readonly strata: readonly number[];
  readonly baseline: readonly number[];
  /** Strata divided by its baseline or peer. */
  readonly goal?: { readonly atLeast: number } | { readonly atMost: number };
}
export interface Fact {
  readonly what: string;
  readonly figure: string;
}
export interface Findings {
  readonly rows: readonly Comparison[];
  readonly facts?: readonly Fact[];
}

/** What one measure needs to be run: everything is started and stopped inside. */
export type Group = (rounds: Rounds) => Promise<Findings>;

export const median = (figures: readonly number[]): number => {
  const sorted = figures.toSorted((a, b) => a - b);
  return (
    (sorted[Math.floor((sorted.length - 1) / 2)]! + sorted[Math.ceil((sorted.length - 1) / 2)]!) / 2
  );
};

const warmUp = 2;
/** By turns, and in turns of the other order each time, so that neither gains by what else the machine does. Unmeasured turns first, until code is compiled. */
export async function alternate(
  rounds: number,
  strata: () => Promise<number>,
  baseline: () => Promise<number>,
): Promise<{ strata: number[]; baseline: number[] }> {
  const found = { strata: [] as number[], baseline: [] as number[] };
  for (let round = 0; round < warmUp + rounds; round += 1) {
    const turns = [
      async () => found.strata.push(await strata()),
      async () => found.baseline.push(await baseline()),
    ];
    for (const turn of round % 2 === 0 ? turns : turns.toReversed()) await turn();
  }
  return { strata: found.strata.slice(warmUp), baseline: found.baseline.slice(warmUp) };
}

/** The ratio of each round, whose two sides saw the machine in about the same state. */
export const ratios = ({ strata, baseline }: Pick<Comparison, 'strata' | 'baseline'>): number[] =>
  strata.map((figure, round) => figure / baseline[round]!);

export function met(row: Comparison): boolean | undefined {
  if (!row.goal) return undefined;
  const ratio = median(ratios(row));
  return 'atLeast' in row.goal ? ratio >= row.goal.atLeast : ratio <= row.goal.atMost;
}

const shown = (figure: number): string =>
  figure >= 1000
    ? `${(figure / 1000).toFixed(1)} k`
    : figure >= 100
      ? figure.toFixed(0)
      : figure.toPrecision(3);
const spread = (figures: readonly number[], unit: string): string =>
  `${shown(median(figures))} ${unit} (${shown(Math.min(...figures))}–${shown(Math.max(...figures))})`;

export function markdown(rows: readonly Comparison[], facts: readonly Fact[]): string {
  const lines =
    rows.length === 0
      ? []
      : [
          '| What | Baseline or peer | its figure | Strata | ratio | goal | |',
          '|---|---|---|---|---|---|---|',
        ];
  for (const row of rows) {
    const ratio = ratios(row).toSorted((a, b) => a - b);
    const goal =
      row.goal === undefined
        ? ''
        : 'atLeast' in row.goal
          ? `≥ ${row.goal.atLeast} ×`
          : `≤ ${row.goal.atMost} ×`;
    lines.push(
      `| ${row.what} | ${row.peer} | ${spread(row.baseline, row.unit)} | ${spread(row.strata, row.unit)} | ${median(ratio).toFixed(2)} × (${ratio[0]!.toFixed(2)}–${ratio.at(-1)!.toFixed(2)}) | ${goal} | ${
        { true: 'met', false: 'missed', undefined: '' }[
          String(met(row)) as 'true' | 'false' | 'undefined'
        ]
      } |`,
    );
  }
  if (facts.length > 0)
    lines.push(
      '',
      '| Figure | |',
      '|---|---|',
      ...facts.map(({ what, figure }) => `| ${what} | ${figure} |`),
    );
  return lines.join('\n');
}
