/** G4 on the bus: every action × caller, and what a callee could do to its caller's rights. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import type { Context, ServiceBroker } from 'moleculer';
import { pieces } from '../../services/pieces.ts';
import type { Caller } from '../../shared/access.ts';
import { createNode } from '../../shared/cluster/broker.ts';
import { liveSettings } from '../../shared/live-settings.ts';
import { CoherentCache } from '../../shared/cluster/coherence/cache.ts';
import { keyScopes, tenantRoles, type RecentFor } from '../../shared/contracts/contract.ts';
import { contracts, contractTable, type ActionName } from '../../shared/contracts/index.ts';
import { loadSettings } from '../../shared/settings.ts';

const own = randomUUID();
const other = randomUUID();
const settings = liveSettings(
  loadSettings({ LOG_LEVEL: 'silent', SECRET_KEY: 'x'.repeat(32) }, { pieces: [] }),
  {},
  [],
);
const { broker } = createNode({ settings });
const reached = { called: 0, params: undefined as unknown };

/** Stand-ins for all services: they note that they were reached. */
function standIn(service: string): Parameters<ServiceBroker['createService']>[0] {
  const names = Object.keys(contracts).filter((name) => name.startsWith(`${service}.`));
  return {
    name: service,
    actions: Object.fromEntries(
      names.map((name) => [
        name.slice(service.length + 1),
        {
          handler(ctx: Context) {
            reached.called += 1;
            reached.params = ctx.params;
            (ctx.meta as { caller?: Caller }).caller = {
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
  const services = pieces.map(({ name }) => name);
  for (const service of [...services, 'feed']) broker.createService(standIn(service));
  await broker.start();
});
afterAll(() => broker.stop());

const user = (roles: Caller['roles'], tenant: string | null, platform: string[] = []): Caller => ({
  type: 'user',
  id: randomUUID(),
  tenant_id: tenant,
  roles,
  platform_roles: platform,
});
const callers: Readonly<Record<string, Caller | undefined>> = {
  nobody: undefined,
  'an empty caller': {} as Caller,
  tenant_admin: user(['tenant_admin'], own),
  operator: user(['operator'], own),
  viewer: user(['viewer'], own),
  outsider: user(['tenant_admin'], other),
  platform_admin: user([], null, ['platform_admin']),
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

const wantsRecentSignIn = (recent: true | RecentFor | undefined, who: string): boolean =>
  recent === true || (recent?.includes({ tenant_id: own }, callers[who]!) ?? false);

function expected(name: ActionName, who: string): string | undefined {
  const { access } = contracts[name] as {
    access: {
      level: string;
      roles?: readonly string[];
      services?: boolean;
      recent?: true | RecentFor;
      withAnySignIn?: true;
    };
  };
  if (access.level === 'public') return undefined;
  if (who === 'nobody' || who === 'an empty caller') return 'auth_token_missing';
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
  return (
    refusal ??
    (who === 'a key without scopes'
      ? 'insufficient_scope'
      : wantsRecentSignIn(access.recent, who)
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
      const { access, keyScope } = contractTable[name];
      if (access.level === 'public') return;
      for (const role of tenantRoles) {
        for (const scope of keyScopes) {
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
          const refusal =
            expected(name, role) ?? (keyScope === scope ? undefined : 'insufficient_scope');
          // Only a sign-in is recent.
          const code =
            refusal === 'auth_reauth_required' && keyScope !== scope
              ? 'insufficient_scope'
              : refusal;
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

  test('what changes the memory or the settings of a node is for services only', async () => {
    const internal = (Object.keys(contracts) as ActionName[]).filter(
      (name) => name.startsWith('cluster.node.') && contracts[name].access.level === 'internal',
    );
    expect(internal.sort()).toEqual([
      'cluster.node.clear',
      'cluster.node.drop',
      'cluster.node.reload-environment',
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

test("a callee that rewrites meta.caller raises nobody's rights", async () => {
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
