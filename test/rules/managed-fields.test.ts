/** Whose fields are after a write, and which writes need them to be taken over. */
import { describe, expect, test } from '@jest/globals';
import { managedAfter, type StoredField } from '../../shared/documents/managed-fields.ts';
import { diff } from '../../shared/schema/diff.ts';

const git = (path: string): StoredField => ({ path, owner: 'git' });
const taken = (path: string, by = 'ann'): StoredField => ({
  path,
  owner: 'git',
  taken_by: by,
  taken_at: 'then',
});

interface Written {
  readonly before?: unknown;
  readonly after: unknown;
  readonly sent?: unknown;
  readonly by?: string;
  readonly takes?: string;
  readonly isPatch?: boolean;
}
function after(stored: readonly StoredField[], write: Written) {
  const { before, after: document, sent = document, by, takes, isPatch = false } = write;
  const { fields, refused } = managedAfter(stored, {
    changes: diff(before, document ?? undefined),
    sent,
    after: document,
    isPatch,
    by: 'bob',
    at: 'now',
    ...(by !== undefined && { managed_by: by }),
    ...(takes !== undefined && { take_over: takes }),
  });
  return { fields, refused: refused.map(({ path }) => path) };
}

const one = { a: 1, b: { c: [1], d: 'x' } };

describe('a folder', () => {
  test('owns what it sets, down to values and lists, and nothing that is empty', () => {
    expect(after([], { after: { ...one, e: {} }, by: 'git' })).toEqual({
      fields: [git('/a'), git('/b/c'), git('/b/d')],
      refused: [],
    });
  });
  test('owns nothing that the document does not have', () => {
    expect(after([], { after: { a: 1 }, sent: { a: 1, gone: 2 }, by: 'git' }).fields).toEqual([
      git('/a'),
    ]);
  });
  test('no more owns what it does not set any more, but by a patch', () => {
    const write = { before: one, after: { ...one, a: 2 }, sent: { a: 2 }, by: 'git' };
    expect(after([git('/a'), git('/b/d')], write).fields).toEqual([git('/a')]);
    expect(after([git('/a'), git('/b/d')], { ...write, isPatch: true }).fields).toEqual([
      git('/a'),
      git('/b/d'),
    ]);
  });
  test('leaves to another what both set alike', () => {
    expect(after([git('/a')], { before: one, after: one, by: 'other' })).toEqual({
      fields: [git('/a'), { path: '/b/c', owner: 'other' }, { path: '/b/d', owner: 'other' }],
      refused: [],
    });
  });
  test('takes from another by its name', () => {
    const write = { before: { a: 1 }, after: { a: 2 }, by: 'other' };
    expect(after([git('/a')], write).refused).toEqual(['/a']);
    expect(after([git('/a')], { ...write, takes: 'git' })).toEqual({
      fields: [{ path: '/a', owner: 'other' }],
      refused: [],
    });
  });
});

describe('a write by hand', () => {
  const cases: [what: string, before: unknown, after: unknown, refused: string[]][] = [
    ['of another field', one, { ...one, z: 1 }, []],
    ['of the field', one, { ...one, a: 2 }, ['/a']],
    ['that removes it', one, { b: one.b }, ['/a']],
    ['that removes what it is in', one, { a: 1 }, ['/b/c']],
    ['that puts something into it', { a: 1 }, { a: { b: 1 } }, ['/a']],
    ['that removes the document', one, null, ['/a', '/b/c']],
    ['that changes nothing', one, one, []],
    ['of a field whose name begins alike', { a: 1, ab: 1 }, { a: 1, ab: 2 }, []],
  ];
  test.each(cases)('%s', (_what, before, document, refused) => {
    const stored = [git('/a'), git('/b/c')];
    expect(after(stored, { before, after: document }).refused).toEqual(refused);
    expect(after(stored, { before, after: document, takes: 'svn, git' }).refused).toEqual([]);
    expect(after(stored, { before, after: document, takes: 'svn' }).refused).toEqual(refused);
  });
  test('that takes over says who and when, once, and others may follow', () => {
    const write = { before: { a: 1 }, after: { a: 2 } };
    const field = { path: '/a', owner: 'git', taken_by: 'bob', taken_at: 'now' };
    expect(after([git('/a')], { ...write, takes: 'git' }).fields).toEqual([field]);
    expect(after([taken('/a')], write)).toEqual({ fields: [taken('/a')], refused: [] });
  });
});

describe('what was taken over', () => {
  test('is not written over by its owner, unless it says so', () => {
    const write = { before: { a: 2 }, after: { a: 1 }, by: 'git' };
    expect(after([taken('/a')], write).refused).toEqual(['/a']);
    expect(after([taken('/a')], { ...write, takes: 'git' })).toEqual({
      fields: [git('/a')],
      refused: [],
    });
  });
  test('is its owner’s again where both say the same', () => {
    expect(after([taken('/a')], { before: { a: 2 }, after: { a: 2 }, by: 'git' })).toEqual({
      fields: [git('/a')],
      refused: [],
    });
  });
  test('with the document is so for whoever makes it again', () => {
    const gone = after([git('/a'), git('/b')], { before: one, after: null, takes: 'git' }).fields;
    expect(gone).toEqual([{ path: '', owner: 'git', taken_by: 'bob', taken_at: 'now' }]);
    expect(after(gone, { after: one, by: 'git' }).refused).toEqual(['']);
    expect(after(gone, { after: { a: 1 }, by: 'git', takes: 'git' }).fields).toEqual([git('/a')]);
  });
});

test('thousands of changes beside thousands of fields take no time', () => {
  const wide = (value: number): object =>
    Object.fromEntries(Array.from({ length: 20_000 }, (_none, index) => [`k${index}`, value]));
  const stored = Array.from({ length: 2000 }, (_none, index) => git(`/other/k${index}`));
  const begun = process.cpuUsage();
  expect(after(stored, { before: wide(1), after: wide(2) }).refused).toEqual([]);
  expect(process.cpuUsage(begun).user / 1000).toBeLessThan(1000);
});
