/**
 * What the last release has promised in its contracts is still there: fields, actions, parameters,
 * error codes, values.
 */
import { expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Type, type TObject } from 'typebox';
import type { Contract } from '../../shared/contracts/contract.ts';
import { contractTable } from '../../shared/contracts/index.ts';
import { breaksOf, contractFacts, read, written } from './contract-facts.ts';

const released = read(readFileSync(join(import.meta.dirname, 'contracts.txt'), 'utf8'));
const current = contractFacts();

test('nothing that the last release has promised is gone, and no call needs more', () => {
  expect(breaksOf(released, current)).toEqual([]);
});

test('what is written is read as the same facts', () => {
  expect(read(written(current))).toEqual(current);
  expect(released.length).toBeGreaterThan(10_000);
});

/** The facts with one contract changed. */
const changed = (
  action: keyof typeof contractTable,
  change: (was: Contract) => Contract,
): string[] => contractFacts({ ...contractTable, [action]: change(contractTable[action]) });

function without({ properties }: TObject, name: string): TObject {
  const { [name]: _left, ...others } = properties;
  return Type.Object(others);
}

test.each<[string, string[], string]>([
  [
    'an action',
    current.filter((fact) => !fact.startsWith('tenant-config.risk.put')),
    'gone: tenant-config.risk.put',
  ],
  [
    'an error code',
    current.filter((fact) => fact !== 'error conflict 409'),
    'gone: error conflict 409',
  ],
  [
    'a route',
    changed('audit.verify', ({ rest: _rest, ...was }) => was),
    'gone: audit.verify GET /audit/verify',
  ],
  [
    'a parameter',
    changed('tenant-config.risk.put', (was) => ({
      ...was,
      params: without(was.params, 'if_match'),
    })),
    'gone: tenant-config.risk.put takes.if_match optional',
  ],
  [
    'a field of an answer',
    changed('auth.login', (was) => ({
      ...was,
      result: without(was.result as TObject, 'access_token'),
    })),
    'gone: auth.login answers.access_token required',
  ],
  [
    'the freedom not to send a parameter',
    changed('tenant-config.risk.put', (was) => ({
      ...was,
      params: Type.Object({ ...was.params.properties, reason: Type.String() }),
    })),
    'gone: tenant-config.risk.put takes.reason optional',
  ],
  [
    'a call without what is new',
    changed('tenant-config.risk.put', (was) => ({
      ...was,
      params: Type.Object({ ...was.params.properties, ticket: Type.String() }),
    })),
    'needed now: tenant-config.risk.put takes.ticket',
  ],
  [
    'a document that was stored without what is new',
    [...current, 'tenant-config.risk.get answers.document.global_settings.new_limit required'],
    'needed now: tenant-config.risk.get answers.document.global_settings.new_limit',
  ],
])('without %s it fails', (_what, facts, expected) => {
  expect(breaksOf(current, facts)).toContain(expected);
});
