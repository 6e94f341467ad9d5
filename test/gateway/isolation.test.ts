/**
 * G4: every route × role × tenant × credential, generated from the contracts. What is expected
 * comes from the few lines of `expected` below, which read only what a contract declares. Of what is
 * refused for the same reason on every route, each route tries a few, by turns, and
 * the soak all of it.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import jwt from 'jsonwebtoken';
import { randomUUID } from 'node:crypto';
import { createDecisionLinks } from '../../services/notifier/rules/decision-links.ts';
import { createAccessTokens, type AccessClaims } from '../../shared/security/access-tokens.ts';
import { restRoutes, type RestRoute } from '../../gateway/http/rest.ts';
import { scopeOfPower } from '../../shared/contracts/consequences.ts';
import { type Access, type Contract } from '../../shared/contracts/contract.ts';
import {
  keyScopes,
  tenantRoles,
  type KeyScope,
  type TenantRole,
} from '../../shared/contracts/roles.ts';
import { contracts } from '../../shared/contracts/index.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  joinTenant,
  memberPassword,
  secretKey,
  signIn,
  startStrata,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';
import { inSoak } from '../support/soak.ts';
import { inTurn } from '../support/turns.ts';

const baseUrl = 'http://strata.test';
const marker = 'MARKER-OF-THE-OTHER-TENANT';
let database: Database;
let strata: Running;
let own: TenantFixture;
let other: TenantFixture;
let callers: Record<string, Client>;
/** The token of a link that was mailed to somebody of the tenant, good for one decision alone. */
let decisionLink: string;

/** API keys with one scope each, of these people. */
const keyOwners = ['tenant_admin', 'platform_admin'] as const;
/** A key of the tenant's administrator with every scope, for one service and one agent. */
let narrowKeys: readonly { readonly isForThese: boolean; readonly client: Client }[];
/**
 * Who administers the other tenant. One of them is invited to administer this one as well, and has
 * not accepted; one does administer it, but came through the other tenant's own provider.
 */
const outsiders: readonly string[] = ['outsider', 'invited', 'guest'];
/** Who has no right in this tenant: none yet, or none any more. */
const isStranger = (role: string): boolean => outsiders.includes(role) || role === 'removed';
/** Credentials of somebody whose account was disabled, and of a service account that was. */
const ended: [what: string, client: Client, code: string][] = [];
interface ScopedKey {
  readonly owner: string;
  /** The role that is expected of it. */
  readonly role: string;
  readonly scope: KeyScope;
  readonly client: Client;
}
let keys: readonly ScopedKey[];

async function keyFrom(owner: Client, path: string, scope: KeyScope): Promise<Client> {
  const made = await owner.post(path, { name: scope, scopes: [scope] });
  if (made.status !== 201) throw new Error(made.text);
  return new Client(strata.url, made.body.api_key);
}

/** One after the other: those of all owners at once would wait for each other. */
async function keysOf(by: Client, path: string, owner: string, role: string) {
  const made: ScopedKey[] = [];
  for (const scope of keyScopes)
    made.push({ owner, role, scope, client: await keyFrom(by, path, scope) });
  return made;
}

const keysOfPerson = (role: (typeof keyOwners)[number]): Promise<ScopedKey[]> =>
  keysOf(callers[role]!, '/auth/api-key', role, role);

async function keysOfServiceAccount(role: TenantRole): Promise<ScopedKey[]> {
  const accounts = `/tenants/${own.id}/service-accounts`;
  const made = await own.admin.post(accounts, { name: role, roles: [role] });
  if (made.status !== 201) throw new Error(made.text);
  const path = `${accounts}/${made.body.id}/api-keys`;
  return keysOf(own.admin, path, `a service account that is ${role}`, role);
}

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({
    DATABASE_URL: database.url,
    BASE_URL: baseUrl,
    // Each refusal is a line of the log else.
    LOG_LEVEL: 'warn',
    // On a busy machine many requests at once wait for each other.
    REQUEST_TIMEOUT_MS: '60000',
  });
  const platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  own = await createTenant(strata.url, platform, 'Own');
  other = await createTenant(strata.url, platform, `Other ${marker}`);
  const { admin, id } = other;
  await admin.put(`/tenants/${id}/config/agents/scaler`, { default_region: marker });
  await admin.put(`/tenants/${id}/services/checkout`, {
    service_type: 'cloud_run',
    service_name: marker,
  });
  await admin.put(`/tenants/${id}/projects/shop/config`, { name: marker });
  await admin.put(`/tenants/${id}/config/notifications`, {
    email: { approval_recipients: [`${marker}@example.com`] },
  });
  await admin.put(`/tenants/${id}/config/risk`, {}, { 'x-change-reason': marker });
  // The agent above is outside of it, and so it is in the list of violations.
  await admin.put(`/tenants/${id}/config/bounds`, {
    default_region: { const: 'elsewhere', mode: 'warn', reason: marker },
  });
  callers = {
    tenant_admin: own.admin,
    operator: own.operator,
    viewer: own.viewer,
    platform_admin: platform,
    outsider: other.admin,
  };
  for (const role of ['reviewer', 'reverter'] as const) {
    const member = { email: `${role}@isolation.example`, roles: [role] };
    callers[role] = (await addMember(own.admin, own.id, member)).client;
  }
  const approval = { action: 'scale', risk_level: 'low', title: 'Scale up' };
  const { body: asksFor } = await own.operator.post(`/tenants/${own.id}/approvals`, approval);
  decisionLink = createDecisionLinks({
    webhook_secret: null,
    secret_key: secretKey,
    secret_key_previous: null,
  }).issue({
    approvalId: asksFor.id,
    tenantId: own.id,
    decision: 'approve',
    recipient: own.emails.tenant_admin!,
    expiresAt: new Date(Date.now() + 60_000),
  });
  const shown = await new Client(strata.url).get(`/approvals/decision?token=${decisionLink}`);
  expect(shown.status).toBe(200);
  const administrator = { roles: ['tenant_admin'] };
  const invited = { email: 'invited@isolation.example', ...administrator };
  callers.invited = (await addMember(other.admin, other.id, invited)).client;
  const asked = await own.admin.post(`/tenants/${own.id}/users`, invited);
  expect([asked.status, asked.body.status]).toEqual([201, 'invited']);
  const guest = { email: 'guest@isolation.example', ...administrator };
  const atHome = await addMember(own.admin, own.id, guest);
  await joinTenant(other.admin, other.id, atHome.client, guest);
  callers.guest = await signIn(strata.url, guest.email, memberPassword, other.id);
  await database.query(
    `UPDATE auth.sessions SET confined_to = tenant_id WHERE user_id = $1 AND tenant_id = $2`,
    [atHome.user_id, other.id],
  );
  const disabled = { email: 'disabled@isolation.example', ...administrator };
  const { client: person, user_id: personId } = await addMember(own.admin, own.id, disabled);
  const robots = `/tenants/${own.id}/service-accounts`;
  const leaving = { email: 'removed@isolation.example', ...administrator };
  const removed = await addMember(own.admin, own.id, leaving);
  const { body: robot } = await own.admin.post(robots, { name: 'off', ...administrator });
  ended.push(
    [
      'a key of a member who was removed',
      await keyFrom(removed.client, '/auth/api-key', 'config:read'),
      'auth_api_key_invalid',
    ],
    ['a session of a disabled person', person, 'auth_session_revoked'],
    [
      'a key of a disabled person',
      await keyFrom(person, '/auth/api-key', 'config:read'),
      'auth_api_key_invalid',
    ],
    [
      'a key of a disabled service account',
      await keyFrom(own.admin, `${robots}/${robot.id}/api-keys`, 'config:read'),
      'auth_api_key_invalid',
    ],
  );
  await platform.patch(`/auth/users/${personId}`, { status: 'disabled' });
  await own.admin.patch(`${robots}/${robot.id}`, { status: 'disabled' });
  callers.removed = removed.client;
  const ofPeople = await Promise.all(keyOwners.map(keysOfPerson));
  // Over the bus there is one of each role.
  const roles = inSoak ? tenantRoles : (['operator', 'viewer'] as const);
  const ofAccounts = await Promise.all(roles.map(keysOfServiceAccount));
  keys = [...ofPeople, ...ofAccounts].flat();
  narrowKeys = await Promise.all(
    [true, false].map(async (isForThese) => {
      const narrowed_to = isForThese
        ? { service_ids: [names.service_id], agent_types: [names.agent_type] }
        : { service_ids: ['elsewhere'], agent_types: ['else'] };
      const body = { name: 'narrow', scopes: keyScopes, narrowed_to };
      const made = await own.admin.post('/auth/api-key', body);
      expect([made.status, made.body.narrowed_to]).toEqual([201, narrowed_to]);
      return { isForThese, client: new Client(strata.url, made.body.api_key) };
    }),
  );
  const gone = await own.admin.delete(`/tenants/${own.id}/users/${removed.user_id}`);
  expect(gone.status).toBe(204);
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

const ofAnyCaller = restRoutes.filter(({ contract }) => contract.access.level !== 'public');
const placeOf = (route: RestRoute): number => restRoutes.indexOf(route);

type Target = 'own' | 'other' | 'absent';
const absent = randomUUID();
const tenantOf = (target: Target): string => ({ own: own.id, other: other.id, absent })[target];

/**
 * The code that refuses, or undefined where the call is allowed. `inPath`: the route names a
 * tenant.
 */
function expected(
  access: Access,
  role: string,
  target: Target,
  inPath: boolean,
): string | undefined {
  const isOutsider = outsiders.includes(role);
  const isIn = !inPath || target === (isOutsider ? 'other' : 'own');
  const mine = isIn && role !== 'removed';
  const roleName = isOutsider ? 'tenant_admin' : role;
  switch (access.level) {
    case 'public':
    case 'authenticated':
      return undefined;
    case 'platform_admin':
      return role === 'platform_admin' ? undefined : 'insufficient_role';
    case 'tenant':
      if (role === 'platform_admin' || !mine) return 'tenant_mismatch';
      return access.roles.some((each) => each === roleName) ? undefined : 'insufficient_role';
    case 'tenant_or_platform':
      if (role === 'platform_admin') return undefined;
      if (!mine) return 'tenant_mismatch';
      return access.roles.some((each) => each === roleName) ? undefined : 'insufficient_role';
    case 'internal':
      throw new Error('an internal action has a route');
  }
}

/** Of a call without power, since no harmless body takes any. */
const opens = (scope: KeyScope, { keyScope, leadsTo }: Contract): boolean =>
  scope === keyScope ||
  (typeof leadsTo === 'object' && keyScope !== null && scopeOfPower(leadsTo.power) === scope);

const names: Readonly<Record<string, string>> = {
  agent_type: 'scaler',
  service_id: 'checkout',
  project_id: 'shop',
  key: 'some-key',
  service_type: 'cloud_run',
  configuration_name: 'default',
  revision: '1',
};
const at = (path: string, target: Target): string =>
  path.replaceAll(/\{([a-z_]+)\}/g, (_all, name: string) =>
    name === 'tenant_id' ? tenantOf(target) : (names[name] ?? randomUUID()),
  );

/** What it is, the token, and the code that refuses it. */
type Bad = readonly [string, string | undefined, string];

// Refused by the contract once access is granted, so that an allowed call changes nothing.
const harmless = (method: string) => (method === 'GET' ? {} : { body: { not_a_field: true } });

describe('every route', () => {
  test.each(restRoutes)('$name is for whom it says, in whichever tenant', async (route) => {
    const { contract, rest } = route;
    const inPath = rest.pathParams.includes('tenant_id');
    const place = placeOf(route);
    const roles = Object.keys(callers);
    const known = roles.filter((role) => !isStranger(role));
    const strangers = inTurn(roles.filter(isStranger), place, 2);
    const inOther = ['tenant_admin', 'platform_admin', ...strangers, ...inTurn(known, place, 1)];
    const ofAbsent = ['platform_admin', ...inTurn(roles, place, 1)];
    const askAs = async (role: string): Promise<void> => {
      const client = callers[role]!;
      const elsewhere: Target[] = [
        ...(inOther.includes(role) ? ['other' as const] : []),
        ...(ofAbsent.includes(role) ? ['absent' as const] : []),
      ];
      for (const target of ['own' as const, ...(inPath ? elsewhere : [])]) {
        const answer = await client.send(rest.method, at(rest.path, target), harmless(rest.method));
        const code = expected(contract.access, role, target, inPath);
        const about = `${role} ${rest.method} ${rest.path} of ${target}: ${answer.status} ${answer.text.slice(0, 300)}`;
        if (code === undefined) {
          // Login and refresh answer 422 to this body; nothing else may refuse who is allowed,
          // and nothing fails.
          if ([401, 403].includes(answer.status)) throw new Error(`refused: ${about}`);
          if (answer.status >= 500) throw new Error(`failed: ${about}`);
        } else if (
          answer.status !== 403 ||
          (answer.body.code ?? answer.body.detail.code) !== code
        ) {
          throw new Error(`expected ${code}: ${about}`);
        }
        if (!outsiders.includes(role) && role !== 'platform_admin')
          expect(answer.text).not.toContain(marker);
      }
    };
    await Promise.all([...known, ...strangers].map(askAs));
  });

  test.each(ofAnyCaller)(
    '$name is open to an API key of its scope alone, in its own tenant',
    async (route) => {
      const { contract, rest } = route;
      const inPath = rest.pathParams.includes('tenant_id');
      const closed = new Set(inTurn(keys, placeOf(route), 3));
      const owners = [...new Set(keys.map(({ owner }) => owner))];
      const open = [...keyOwners, ...inTurn(owners, placeOf(route), 2)];
      const elsewhere = inTurn(open, placeOf(route), 1);
      const tried = keys.filter(
        (key) => (opens(key.scope, contract) && open.includes(key.owner)) || closed.has(key),
      );
      const askWith = async ({ owner, role, scope, client }: ScopedKey): Promise<void> => {
        const isOpen = opens(scope, contract);
        // Elsewhere only one that would be open here says something.
        const isTriedElsewhere = inPath && isOpen && elsewhere.includes(owner);
        for (const target of isTriedElsewhere ? (['own', 'other'] as const) : (['own'] as const)) {
          const { status, text, body } = await client.send(
            rest.method,
            at(rest.path, target),
            harmless(rest.method),
          );
          const refusal =
            expected(contract.access, role, target, inPath) ??
            (isOpen ? undefined : 'insufficient_scope');
          const about = `${owner}'s key with ${scope}, ${target} tenant: ${status} ${text.slice(0, 300)}`;
          if (refusal === undefined) {
            if ([401, 403].includes(status)) throw new Error(`refused: ${about}`);
          } else if (status !== 403 || (body.code ?? body.detail.code) !== refusal) {
            throw new Error(`expected ${refusal}: ${about}`);
          }
          if (role !== 'platform_admin') expect(text).not.toContain(marker);
        }
      };
      await Promise.all(tried.map(askWith));
    },
  );

  test.each(ofAnyCaller)(
    '$name is open to a narrow key for what it is narrowed to alone',
    async ({ contract, rest }) => {
      for (const { isForThese, client } of narrowKeys) {
        const { status, text, body } = await client.send(
          rest.method,
          at(rest.path, 'own'),
          harmless(rest.method),
        );
        const { narrow, keyScope } = contract;
        const isAbout =
          rest.pathParams.includes('service_id') || rest.pathParams.includes('agent_type');
        const isWithin =
          typeof narrow === 'string' || (narrow !== undefined && isAbout && isForThese);
        const inPath = rest.pathParams.includes('tenant_id');
        const refusal =
          expected(contract.access, 'tenant_admin', 'own', inPath) ??
          (keyScope !== null && isWithin ? undefined : 'insufficient_scope');
        const about = `narrow key, ${isForThese}: ${status} ${text.slice(0, 300)}`;
        const code = status === 403 ? (body.code ?? body.detail.code) : undefined;
        // Its handler finds that nothing was named.
        const isChecked = narrow === 'row' && code === 'insufficient_scope';
        if (refusal !== undefined && code !== refusal)
          throw new Error(`expected ${refusal}: ${about}`);
        if (refusal === undefined && [401, 403].includes(status) && !isChecked)
          throw new Error(`refused: ${about}`);
      }
    },
  );

  const none: Bad = ['none', undefined, 'auth_token_missing'];
  let bad: readonly Bad[];
  beforeAll(() => {
    const good = own.admin.token!;
    const { sub, sid, tid, roles } = jwt.decode(good) as AccessClaims;
    const claims: AccessClaims = { sub, sid, tid, roles };
    const { kid } = jwt.decode(good, { complete: true })!.header;
    const issue = (ttl: number, given = claims, key = secretKey, url = baseUrl) =>
      createAccessTokens({
        secret_key: key,
        secret_key_previous: null,
        base_url: url,
        access_token_ttl_seconds: ttl,
      }).issue(given);
    bad = [
      ['garbage', 'garbage', 'auth_token_invalid'],
      ['expired', issue(-10), 'auth_token_expired'],
      [
        'signed by another key',
        issue(900, claims, 'another-key-of-at-least-thirty-two-bytes!!'),
        'auth_token_invalid',
      ],
      [
        'of another issuer',
        issue(900, claims, secretKey, 'http://elsewhere'),
        'auth_token_invalid',
      ],
      [
        'unsigned',
        jwt.sign(claims, '', {
          algorithm: 'none',
          header: { alg: 'none', typ: 'at+jwt', kid: kid! },
        }),
        'auth_token_invalid',
      ],
      ['cut', good.slice(0, -2), 'auth_token_invalid'],
      ['a link to decide an approval', decisionLink, 'auth_token_invalid'],
      ['of no session', issue(900, { ...claims, sid: randomUUID() }), 'auth_session_revoked'],
      ...ended.map(([what, { token }, code]): Bad => [what, token, code]),
    ];
  });

  test.each(ofAnyCaller)('$name takes no bad credential', async (route) => {
    const { rest } = route;
    const askBadly = async ([what, token, code]: Bad): Promise<void> => {
      const answer = await new Client(strata.url, token).send(
        rest.method,
        at(rest.path, 'own'),
        harmless(rest.method),
      );
      if (
        answer.status !== 401 ||
        (answer.body.code ?? answer.body.detail.code) !== code ||
        !answer.headers.has('www-authenticate')
      ) {
        throw new Error(`a credential that is ${what}: ${answer.status} ${answer.text}`);
      }
    };
    await Promise.all([none, ...inTurn(bad, placeOf(route), 1)].map(askBadly));
  });
});

test('other tenants look the same whether or not they exist', async () => {
  for (const { rest } of restRoutes.filter(({ rest: { pathParams } }) =>
    pathParams.includes('tenant_id'),
  )) {
    const [there, nowhere] = await Promise.all(
      (['other', 'absent'] as const).map((target) =>
        own.admin.send(rest.method, at(rest.path, target), harmless(rest.method)),
      ),
    );
    expect([there!.status, there!.body.detail]).toEqual([nowhere!.status, nowhere!.body.detail]);
  }
});

test('queries that could reach across tenants do not', async () => {
  const queries = [
    `/audit/events?limit=200`,
    `/audit/events?limit=200&actor=${other.id}`,
    `/audit/verify`,
    `/configurations/`,
    `/tenants/${own.id}/config/history?limit=200`,
    `/tenants/${own.id}/config/history?resource_id=${other.id}`,
    `/tenants/${own.id}/config/effective?agent_type=scaler&service_id=checkout&explain=true`,
    `/tenants/${own.id}/users`,
    `/tenants/${own.id}/services`,
    `/tenants/${own.id}/projects`,
    `/tenants/${own.id}/config/agents`,
    '/auth/me',
    '/auth/activity?limit=200',
  ];
  for (const query of queries) {
    const answer = await own.admin.get(query);
    expect(answer.status).toBe(200);
    expect(answer.text).not.toContain(marker);
    expect(answer.text).not.toContain(other.id);
  }
  for (const query of [
    `/audit/events?tenant_id=${other.id}`,
    `/audit/verify?tenant_id=${other.id}`,
    `/configurations/?tenant_id=${other.id}`,
  ]) {
    const answer = await own.admin.get(query);
    expect([answer.status, answer.body.detail.code]).toEqual([403, 'tenant_mismatch']);
  }
  const rolled = await own.admin.post(`/tenants/${own.id}/config/rollback`, { revision: 5 });
  expect(rolled.text).not.toContain(marker);
});

test('a change of rights takes effect at the next request', async () => {
  const { body } = await own.admin.get(`/tenants/${own.id}/users`);
  const viewer = body.items.find((member: { email: string }) => member.email === own.emails.viewer);
  const services = `/tenants/${own.id}/services`;
  expect((await own.viewer.get(services)).status).toBe(403);
  await own.admin.patch(`/tenants/${own.id}/users/${viewer.user_id}`, { roles: ['operator'] });
  expect((await own.viewer.get(services)).status).toBe(200);
  await own.admin.delete(`/tenants/${own.id}/users/${viewer.user_id}`);
  expect((await own.viewer.get(services)).body.detail.code).toBe('tenant_mismatch');
  await callers.platform_admin!.patch(`/tenants/${own.id}`, { status: 'disabled' });
  const disabled = await own.admin.get(services);
  expect([disabled.status, disabled.body.detail.code]).toEqual([403, 'auth_tenant_disabled']);
  await callers.platform_admin!.patch(`/tenants/${own.id}`, { status: 'active' });
  expect((await own.admin.get(services)).status).toBe(200);
  await own.admin.post('/auth/logout');
  expect((await own.admin.get(services)).body.detail.code).toBe('auth_session_revoked');
});

test('every contract declares who may call it', () => {
  const levels = [
    'public',
    'authenticated',
    'platform_admin',
    'tenant',
    'tenant_or_platform',
    'internal',
  ];
  for (const [name, contract] of Object.entries(contracts)) {
    if (!levels.includes(contract.access?.level))
      throw new Error(`${name} does not say who may call it`);
    if ('roles' in contract.access) expect(contract.access.roles.length).toBeGreaterThan(0);
  }
});
