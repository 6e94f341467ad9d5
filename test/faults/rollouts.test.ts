/**
 * The runner of rollouts is killed at each of its steps: whoever takes over neither leaves a stage
 * out nor begins one twice.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { ServerResponse } from 'node:http';
import { eventually, killed, startCluster, type Cluster } from '../support/cluster.ts';
import { holdLock } from '../support/held-lock.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import type { Answer } from '../support/strata.ts';

let cluster: Cluster;
let gate: Receiver;
let answer: (response: ServerResponse) => void;
const pass = (response: ServerResponse): void => {
  response.writeHead(200).end('{"result":"pass"}');
};

beforeAll(async () => {
  gate = await startReceiver((_n, response) => answer(response));
  cluster = await startCluster({
    gateways: 1,
    environment: { WEBHOOK_ALLOW_HTTP: 'true', WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8' },
  });
});
afterAll(async () => {
  await cluster?.stop();
  await gate?.close();
});

const good = (given: Answer): Answer => {
  if (given.status >= 300) throw new Error(`${given.status} ${given.text}`);
  return given;
};
const percents = [10, 50, 100];
let count = 0;
async function begun(): Promise<string> {
  const { platform } = cluster;
  count += 1;
  const path = `/config/global/killed-${count}`;
  good(await platform.put(path, { config_value: 1, is_public: true }));
  const items = [{ action: 'put', path, body: { config_value: 2, is_public: true } }];
  const { digest } = good(await platform.post('/config/plan', { items })).body;
  const stages = percents.map((percent) => ({
    percent,
    bake_minutes: 0,
    gate: [{ type: 'webhook', url: gate.url, secret: 'of the gate' }],
  }));
  const body = { title: 'Killed', reason: 'It is time', items, digest, stages };
  const { id } = good(await platform.post('/config/rollouts', body)).body;
  good(await platform.post(`/config/rollouts/${id}/advance`, { stage: null }));
  return id;
}
/** Each write of the rollout, as the history has it. */
const steps = async (id: string): Promise<string[]> => {
  const rows = await cluster.database.query<{ step: string }>(
    `SELECT concat_ws(' ', after->>'state', after->>'stage') AS step
     FROM global_config.configuration_history WHERE resource_id = $1 ORDER BY revision`,
    [id],
  );
  return rows.map(({ step }) => step);
};
const whole = ['planned', 'running 0', 'running 1', 'running 2', 'completed 2'];

/** Both, since either may be the one that asks. */
async function killConfigNodes(): Promise<void> {
  const nodes = cluster.services.slice(0, 2);
  await Promise.all(nodes.map((node) => killed(node)));
  await Promise.all(nodes.map((node) => cluster.revive(node)));
}
const ended = (id: string): Promise<void> =>
  eventually(async () => expect(await steps(id)).toEqual(whole), 240_000);

test('killed while a gate is asked', async () => {
  answer = () => undefined;
  const asked = gate.received.length;
  const id = await begun();
  await gate.wait(() => true, asked + 1);
  answer = pass;
  await killConfigNodes();
  expect(await steps(id)).toEqual(whole.slice(0, 2));
  await ended(id);
}, 400_000);

test('killed within the transaction that advances', async () => {
  answer = () => undefined;
  const id = await begun();
  // The step's transaction waits for the row of its turn, which it writes first.
  answer = pass;
  const lock = await holdLock(
    cluster.database,
    'SELECT FROM global_config.rollouts WHERE id = $1 FOR UPDATE',
    [id],
  );
  await lock.untilWaiting(1);
  await killConfigNodes();
  expect(await steps(id)).toEqual(whole.slice(0, 2));
  await lock.release();
  await ended(id);
}, 400_000);

test('killed once it is committed, before anybody is answered', async () => {
  answer = pass;
  const id = await begun();
  await eventually(async () => expect(await steps(id)).toContain('running 1'), 60_000);
  await killConfigNodes();
  await ended(id);
}, 400_000);
