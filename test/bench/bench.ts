/** `npm run bench [-- <group>… --rounds 7 --seconds 2]`: Strata beside its baselines and peers, as a table and in bench.json. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { effective } from './effective.ts';
import { growth } from './growth.ts';
import { http } from './http.ts';
import { machine, root } from './machine.ts';
import { memory } from './memory.ts';
import { markdown, median, met, ratios, type Comparison, type Fact, type Group } from './report.ts';
import { visibility } from './visibility.ts';
import { webhooks } from './webhooks.ts';
import { writes } from './writes.ts';

const groups: Readonly<Record<string, Group>> = {
  http,
  effective,
  writes,
  visibility,
  webhooks,
  growth,
  memory,
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: 'string', default: '7' }, seconds: { type: 'string', default: '2' } },
});
const asked = positionals.length > 0 ? positionals : Object.keys(groups);
const unknown = asked.filter((name) => !Object.hasOwn(groups, name));
if (unknown.length > 0)
  throw new Error(
    `There is no ${unknown.join(', ')}. There are ${Object.keys(groups).join(', ')}.`,
  );

const rows: (Comparison & { group: string })[] = [];
const facts: Fact[] = [];
const failures: string[] = [];
for (const group of asked) {
  process.stderr.write(`${group} …\n`);
  try {
    const found = await groups[group]!({
      rounds: Number(values.rounds),
      seconds: Number(values.seconds),
    });
    rows.push(...found.rows.map((row) => ({ group, ...row })));
    facts.push(...(found.facts ?? []));
  } catch (error) {
    // The other groups still say what they have to say.
    failures.push(`${group}: ${(error as Error).stack ?? String(error)}`);
  }
}
writeFileSync(
  join(root, 'bench.json'),
  `${JSON.stringify(
    {
      machine,
      at: new Date().toISOString(),
      ...values,
      rows: rows.map((row) => ({ ...row, ratio: median(ratios(row)), met: met(row) })),
      facts,
      failures,
    },
    undefined,
    2,
  )}\n`,
);
process.stdout.write(
  `${markdown(rows, facts)}\n\n${machine}; medians of ${values.rounds} rounds of ${values.seconds} s by turns (least–most).\n`,
);
if (failures.length > 0) throw new Error(failures.join('\n\n'));
