/** The thread of replays without a server: errors of the calls that it asks for, and its end. */
import { afterAll, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { pino } from 'pino';
import { ReplayThread } from '../../services/config-resolver/actions/replay-thread.ts';
import type { ReplayRun } from '../../services/config-resolver/actions/replay-run.ts';
import type { Call } from '../../shared/contract-runtime/request.ts';
import { codeOf, StrataError } from '../../shared/errors.ts';

/** One for all tests, as of a node: each that starts compiles its code. */
const thread = new ReplayThread();
afterAll(() => thread.stop());

const log = pino({ level: 'silent' });
const run: ReplayRun = {
  tenantId: randomUUID(),
  span: { from: '2026-01-01T00:00:00.000Z', until: '2026-02-01T00:00:00.000Z' },
  patienceMs: 8000,
  environment: {},
  documents: [],
  mostItems: 50,
};
const decision = {
  id: randomUUID(),
  source: 'decide',
  decided_at: '2026-01-02T00:00:00.000Z',
  intent: { action: 'scale', risk_level: 'low' },
  tenant: 1,
  platform: 1,
};
/** Answers one page of one decision; what else is asked for fails. */
const onePage = (error: StrataError): Call =>
  (async (action: string) => {
    if (action !== 'notifier.decisions.replayable') throw error;
    return [JSON.stringify([decision])];
  }) as Call;

test('what a call says of the past is counted, and any other error is the error of the replay', async () => {
  const call = onePage(new StrataError('before_history'));
  const { counted } = await thread.run(run, { call, log });
  expect(counted).toMatchObject({ total: 0, unknown: { before_history: 1 } });
  const error = new StrataError('timeout', undefined, { headers: { 'retry-after': '1' } });
  await expect(thread.run(run, { call: onePage(error), log })).rejects.toBe(error);
});

test('a page that is none fails its replay, and no other', async () => {
  const call = (async () => ['nothing']) as unknown as Call;
  const failed = await thread.run(run, { call, log }).catch((error: unknown) => error);
  expect([codeOf(failed), String(failed)]).toEqual([
    'internal_error',
    expect.stringMatching('JSON'),
  ]);
  const ofNone = (async () => []) as unknown as Call;
  expect(await thread.run(run, { call: ofNone, log })).toMatchObject({ isThrough: true });
});

test('a thread that ends fails its replays with 503, and the next has another', async () => {
  const asked = new EventTarget();
  const call = (async () => {
    asked.dispatchEvent(new Event('call'));
    return new Promise(() => {});
  }) as unknown as Call;
  const first = once(asked, 'call');
  const running = thread.run(run, { call, log }).catch(codeOf);
  await first;
  const ending = thread.stop();
  // One that comes while it ends.
  const late = thread.run(run, { call, log }).catch(codeOf);
  expect(await Promise.all([running, late])).toEqual([
    'service_unavailable',
    'service_unavailable',
  ]);
  const answering = onePage(new StrataError('not_found'));
  const { counted } = await thread.run(run, { call: answering, log });
  expect(counted.unknown).toEqual({ not_found: 1 });
  await ending;
}, 20_000);

test('the work is none of the thread that asks for it', async () => {
  const pages = 50;
  const page = [JSON.stringify(Array.from({ length: 400 }, () => decision))];
  let asked = 0;
  const call = (async (action: string) => {
    if (action !== 'notifier.decisions.replayable') throw new StrataError('not_found');
    asked += 1;
    return asked % pages === 0 ? [] : page;
  }) as Call;
  const replay = async (): Promise<void> => {
    const { counted } = await thread.run(run, { call, log });
    expect(counted.unknown).toEqual({ not_found: 400 * (pages - 1) });
  };
  // The first has its code compiled.
  await replay();
  const [own, all] = [process.threadCpuUsage(), process.cpuUsage()];
  for (let round = 0; round < 5; round += 1) await replay();
  const [ofOwn, ofAll] = [process.threadCpuUsage(own), process.cpuUsage(all)];
  // A fifteenth by itself; what a busy machine does to one thread it does to the other.
  const share = (ofOwn.user + ofOwn.system) / (ofAll.user + ofAll.system);
  expect(share).toBeLessThan(0.5);
});
