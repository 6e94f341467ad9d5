/**
 * NATS as docs/operations/trust.md sets it up for services without SECRET_KEY: two neighbours that do not
 * trust each other, and a gateway.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { ServiceBroker } from 'moleculer';
import { connect, type NatsConnection } from 'nats';
import { HeldAnswers } from '../../gateway/http/held-answer.ts';
import { openToNeighbours, type Neighbours } from '../../gateway/neighbours.ts';
import type { Caller } from '../../shared/access.ts';
import { createNode, type Node } from '../../shared/node/broker.ts';
import { createLog } from '../../shared/telemetry/log.ts';
import { neighbourOptions } from '../../shared/bus/neighbour.ts';
import { StrataError } from '../../shared/errors.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings, type Settings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/cluster.ts';
import { startNats, type Process } from '../support/servers.ts';
import { secretKey } from '../support/strata.ts';

const folder = mkdtempSync(join(tmpdir(), 'strata-nats-'));
const credential = 'strata_canary_credential';
/** Of somebody of a tenant. */
const ofTenant = 'strata_tenant_credential';
let nats: Process;
let gateway: Node;
let door: Neighbours;
let neighbour: ServiceBroker;
let stranger: NatsConnection;

/** The users of the documentation, and a second neighbour `m` with the permissions of `n`. */
function documentedConfig(): string {
  const docs = readFileSync(new URL('../../docs/operations/trust.md', import.meta.url), 'utf8');
  const block = /```\n(authorization: [^`]+)```/.exec(docs)![1]!;
  const given = block.replace('$NATS_PASSWORD', 'strata').replace('$N_PASSWORD', 'n');
  const user = /^ {2}\{ user: n, [^]*?\] \} \}$/m.exec(given)![0];
  const other = user
    .replace('user: n, password: n', 'user: m, password: m')
    .replaceAll('.n"', '.m"');
  return given.replace(user, `${user}\n${other}`);
}

const settingsOf = (user: string, more: Record<string, string>): Settings =>
  loadSettings(
    {
      NODE_ID: user,
      NATS_URL: nats.url,
      NATS_USER: user,
      NATS_PASSWORD: user,
      LOG_LEVEL: 'silent',
      ...more,
    },
    { roles: [] },
  );

const caller: Caller = {
  type: 'user',
  id: 'somebody',
  tenant_id: null,
  roles: [],
  platform_roles: ['platform_admin'],
};

/** Until which calls that wait are held, and how many are. */
let decided = Promise.withResolvers<never>();
let held = 0;
/** The same of a credential that takes as long to look up, and how many ask for it. */
const lookedUpSlowly = 'strata_made_up_credential';
const lookedUp = Promise.withResolvers<undefined>();
let lookingUp = 0;
const reviewer: Caller = {
  ...caller,
  tenant_id: '00000000-0000-4000-8000-000000000000',
  roles: ['reviewer'],
  platform_roles: [],
};

async function hold(): Promise<never> {
  held += 1;
  return decided.promise;
}
/** By the stranger, with these bytes beside what it says. */
function publishWaiting(count: number, beside = ''): void {
  const waiting = {
    ver: '5',
    sender: 'm',
    id: '1',
    action: 'notifier.approvals.get',
    params: { tenant_id: reviewer.tenant_id, approval_id: reviewer.tenant_id, wait: 60 },
    meta: { credential: ofTenant, beside },
  };
  const packet = JSON.stringify(waiting);
  for (let each = 0; each < count; each += 1) stranger.publish('MOL-strata.REQ.strata', packet);
}

beforeAll(async () => {
  const file = join(folder, 'nats.conf');
  writeFileSync(file, documentedConfig());
  nats = await startNats({ config: file });
  const settings = liveSettings(settingsOf('strata', { SECRET_KEY: secretKey }), {}, []);
  gateway = createNode({ settings });
  gateway.broker.createService({
    name: 'notifier',
    actions: { 'approvals.get': hold },
  });
  await gateway.broker.start();
  door = openToNeighbours({
    broker: gateway.broker,
    authenticator: {
      known: ({ authorization }) =>
        authorization === `Bearer ${credential}` ? { caller, stale: false } : undefined,
      async find({ authorization }) {
        if (authorization === `Bearer ${lookedUpSlowly}`) {
          lookingUp += 1;
          return lookedUp.promise;
        }
        if (authorization === `Bearer ${ofTenant}`) return { caller: reviewer, stale: false };
        throw new StrataError('auth_api_key_invalid');
      },
    },
    heldAnswers: new HeldAnswers(),
    log: createLog(settings.current),
    namespace: 'strata',
    requestTimeoutMs: 30_000,
  })!;
  const options = neighbourOptions(settingsOf('n', { STRATA_API_KEY: credential }));
  neighbour = new ServiceBroker({ ...options, logger: false });
  await neighbour.start();
  await neighbour.waitForServices('cluster', 60_000);
  stranger = await connect({ servers: nats.url, user: 'm', pass: 'm' });
});
afterAll(async () => {
  await stranger?.close();
  await neighbour?.stop();
  await door?.stop();
  await gateway?.broker.stop();
  await nats?.stop('SIGKILL');
  rmSync(folder, { recursive: true });
});

const health = (): Promise<unknown> => neighbour.call('cluster.node.health', {});

test('a neighbour calls by its credential, over and over', async () => {
  for (let count = 0; count < 3; count += 1) expect(await health()).toMatchObject({ bus: true });
});

test('another hears nothing of it, and calls nothing with what it says of itself', async () => {
  const received: string[] = [];
  for (const subject of ['>', 'MOL-strata.>', 'MOL-strata.REQ.strata', 'MOL-strata.RES.n'])
    stranger.subscribe(subject, {
      callback: (error, message) => {
        if (!error) received.push(Buffer.from(message.data).toString());
      },
    });
  const answers: { id: string; error: { type: string } }[] = [];
  stranger.subscribe('MOL-strata.RES.m', {
    callback: (_error, { data }) => answers.push(JSON.parse(Buffer.from(data).toString())),
  });
  for (const meta of [{}, { caller }, { caller, load: true }, { credential: 'x', caller }])
    stranger.publish(
      'MOL-strata.REQ.strata',
      JSON.stringify({ ver: '5', sender: 'm', id: '1', action: 'cluster.node.health', meta }),
    );
  await health();
  await eventually(async () => expect(answers).toHaveLength(4));
  expect(answers.map(({ error }) => error.type).sort()).toEqual([
    'auth_api_key_invalid',
    'auth_token_missing',
    'auth_token_missing',
    'auth_token_missing',
  ]);
  expect(received).toEqual([]);
});

test('another cannot pose as a gateway, nor as the neighbour, nor end either', async () => {
  const services = [
    {
      name: 'cluster',
      fullName: 'cluster',
      settings: {},
      metadata: {},
      events: {},
      actions: { 'cluster.node.health': { name: 'cluster.node.health', rawName: 'health' } },
    },
  ];
  for (const sender of ['m', 'strata'])
    for (const subject of ['INFO', 'INFO.n', 'DISCONNECT', 'HEARTBEAT', 'RES.n'])
      stranger.publish(
        `MOL-strata.${subject}`,
        JSON.stringify({ ver: '5', sender, services, instanceID: 'i', seq: 99, client: {} }),
      );
  stranger.publish('MOL-strata-nodes.DISCONNECT', '{"ver":"5","sender":"strata"}');
  await stranger.flush();
  await delay(200);
  expect(
    neighbour.registry
      .getNodeList({})
      .map(({ id }) => id)
      .sort(),
  ).toEqual(['n', 'strata']);
  expect(await health()).toMatchObject({ bus: true });
});

test('a flood of DISCOVER is not answered in full, and ends with the next heartbeat', async () => {
  let answers = 0;
  stranger.subscribe('MOL-strata.INFO.m', { callback: () => (answers += 1) });
  const discover = '{"ver":"5","sender":"m"}';
  const began = performance.now();
  for (let count = 0; count < 2000; count += 1)
    stranger.publish('MOL-strata.DISCOVER.strata', discover);
  await stranger.flush();
  await eventually(async () => expect(answers).toBeGreaterThan(0));
  await delay(300);
  // Two hundred between two heartbeats, of which there is one every two seconds.
  const heartbeats = 1 + Math.ceil((performance.now() - began) / 2000);
  expect(answers).toBeLessThanOrEqual(200 * heartbeats);
  const before = answers;
  await eventually(async () => {
    stranger.publish('MOL-strata.DISCOVER.strata', discover);
    await stranger.flush();
    expect(answers).toBeGreaterThan(before);
  });
});

test('calls of one tenant that wait leave room for others', async () => {
  let answered = 0;
  const subscription = stranger.subscribe('MOL-strata.RES.m', { callback: () => (answered += 1) });
  publishWaiting(600);
  await eventually(async () => expect(answered).toBeGreaterThanOrEqual(100));
  expect(await health()).toMatchObject({ bus: true });
  decided.reject(new StrataError('not_found'));
  await eventually(async () => expect(answered).toBe(600));
  subscription.unsubscribe();
});

test('credentials that are slow to look up leave room for those that are known', async () => {
  const request = {
    ver: '5',
    sender: 'm',
    id: '1',
    action: 'cluster.node.health',
    meta: { credential: lookedUpSlowly },
  };
  for (let each = 0; each < 600; each += 1)
    stranger.publish('MOL-strata.REQ.strata', JSON.stringify(request));
  await stranger.flush();
  await eventually(async () => expect(lookingUp).toBeGreaterThanOrEqual(250));
  expect(await health()).toMatchObject({ bus: true });
  expect(lookingUp).toBe(250);
  lookedUp.resolve(undefined);
});

test('a call that waits keeps nothing of the text that it came as', async () => {
  decided = Promise.withResolvers();
  held = 0;
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const heapAfter = (): number => {
    collectGarbage();
    return process.memoryUsage().heapUsed;
  };
  const before = heapAfter();
  publishWaiting(40, 'x'.repeat(1_000_000));
  await eventually(async () => expect(held).toBe(40));
  expect(heapAfter() - before).toBeLessThan(20_000_000);
  decided.reject(new StrataError('not_found'));
});

test('nothing that a neighbour sends closes the connection of the gateway', async () => {
  const packets: unknown[] = [
    '',
    '[]',
    'null',
    '{"ver"',
    '[[[['.repeat(100_000),
    { sender: 'm', id: '1', action: 'x', meta: { credential: { toString: 1 } } },
    { sender: 'm', id: '1', action: '__proto__', meta: { credential } },
    { sender: 'm', id: '1', action: 'cluster.node.health', meta: { credential }, params: 7 },
    { sender: '>', id: '1', action: 'cluster.node.health', meta: { credential } },
    { sender: 'm', id: {}, action: 'cluster.node.health', meta: null, timeout: -1 },
    { sender: 'm', id: '1', action: 'cluster.node.health', requestID: 'ä\n', meta: { credential } },
    { sender: 'm', time: {}, id: [] },
  ];
  for (const subject of ['REQ.strata', 'DISCOVER', 'DISCOVER.strata'])
    for (const packet of packets)
      stranger.publish(
        `MOL-strata.${subject}`,
        typeof packet === 'string' ? packet : JSON.stringify(packet),
      );
  await stranger.flush();
  expect(await health()).toMatchObject({ bus: true });
});
