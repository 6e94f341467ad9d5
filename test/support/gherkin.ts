/**
 * As much of Gherkin as the scenarios of OpenFeature use: outlines with examples, a background,
 * tables.
 */

export interface Step {
  readonly text: string;
  /** Rows by the names of the first one. */
  readonly table: readonly Readonly<Record<string, string>>[];
}
export interface Scenario {
  readonly name: string;
  /** What this one puts into an outline; empty where there is none. */
  readonly example: string;
  readonly steps: readonly Step[];
}

interface Outline {
  readonly name: string;
  readonly steps: { readonly text: string; readonly rows: string[][] }[];
  /** Tables of examples, the first row of each with the names. */
  readonly examples: string[][][];
}

const cellsOf = (line: string): string[] =>
  line
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim());

export function scenariosOf(text: string): Scenario[] {
  const outlines: Outline[] = [];
  let isExamples = false;
  for (const line of text.split('\n').map((each) => each.trim())) {
    const [, heading, name = ''] =
      /^(Background|Scenario(?: Outline)?|Examples):\s*(.*)$/.exec(line) ?? [];
    const current = outlines.at(-1);
    if (heading === 'Examples') {
      isExamples = true;
      current!.examples.push([]);
    } else if (heading !== undefined) {
      isExamples = false;
      outlines.push({ name: heading === 'Background' ? '' : name, steps: [], examples: [] });
    } else if (/^(Given|When|Then|And) /.test(line)) {
      current!.steps.push({ text: line.replace(/^\w+ /, ''), rows: [] });
    } else if (line.startsWith('|')) {
      const rows = isExamples ? current!.examples.at(-1)! : current!.steps.at(-1)!.rows;
      rows.push(cellsOf(line));
    }
  }
  const background = outlines.filter(({ name }) => name === '').flatMap(({ steps }) => steps);
  return outlines.filter(({ name }) => name !== '').flatMap((outline) => fill(outline, background));
}

function fill({ name, steps, examples }: Outline, background: Outline['steps']): Scenario[] {
  const rows = examples.length === 0 ? [{}] : examples.flatMap(recordsOf);
  return rows.map((row) => ({
    name,
    example: Object.values(row).join(' '),
    steps: [...background, ...steps].map(({ text, rows: table }) => ({
      text: Object.entries(row).reduce(
        (filled, [key, value]) => filled.replaceAll(`<${key}>`, value),
        text,
      ),
      table: recordsOf(table),
    })),
  }));
}

function recordsOf([names = [], ...rows]: readonly string[][]): Record<string, string>[] {
  return rows.map((row) => Object.fromEntries(names.map((name, index) => [name, row[index]!])));
}
