/**
 * Nodes of two releases on one bus: what a contract has gained reaches only nodes that know it, and
 * is never left out.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { ServiceBroker, type Middleware } from 'moleculer';
import { Type } from 'typebox';
import type { Caller } from '../../shared/access.ts';
import { nodeOptions } from '../../shared/node/broker.ts';
import { fingerprintOf, schemaOf } from '../../shared/contract-runtime/skew.ts';
import { contractTable } from '../../shared/contracts/index.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/cluster.ts';
import { startNats, type Process } from '../support/servers.ts';
import { secretKey } from '../support/strata.ts';

let nats: Process;
let caller: ServiceBroker;
const started: ServiceBroker[] = [];
/** The nodes that were asked, in turn, and how often old ones were asked for their schemas. */
const asked: string[] = [];
let questions = 0;

const action = 'global-config.bounds.patch';
/** What it takes in the release before: no `dry_run`. */
const { dry_run: _new, ...before } = contractTable[action].params.properties;
const closed = { additionalProperties: false };
const oldSchemas: Readonly<Record<string, object>> = {
  [action]: Type.Object(before, closed),
};

/** Answers for the release before what its actions take. */
const ofOldRelease: Middleware = {
  name: 'OldRelease',
  localAction(next, { name }) {
    if (name !== 'cluster.node.takes') return next;
    return async ({ params }) => {
      questions += 1;
      const { body } = params as { body: { action: string } };
      return { schema: JSON.stringify(oldSchemas[body.action]) };
    };
  },
};

function makeNode(nodeId: string, ...others: readonly Middleware[]): ServiceBroker {
  const environment = {
    NODE_ID: nodeId,
    NATS_URL: nats.url,
    SECRET_KEY: secretKey,
    LOG_LEVEL: 'silent',
  };
  const settings = liveSettings(loadSettings(environment, { roles: [] }), {}, []);
  const { options } = nodeOptions({ settings });
  const broker = new ServiceBroker({
    ...options,
    middlewares: [...options.middlewares!, ...others],
  });
  started.push(broker);
  return broker;
}

/** A node with the action, which says what it is in its answer. */
async function startOwner(nodeId: string, takes: string | undefined): Promise<ServiceBroker> {
  const isOld = takes === 'the release before';
  const broker = makeNode(nodeId, ...(isOld ? [ofOldRelease] : []));
  const handler = (): unknown => {
    asked.push(nodeId);
    return { dry_run: true, changes: [], invalidates: [] };
  };
  broker.createService({
    name: 'global-config',
    actions: { 'bounds.patch': { ...(takes === undefined ? {} : { takes }), handler } },
  });
  await broker.start();
  return broker;
}

const admin: Caller = {
  type: 'user',
  id: 'admin',
  tenant_id: null,
  roles: [],
  platform_roles: ['platform_admin'],
};
const call = (params: object, nodeID?: string): Promise<unknown> =>
  caller.call(
    action,
    { body: {}, ...params },
    { meta: { caller: admin }, ...(nodeID === undefined ? {} : { nodeID }) },
  );
const times = async (count: number, work: () => Promise<unknown>): Promise<void> => {
  for (let time = 0; time < count; time += 1) await work();
};
const owners = (): readonly string[] =>
  caller.registry.getNodeList({ onlyAvailable: true }).map(({ id }) => id);

beforeAll(async () => {
  nats = await startNats();
  caller = makeNode('gateway');
  await caller.start();
});
afterAll(async () => {
  await Promise.all(started.map((broker) => broker.stop()));
  await nats?.stop();
});
beforeEach(() => {
  asked.length = 0;
});

test('while there are old nodes alone, what is new is refused as a whole, and what they know is answered', async () => {
  await startOwner('old', 'the release before');
  await eventually(() => call({}));
  asked.length = 0;
  await expect(call({ dry_run: true })).rejects.toMatchObject({
    type: 'upgrade_under_way',
    code: 503,
  });
  expect(asked).toEqual([]);
  await times(5, () => call({ if_match: '"1"' }));
  expect(asked).toHaveLength(5);
  // Once, whatever is called.
  expect(questions).toBe(1);
});

test('what a contract says to readers is no difference between releases', () => {
  const said = /"(?:description|title)":"|"examples":\[/;
  const schema = schemaOf('notifier.approvals.request');
  expect(JSON.stringify(contractTable['notifier.approvals.request'].params)).toMatch(said);
  expect(schema).not.toMatch(said);
  // Parameters of such a name stay.
  expect(schema).toContain('"title":{');
});

test('what is wrong here, too, is told as what it is', async () => {
  await expect(call({ dry_run: 'perhaps' })).rejects.toMatchObject({ type: 'validation_failed' });
});

test('as soon as one new node is there, what is new goes to that, and the rest to both', async () => {
  await startOwner('new', fingerprintOf(action));
  await eventually(async () => expect(owners()).toContain('new'));
  await times(10, () => call({ dry_run: true }));
  expect(new Set(asked)).toEqual(new Set(['new']));
  await times(10, () => call({}));
  expect(new Set(asked)).toEqual(new Set(['new', 'old']));
});

test('an action that no node has yet is no outage of its service', async () => {
  const call = caller.call('global-config.bounds.put', { body: {} }, { meta: { caller: admin } });
  await expect(call).rejects.toMatchObject({ type: 'upgrade_under_way', code: 503 });
  const away = caller.call('audit.verify', {}, { meta: { caller: admin } });
  await expect(away).rejects.toMatchObject({ type: 'service_unavailable' });
});

test('a call of one node goes nowhere else', async () => {
  await expect(call({ dry_run: true }, 'old')).rejects.toMatchObject({ type: 'upgrade_under_way' });
  await expect(call({ dry_run: true }, 'new')).resolves.toBeDefined();
});

test('every action of a node announces what it takes', () => {
  const announced = caller.registry
    .getActionList({ onlyLocal: true })
    .filter(({ name }) => !name.startsWith('$'));
  expect(announced.length).toBeGreaterThan(5);
  for (const { name, action } of announced)
    expect([name, (action as { takes?: string }).takes]).toEqual([name, fingerprintOf(name)]);
});
