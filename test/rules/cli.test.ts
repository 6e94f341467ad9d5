/**
 * The command line's own rules: what a typed word means, what a terminal is shown, where a key may
 * go.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { assigned, removed } from '../../cli/assignments.ts';
import { Misused } from '../../cli/command.ts';
import { isPlainWord } from '../../cli/https/completion-command.ts';
import { credentialsOf, keyOf, urlOf } from '../../cli/https/credentials.ts';
import { documentsIn, writeDocuments } from '../../cli/https/documents.ts';
import type { HttpSession } from '../../cli/https/http-session.ts';
import { table } from '../../cli/https/table.ts';
import { execute, parse } from '../../cli/interpreter.ts';
import { columns, json, printable } from '../../cli/output.ts';
import { Failed } from '../../cli/session.ts';
import { verifyFile } from '../../cli/verify-file.ts';
import { deciderRoles } from '../../shared/contracts/notifier.ts';
import { tenantRoles } from '../../shared/contracts/roles.ts';

describe('single values', () => {
  test.each<[string, unknown]>([
    ['a=1', { a: 1 }],
    ['a=-1.5e3', { a: -1500 }],
    ['a=0123', { a: '0123' }],
    ['a=1.2.3', { a: '1.2.3' }],
    ['a=true', { a: true }],
    ['a=null', { a: null }],
    ['a=truely', { a: 'truely' }],
    ['a=', { a: '' }],
    ['a=b=c', { a: 'b=c' }],
    ['a="4"', { a: '4' }],
    ['a=[1, {"b": null}]', { a: [1, { b: null }] }],
    ['a.b.c=1', { a: { b: { c: 1 } } }],
    ['/a.b/c~1d=1', { 'a.b': { 'c/d': 1 } }],
  ])('%s', (word, patch) => {
    expect(assigned([word])).toEqual(patch);
  });

  test('several are one patch, whose names are data', () => {
    expect(assigned(['a.b=1', 'a.c=2', 'a.b=3'])).toEqual({ a: { b: 3, c: 2 } });
    const patch = assigned(['__proto__.polluted=true', 'constructor.prototype.polluted=true']);
    expect(JSON.stringify(patch)).toBe(
      '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}',
    );
    expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false);
    expect(removed(['a.b', 'a.c', 'd'])).toEqual({ a: { b: null, c: null }, d: null });
  });

  test.each(['a', '=1', 'a..b=1', 'a={', '/=1', 'a=9007199254740993', 'a=1e400'])(
    'refuses %s',
    (word) => {
      expect(() => assigned([word])).toThrow();
    },
  );
});

describe('words that are no command say how it is used, before anybody is asked', () => {
  const alone = {
    tenant: async () => 'a tenant',
    call: () => Promise.reject(new Error('Strata was asked')),
  } as unknown as HttpSession;
  const output = { print: () => {}, signal: new AbortController().signal };

  test.each<[string[], RegExp]>([
    [['config', 'gte'], /^config needs one of get, /],
    [['recofig'], /^there is no command recofig; help lists them$/],
    [['config', 'get'], /^<resource> is missing\nusage: config get <resource>/],
    [['config', 'get', 'agent'], /^agent needs <agent_type>$/],
    [['config', 'set', 'risk'], /^JSON or <path>=<value> is needed/],
    [['config', 'set', 'risk', '{"a":'], /^the JSON is not valid/],
    [['config', 'set', 'risk', '{"a": 9007199254740993}'], /^the JSON is not valid/],
    [['config', 'unset', 'risk', '--all'], /^risk is always there/],
    [['config', 'effective', '--fast'], /^Unknown option '--fast'\nusage/],
    [['config', 'purge', 'global_config', 'key'], /^--reason is needed/],
    [['config', 'purge', 'globl', 'key', '--reason', 'r'], /^a kind is one of global_config, /],
    [['decide', 'scale'], /^--risk is missing/],
    [
      ['decisions', 'replay', '--from', 'now', '--items', '[{"a":1,"a":2}]'],
      /^the JSON is not valid/,
    ],
    [['decisions', 'replay', '--from', 'now'], /^one of --changeset, --items and --as-of/],
    [['audit', 'cut', 'two', 'a hash'], /^two is not the number of an event/],
    [['rollouts', 'hold', 'a rollout'], /^--reason is missing/],
    [['stop'], /^--reason is missing/],
    [['propose', 'folder'], /^--reason is missing/],
    [['apply', 'folder'], /^--digest is missing/],
    [['completion', 'fish'], /^there is none for fish/],
  ])('%j', async (words, says) => {
    const run = async (): Promise<number> => execute(parse(words, table), alone, output);
    const error: unknown = await run().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Misused);
    expect((error as Misused).message).toMatch(says);
  });
});

describe('a file that is no document is refused by its name:', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'strata-documents-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  test.each<[what: string, file: string, text: string, says: RegExp]>([
    [
      'a resource that there is not',
      'risc.yaml',
      'a: 1',
      /risc\.yaml is no document; there are risk/,
    ],
    ['too many parts', 'agent/a/b.yaml', 'a: 1', /has to be called agent\/<agent_type>\.yaml/],
    ["what is the platform's", 'global/x.yaml', 'config_value: 1', /is the platform's/],
    [
      'a number that no double holds',
      'agent/a.yaml',
      'custom: {n: 9007199254740993}',
      /agent\/a\.yaml is not usable/,
    ],
    [
      'the same in hexadecimal',
      'agent/a.yaml',
      'custom: {n: 0x20000000000001}',
      /cannot be kept exactly/,
    ],
    ['infinity', 'agent/a.yaml', 'custom: {n: .inf}', /no number that JSON has/],
    [
      'a key that stands twice',
      'agent/a.yaml',
      'a: 1\na: 2',
      /not usable: Map keys must be unique/,
    ],
    ['a tag', 'agent/a.yaml', 'a: !!js/function x', /not usable: Unresolved tag/],
    ['two documents', 'agent/a.yaml', 'a: 1\n---\nb: 2', /not usable/],
    ['a list', 'agent/a.yaml', '- 1', /has to be an object/],
    [
      'aliases that grow without bound',
      'agent/a.yaml',
      `a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [${'*a,'.repeat(9)}]\nc: &c [${'*b,'.repeat(9)}]\nd: [${'*c,'.repeat(9)}]`,
      /Excessive alias count/,
    ],
  ])('%s', (what, file, text, says) => {
    const path = join(folder, what, file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    expect(() => documentsIn(join(folder, what), 'a tenant')).toThrow(Failed);
    expect(() => documentsIn(join(folder, what), 'a tenant')).toThrow(says);
  });
});

describe('an import that stops half way', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'strata-import-'));
    mkdirSync(join(folder, 'agent'));
    for (const name of ['one', 'two'])
      writeFileSync(join(folder, `agent/${name}.yaml`), 'custom: {}');
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** The second document is refused; the signal is aborted by then where somebody stopped it. */
  async function stopped(more: readonly string[], isInterrupted: boolean): Promise<unknown> {
    const stop = new AbortController();
    const session = {
      tenant: async () => 'a tenant',
      call: async (action: string, params: { readonly agent_type?: string }) => {
        if (action.endsWith('.list')) return { items: [], next_cursor: null };
        if (action.endsWith('.get')) throw new Failed('not_found', 'There is none.');
        if (params.agent_type === 'one')
          return more.length > 0
            ? { dry_run: true, changes: [] }
            : { outcome: 'created', revision: 1 };
        if (isInterrupted) stop.abort();
        throw new Failed('unreachable', 'it is gone');
      },
    } as unknown as HttpSession;
    const typed = parse(['config', 'import', folder, ...more], table);
    const output = { print: () => {}, signal: stop.signal };
    return execute(typed, session, output).catch((thrown: unknown) => thrown);
  }

  test.each<[what: string, more: string[], isInterrupted: boolean, code: string, says: string]>([
    ['by a failure', [], false, 'unreachable', 'agent/two: it is gone (1 before it were written)'],
    [
      'of a trial',
      ['--dry-run'],
      false,
      'unreachable',
      'agent/two: it is gone (nothing was written before it)',
    ],
    [
      'by Ctrl-C',
      [],
      true,
      'interrupted',
      'agent/two may have been written (1 before it were written)',
    ],
  ])('%s says what was written', async (_what, more, isInterrupted, code, message) => {
    expect(await stopped(more, isInterrupted)).toMatchObject({ code, message });
  });
});

describe('what waits continues through a restart of the gateway', () => {
  /** Answers in turn; the last one from then on. */
  const answering = (...answers: (object | Failed)[]): HttpSession => {
    const call = async (): Promise<object> => {
      const answer = answers.length > 1 ? answers.shift()! : answers[0]!;
      if (answer instanceof Failed) throw answer;
      return answer;
    };
    return { tenant: async () => 'a tenant', call } as unknown as HttpSession;
  };
  const away = new Failed('unreachable', 'it is gone');
  const busy = new Failed('service_unavailable', 'it is not ready');
  const run = (words: string[], session: HttpSession, print = (_text: string): void => {}) => {
    const stop = new AbortController();
    return { stop, ended: execute(parse(words, table), session, { print, signal: stop.signal }) };
  };

  test('approvals wait', async () => {
    const pending = { state: 'pending', revision: 1 };
    const approved = { state: 'approved', revision: 2 };
    const words = ['approvals', 'wait', 'an approval'];
    expect(await run(words, answering(pending, away, busy, approved)).ended).toBe(0);
    await expect(run(words, answering(away, approved)).ended).rejects.toBe(away);
    const refused = new Failed('insufficient_role', 'No.');
    await expect(run(words, answering(pending, refused)).ended).rejects.toBe(refused);
  });

  test('audit tail --follow', async () => {
    const event = { id: 'e', occurred_at: new Date().toISOString(), action: 'a', actor: {} };
    const none = { items: [], next_cursor: null };
    const session = answering(none, away, busy, { items: [event], next_cursor: null });
    const { stop, ended } = run(['audit', 'tail', '--follow'], session, () => stop.abort());
    expect(await ended).toBe(0);
    const refused = run(['audit', 'tail', '--follow'], answering(away));
    await expect(refused.ended).rejects.toBe(away);
  });
});

test('of an export that takes the place of another no document stands twice', () => {
  const folder = mkdtempSync(join(tmpdir(), 'strata-documents-'));
  try {
    mkdirSync(join(folder, 'agent'));
    for (const file of ['risk.json', 'bounds.yaml', 'agent/gone.yml'])
      writeFileSync(join(folder, file), '{}');
    const documents = new Map([
      ['bounds', { max_instances: { maximum: 5 } }],
      ['risk', { service_overrides: {} }],
    ]);
    writeDocuments(folder, documents, 'a tenant');
    expect(documentsIn(folder, 'a tenant')).toEqual(documents);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('who can decide is who has a role that does', async () => {
  const memberOf = (role: string) => ({
    email: `${role}@acme.example`,
    roles: [role],
    groups: ['board'],
    can_act: true,
  });
  const answers: Readonly<Record<string, object>> = {
    'tenant-config.members.list': { items: tenantRoles.map(memberOf), next_cursor: null },
    'tenant-config.notifications.effective': {
      approver_groups: { risk_levels: { high: ['board'] }, action_overrides: {} },
    },
  };
  const session = {
    tenant: async () => 'a tenant',
    call: async (action: string) => answers[action],
  } as unknown as HttpSession;
  const printed: string[] = [];
  const print = (text: string): void => void printed.push(text);
  await execute(parse(['who', '--json'], table), session, {
    print,
    signal: new AbortController().signal,
  });
  const can_decide = deciderRoles.map((role) => `${role}@acme.example`).join(',');
  expect(JSON.parse(printed.join(''))).toEqual([{ for: 'high risk', group: 'board', can_decide }]);
});

test.each(['null', '5', '[]', '{}', '{"seq": 1, "hash": "a"}', '{"skipped": [1, 2]}'])(
  'a file of an audit chain with the line %s is told by that line',
  (line) => {
    const folder = mkdtempSync(join(tmpdir(), 'strata-chain-'));
    const file = join(folder, 'chain.ndjson');
    writeFileSync(file, `\n${line}\n`);
    try {
      expect(() => verifyFile(file, undefined)).toThrow(Misused);
      expect(() => verifyFile(file, undefined)).toThrow(/^line 2 of .* is no event/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);

test('a terminal is shown escapes in place of what it would obey', () => {
  const hostile = 'a\u001b[2J\u0007\u202eb\u200b\r\u{e0041}';
  expect(printable(hostile)).toBe('a\\u001b[2J\\u0007\\u202eb\\u200b\\u000d\\udb40\\udc41');
  expect(printable('häß 漢字 🙂\n')).toBe('häß 漢字 🙂\n');
  expect(JSON.parse(json({ [hostile]: hostile }))).toEqual({ [hostile]: hostile });
  expect(columns([{ name: 'two\nlines', more: undefined }])).toBe(
    ['name            more', 'two\\u000alines  -'].join('\n'),
  );
});

test('whatever a command prints goes through that', () => {
  const stdout = pathToFileURL(join(import.meta.dirname, '../../cli/stdout.ts')).href;
  const script = `import { openStdout } from ${JSON.stringify(stdout)};
    openStdout(() => {}).print('a\\u001b[2J\\nb');`;
  const args = ['--input-type=module', '--eval', script];
  expect(execFileSync(process.execPath, args, { encoding: 'utf8' })).toBe('a\\u001b[2J\nb\n');
});

test.each([
  '$(touch x)',
  'a b',
  'a;b',
  '`a`',
  "a'b",
  'a"b',
  'a\\b',
  'a|b',
  'a&b',
  'a>b',
  '~',
  '*',
  '',
])('a shell is not offered %j', (word) => {
  expect(isPlainWord(word)).toBe(false);
});

describe('where a key goes', () => {
  test.each([
    ['https://strata.example', 'https://strata.example'],
    ['https://Strata.example:443/base/', 'https://strata.example/base'],
    ['http://localhost:8080/', 'http://localhost:8080'],
    ['http://127.0.0.1:8080', 'http://127.0.0.1:8080'],
    ['http://[::1]:8080', 'http://[::1]:8080'],
  ])('%s is an address', (text, url) => {
    expect(urlOf(text, false)).toBe(url);
  });

  test.each([
    ['strata.example', 'bad_url'],
    ['ftp://strata.example', 'bad_url'],
    ['http://strata.example', 'not_https'],
    ['http://localhost.evil.example', 'not_https'],
    ['http://127.0.0.1.evil.example', 'not_https'],
    ['https://user:password@strata.example', 'bad_url'],
    ['', 'bad_url'],
  ])('%j is none', (text, code) => {
    expect(() => urlOf(text, false)).toThrow(expect.objectContaining({ code }));
  });

  test('http is for this machine, unless somebody says that it may be read', () => {
    expect(urlOf('http://strata:8080', true)).toBe('http://strata:8080');
  });

  test('what is no key is not shown', () => {
    for (const text of ['', 'canary with blanks', 'canary\nx-evil: 1', 'canary-ключ']) {
      expect(() => keyOf(text, 'X')).toThrow('X holds no API key');
    }
    expect(keyOf('key\n', 'X')).toBe('key');
  });

  test('whoever waits for another renewal of a sign-in stops with Ctrl-C', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'strata-sign-ins-'));
    mkdirSync(join(folder, 'strata/sign-ins.json.lock'), { recursive: true });
    const { signIns } = credentialsOf({}, { XDG_CONFIG_HOME: folder });
    const interruption = new AbortController();
    const waiting = signIns.exclusively(interruption.signal, async () => 'renewed');
    interruption.abort();
    await expect(waiting).rejects.toThrow('aborted');
    rmSync(folder, { recursive: true });
  });

  test('a key is not sent to where somebody once signed in', () => {
    const environment = { STRATA_API_KEY: 'key', XDG_CONFIG_HOME: '/nowhere' };
    const credentials = credentialsOf({}, environment);
    Object.assign(credentials.signIns, { last: () => 'https://elsewhere.example' });
    expect(() => credentials.url()).toThrow('where is Strata?');
    expect(credentialsOf({ url: 'https://told.example' }, environment).url()).toBe(
      'https://told.example',
    );
  });
});
