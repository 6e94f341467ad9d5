/** docs/security.md says of each writing action what it can lead to. */
import { expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { powerTable } from './power-table.ts';

const withoutSpaces = (row: string): string => row.replaceAll(/ +/g, ' ').replaceAll(/-+/g, '---');

test('the table of powers is that of the contracts', () => {
  const page = readFileSync(new URL('../../docs/security.md', import.meta.url), 'utf8');
  const [, section] = /^## What each action can lead to$([^]*?)^## /m.exec(page)!;
  const rows = section!.split('\n').filter((line) => line.startsWith('|'));
  expect(rows.map(withoutSpaces)).toEqual(powerTable().map(withoutSpaces));
});
