/** Documents point at what is there: links, headings, files, commands, roles, the version. */
import { describe, expect, test } from '@jest/globals';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { table } from '../../cli/https/table.ts';
import { roles } from '../../services/node-roles.ts';
import { layerNames } from '../../shared/contracts/effective-config.ts';
import { alerts } from '../support/alerts.ts';

const root = join(import.meta.dirname, '../..');
const textOf = (file: string): string => readFileSync(join(root, file), 'utf8');
const documents = globSync(['*.md', 'docs/**/*.md'], { cwd: root });
const { version, scripts } = JSON.parse(textOf('package.json')) as {
  version: string;
  scripts: Record<string, string>;
};

/** The anchor that a heading gets on GitHub and in most viewers. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{Letter}\p{Number}\s_-]/gu, '')
    .trim()
    .replaceAll(' ', '-');
const anchorsOf = (file: string): string[] =>
  [...textOf(file).matchAll(/^#+ (.+)$/gm)].map(([, heading]) => anchorOf(heading!));

describe.each(documents)('%s', (document) => {
  test('links to files and headings that exist', () => {
    for (const [, path, anchor] of textOf(document).matchAll(
      /\]\((?!https?:)([^)#]*)#?([^)]*)\)/g,
    )) {
      const target = path === '' ? document : join(dirname(document), path!);
      expect([target, existsSync(join(root, target))]).toEqual([target, true]);
      if (anchor !== '') expect(anchorsOf(target)).toContain(anchor);
    }
  });

  test('names files that exist', () => {
    const named = textOf(document).matchAll(
      /`((?:docs|gateway|services|shared|test)\/[\w./-]+|strata\.ts)`/g,
    );
    for (const [, path] of named)
      expect([path, existsSync(join(root, path!))]).toEqual([path, true]);
  });

  test('names commands that package.json has', () => {
    for (const [, command] of textOf(document).matchAll(/npm run (?:--silent )?([\w:]+)/g))
      expect(Object.keys(scripts)).toContain(command);
  });

  test('names commands that strata has', () => {
    for (const [, line] of textOf(document).matchAll(/(?:^|`)strata ([a-z][^`\n]*)/gm)) {
      const words = line!.split(/\s+/);
      const isCommand = words[0] === 'help' || table.commandAt(words) !== undefined;
      expect([line, isCommand]).toEqual([line, true]);
    }
  });
});

test("the README's table of layers has each layer once, in the order in which they decide", () => {
  const rows = [...textOf('README.md').matchAll(/^\| (\d) +\| `(\w+)`/gm)];
  expect(rows.map(([, , name]) => name)).toEqual([...layerNames]);
  expect(rows.map(([, number]) => Number(number))).toEqual(
    layerNames.map((_name, index) => index + 1),
  );
});

test("the README's map has a row for each role", () => {
  const readme = textOf('README.md');
  for (const { name } of roles) expect(readme).toMatch(new RegExp(`^\\|.*role \`${name}\``, 'm'));
});

test('package.json and the newest release of the changelog have one version', () => {
  const [, newest] = /^## (\d+\.\d+\.\d+)/m.exec(textOf('CHANGELOG.md')) ?? [];
  expect(newest).toBe(version);
});

/**
 * Lines that name a test in a file, or a fault, which is a test of test/faults/coherence.test.ts.
 */
const namesIn = (file: string): string[] =>
  [
    ...textOf(file).matchAll(
      /(?:\b(?:test|it)(?:\.each\([^`]*?\))?\(\s*|^\s+(?:\{ )?name: )(.+)/gm,
    ),
  ].map(([, line]) => line!);

describe.each([
  ['docs/security.md', 70],
  ['docs/service-levels.md', 25],
  ['docs/decisions/what-leaked-elsewhere.md', 20],
] as const)('%s', (document, least) => {
  const text = textOf(document);
  const citations = [...text.matchAll(/`(test\/[\w/-]+(?:\.test)?\.ts)` "([^"]+)"/g)];

  test.each(citations.map(([, file, name]): [string, string] => [file!, name!]))(
    'cites a test that is there: %s %s',
    (file, name) => {
      expect(existsSync(join(root, file))).toBe(true);
      expect(namesIn(file).filter((line) => line.includes(name))).not.toEqual([]);
    },
  );

  test('names no test file without the test', () => {
    expect(citations.length).toBeGreaterThan(least);
    expect([...text.matchAll(/`test\/[^`]*`/g)]).toHaveLength(citations.length);
  });
});

test('docs/service-levels.md promises nothing without what shows it', () => {
  const promises = textOf('docs/service-levels.md')
    .split('\n')
    .filter((line) => line.startsWith('| ') && !/^\| (?:Promise|What|Fault|-+) /.test(line));
  expect(promises.length).toBeGreaterThan(25);
  for (const promise of promises) expect(promise).toMatch(/`(?:test\/|npm run )/);
});

test.each(['docs/service-levels.md', 'docs/capacity.md', 'docs/backup.md', 'docs/runbooks.md'])(
  '%s names figures and alerts that there are',
  (document) => {
    const text = textOf(document);
    const [, documented = ''] = textOf('docs/operations/watch.md').split('\n## Metrics\n');
    for (const [value] of text.matchAll(/`strata_[a-z_]+`/g)) expect(documented).toContain(value);
    for (const [, alert] of text.matchAll(/\b(Strata[A-Z][A-Za-z]+)/g))
      expect(alerts.map((each) => each.alert)).toContain(alert);
  },
);

describe('docs/security.md', () => {
  const text = textOf('docs/security.md');

  test('speaks of every chapter of ASVS 5.0', () => {
    const chapters = [...text.matchAll(/^### V(\d+) /gm)].map(([, number]) => Number(number));
    expect(chapters).toEqual(Array.from({ length: 17 }, (_none, index) => index + 1));
  });
});
