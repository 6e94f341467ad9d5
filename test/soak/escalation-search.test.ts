/**
 * What can be made of a right: from each credential, breadth first and three steps deep over the
 * writing actions, with bodies that aim at more. Whatever an answer or a mail hands to the attacker
 * is the credential of the next step. What is reached must be within what docs/security.md says
 * under "What each action can lead to". The first step alone, exactly, is in
 * rules/credential-walk.test.ts.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { documentedPath } from '../../gateway/openapi/document.ts';
import { restRoutes, type RestRoute } from '../../gateway/http/rest.ts';
import { powerOf } from '../../shared/contracts/consequences.ts';
import { isRead } from '../../shared/contracts/contract.ts';
import { keyScopes, type KeyScope } from '../../shared/contracts/roles.ts';
import { exampleOf } from '../../shared/contracts/examples.ts';
import { eventually } from '../support/cluster.ts';
import { startHonestProvider, type HonestProvider } from '../support/identity-providers.ts';
import { startMailServer, type MailServer } from '../support/mail-server.ts';
import { invitationToken, mailsTo } from '../support/mailboxes.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  joinTenant,
  memberPassword,
  signIn,
  startStrata,
  type Answer,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';
import { randomFrom, valueOf, type Random, type Schema } from '../support/values-of-schema.ts';

const steps = 3;
const mostVariants = 8;
/** So many go through the values in turn: each tenant comes with each of the roles. */
const inTurn = 6;
const redirectUri = 'https://app.example.com/signed-in';
const clientSecret = 'given-by-the-provider';
/** RFC 7636, appendix B. */
const verifier = 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk';
const challenge = 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM';

let database: Database;
let mailServer: MailServer;
let strata: Running;
let honest: HonestProvider;
let platform: Client;
let here: TenantFixture;
let there: TenantFixture;
/** Of the tenant `here`; nobody minds what becomes of them. */
let spare: string;
let victims: readonly string[] = [];
/** One for each start, so that what one has made of it is not what another finds. */
const tenants: TenantFixture[] = [];

beforeAll(async () => {
  honest = await startHonestProvider({
    client_id: 'strata',
    client_secret: clientSecret,
    redirect_uris: [redirectUri],
  });
  database = await strataDatabase();
  mailServer = await startMailServer();
  const plenty = '100000';
  strata = await startStrata({
    DATABASE_URL: database.url,
    LOG_LEVEL: 'error',
    SMTP_SERVER: '127.0.0.1',
    SMTP_PORT: String(mailServer.port),
    SMTP_TLS_CA: mailServer.certificate,
    WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
    WEBHOOK_ALLOW_HTTP: 'true',
    RATE_LIMIT_PER_MINUTE: plenty,
    NETWORK_RATE_LIMIT_PER_MINUTE: plenty,
    INVITATIONS_PER_MINUTE_PER_CALLER: plenty,
    INVITATIONS_PER_HOUR_PER_TENANT: plenty,
    INVITED_MEMBERS_PER_TENANT: plenty,
    TENANT_SWITCHES_PER_MINUTE: plenty,
    SESSIONS_PER_PERSON: '10000',
    API_KEYS_PER_PERSON: '10000',
    API_KEYS_PER_MINUTE: plenty,
  });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  there = await createTenant(strata.url, platform, 'There');
  // Before anybody fails to sign in, which slows all down who come from this address.
  for (const index of starts.keys())
    tenants.push(await createTenant(strata.url, platform, `Here ${index}`));
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await Promise.all([honest?.close(), mailServer?.stop()]);
  await database?.drop();
});

async function enter(tenant: TenantFixture): Promise<void> {
  here = tenant;
  const member = { email: `spare@${domainOf(here)}`, roles: ['operator'] };
  spare = (await addMember(here.admin, here.id, member)).user_id;
  victims = ['admin@example.com', ...Object.values(here.emails), ...Object.values(there.emails)];
}

const domainOf = ({ emails }: TenantFixture): string => emails.tenant_admin!.split('@')[1]!;

type Values = Readonly<Record<string, unknown>>;

/** Ids and links that came to the attacker, by the name of the parameter that takes them. */
type Found = Map<string, Set<string>>;
interface Attacker {
  readonly name: string;
  /** What they had before: a viewer's account in `there`. */
  readonly own: { readonly email: string; readonly user_id: string };
  readonly random: Random;
  readonly found: Found;
  readonly invited: string[];
  /** Tokens that were used or probed. */
  readonly known: Set<string>;
  /** What came in this step. */
  fresh: Client[];
  /** Rights that a session had in a tenant that it has left since. */
  readonly passing: Set<string>;
  addresses: number;
}
const keep = ({ found }: Attacker, name: string, id: string): void => {
  found.set(name, (found.get(name) ?? new Set()).add(id));
};
const kept = ({ found }: Attacker, name: string): string[] =>
  [...(found.get(name) ?? [])].slice(-3);
const ownAddress = (attacker: Attacker): string =>
  `${attacker.name}-${(attacker.addresses += 1)}@evil.example`;

// ---------------------------------------------------------------- what is sent

/** Values that aim at more, for parameters and members of bodies of this name. */
const aims: Readonly<Record<string, (attacker: Attacker) => readonly unknown[]>> = {
  tenant_id: () => [here.id, there.id],
  email: (attacker) => [ownAddress(attacker), attacker.own.email],
  roles: () => [['viewer'], ['operator'], ['tenant_admin']],
  default_roles: () => [['tenant_admin']],
  groups: () => [undefined, ['leads']],
  scopes: () => [keyScopes],
  status: () => ['active'],
  sign_in_policy: () => ['any'],
  user_id: (attacker) => [attacker.own.user_id, spare, ...kept(attacker, 'user_id')],
  issuer: () => [honest.issuer],
  client_id: () => ['strata'],
  client_secret: () => [clientSecret],
  domains: () => [['example.com', domainOf(here)].map((domain) => ({ domain, verified: true }))],
  jit_enabled: () => [true],
  redirect_uris: () => [[redirectUri]],
  redirect_uri: () => [redirectUri],
  client_challenge: () => [challenge],
  client_verifier: () => [verifier],
  password: () => [memberPassword],
  approval_recipients: (attacker) => [[attacker.own.email]],
  allow_self: () => [true],
  machines: () => [true],
  decision: () => ['approve'],
  revision: () => [1, 2, 3],
};
const ids = (attacker: Attacker, name: string): readonly unknown[] =>
  Object.hasOwn(aims, name) ? aims[name]!(attacker) : kept(attacker, name);

/** Where what the contract's own example says is no attack. */
const seeds: Readonly<Record<string, Values>> = {
  'tenant-config.notifications.put': {
    email: { approval_recipients: [] },
    approval_policy: { allow_self: true, machines: true },
    approver_groups: { risk_levels: { high: ['leads'] } },
  },
  'notifier.approvals.request': { action: 'scale', risk_level: 'high', title: 'Scale up' },
};
const isObject = (value: unknown): value is Values =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Puts aims in the place of what a body says, at any depth. */
function aimed(value: unknown, attacker: Attacker, choose: (from: readonly unknown[]) => unknown) {
  if (!isObject(value)) return value;
  const members = Object.entries(value).map(([name, member]): [string, unknown] => {
    if (isObject(member)) return [name, aimed(member, attacker, choose)];
    const from = ids(attacker, name);
    return [name, from.length > 0 ? choose(from) : member];
  });
  return Object.fromEntries(members);
}

interface Shot {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
}
const bodyOf = ({ contract }: RestRoute): Schema | undefined =>
  contract.rest?.body ? (contract.params as Schema).properties?.body : undefined;

/** What the contract's schema, its example and the aims make of it. */
function shotsOf(route: RestRoute, attacker: Attacker): Shot[] {
  const schema = bodyOf(route);
  const optional = Object.keys(schema?.properties ?? {}).filter(
    (name) => name in aims && schema?.properties?.[name]?.type !== 'object',
  );
  const shots = new Map<string, Shot>();
  for (let turn = 0; turn < mostVariants; turn += 1) {
    const choose = (from: readonly unknown[]): unknown =>
      from[turn < inTurn ? turn % from.length : Math.floor(attacker.random() * from.length)];
    const path = documentedPath(route.rest.path).replaceAll(/\{(\w+)\}/g, (_all, name: string) => {
      const from = name === 'id' ? kept(attacker, 'provider_id') : ids(attacker, name);
      return String(from.length > 0 ? choose(from) : 'checkout');
    });
    const token = route.name === 'notifier.links.decide' ? kept(attacker, 'link') : [];
    const query = token.length > 0 ? `?token=${String(choose(token))}` : '';
    let body: unknown;
    if (schema) {
      const isGenerated = turn === mostVariants - 1;
      const seed = isGenerated ? valueOf(schema, attacker.random) : exampleOf(schema);
      const base = seeds[route.name] ?? seeds[route.name.replace(/patch$/, 'put')] ?? seed;
      const added = optional.filter(() => turn < inTurn || attacker.random() < 0.7);
      const whole = isObject(base)
        ? { ...Object.fromEntries(added.map((name) => [name, null])), ...base }
        : base;
      body = aimed(whole, attacker, choose);
    }
    const shot = { method: route.rest.method, path: path + query, body };
    shots.set(JSON.stringify(shot), shot);
  }
  return [...shots.values()];
}

// ---------------------------------------------------------------- what comes of it

const anyone = (): Client => new Client(strata.url);

/** Keeps ids, and every credential that is in the answer or that it leads to. */
async function harvest(attacker: Attacker, route: RestRoute, { body }: Answer): Promise<void> {
  if (!isObject(body)) return;
  for (const token of [body.access_token, body.api_key])
    if (typeof token === 'string' && !attacker.known.has(token)) {
      attacker.known.add(token);
      attacker.fresh.push(new Client(strata.url, token));
    }
  const { id, user_id: userId } = body;
  if (route.name === 'tenant-config.members.add' && typeof userId === 'string') {
    keep(attacker, 'user_id', userId);
    if (body.status === 'invited') attacker.invited.push(String(body.email));
  }
  // One with a password of the attacker's is no invitation.
  if (
    route.name === 'tenant-config.tenants.create' &&
    isObject(body.admin) &&
    body.admin.status === 'invited'
  )
    attacker.invited.push(String(body.admin.email));
  if (typeof id !== 'string') return;
  if (route.name.startsWith('tenant-config.service-accounts.')) keep(attacker, 'account_id', id);
  if (route.name === 'notifier.approvals.request') keep(attacker, 'approval_id', id);
  if (route.name === 'auth.sso.providers.create') {
    keep(attacker, 'provider_id', id);
    await enterThrough(attacker, route, id);
  }
}

/** Signs in through a provider that says of whoever comes that they are whom the attacker names. */
async function enterThrough(attacker: Attacker, route: RestRoute, id: string): Promise<void> {
  for (const email of ['admin@example.com', here.emails.tenant_admin!, attacker.own.email]) {
    if (attacker.known.has(as(email))) continue;
    const started = await anyone().post('/auth/login/sso/start', {
      provider_id: id,
      redirect_uri: redirectUri,
      client_challenge: challenge,
    });
    if (started.status === 200) await finishSso(attacker, route, started, email);
  }
}
async function finishSso(
  attacker: Attacker,
  route: RestRoute,
  { body }: Answer,
  email: string,
): Promise<void> {
  const person = { sub: `${attacker.name} as ${email}`, email, email_verified: true };
  const { searchParams } = await honest.authorize(body.authorization_url, person);
  const answer = await anyone().post('/auth/login/sso', {
    code: searchParams.get('code'),
    iss: searchParams.get('iss'),
    state: body.state,
    client_verifier: verifier,
  });
  if (answer.status !== 200) return;
  attacker.known.add(as(email));
  await harvest(attacker, route, answer);
}

/** Until all that is to be sent about an approval has been sent. */
const untilNotified = (id: string): Promise<void> =>
  eventually(async () => {
    const path = `/tenants/${here.id}/notifications/deliveries?state=pending&approval_id=${id}`;
    expect((await here.admin.get(path)).body.items).toEqual([]);
  });

/** Follows what was mailed to addresses of the attacker. */
async function readMails(attacker: Attacker, accept: RestRoute): Promise<void> {
  for (const email of attacker.invited.splice(0)) {
    const token = await invitationToken(email);
    const password = memberPassword;
    const answer = await anyone().post('/auth/invitations/accept', { token, password });
    if (answer.status === 200) await harvest(attacker, accept, answer);
  }
  for (const id of attacker.found.get('approval_id') ?? []) await untilNotified(id);
  for (const text of await mailsTo(attacker.own.email))
    for (const [, token] of text.matchAll(/\/approvals\/decision\?token=([\w.-]+)/g))
      keep(attacker, 'link', token!);
}

// ---------------------------------------------------------------- rights

/** Those of others cannot be taken by taking away, and the attacker keeps their own. */
const writing = restRoutes.filter(
  ({ name, contract }) =>
    !isRead(contract) &&
    contract.leadsTo !== 'removal' &&
    // Guessing is another test's; nobody has an authenticator here.
    !/^auth\.login$|^gateway\.console|webauthn\.login/.test(name),
);
const accept = restRoutes.find(({ name }) => name === 'auth.invitations.accept')!;

/** One route of each kind of access, asked for so that nothing comes of it. */
interface Probe {
  readonly right: string;
  readonly path: string;
  readonly method: string;
  readonly body?: unknown;
}
const refusedBody = {
  'no such member': 1,
  roles: ['tenant_admin'],
  groups: ['leads'],
  sign_in_policy: 'any',
  status: 'active',
};
const isHarmless = ({ rest, contract }: RestRoute): boolean =>
  contract.access.level !== 'public' &&
  !rest.path.endsWith('/watch') &&
  (rest.method === 'GET'
    ? !rest.path.includes('/verify')
    : bodyOf({ rest, contract } as RestRoute)?.type === 'object');
function probesOf(): Probe[] {
  const found = new Map<string, Probe>();
  for (const route of restRoutes.filter(isHarmless)) {
    const { contract, rest } = route;
    const isWrite = rest.method !== 'GET';
    const power = powerOf(contract.leadsTo, { body: refusedBody });
    const { level } = contract.access;
    const roles = 'roles' in contract.access ? contract.access.roles.join('|') : '';
    const kind = `${level} ${roles} ${contract.keyScope ?? 'no key'} ${power ?? ''}`;
    const isOfTenant = rest.path.includes('{tenant_id}');
    for (const [where, { id }] of Object.entries({ here, there })) {
      const right = isOfTenant ? `${where}: ${kind}` : `anywhere: ${kind}`;
      if (found.has(right)) continue;
      const path = documentedPath(rest.path)
        .replace('{tenant_id}', id)
        .replaceAll(/\{\w+_id\}|\{id\}/g, randomUUID())
        .replaceAll(/\{\w+\}/g, '1');
      found.set(right, { right, path, method: rest.method, ...(isWrite && { body: refusedBody }) });
    }
  }
  return [...found.values()];
}

/** What the credential may call, and whom of others it is. */
async function rightsOf(client: Client): Promise<Set<string>> {
  const answers = await Promise.all(
    probesOf().map(async ({ right, method, path, body }) => {
      const { status } = await client.send(method, path, { body });
      return status === 401 || status === 403 ? [] : [right];
    }),
  );
  const { body } = await client.get('/auth/me');
  const email: unknown = body?.user?.email;
  return new Set([...answers.flat(), ...victims.filter((each) => each === email).map(as)]);
}
const as = (email: string): string => `is ${email}`;

const approvesOwn = 'approves what it asked for';
/** Who may invite people may decide what these ask for; that they are others, nobody can tell. */
const isOfAnother = ({ found }: Attacker, asker: string): boolean =>
  found.get('user_id')?.has(asker) ?? false;
const explored = new Set<string>();

/** Everything that the attacker had in hand within three steps. */
async function search(attacker: Attacker, start: Client): Promise<Set<string>> {
  const reached = await rightsOf(start);
  let level = [start];
  explored.add([...reached].toSorted().join());
  const hands = [start];
  for (let step = 0; step < steps && level.length > 0; step += 1) {
    const before = JSON.stringify([...attacker.found].map(([name, found]) => [name, found.size]));
    for (const client of level) await tryEverything(attacker, client);
    await readMails(attacker, accept);
    const next: Client[] = [];
    for (const client of attacker.fresh.splice(0)) {
      const rights = await rightsOf(client);
      for (const right of rights) reached.add(right);
      const kind = [...rights].toSorted().join();
      if (!explored.has(kind)) next.push(client);
      explored.add(kind);
    }
    for (const right of attacker.passing) reached.add(right);
    hands.push(...next);
    const after = JSON.stringify([...attacker.found].map(([name, found]) => [name, found.size]));
    // What was found may be what an earlier credential lacked.
    level = after === before ? next : [...hands];
  }
  for (const id of attacker.found.get('approval_id') ?? []) {
    const { body } = await here.admin.get(`/tenants/${here.id}/approvals/${id}`);
    if (body.state === 'approved' && !isOfAnother(attacker, body.requested_by.id))
      reached.add(approvesOwn);
  }
  return reached;
}

/** A refusal of the right itself is the same whatever else is in the body. */
const isOfRight = (route: RestRoute, { status, body }: Answer): boolean =>
  typeof route.contract.leadsTo === 'string' &&
  (status === 401 || ['insufficient_scope', 'insufficient_role'].includes(body?.detail?.code));

async function tryEverything(attacker: Attacker, client: Client): Promise<void> {
  const isPublic = ({ contract }: RestRoute): boolean => contract.access.level === 'public';
  await Promise.all(
    writing.map(async (route) => {
      for (const { method, path, body } of shotsOf(route, attacker)) {
        const sender = isPublic(route) ? anyone() : client;
        // A node that is busy with the others' writes asks to try again.
        const answer = await eventually(async () => {
          const answered = await sender.send(method, path, { body });
          if (answered.status >= 500) throw new Error(`${route.name}: ${answered.text}`);
          return answered;
        });
        if (answer.status < 300) await harvest(attacker, route, answer);
        else if (isOfRight(route, answer)) return;
        if (answer.status === 200 && route.name === 'auth.switch-tenant')
          for (const right of await rightsOf(new Client(strata.url, answer.body.access_token)))
            attacker.passing.add(right);
        if (answer.status === 200 && route.name === 'auth.sso.link')
          await finishSso(attacker, route, answer, attacker.own.email);
      }
    }),
  );
}

// ---------------------------------------------------------------- the table

/** Who somebody becomes by what an action leads to, beside what their credential is. */
type Gift = 'viewer' | 'operator' | 'tenant_admin' | 'everything';
const giftOfTenant: Partial<Record<KeyScope, Gift>> = {
  // A viewer decides nothing and changes nothing.
  'members:write': 'viewer',
  'identity:manage': 'operator',
};
const giftOfPlatform: Partial<Record<KeyScope, Gift>> = { 'identity:manage': 'everything' };

interface Start {
  readonly what: string;
  readonly credential: () => Promise<Client>;
  readonly gift?: Gift;
}
let numbered = 0;
const keyOf = async (owner: Client, scopes: readonly KeyScope[]): Promise<Client> => {
  const made = await owner.post('/auth/api-key', { name: 'a key', scopes });
  if (made.status !== 201) throw new Error(made.text);
  return new Client(strata.url, made.body.api_key);
};
const someone = async (tenant: TenantFixture, role: string): Promise<Client> => {
  const email = `${role}-${(numbered += 1)}@start.example`;
  return (await addMember(tenant.admin, tenant.id, { email, roles: [role] })).client;
};
/** A session that was signed in eleven minutes ago, as on a computer that is left open. */
async function old(email: string, password: string): Promise<Client> {
  const client = await signIn(strata.url, email, password);
  const [, claims = ''] = client.token!.split('.');
  const { sid } = JSON.parse(Buffer.from(claims, 'base64url').toString()) as { sid: string };
  await database.query(
    "UPDATE auth.sessions SET authenticated_at = now() - interval '11 minutes' WHERE id = $1",
    [sid],
  );
  return client;
}
async function guest(): Promise<Client> {
  const client = await someone(there, 'tenant_admin');
  await joinTenant(here.admin, here.id, client, {
    email: (await client.get('/auth/me')).body.user.email,
    roles: ['viewer'],
  });
  return client;
}

/** Of tenant_admins' keys: with these, and the right to ask, one might decide what one asks. */
const besidesAsking = ['config:write', 'approvals:configure', 'identity:manage'] as const;

/** Last: a change_policy of the platform holds for the tenants of all starts. */
const ofThePlatform: readonly KeyScope[] = ['identity:manage', 'approvals:configure'];

const starts: readonly Start[] = [
  ...besidesAsking.map((scope): Start => {
    const gift = giftOfTenant[scope];
    return {
      what: `${scope} and approvals:write of a tenant_admin`,
      credential: () => keyOf(here.admin, [scope, 'approvals:write']),
      ...(gift && { gift }),
    };
  }),
  { what: 'a viewer', credential: () => someone(here, 'viewer'), gift: 'viewer' },
  { what: 'an operator', credential: () => someone(here, 'operator'), gift: 'operator' },
  { what: 'a tenant_admin', credential: () => someone(here, 'tenant_admin'), gift: 'tenant_admin' },
  {
    what: 'a tenant_admin who signed in long ago',
    credential: () => old(here.emails.tenant_admin!, memberPassword),
    gift: 'viewer',
  },
  { what: 'a guest who administers another tenant', credential: guest, gift: 'viewer' },
  {
    what: 'a platform_admin who signed in long ago',
    credential: () => old('admin@example.com', adminPassword),
  },
  ...[...keyScopes.filter((scope) => !ofThePlatform.includes(scope)), ...ofThePlatform].flatMap(
    (scope): Start[] => {
      const ofTenant = giftOfTenant[scope];
      const ofPlatform = giftOfPlatform[scope];
      return [
        {
          what: `${scope} of a tenant_admin`,
          credential: () => keyOf(here.admin, [scope]),
          ...(ofTenant && { gift: ofTenant }),
        },
        {
          what: `${scope} of a platform_admin`,
          credential: () => keyOf(platform, [scope]),
          ...(ofPlatform && { gift: ofPlatform }),
        },
      ];
    },
  ),
];

/** An attacker has besides a viewer's account in a tenant of their own. */
async function attackerNamed(name: string): Promise<Attacker> {
  const email = `${name}@evil.example`;
  const { user_id: userId } = await addMember(there.admin, there.id, { email, roles: ['viewer'] });
  return {
    name,
    own: { email, user_id: userId },
    random: randomFrom(27),
    found: new Map(),
    invited: [],
    known: new Set(),
    fresh: [],
    passing: new Set(),
    addresses: 0,
  };
}

describe('three steps from the credential', () => {
  const given = new Map<Gift, Set<string>>();
  let ofOwn: Set<string>;
  beforeAll(async () => {
    here = tenants[0]!;
    ofOwn = await rightsOf(there.viewer);
    given.set('viewer', await rightsOf(here.viewer));
    given.set('operator', await rightsOf(here.operator));
    given.set('tenant_admin', await rightsOf(here.admin));
  });

  test.each(starts)('$what lead to nothing that the table does not give', async (start) => {
    const index = starts.indexOf(start);
    await enter(tenants[index]!);
    const client = await start.credential();
    const itself = await rightsOf(client);
    const attacker = await attackerNamed(`mallory-${index}`);
    const reached = await search(attacker, client);
    if (start.gift === 'everything') {
      // That the search finds what there is.
      expect([...reached]).toEqual(expect.arrayContaining([as(here.emails.tenant_admin!)]));
      return;
    }
    const gift = start.gift === undefined ? new Set<string>() : given.get(start.gift)!;
    const more = [...reached].filter(
      (right) => !itself.has(right) && !gift.has(right) && !ofOwn.has(right),
    );
    expect(more).toEqual([]);
    // That the search finds what there is.
    const missed = [...gift].filter((right) => !reached.has(right));
    expect(missed).toEqual([]);
  });
});
