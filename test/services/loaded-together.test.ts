/**
 * Effective configurations that a platform write has made old are asked for together: what a node
 * has in memory of a tenant costs one question, each answer with its own checks.
 */
import { afterAll, afterEach, beforeAll, beforeEach, expect, jest, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { ServiceBroker, type Context, type Middleware } from 'moleculer';
import type { Caller } from '../../shared/access.ts';
import { nodeOptions } from '../../shared/cluster/broker.ts';
import type { Coherence } from '../../shared/cluster/coherence/coherence.ts';
import { maxOthers } from '../../shared/cluster/coherence/cache.ts';
import { fingerprintOf } from '../../shared/cluster/skew.ts';
import { platformScope, tenantScope } from '../../shared/contracts/revision-scopes.ts';
import { invalid } from '../../shared/errors.ts';
import { liveSettings } from '../../shared/live-settings.ts';
import { loadSettings } from '../../shared/settings.ts';
import { startNats, type Process } from '../support/servers.ts';
import { secretKey } from '../support/strata.ts';

const action = 'config-resolver.resolve';
let tenantId: string;
/** What the owner answers by. */
const revision = { tenant: 1, platform: 1 };
/** Contexts that the owner was asked for, and what their values are as large as. */
let resolved: string[] = [];
let padding = '';
let isOfOldRelease = false;

let nats: Process;
let owner: ServiceBroker;
let gateway: ServiceBroker;
let coherence: Coherence;
/** What the gateway has sent since the last change. */
let sent: jest.SpiedFunction<(packet: Packet) => Promise<void>>;
interface Packet {
  readonly type: string;
  readonly payload: { readonly action?: string };
}
const questions = (): number =>
  sent.mock.calls.filter(([{ type, payload }]) => type === 'REQ' && payload.action === action)
    .length;

function makeNode(nodeId: string, ...others: readonly Middleware[]) {
  const environment = {
    NODE_ID: nodeId,
    NATS_URL: nats.url,
    SECRET_KEY: secretKey,
    LOG_LEVEL: 'silent',
  };
  const settings = liveSettings(loadSettings(environment, { pieces: [] }), {}, []);
  const made = nodeOptions({ settings });
  const middlewares = [...made.options.middlewares!, ...others];
  return { ...made, broker: new ServiceBroker({ ...made.options, middlewares }) };
}

/** A release that knows nothing of answers together. */
const oldRelease: Middleware = {
  name: 'OldRelease',
  localAction: (next: (ctx: Context) => Promise<unknown>) => (ctx: Context) => {
    if (isOfOldRelease) delete (ctx.meta as { others?: unknown }).others;
    return next(ctx);
  },
};

/** As every node of Strata's does with its actions. */
const announced = { takes: fingerprintOf(action) };

interface Asked {
  readonly tenant_id: string;
  readonly agent_type?: string;
}

beforeAll(async () => {
  nats = await startNats();
  ({ broker: owner } = makeNode('owner', oldRelease));
  owner.createService({
    name: 'config-resolver',
    actions: {
      resolve: {
        ...announced,
        handler({ params }: Context<Asked>) {
          const { tenant_id, agent_type } = params;
          resolved.push(agent_type ?? '');
          if (agent_type === 'refused')
            throw invalid([{ path: '/agent_type', message: 'is refused' }]);
          return {
            value: {
              tenant_id,
              agent_type: agent_type ?? null,
              service_type: null,
              service_id: null,
              revision: { ...revision },
              unknown: [],
              values: { padding },
              enforced: [],
              environment: 'of the owner',
            },
            asOf: {
              [tenantScope(tenant_id)]: revision.tenant,
              [platformScope]: revision.platform,
            },
          };
        },
      },
    },
  });
  await owner.start();
  ({ broker: gateway, coherence } = makeNode('gateway'));
  await gateway.start();
  await gateway.waitForServices('config-resolver');
  // A lease, as a feed without news would give it.
  let token: string | null = null;
  await coherence.start({
    poll: async (poll) => {
      const previous_token = token;
      token = poll.token;
      return { cursor: '1', complete: true, changes: [], server: 'one', previous_token };
    },
    leave: async () => {},
    skipLost: async () => {},
    broadcast: () => {},
    hearsOthers: async () => true,
  });
  sent = jest.spyOn(gateway.transit!, 'publish') as typeof sent;
});
afterAll(async () => {
  await coherence?.stop();
  await Promise.all([owner, gateway].map((broker) => broker?.stop()));
  await nats?.stop();
});
beforeEach(() => {
  tenantId = randomUUID();
  padding = '';
});
afterEach(() => {
  isOfOldRelease = false;
});

const reader: Omit<Caller, 'tenant_id'> = {
  type: 'user',
  id: 'reader',
  roles: ['viewer'],
  platform_roles: [],
};
const contexts = (count: number): string[] =>
  Array.from({ length: count }, (_each, n) => `agent-${n}`);
const read = (agent: string, of = tenantId): Promise<{ revision: typeof revision }> =>
  gateway.call(
    action,
    { tenant_id: of, agent_type: agent },
    { meta: { caller: { ...reader, tenant_id: of } } },
  );
const readAll = async (agents: readonly string[]): Promise<void> => {
  for (const agent of agents) expect((await read(agent)).revision).toEqual({ ...revision });
};
function changed(scope: string): void {
  const kind = scope === platformScope ? 'platform' : 'tenant';
  revision[kind] += 1;
  coherence.apply({ id: randomUUID(), scope, revision: revision[kind], keys: [] });
  sent.mockClear();
  resolved = [];
}

test('after a platform write the contexts of a tenant cost one question', async () => {
  await readAll(contexts(20));
  changed(platformScope);
  await readAll(contexts(20).toReversed());
  expect(questions()).toBe(1);
  expect(resolved.toSorted()).toEqual(contexts(20).toSorted());
});

test('those who read at the same time wait for the same question', async () => {
  await readAll(contexts(20));
  changed(platformScope);
  const found = await Promise.all(contexts(20).map((agent) => read(agent)));
  expect(found.map(({ revision: { platform } }) => platform)).toEqual(
    found.map(() => revision.platform),
  );
  expect(questions()).toBe(1);
});

test('after a write of the tenant, which costs the owner a read for each, each is asked for by itself', async () => {
  await readAll(contexts(5));
  changed(tenantScope(tenantId));
  await read('agent-0');
  expect(resolved).toEqual(['agent-0']);
});

test('moments of the past and strict questions, which cost the owner reads, are asked for by themselves', async () => {
  const caller = { ...reader, tenant_id: tenantId };
  const asked = { tenant_id: tenantId, agent_type: 'agent-0' };
  for (const further of [{ as_of: '1' }, { strict: true }])
    await gateway.call(action, { ...asked, ...further }, { meta: { caller } });
  changed(platformScope);
  await read('agent-1');
  expect(resolved).toEqual(['agent-1']);
});

test('of one that is refused only those who ask for it hear', async () => {
  await readAll(contexts(3));
  const params = { tenant_id: tenantId, agent_type: 'agent-0' };
  const others = ['refused', 'agent-1'].map((agent_type) => ({ ...params, agent_type }));
  const caller = { ...reader, tenant_id: tenantId };
  const answer = await gateway.call(action, params, {
    meta: { caller, load: true, least: {}, others },
  });
  expect(answer).toMatchObject({
    value: { agent_type: 'agent-0' },
    others: [null, { value: { agent_type: 'agent-1' } }],
  });
  await expect(read('refused')).rejects.toMatchObject({ type: 'validation_failed' });
});

test('each answer has its own check of access and of parameters', async () => {
  const caller = { ...reader, tenant_id: tenantId };
  const others = [{ tenant_id: randomUUID() }, { tenant_id: tenantId, more: 1 }, null, 'text'];
  resolved = [];
  const answer = await gateway.call(
    action,
    { tenant_id: tenantId },
    { meta: { caller, load: true, least: {}, others } },
  );
  expect(answer).toMatchObject({ others: [null, null, null, null] });
  expect(resolved).toEqual(['']);
});

test.each([
  ['small', 200, '', maxOthers],
  ['large', 20, 'x'.repeat(200_000), 3],
])('an owner answers so many %s ones at a time', async (_what, count, each, answered) => {
  padding = each;
  const params = { tenant_id: tenantId };
  const caller = { ...reader, tenant_id: tenantId };
  const others = contexts(count).map((agent_type) => ({ ...params, agent_type }));
  const answer = await gateway.call<{ others: unknown[] }, object>(action, params, {
    meta: { caller, load: true, least: {}, others },
  });
  expect(answer.others).toHaveLength(answered);
});

test('an owner of the release before, which knows of none of this, is asked for each', async () => {
  await readAll(contexts(5));
  changed(platformScope);
  isOfOldRelease = true;
  const found = await Promise.all(contexts(5).map((agent) => read(agent)));
  expect(found.map(({ revision: { platform } }) => platform)).toEqual(
    found.map(() => revision.platform),
  );
  expect(questions()).toBe(5);
  expect(resolved.toSorted()).toEqual(contexts(5));
});
