/**
 * G4 on the bus: every action × caller, and what a callee could do to its caller's rights. The
 * callers are those that a node of Strata's names, in its own process and on another node; that
 * somebody names who does not hold SECRET_KEY, in clear, sealed under another key and by sending
 * again what was heard; and those that a credential proves. In its own process each caller is tried;
 * from elsewhere a few, by turns, and in the soak all.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { ServiceBroker, type Context } from 'moleculer';
import { connect, type NatsConnection } from 'nats';
import type { Authenticator } from '../../gateway/http/authenticate.ts';
import { HeldAnswers } from '../../gateway/http/held-answer.ts';
import { openToNeighbours, type Neighbours } from '../../gateway/neighbours.ts';
import { roles } from '../../services/node-roles.ts';
import type { Caller } from '../../shared/access.ts';
import { createNode } from '../../shared/node/broker.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { CoherentCache } from '../../shared/coherence/cache.ts';
import { isPower, scopeOfPower, type LeadsTo } from '../../shared/contracts/consequences.ts';
import { type RecentFor } from '../../shared/contracts/contract.ts';
import { keyScopes, tenantRoles, type KeyScope } from '../../shared/contracts/roles.ts';
import { envelopeOf, keyIdLength, keyOfProcess, seal } from '../../shared/bus/sealed-packet.ts';
import { createLog } from '../../shared/telemetry/log.ts';
import { contracts, contractTable, type ActionName } from '../../shared/contracts/index.ts';
import { StrataError } from '../../shared/errors.ts';
import { createKeyRing } from '../../shared/security/derived-keys.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { startNats, type Process } from '../support/servers.ts';
import { inTurn } from '../support/turns.ts';

const own = randomUUID();
const other = randomUUID();
const settings = liveSettings(
  loadSettings({ LOG_LEVEL: 'silent', SECRET_KEY: 'x'.repeat(32) }, { roles: [] }),
  {},
  [],
);
const { broker } = createNode({ settings });

let nats: Process;
let outsider: NatsConnection;
/** Packets of nodes, by subject. */
const received: Packet[] = [];
interface Packet {
  readonly subject: string;
  readonly data: Uint8Array;
}
/**
 * On NATS: one that hosts everything, one that calls, and a service that does not hold SECRET_KEY.
 */
let owner: ServiceBroker;
let asker: ServiceBroker;
let neighbour: ServiceBroker;
let door: Neighbours;
const reached = { called: 0, params: undefined as unknown };

/** Stand-ins for all services: they note that they were reached. */
function fake(service: string): Parameters<ServiceBroker['createService']>[0] {
  const names = Object.keys(contracts).filter((name) => name.startsWith(`${service}.`));
  return {
    name: service,
    actions: Object.fromEntries(
      names.map((name) => [
        name.slice(service.length + 1),
        {
          handler(ctx: Context) {
            const meta = ctx.meta as { caller?: Caller };
            // Nodes read the change feed all the time.
            if (service !== 'feed' || meta.caller?.id === 'neighbour') reached.called += 1;
            reached.params = ctx.params;
            meta.caller = {
              type: 'system',
              id: 'intruder',
              tenant_id: null,
              roles: [],
              platform_roles: ['platform_admin'],
            };
            throw Object.assign(new Error('reached'), { type: 'not_found' });
          },
        },
      ]),
    ),
  };
}

beforeAll(async () => {
  const services = roles.map(({ name }) => name);
  nats = await startNats();
  outsider = await connect({ servers: nats.url });
  outsider.subscribe('MOL-strata-nodes.>', {
    callback: (_error, { subject, data }) =>
      received.push({ subject, data: Uint8Array.from(data) }),
  });
  owner = nodeOnBus('owner');
  asker = nodeOnBus('asker');
  for (const each of [broker, owner])
    for (const service of [...services, 'feed']) each.createService(fake(service));
  await Promise.all([broker, owner].map((each) => each.start()));
  await asker.start();
  await asker.waitForServices([...services, 'feed'].filter((name) => hasActions(name)));
  door = openToNeighbours({
    broker: asker,
    authenticator: softwareAuthenticator,
    heldAnswers: new HeldAnswers(),
    log: createLog(settings.current),
    namespace: 'strata',
    requestTimeoutMs: 30_000,
  })!;
  neighbour = new ServiceBroker({
    namespace: 'strata',
    nodeID: 'neighbour',
    logger: false,
    transporter: { type: 'NATS', options: { servers: [nats.url] } },
  });
  await neighbour.start();
  await neighbour.waitForServices('tenant-config', 60_000);
});
afterAll(async () => {
  await neighbour?.stop();
  await door?.stop();
  await Promise.all([broker, asker, owner].map((each) => each?.stop()));
  await outsider?.close();
  await nats?.stop('SIGKILL');
});

const hasActions = (service: string): boolean =>
  Object.keys(contracts).some((name) => name.startsWith(`${service}.`));

function nodeOnBus(nodeId: string): ServiceBroker {
  const given = {
    NODE_ID: nodeId,
    NATS_URL: nats.url,
    SECRET_KEY: settings.current.secret_key!,
    LOG_LEVEL: 'silent',
  };
  const onBus = liveSettings(loadSettings(given, { roles: [] }), {}, []);
  return createNode({ settings: onBus }).broker;
}

/** A credential is the name of a caller of the table below. */
const softwareAuthenticator: Authenticator = {
  known: () => undefined,
  async find({ authorization = '' }) {
    const caller = callers[decodeURIComponent(authorization.replace('Bearer ', ''))];
    if (!caller?.type) throw new StrataError('auth_token_invalid');
    return { caller, stale: false };
  },
};

const user = (roles: Caller['roles'], tenant: string | null, platform: string[] = []): Caller => ({
  type: 'user',
  id: randomUUID(),
  tenant_id: tenant,
  roles,
  platform_roles: platform,
});
/** What the name of a caller ends with whose sign-in is recent. */
const justSignedIn = ', just signed in';
const callers: Readonly<Record<string, Caller | undefined>> = {
  anonymous: undefined,
  'an empty caller': {} as Caller,
  tenant_admin: user(['tenant_admin'], own),
  operator: user(['operator'], own),
  reviewer: user(['reviewer'], own),
  reverter: user(['reverter'], own),
  viewer: user(['viewer'], own),
  outsider: user(['tenant_admin'], other),
  platform_admin: user([], null, ['platform_admin']),
  [`tenant_admin${justSignedIn}`]: {
    ...user(['tenant_admin'], own),
    authenticated_at: new Date().toISOString(),
  },
  [`platform_admin${justSignedIn}`]: {
    ...user([], null, ['platform_admin']),
    authenticated_at: new Date().toISOString(),
  },
  'a narrow key': {
    ...user(['tenant_admin'], own, ['platform_admin']),
    scopes: keyScopes,
    narrowed_to: { service_ids: ['checkout'] },
  },
  'a key without scopes': { ...user(['tenant_admin'], own, ['platform_admin']), scopes: [] },
  'a password under a policy': {
    ...user(['tenant_admin'], own, ['platform_admin']),
    session_id: randomUUID(),
    authenticated_at: new Date().toISOString(),
    signed_in_with: 'password',
    stronger_sign_in_required: true,
  },
  service: { type: 'service', id: 'neighbour', tenant_id: null, roles: [], platform_roles: [] },
};

/** Of a call that names a tenant and nothing else, by somebody whose sign-in is old. */
const wantsRecentSignIn = (recent: RecentFor | undefined, leadsTo: LeadsTo | undefined): boolean =>
  recent?.includes({ tenant_id: own }, {}) === true ||
  (typeof leadsTo === 'string' && isPower(leadsTo));

/** Whether a call that names a tenant and nothing else may be one of a narrow key's. */
function opensToNarrow(name: ActionName): boolean {
  const { narrow, keyScope, params } = contractTable[name];
  if (narrow === undefined || keyScope === null) return false;
  if (typeof narrow === 'string') return true;
  const inParameters = { service_ids: 'service_id', agent_types: 'agent_type' };
  return narrow.every((each) => each !== 'documents' && !(inParameters[each] in params.properties));
}

function expected(name: ActionName, asked: string): string | undefined {
  const { access, leadsTo } = contracts[name] as {
    access: {
      level: string;
      roles?: readonly string[];
      services?: boolean;
      recent?: RecentFor;
      withAnySignIn?: true;
    };
    leadsTo?: LeadsTo;
  };
  const who = asked.replace(justSignedIn, '').replace('a narrow key', 'a key without scopes');
  if (access.level === 'public') return undefined;
  if (who === 'anonymous' || who === 'an empty caller') return 'auth_token_missing';
  if (who === 'service')
    return access.level === 'internal' || access.services ? undefined : 'insufficient_role';
  if (access.level === 'internal') return 'insufficient_role';
  if (who === 'a password under a policy')
    return access.withAnySignIn ? undefined : 'auth_stronger_sign_in_required';
  const refusal = (() => {
    if (access.level === 'authenticated') return undefined;
    if (access.level === 'platform_admin')
      return who === 'platform_admin' || who === 'a key without scopes'
        ? undefined
        : 'insufficient_role';
    if (
      access.level === 'tenant_or_platform' &&
      (who === 'platform_admin' || who === 'a key without scopes')
    )
      return undefined;
    if (who === 'platform_admin' || who === 'outsider') return 'tenant_mismatch';
    const role = who === 'a key without scopes' ? 'tenant_admin' : who;
    return access.roles!.includes(role) ? undefined : 'insufficient_role';
  })();
  if (asked === 'a narrow key' && opensToNarrow(name)) return refusal;
  return (
    refusal ??
    (who === 'a key without scopes'
      ? 'insufficient_scope'
      : who === asked && wantsRecentSignIn(access.recent, leadsTo)
        ? 'auth_reauth_required'
        : undefined)
  );
}

const refusals = [
  'auth_token_missing',
  'insufficient_role',
  'insufficient_scope',
  'tenant_mismatch',
  'auth_reauth_required',
  'auth_stronger_sign_in_required',
];
const names = Object.keys(contracts) as ActionName[];
/** Nobody, and some of the others by turns. */
const callersInTurn = (name: ActionName): readonly (readonly [string, Caller | undefined])[] => {
  const [anonymous, ...others] = Object.entries(callers);
  return [anonymous!, ...inTurn(others, names.indexOf(name), 2)];
};
const typeOf = (call: Promise<unknown>): Promise<string | undefined> =>
  call.then(
    () => undefined,
    (error: { type?: string }) => error.type ?? 'untyped',
  );
/** Answered on the node that is asked, whoever hosts it, as are the caches of each node. */
const isEverywhere = (name: ActionName): boolean => name.startsWith('cluster.');

describe('every action, called from another node', () => {
  test.each(names.filter((name) => !isEverywhere(name)))('%s', async (name) => {
    for (const [who, caller] of callersInTurn(name)) {
      const before = reached.called;
      const type = await typeOf(
        asker.call(name, { tenant_id: own }, { meta: caller ? { caller } : {}, timeout: 30_000 }),
      );
      const code = expected(name, who);
      if (code === undefined) expect(refusals).not.toContain(type);
      else
        expect({ who, type, reached: reached.called - before }).toEqual({
          who,
          type: code,
          reached: 0,
        });
    }
  });
});

describe('every action, called by whoever does not hold SECRET_KEY', () => {
  const system = { ...callers.service!, type: 'system' as const };
  const everything = { caller: system, load: true, credential: 'tenant_admin' };
  const request = (action: string): Buffer =>
    Buffer.from(
      JSON.stringify({
        ver: '5',
        sender: 'asker',
        id: randomUUID(),
        action,
        params: { tenant_id: own },
        meta: everything,
      }),
    );
  const settled = async (): Promise<void> => {
    await outsider.flush();
    await delay(300);
  };

  test('in clear, whoever it says it is', async () => {
    const before = reached.called;
    for (const name of names)
      for (const node of ['owner', 'asker'])
        outsider.publish(`MOL-strata-nodes.REQ.${node}`, request(name));
    await settled();
    expect(reached.called).toBe(before);
  });

  test('sealed under another key, to the very process that owns it', async () => {
    await asker.call('audit.append', {}).catch(() => undefined);
    await settled();
    const before = reached.called;
    const genuine = received.findLast(({ subject }) => subject === 'MOL-strata-nodes.REQ.owner')!;
    const envelope = envelopeOf(Buffer.from(genuine.data))!;
    const other = createKeyRing(
      { secret_key: 'y'.repeat(32), secret_key_previous: null },
      { label: 'packets between nodes', idLength: keyIdLength, neededTo: 'forge' },
    ).current;
    const senders = [envelope.sender, 'f'.repeat(envelope.sender.length)];
    names.forEach((name, index) => {
      for (const sender of senders) {
        const forged = { ...envelope, sender, number: envelope.number + 1 + index };
        const message = { nodeId: 'asker', message: request(name) };
        const packet = seal(forged, 'REQ', message, keyOfProcess(other, sender));
        outsider.publish('MOL-strata-nodes.REQ.owner', packet);
      }
    });
    await settled();
    expect(reached.called).toBe(before);
    // The genuine sender is still trusted.
    await asker.call('audit.append', {}, { meta: { caller: system } }).catch(() => undefined);
    expect(await typeOf(asker.call('audit.append', {}))).toBe('auth_token_missing');
  });

  test('by sending again what a node was sent', async () => {
    const callsBefore = reached.called;
    const first = received.length;
    for (const name of names)
      await typeOf(asker.call(name, { tenant_id: own }, { meta: { caller: system } }));
    expect(reached.called).toBeGreaterThan(callsBefore);
    await settled();
    const before = reached.called;
    for (const { subject, data } of received.slice(first)) outsider.publish(subject, data);
    await settled();
    expect(reached.called).toBe(before);
  });
});

describe('every action, called by a neighbour', () => {
  test.each(names)('%s', async (name) => {
    const { access, response } = contracts[name] as (typeof contractTable)[ActionName];
    const isOffered =
      !['public', 'internal'].includes(access.level) &&
      !['stream', 'page', 'token'].includes(response);
    // The neighbour's registry has what is offered; the door decides for itself.
    const ask = (meta: object): Promise<string | undefined> =>
      new Promise((resolve) => {
        const id = randomUUID();
        const inbox = outsider.subscribe('MOL-strata.RES.rawneighbour', {
          callback(_error, { data }) {
            const answer = JSON.parse(Buffer.from(data).toString());
            if (answer.id !== id) return;
            inbox.unsubscribe();
            expect(answer.meta).toEqual({});
            resolve(answer.success ? undefined : answer.error.type);
          },
        });
        const packet = { ver: '5', sender: 'rawneighbour', id, action: name, meta };
        const params = { tenant_id: own };
        outsider.publish('MOL-strata.REQ.asker', JSON.stringify({ ...packet, params }));
      });

    for (const [who, caller] of callersInTurn(name)) {
      const before = reached.called;
      const credential = encodeURIComponent(who);
      const meta = caller?.type ? { credential } : {};
      const claimed = { ...meta, caller: callers.platform_admin, load: true };
      const type = await ask(claimed);
      const offeredCode = caller?.type
        ? isOffered
          ? expected(name, who)
          : 'not_found'
        : 'auth_token_missing';
      if (offeredCode === undefined) expect(refusals).not.toContain(type);
      else
        expect({ who, type, reached: reached.called - before }).toEqual({
          who,
          type: offeredCode,
          reached: 0,
        });
    }
    expect(await ask({ credential: 'unknown' })).toBe('auth_token_invalid');
    const strange = { toString: 1 };
    expect(await ask({ credential: strange })).toBe('auth_token_invalid');
  });

  test('through its own broker', async () => {
    const called = (credential: string): Promise<string | undefined> =>
      typeOf(
        neighbour.call(
          'tenant-config.risk.put',
          { tenant_id: own, body: {} },
          { meta: { credential } },
        ),
      );
    const before = reached.called;
    expect(await called('viewer')).toBe('insufficient_role');
    expect(reached.called).toBe(before);
    expect(await called('tenant_admin')).toBe('not_found');
    expect(reached.called).toBe(before + 1);
  });

  test('is offered nothing that is internal, and learns nothing of the machine', () => {
    const actions = neighbour.registry.getActionList({ skipInternal: true });
    expect(actions.length).toBeGreaterThan(50);
    for (const { name } of actions)
      expect(['public', 'internal']).not.toContain(contracts[name as ActionName].access.level);
    const node = neighbour.registry.getNodeList({}).find(({ id }) => id === 'asker')!;
    expect(node).toMatchObject({ ipList: [], hostname: '', metadata: {} });
  });
});

describe('every action, called over the bus', () => {
  test.each(Object.keys(contracts) as ActionName[])('%s', async (name) => {
    for (const [who, caller] of Object.entries(callers)) {
      const before = reached.called;
      const error = await broker
        .call(name, { tenant_id: own }, { meta: caller ? { caller } : {} })
        .then(
          () => undefined,
          (failure: { type?: string }) => failure,
        );
      const code = expected(name, who);
      if (code === undefined) expect(refusals).not.toContain(error?.type);
      else
        expect({ who, type: error?.type, reached: reached.called - before }).toEqual({
          who,
          type: code,
          reached: 0,
        });
    }
  });

  test.each(Object.keys(contracts) as ActionName[])(
    '%s, by service accounts of each role with each scope alone',
    async (name) => {
      const { access, keyScope, leadsTo } = contractTable[name];
      if (access.level === 'public') return;
      const opening = (scope: KeyScope): boolean =>
        keyScope === scope ||
        (typeof leadsTo === 'object' && scopeOfPower(leadsTo.power) === scope);
      const closed = inTurn(keyScopes, names.indexOf(name), 3);
      for (const role of tenantRoles) {
        for (const scope of keyScopes) {
          if (!opening(scope) && !closed.includes(scope)) continue;
          const caller: Caller = {
            ...user([role], own, ['platform_admin']),
            type: 'service_account',
            scopes: [scope],
          };
          const before = reached.called;
          const error = await broker.call(name, { tenant_id: own }, { meta: { caller } }).then(
            () => undefined,
            (failure: { type?: string }) => failure,
          );
          const isOpened = keyScope !== null && opening(scope);
          const refusal = expected(name, `${role}${justSignedIn}`);
          const code = refusal ?? (isOpened ? undefined : 'insufficient_scope');
          if (code === undefined) expect(refusals).not.toContain(error?.type);
          else
            expect({ role, scope, type: error?.type, reached: reached.called - before }).toEqual({
              role,
              scope,
              type: code,
              reached: 0,
            });
        }
      }
    },
  );

  test('what changes a node, or tells of its calls, is for services only', async () => {
    const internal = (Object.keys(contracts) as ActionName[]).filter(
      (name) => name.startsWith('cluster.node.') && contracts[name].access.level === 'internal',
    );
    expect(internal.sort()).toEqual([
      'cluster.node.clear',
      'cluster.node.drop',
      'cluster.node.reload-environment',
      'cluster.node.takes',
      'cluster.node.unknown-calls',
    ]);
    for (const name of internal) {
      await expect(
        broker.call(name, {}, { meta: { caller: callers.platform_admin } }),
      ).rejects.toMatchObject({ type: 'insufficient_role' });
      await expect(broker.call(name, {})).rejects.toMatchObject({ type: 'auth_token_missing' });
    }
  });
});

test('an action without a contract does not start', () => {
  expect(() =>
    broker.createService({ name: 'rogue', actions: { act: { handler: () => 1 } } }),
  ).toThrow('rogue.act has no contract');
});

test("a callee that rewrites meta.caller raises no one's rights", async () => {
  const outer = { caller: callers.viewer! };
  await broker
    .call('tenant-config.risk.get', { tenant_id: own }, { meta: outer })
    .catch(() => undefined);
  expect(outer.caller).toBe(callers.viewer);
  await expect(
    broker.call(
      'global-config.entries.put',
      { key: 'k', body: { config_value: 1 } },
      { meta: outer },
    ),
  ).rejects.toMatchObject({ type: 'insufficient_role' });
});

test('params are copies and cached values are frozen, since local calls pass references', async () => {
  const params = { tenant_id: own, body: { global_settings: { max_cost_impact_auto: 1 } } };
  await broker
    .call('tenant-config.risk.put', params, { meta: { caller: callers.tenant_admin } })
    .catch(() => undefined);
  expect(reached.params).toEqual(params);
  expect((reached.params as typeof params).body).not.toBe(params.body);

  const cache = new CoherentCache({
    ttlMs: () => 1000,
    maxEntries: 10,
    maxBytes: 10_000,
    floorTtlMs: 1000,
    hasLease: () => true,
    isOutage: () => false,
  });
  const value = { document: { nested: { limit: 1 } } };
  await cache.read('frozen', ['s'], async () => ({ value, asOf: { s: 1 } }));
  expect(() => {
    value.document.nested.limit = 2;
  }).toThrow(TypeError);
});
