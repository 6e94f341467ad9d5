/**
 * What a process loads when it starts, which is most of what a start takes, in time and in memory.
 */
import { expect, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const observer = new URL('../support/what-is-loaded.mjs', import.meta.url).href;

interface Loaded {
  readonly packages: readonly string[];
  /** Node's own modules. */
  readonly builtins: readonly string[];
}

function loadedBy(words: readonly string[], environment: Readonly<Record<string, string>> = {}) {
  const { output, status, stderr } = spawnSync(process.execPath, ['--import', observer, ...words], {
    cwd: root,
    env: { PATH: process.env.PATH, ...environment },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  });
  if (status !== 0) throw new Error(`it ended with ${status}: ${stderr}`);
  return JSON.parse(output[3]!) as Loaded;
}

test('a node that is a gateway alone loads no library that it does not need to start', () => {
  const code = [
    './services/derived-reads.ts',
    './services/node-roles.ts',
    './shared/node/broker.ts',
    './shared/mail/mailer.ts',
    './gateway/gateway.ts',
  ].map((file) => `await import('${file}');`);
  const { packages } = loadedBy(['--input-type=module', '-e', code.join(' ')]);
  expect(packages).toEqual(expect.arrayContaining(['moleculer', 'nats', 'fastify']));
  const ofOthers = [
    'typeorm',
    'pg',
    'nodemailer',
    'got',
    'openid-client',
    '@node-rs/argon2',
    '@simplewebauthn/server',
    '@scalar/fastify-api-reference',
    '@slack/web-api',
    '@slack/socket-mode',
    'moleculer-repl',
    'preact',
  ];
  expect(packages.filter((each) => ofOthers.includes(each))).toEqual([]);
});

test('the thread of replays loads no library that talks to others', () => {
  const run = './services/config-resolver/actions/replay-run.ts';
  const { packages } = loadedBy(['--input-type=module', '-e', `await import('${run}')`]);
  const ofOthers = ['typeorm', 'pg', 'nats', 'ioredis', 'fastify', 'got', 'prom-client'];
  expect(packages.filter((each) => ofOthers.includes(each))).toEqual([]);
});

test('what is kept of an earlier start is read by the next without the compiler', () => {
  const kept = mkdtempSync(join(tmpdir(), 'strata-kept-'));
  try {
    const words = ['strata.mjs', '--help'];
    const [first, second] = [1, 2].map(() => loadedBy(words, { NODE_COMPILE_CACHE: kept }));
    const compilers = ({ builtins }: Loaded): string[] =>
      builtins.filter((each) => each.includes('amaro'));
    expect(compilers(first!)).not.toEqual([]);
    expect(compilers(second!)).toEqual([]);
  } finally {
    rmSync(kept, { recursive: true, force: true });
  }
});
