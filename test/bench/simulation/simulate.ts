/**
 * `npm run simulate [-- bench.json --nodes 500 --regions 3 --rtt 80 --gathered 32]`: how long
 * writes take in layouts that nobody has measured, by costs that were measured one by one, and
 * first whether it says what was measured where something was. Without a file it takes what
 * `recorded.ts` has; with one, which `npm run bench -- costs visibility` has written, what that
 * has. With `--nodes` it looks at that layout alone beside the points. It takes seconds, and says
 * the same each time.
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { simulateCut } from './cut-region.ts';
import { across, benchLayout, inRegions, unmeasured } from './layouts.ts';
import { costRows, pointsOf, type Point } from './points.ts';
import { recordedCosts, recordedPoints } from './recorded.ts';
import { burdens, percentile, simulate, type Costs, type Layout } from './visible-write.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string', default: '1' },
    writes: { type: 'string', default: '2000' },
    nodes: { type: 'string' },
    regions: { type: 'string', default: '1' },
    rtt: { type: 'string', default: '80' },
    gathered: { type: 'string' },
  },
});
const seed = Number(values.seed);
const [file] = positionals;
const report = file === undefined ? undefined : JSON.parse(readFileSync(file, 'utf8'));
const costs: Costs = report?.costs ?? recordedCosts;
const points: readonly Point[] = report === undefined ? recordedPoints : pointsOf(report.facts);

const table = (heading: readonly string[], rows: readonly (readonly string[])[]): void => {
  const lines = [heading, heading.map(() => '---'), ...rows];
  process.stdout.write(`\n${lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n')}\n`);
};
const ms = (value: number): string => {
  if (Number.isNaN(value)) return '–';
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
};
const percent = (simulated: number, measured: number): string => {
  const deviation = (simulated / measured - 1) * 100;
  return `${deviation >= 0 ? '+' : '−'}${Math.abs(deviation).toFixed(0)} %`;
};

process.stdout.write(`Costs of ${costs.at}: ${costs.machine}\n`);
table(['What', 'Takes'], costRows(costs));

table(
  ['Lease holders', 'p50 measured', 'simulated', '', 'p99 measured', 'simulated', ''],
  points.map(({ nodes, p50, p99 }) => {
    const found = simulate(benchLayout(nodes), costs, { writes: Number(values.writes), seed });
    return [
      String(nodes),
      `${p50.toFixed(2)} ms`,
      `${found.p50.toFixed(2)} ms`,
      percent(found.p50, p50),
      `${p99.toFixed(2)} ms`,
      `${found.p99.toFixed(2)} ms`,
      percent(found.p99, p99),
    ];
  }),
);

/** Fewer writes where there are more nodes: each is an event for each of them. */
const writesFor = (nodes: number): number =>
  Math.max(30, Math.min(1000, Math.floor(200_000 / nodes)));
const count = ({ regions }: Layout): number => regions.reduce((sum, { nodes }) => sum + nodes, 0);

/** The one that the command line names. */
const named = (nodes: number): [string, Layout] => {
  const regions = Number(values.regions);
  const gathered = values.gathered === undefined ? undefined : Number(values.gathered);
  const layout = inRegions(nodes, regions, { gathered, oneWayMs: Number(values.rtt) / 2 });
  const more = gathered === undefined ? '' : `, gathered by ${gathered}`;
  return [`${nodes} nodes in ${regions} region(s)${more}`, layout];
};
const layouts = values.nodes === undefined ? unmeasured : [named(Number(values.nodes))];

table(
  ['Layout', 'p50', 'p99', 'writes a second of one writing node, at most', 'beside any write'],
  layouts.map(([name, layout]) => {
    const found = simulate(layout, costs, { writes: writesFor(count(layout)), seed });
    const beside = Object.entries(burdens(layout, costs))
      .map(([part, { share }]) => `${part} ${(share * 100).toFixed(share < 0.01 ? 1 : 0)} %`)
      .join(', ');
    if (found.saturated !== undefined) return [name, '–', '–', '0', `full. ${beside}`];
    const perSecond = (1000 / found.writerMs).toFixed(0);
    return [name, `${ms(found.p50)} ms`, `${ms(found.p99)} ms`, perSecond, beside];
  }),
);

const fenceMs = 2000;
const cut = simulateCut({ holders: 100, fenceMs, oneWayMs: across.oneWayMs, seed });
const during = cut.writes.filter(({ began }) => began < cut.normalFrom).map((each) => each.ms);
table(
  [`A region of 100 holders is cut off, T = ${fenceMs} ms`, ''],
  [
    ['writes elsewhere wait, half of them at least', `${ms(percentile(during, 0.5))} ms`],
    ['the longest', `${ms(Math.max(...during))} ms`],
    ['writes wait no more, after the cut', `${ms(cut.normalFrom)} ms`],
    ['the region answers from memory, after the cut, until', `${ms(cut.servedUntil)} ms`],
  ],
);
