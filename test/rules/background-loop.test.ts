/**
 * The loops behind queues, sweeps of chains and erasures: when they look, what they say of
 * failures, and how they end.
 */
import { expect, jest, test } from '@jest/globals';
import type { Service } from 'moleculer';
import { pino, type Logger } from 'pino';
import { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import { roles, type Parts } from '../../services/node-roles.ts';
import { startBackgroundLoop } from '../../shared/concurrency/background-loop.ts';
import { createShortLivedState } from '../../shared/concurrency/short-lived-state.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/eventually.ts';

/** Longer than any test. */
const never = 3_600_000;

function keptLog(): { readonly log: Logger; readonly lines: string[] } {
  const lines: string[] = [];
  const log = pino({}, { write: (line) => void lines.push(JSON.parse(line).msg) });
  return { log, lines };
}

test('looks at once, again without a wait where there is more, and whenever it is woken', async () => {
  const { log } = keptLog();
  let looks = 0;
  const look = async (): Promise<number> => {
    looks += 1;
    return looks < 3 ? 0 : never;
  };
  const loop = startBackgroundLoop({ log, look, retryMs: never, complaint: '' });
  await eventually(async () => expect(looks).toBe(3));
  loop.wake();
  await eventually(async () => expect(looks).toBe(4));
  await loop.stop();
  expect(looks).toBe(4);
});

test('says once that it fails, until it has succeeded again', async () => {
  const { log, lines } = keptLog();
  const results = ['fails', 'fails', 'works', 'fails'];
  const look = async (): Promise<number> => {
    const result = results.shift();
    if (result === 'fails') throw new Error('no');
    return result === undefined ? never : 0;
  };
  const loop = startBackgroundLoop({ log, look, retryMs: 1, complaint: 'cannot look' });
  await eventually(async () => expect(results).toEqual([]));
  await loop.stop();
  expect(lines).toEqual(['cannot look', 'cannot look']);
});

test('stops when the look on its way has ended, which is told to; a failure of that is not said', async () => {
  const { log, lines } = keptLog();
  const steps: string[] = [];
  const look = async (stopping: AbortSignal): Promise<number> => {
    steps.push('began');
    await new Promise((resolve) => stopping.addEventListener('abort', resolve));
    steps.push('told');
    throw new Error('no');
  };
  const loop = startBackgroundLoop({ log, look, retryMs: 1, complaint: 'cannot look' });
  await loop.stop();
  expect([steps, lines]).toEqual([['began', 'told'], []]);
});

test('does not look before its time', async () => {
  const { log } = keptLog();
  let looks = 0;
  const look = async (): Promise<number> => {
    looks += 1;
    return never;
  };
  const options = { log, look, retryMs: never, complaint: '', firstMs: never };
  const loop = startBackgroundLoop(options);
  await loop.stop();
  expect(looks).toBe(0);
});

test('those of the notifier end at once, so that a silent database holds no stop up for long', async () => {
  const longestQueryMs = 8000;
  let queries = 0;
  const silent = (): Promise<never> =>
    new Promise((_resolve, reject) => {
      queries += 1;
      // Of unequal length, so that the loops do not look at the same time.
      const ms = longestQueryMs - (queries % 7) * 500;
      setTimeout(() => reject(new Error('Query read timeout')), ms);
    });
  const db: DataSource = new Proxy({} as DataSource, {
    get(_target, property) {
      if (property === 'createQueryRunner') return () => db;
      if (property === 'queryRunner') return undefined;
      return property === 'manager' ? db : silent;
    },
  });
  const settings = loadSettings({ SECRET_KEY: 'k'.repeat(32) }, { roles: [] });
  const parts = {
    settings: () => settings,
    shortLived: createShortLivedState(),
    mailer: { close: () => undefined },
    log: pino({ level: 'silent' }),
    metrics: new Registry(),
    coherence: { onChange: () => () => true, onReset: () => () => true },
    onStopping: () => undefined,
  } as unknown as Parts;
  const code = await roles.find(({ name }) => name === 'notifier')!.load!();
  const { started, stopped } = code.service(parts, db);
  const service = { broker: { call: silent } } as unknown as Service;
  const call = (hook: unknown): Promise<void> => (hook as () => Promise<void>).call(service);

  jest.useFakeTimers();
  try {
    await call(started);
    await jest.advanceTimersByTimeAsync(120_000);
    let isStopped = false;
    void call(stopped).then(() => {
      isStopped = true;
    });
    // The query on its way, and one that gives back what the node has claimed.
    await jest.advanceTimersByTimeAsync(2 * longestQueryMs);
    expect(isStopped).toBe(true);
  } finally {
    jest.useRealTimers();
  }
});
