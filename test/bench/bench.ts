/**
 * `npm run bench [-- <group>… --rounds 7 --seconds 2 --streams 10000]`: Strata's measurements beside
 * those of baselines and peers, as a table and in bench.json. Without a group, all of them.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { atWork } from './at-work.ts';
import { budgetsGroup as budgets } from './budgets.ts';
import { costs as costsGroup } from './costs.ts';
import { destinations } from './destinations.ts';
import { effective } from './effective.ts';
import { growth } from './growth.ts';
import { hostile } from './hostile.ts';
import { http } from './http.ts';
import { machine, root } from './machine.ts';
import { memory } from './memory.ts';
import { neighbours } from './neighbours.ts';
import { plan } from './plan.ts';
import { pooler } from './pooler.ts';
import { markdown, median, met, ratios, type Comparison, type Fact, type Group } from './report.ts';
import { replay } from './replay.ts';
import { signIn } from './sign-in.ts';
import { stale } from './stale.ts';
import type { Costs } from './simulation/visible-write.ts';
import { streamsGroup as streams } from './streams.ts';
import { tenants } from './tenants.ts';
import { visibility } from './visibility.ts';
import { webhooks } from './webhooks.ts';
import { writes } from './writes.ts';

const groups: Readonly<Record<string, Group>> = {
  http,
  effective,
  writes,
  pooler,
  visibility,
  stale,
  webhooks,
  destinations,
  growth: together(growth, atWork),
  'tenants-at-work': atWork,
  neighbours,
  memory,
  tenants,
  streams,
  hostile,
  plan,
  replay,
  budgets,
  'sign-in': signIn,
  costs: costsGroup,
};

function together(...parts: readonly Group[]): Group {
  return async (rounds) => {
    const rows: Comparison[] = [];
    const facts: Fact[] = [];
    for (const part of parts) {
      const found = await part(rounds);
      rows.push(...found.rows);
      facts.push(...(found.facts ?? []));
    }
    return { rows, facts };
  };
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '2' },
    streams: { type: 'string', default: '10000' },
  },
});
// What is a part of another group is measured there.
const all = Object.keys(groups).filter((name) => name !== 'tenants-at-work');
const chosen = positionals.length > 0 ? positionals : all;
const unknown = chosen.filter((name) => !Object.hasOwn(groups, name));
if (unknown.length > 0)
  throw new Error(
    `There is no ${unknown.join(', ')}. There are ${Object.keys(groups).join(', ')}.`,
  );

type Row = Comparison & { readonly group: string };
const rows: Row[] = [];
const facts: Fact[] = [];
const failures: string[] = [];
let costs: Costs | undefined;
for (const group of chosen) {
  process.stderr.write(`${group} …\n`);
  try {
    const found = await groups[group]!({
      rounds: Number(values.rounds),
      seconds: Number(values.seconds),
      streams: Number(values.streams),
    });
    rows.push(...found.rows.map((row) => ({ group, ...row })));
    facts.push(...(found.facts ?? []));
    costs ??= found.costs;
  } catch (error) {
    // The other groups are measured all the same.
    failures.push(`${group}: ${(error as Error).stack ?? String(error)}`);
  }
}
const withVerdict = (row: Row) => ({ ...row, ratio: median(ratios(row)), met: met(row) });
const report = {
  machine,
  at: new Date().toISOString(),
  ...values,
  rows: rows.map(withVerdict),
  facts,
  costs,
  failures,
};
writeFileSync(join(root, 'bench.json'), `${JSON.stringify(report, undefined, 2)}\n`);
process.stdout.write(
  `${markdown(rows, facts)}\n\n${machine}; medians of ${values.rounds} rounds of ${values.seconds} s by turns (least–most).\n`,
);
if (failures.length > 0) throw new Error(failures.join('\n\n'));
