/** What operators read about the errors of sign-in is what the table of errors says. */
import { expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { errorTable } from '../../shared/contracts/error-codes.ts';

test('docs/operations/sign-in.md says for each code of sign-in, with its status, what to do', () => {
  const text = readFileSync(join(import.meta.dirname, '../../docs/operations/sign-in.md'), 'utf8');
  const rows = [...text.matchAll(/^\| (\d{3}) +\| `(auth_[a-z_]+)` +\| \S.+ \|$/gm)].map(
    ([, status, code]) => [code, Number(status)],
  );
  const codes = Object.entries(errorTable)
    .filter(([code]) => code.startsWith('auth_'))
    .map(([code, { status }]) => [code, status]);
  expect(rows.sort()).toEqual(codes.sort());
});
