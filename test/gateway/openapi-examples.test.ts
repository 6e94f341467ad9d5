/**
 * The examples of the OpenAPI document, sent to a Strata as they are: each is accepted, and
 * answered as the document says, in status, body and headers. Only what Strata gives out itself,
 * such as ids, is put in the place of an example's.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { documentedPath } from '../../gateway/openapi/document.ts';
import { restRoutes, type RestRoute } from '../../gateway/http/rest.ts';
import { eventually } from '../support/cluster.ts';
import { invitationToken } from '../support/mailboxes.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  createTenantWith,
  signIn,
  startStrata,
  type Answer,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

interface Shown {
  readonly name: string;
  readonly in: string;
  readonly example?: unknown;
  readonly $ref?: string;
}
interface Operation {
  readonly parameters: readonly Shown[];
  readonly requestBody?: { readonly content: Record<string, { readonly example: unknown }> };
  readonly responses: Record<string, Response>;
}
interface Response {
  readonly $ref?: string;
  readonly headers?: Record<string, unknown>;
  readonly content?: Record<string, { readonly schema: object }>;
}
interface Document {
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: {
    readonly parameters: Record<string, Shown>;
    readonly responses: Record<string, Response>;
  };
}

let database: Database;
let strata: Running;
let document: Document;
let platform: Client;
let tenant: TenantFixture;
/** The administrator who the examples are about. */
let ada: Client;
/** Another administrator of the platform. */
let root: Client;
const ajv = new Ajv2020({ strict: false, allErrors: true });
addFormats.default(ajv);
ajv.addFormat('iana-time-zone', true);

const password = 'correct horse battery staple';
const anonymous = (): Client => new Client(strata.url);
const again = (): Promise<Client> => signIn(strata.url, 'ada@example.com', password);

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({
    DATABASE_URL: database.url,
    RATE_LIMIT_PER_MINUTE: '100000',
    REQUEST_TIMEOUT_MS: '60000',
    PLATFORM_ADMIN_EMAILS: 'admin@example.com,root@example.com',
  });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Acme');
  const added = { email: 'ada@example.com', roles: ['tenant_admin'], password };
  ({ client: ada } = await addMember(tenant.admin, tenant.id, added));
  const other = { email: 'root@example.com', roles: ['viewer'], password };
  ({ client: root } = await addMember(tenant.admin, tenant.id, other));
  document = (await anonymous().get('/openapi.json')).body;
  ajv.addSchema({ components: document.components }, 'document');
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

type Values = Record<string, unknown>;
interface Given {
  /** For parameters and members of the body, by name: what Strata gave out. */
  readonly values?: Values;
  readonly by?: Client;
  readonly headers?: Record<string, string>;
}

const idOf = async (answer: Promise<Answer>): Promise<string> => {
  const { body } = await answer;
  return body.id ?? body.user_id;
};
const inTenant = (path: string): string => `/tenants/${tenant.id}${path}`;
const exampleAt = (path: string, method: string): unknown =>
  document.paths[path]![method]!.requestBody!.content['application/json']!.example;
const exampleOf = (path: string): unknown => exampleAt(path, 'post');
/** The audit follows a document by its events. */
async function hasDestination(client: Client, states: string): Promise<object> {
  await eventually(async () => expect((await client.get(states)).body.items).toHaveLength(1));
  return {};
}

let numbered = 0;
/** An address that nobody has yet. */
const somebody = (): string => `somebody-${(numbered += 1)}@example.com`;
const newMember = (): Promise<string> =>
  idOf(ada.post(inTenant('/users'), { email: somebody(), roles: ['viewer'] }));
const newApproval = (): Promise<string> =>
  idOf(tenant.operator.post(inTenant('/approvals'), exampleOf('/tenants/{tenant_id}/approvals')));
const newAutomation = (): Promise<string> =>
  idOf(
    tenant.operator.post(inTenant('/automations'), exampleOf('/tenants/{tenant_id}/automations')),
  );
const newAccount = (): Promise<string> =>
  idOf(
    ada.post(inTenant('/service-accounts'), {
      name: `robot-${(numbered += 1)}`,
      roles: ['viewer'],
    }),
  );
const newKey = (): Promise<string> => idOf(ada.post('/auth/api-key', { name: 'a key' }));
const newProvider = (): Promise<string> =>
  idOf(platform.post('/auth/sso/providers', exampleOf('/auth/sso/providers')));
async function delivery(): Promise<string> {
  await newApproval();
  const path = inTenant('/notifications/deliveries?state=delivered&limit=1');
  return eventually(async () => {
    const { body } = await ada.get(path);
    expect(body.items).toHaveLength(1);
    return body.items[0].id as string;
  });
}
const newestOf = async (client: Client, path: string, more = ''): Promise<number> =>
  (await client.get(`${path}?limit=1${more}`)).body.items[0].revision;
async function invitation(): Promise<{ readonly id: string; readonly by: Client }> {
  const by = await signIn(strata.url, tenant.emails.viewer!, 'member-password-123');
  const other = await createTenantWith(strata.url, platform, `Other ${(numbered += 1)}`);
  await other.admin.post(`/tenants/${other.id}/users`, {
    email: tenant.emails.viewer,
    roles: ['viewer'],
  });
  const { body } = await by.get('/auth/invitations');
  return { id: body.items[0].id, by };
}

type Step = 'submit' | 'approve' | 'break-glass';
/** A change set of a tenant or of the platform, after these steps by who may do them. */
async function newChangeSet(isOfPlatform: boolean, steps: readonly Step[]): Promise<Given> {
  const path = isOfPlatform ? '/config/changesets' : inTenant('/config/changesets');
  const author = isOfPlatform ? root : ada;
  // Not whom the author let in: their approval would not count.
  const other = isOfPlatform ? platform : tenant.admin;
  const document = isOfPlatform
    ? {
        path: `/config/global/proposed-${(numbered += 1)}`,
        body: { config_value: 1, is_public: true },
      }
    : { path: inTenant(`/config/agents/proposed-${(numbered += 1)}`), body: {} };
  const items = [{ action: 'put', ...document }];
  const proposed = { title: 'An example', reason: 'to be shown', apply: 'manual', items };
  let { body: changeSet } = await author.post(path, proposed);
  const changeset_id = changeSet.id;
  for (const step of steps) {
    const by = step === 'approve' ? other : author;
    const body = {
      submit: undefined,
      approve: { digest: changeSet.digest },
      'break-glass': { reason: 'Payments are down since 03:10' },
    }[step];
    const answer = await by.post(`${path}/${changeset_id}/${step}`, body);
    if (answer.status >= 300) throw new Error(`${step}: ${answer.text}`);
    changeSet = answer.body;
  }
  const values = { changeset_id, items, digest: changeSet.digest };
  return { values, by: other };
}
/** What each route of change sets is sent to. */
const changeSetSteps: Readonly<Record<string, readonly Step[]>> = {
  create: [],
  get: [],
  edit: [],
  submit: [],
  cancel: [],
  rebase: [],
  'break-glass': [],
  approve: ['submit'],
  reject: ['submit'],
  apply: ['submit', 'approve'],
  review: ['break-glass'],
};
const changeSets = Object.fromEntries(
  Object.entries(changeSetSteps).flatMap(([route, steps]) => [
    [`tenant-config.changesets.${route}`, () => newChangeSet(false, steps)],
    [`global-config.changesets.${route}`, () => newChangeSet(true, steps)],
  ]),
);

/** What a rollout is made of. */
async function planned() {
  const path = `/config/global/rolled-out-${(numbered += 1)}`;
  const items = [{ action: 'put', path, body: { config_value: 1, is_public: true } }];
  const { digest } = (await platform.post('/config/plan', { items })).body;
  return { items, digest };
}
/** A rollout after these steps; at no stage, or at the first. */
async function newRollout(steps: readonly ('advance' | 'hold')[]): Promise<Given> {
  const stages = [1, 100].map((percent) => ({ percent, bake_minutes: 0, gate: [] }));
  const asked = { title: 'An example', reason: 'to be shown', stages };
  // One that was shown before may reach all tenants meanwhile, which makes what was planned stale.
  const { body } = await eventually(async () => {
    const made = await platform.post('/config/rollouts', { ...asked, ...(await planned()) });
    expect([made.status, made.text]).toEqual([201, expect.anything()]);
    return made;
  });
  for (const step of steps) {
    const how = step === 'advance' ? { stage: null } : { reason: 'to be shown' };
    const answer = await platform.post(`/config/rollouts/${body.id}/${step}`, how);
    if (answer.status >= 300) throw new Error(`${step}: ${answer.text}`);
  }
  return { values: { rollout_id: body.id, stage: null } };
}

/** A gateway, and what it was denied and may ask for. */
async function denied(): Promise<{ readonly by: Client; readonly values: Values }> {
  const scopes = ['config:read', 'approvals:read', 'approvals:write', 'decide:on_behalf'];
  const { body: key } = await ada.post('/auth/api-key', { name: 'gateway', scopes });
  const by = new Client(strata.url, key.api_key);
  const question = exampleOf('/tenants/{tenant_id}/access/v1/evaluation') as Values;
  const { body } = await by.post(inTenant('/access/v1/evaluation'), question);
  if (!body.context?.access_request) throw new Error(JSON.stringify(body));
  const { binding_token, expires_at } = body.context.access_request;
  return { by, values: { ...question, context: undefined, denial: { binding_token, expires_at } } };
}
async function newTask(): Promise<Given> {
  const { by, values } = await denied();
  const { body } = await by.post(inTenant('/access/v1/requests'), values);
  return { by, values: { task_id: body.task.id } };
}

/** What an operation needs that Strata gives out. */
const given: Readonly<Record<string, () => Promise<Given>>> = {
  ...changeSets,
  'global-config.rollouts.create': async () => ({ values: await planned() }),
  'global-config.rollouts.get': () => newRollout([]),
  'global-config.rollouts.advance': () => newRollout([]),
  'global-config.rollouts.hold': () => newRollout(['advance']),
  'global-config.rollouts.resume': () => newRollout(['advance', 'hold']),
  'global-config.rollouts.revert': () => newRollout(['advance']),
  'auth.refresh': async () => {
    const { body } = await anonymous().post('/auth/login', { email: 'ada@example.com', password });
    return { values: { refresh_token: body.refresh_token } };
  },
  'auth.logout': async () => ({ by: await again() }),
  'auth.sessions.end': async () => {
    const other = await again();
    return { values: { session_id: (await other.get('/auth/me')).body.session_id } };
  },
  'auth.api-key.revoke': async () => ({ values: { key_id: await newKey() } }),
  'auth.api-key.rotate': async () => ({ values: { key_id: await newKey() } }),
  'auth.invitations.accept': async () => {
    const email = somebody();
    await ada.post(inTenant('/users'), { email, roles: ['viewer'] });
    return { values: { token: await invitationToken(email) } };
  },
  'auth.invitations.join': async () => {
    const { id, by } = await invitation();
    return { by, values: { invitation_id: id } };
  },
  'auth.invitations.decline': async () => {
    const { id, by } = await invitation();
    return { by, values: { invitation_id: id } };
  },
  'auth.sso.providers.create': async () => ({ values: { tenant_id: tenant.id } }),
  'auth.sso.providers.get': async () => ({ values: { id: await newProvider() } }),
  'auth.sso.providers.put': async () => ({ values: { id: await newProvider() } }),
  'auth.sso.providers.delete': async () => ({ values: { id: await newProvider() } }),
  'auth.users.read': async () => ({ values: { user_id: await newMember() } }),
  'auth.users.patch': async () => ({ values: { user_id: await newMember() } }),
  'auth.users.recover': async () => ({ values: { user_id: await newMember() } }),
  'auth.users.delete': async () => ({ values: { user_id: await newMember() } }),
  'tenant-config.tenants.delete': async () => {
    const leaving = await createTenantWith(strata.url, platform, `Leaving ${(numbered += 1)}`);
    await platform.patch(`/tenants/${leaving.id}`, { status: 'disabled' });
    return { values: { tenant_id: leaving.id } };
  },
  'tenant-config.visits.end': async () => {
    const reason = exampleOf('/tenants/{tenant_id}/visits');
    return { values: { visit_id: await idOf(platform.post(inTenant('/visits'), reason)) } };
  },
  'audit.cut': async () => {
    const { body } = await platform.get('/audit/export?limit=1');
    const [{ seq, hash }] = body.items;
    return { values: { tenant_id: null, seq, hash } };
  },
  ...Object.fromEntries(
    ['get', 'put', 'patch', 'delete'].map((verb) => [
      `tenant-config.scim.users.${verb}`,
      async () => {
        const userName = somebody();
        const user_id = await idOf(ada.post(inTenant('/scim/v2/Users'), { userName }));
        return { values: { user_id, userName } };
      },
    ]),
  ),
  ...Object.fromEntries(
    [
      ...['get', 'put', 'patch', 'delete'].map((verb) => `tenant-config.scim.groups.${verb}`),
      'tenant-config.directory-groups.put',
    ].map((action) => [
      action,
      async () => {
        const displayName = `Group ${(numbered += 1)}`;
        return {
          values: { group_id: await idOf(ada.post(inTenant('/scim/v2/Groups'), { displayName })) },
        };
      },
    ]),
  ),
  'tenant-config.members.patch': async () => ({ values: { user_id: await newMember() } }),
  'tenant-config.members.invite': async () => ({ values: { user_id: await newMember() } }),
  'tenant-config.members.remove': async () => ({ values: { user_id: await newMember() } }),
  'tenant-config.service-accounts.patch': async () => ({
    values: { account_id: await newAccount() },
  }),
  'tenant-config.service-accounts.delete': async () => ({
    values: { account_id: await newAccount() },
  }),
  'auth.trust.get': async () => ({ values: { account_id: await newAccount() } }),
  'auth.trust.put': async () => {
    await platform.put('/auth/workload-issuers', exampleAt('/auth/workload-issuers', 'put'));
    return { values: { account_id: await newAccount() } };
  },
  'auth.trust.delete': async () => ({ values: { account_id: await newAccount() } }),
  'auth.service-account-key.create': async () => ({ values: { account_id: await newAccount() } }),
  'auth.service-account-key.list': async () => ({ values: { account_id: await newAccount() } }),
  'auth.service-account-key.revoke': async () => {
    const account = await newAccount();
    const made = ada.post(inTenant(`/service-accounts/${account}/api-keys`), { name: 'its key' });
    return { values: { account_id: account, key_id: await idOf(made) } };
  },
  'notifier.approvals.get': async () => ({ values: { approval_id: await newApproval() } }),
  'notifier.approvals.decide': async () => ({ values: { approval_id: await newApproval() } }),
  'notifier.approvals.ack': async () => ({ values: { approval_id: await newApproval() } }),
  'notifier.deliveries.get': async () => ({ values: { delivery_id: await delivery() } }),
  'notifier.deliveries.replay': async () => ({ values: { delivery_id: await delivery() } }),
  'config-resolver.decisions.get': async () => {
    const wish = { action: 'scale', risk_level: 'low', cost_impact: 1, record: true };
    const { body } = await tenant.operator.post(inTenant('/decide'), wish);
    return { values: { decision_id: body.decision_id } };
  },
  'config-resolver.decisions.replay': async () => ({
    values: { proposed: { as_of: new Date().toISOString() } },
  }),
  'notifier.automations.get': async () => ({ values: { automation_id: await newAutomation() } }),
  'notifier.automations.heartbeat': async () => ({
    values: { automation_id: await newAutomation() },
  }),
  'notifier.automations.redeem': async () => {
    const id = await newAutomation();
    const { body } = await tenant.operator.get(inTenant(`/automations/${id}`));
    return { values: { automation_id: id, action_digest: body.action_digest } };
  },
  'notifier.access.evaluate': async () => ({ by: (await denied()).by }),
  'notifier.access.evaluate-several': async () => ({ by: (await denied()).by }),
  'notifier.access.request': denied,
  'notifier.access.task': newTask,
  'notifier.access.cancel': newTask,
  'notifier.automations.finish': async () => ({ values: { automation_id: await newAutomation() } }),
  'tenant-config.history.get': async () => ({
    values: { revision: await newestOf(ada, inTenant('/config/history')) },
  }),
  'tenant-config.rollback': async () => ({
    values: { revision: await newestOf(ada, inTenant('/config/history')) },
  }),
  'global-config.history.get': async () => ({
    values: { revision: await newestOf(platform, '/config/history') },
  }),
  // Rollouts continue meanwhile, and are not rolled back.
  'global-config.rollback': async () => ({
    values: { revision: await newestOf(platform, '/config/history', '&config_type=bounds_config') },
  }),
  'global-config.history.purge': async () => {
    const name = 'purged-by-example';
    await platform.put(`/config/global/${name}`, { config_value: 1 });
    await platform.delete(`/config/global/${name}`);
    return { values: { config_type: 'global_config', resource_id: name } };
  },
  'audit.destinations.replay': () => hasDestination(ada, inTenant('/event-destinations')),
  'audit.platform-destinations.replay': () => hasDestination(platform, '/event-destinations'),
  'global-config.plan.apply': async () => {
    const { body } = await platform.post('/config/plan', exampleOf('/config/plan'));
    return { values: { digest: body.digest } };
  },
  'gateway.console.sign-in': async () => ({ headers: { 'sec-fetch-site': 'same-origin' } }),
  'gateway.console.refresh': async () => ({ headers: { 'sec-fetch-site': 'same-origin' } }),
  'gateway.console.sign-out': async () => ({ headers: { 'sec-fetch-site': 'same-origin' } }),
};

/**
 * What only a person with an authenticator, a provider or a mail has: everything else of the
 * example was accepted.
 */
const unrepeatable: Readonly<Record<string, readonly [status: number, code: string]>> = {
  'auth.login.sso.start': [404, 'auth_sso_provider_not_found'],
  'auth.login.sso': [401, 'auth_sso_state_invalid'],
  'auth.sso.link': [404, 'auth_sso_provider_not_found'],
  'auth.password.reset': [401, 'auth_password_reset_invalid'],
  'auth.token.exchange': [400, 'invalid_grant'],
  'auth.webauthn.login.verify': [401, 'auth_webauthn_challenge_invalid'],
  'auth.webauthn.register.verify': [401, 'auth_webauthn_challenge_invalid'],
  'auth.webauthn.credentials.remove': [404, 'not_found'],
  'notifier.links.show': [404, 'not_found'],
  'notifier.links.decide': [404, 'not_found'],
  // A policy of change that is in force is itself changed under four eyes.
  'global-config.change-policy.patch': [403, 'change_approval_required'],
  'tenant-config.change-policy.patch': [403, 'change_approval_required'],
  'global-config.change-policy.delete': [403, 'change_approval_required'],
  'tenant-config.change-policy.delete': [403, 'change_approval_required'],
};

function callerOf({ contract }: RestRoute): Client {
  switch (contract.access.level) {
    case 'public':
      return anonymous();
    case 'platform_admin':
      return platform;
    case 'tenant_or_platform':
      return contract.rest?.method === 'PATCH' ? platform : ada;
    default:
      return ada;
  }
}

const resolved = (shown: Shown): Shown =>
  shown.$ref === undefined ? shown : document.components.parameters[shown.$ref.split('/').at(-1)!]!;

/** Sends the example of an operation. */
async function sendExample(route: RestRoute, operation: Operation): Promise<Answer> {
  const { values = {}, by, headers } = (await given[route.name]?.()) ?? {};
  const known: Values = { tenant_id: tenant.id, ...values };
  const parameters = operation.parameters.map(resolved);
  const valueOf = ({ name, example }: Shown): unknown => (name in known ? known[name] : example);
  let path: string = documentedPath(route.rest.path);
  const query = new URLSearchParams();
  for (const parameter of parameters) {
    const value = String(valueOf(parameter));
    if (parameter.in === 'path') path = path.replace(`{${parameter.name}}`, value);
    if (parameter.in === 'query' && 'example' in parameter) query.set(parameter.name, value);
  }
  const { 'application/json': json, 'application/x-www-form-urlencoded': form } =
    operation.requestBody?.content ?? {};
  const example = (json ?? form)?.example;
  const body =
    typeof example === 'object' && example !== null
      ? Object.fromEntries(
          Object.entries(example).map(([name, value]) => [
            name,
            name in known ? known[name] : value,
          ]),
        )
      : example;
  const search = query.size > 0 ? `?${query.toString()}` : '';
  const asForm = {
    raw: new URLSearchParams(body as Record<string, string>).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  };
  const asJson = { ...(body !== undefined && { body }), ...(headers && { headers }) };
  const sent = form ? asForm : asJson;
  return (by ?? callerOf(route)).send(route.rest.method, path + search, sent);
}

/** Headers of HTTP itself, and those that are of every answer for security's sake. */
const unmentioned =
  /^(connection|keep-alive|date|transfer-encoding|content-(length|type|security-policy)|cache-control|vary|allow|set-cookie|x-(accel-buffering|content-type-options|dns-prefetch-control|download-options|frame-options|permitted-cross-domain-policies|xss-protection)|referrer-policy|strict-transport-security|cross-origin-[a-z-]+|origin-agent-cluster)$/;

/**
 * A schema that refers to the document by name: the document is prepared once for all, and not in
 * each of them.
 */
const ofDocument = (schema: object): object =>
  JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"document#/')) as object;

/** What is not as the document says. */
function surprises({ responses }: Operation, answer: Answer): unknown[] {
  const shown = responses[answer.status];
  if (!shown) return [`status ${answer.status}`, answer.text];
  const response =
    shown.$ref === undefined
      ? shown
      : document.components.responses[shown.$ref.split('/').at(-1)!]!;
  const documented = Object.keys(response.headers ?? {}).map((name) => name.toLowerCase());
  const found = [...answer.headers.keys()]
    .filter((name) => !unmentioned.test(name) && !documented.includes(name))
    .map((name) => `header ${name}`);
  if (!answer.headers.has('x-request-id')) found.push('no request id');
  if (!response.content) return answer.text === '' ? found : [...found, answer.text];
  const type = answer.headers.get('content-type')!;
  const content = response.content[type];
  if (!content) return [...found, `content type ${type}`];
  const body: unknown = answer.body === undefined ? answer.text : answer.body;
  const isValid = ajv.validate(ofDocument(content.schema), body);
  return isValid ? found : [...found, ajv.errors, body];
}

/**
 * What is made comes first, and what is removed last; a new password after everything that signs in
 * with the old one.
 */
const order = ({ name, rest }: RestRoute): number => {
  if (name === 'auth.password.change') return 5;
  // What it says holds for each write after it.
  if (name.includes('.change-policy.')) return rest.method === 'PUT' ? 6 : 7;
  if (name.endsWith('.rollback')) return 3;
  return { PUT: 0, POST: 1, PATCH: 2, GET: 3, DELETE: 4 }[rest.method];
};

/** A few at a time: what only reads does not care what is read beside it. */
async function besideEachOther(
  routes: readonly RestRoute[],
  trial: (route: RestRoute) => Promise<void>,
): Promise<void> {
  const left = [...routes];
  const lane = async (): Promise<void> => {
    for (let route = left.shift(); route; route = left.shift()) await trial(route);
  };
  await Promise.all([lane(), lane(), lane(), lane()]);
}

test('every example is accepted, and answered as the document says', async () => {
  const wrong: unknown[] = [];
  const trial = async (route: RestRoute): Promise<void> => {
    const method = route.rest.method.toLowerCase();
    const operation = document.paths[documentedPath(route.rest.path)]![method]!;
    const answer = await sendExample(route, operation);
    const refusal = unrepeatable[route.name];
    const isExpected = refusal
      ? answer.status === refusal[0] &&
        (answer.body.detail?.code ?? answer.body.code ?? answer.body.error) === refusal[1]
      : answer.status < 300;
    if (!isExpected) wrong.push([route.name, answer.status, answer.text]);
    const unforetold = surprises(operation, answer);
    if (unforetold.length > 0) wrong.push([route.name, ...unforetold]);
  };
  const routes = restRoutes.toSorted((one, other) => order(one) - order(other));
  const reading = routes.filter((route) => route.rest.method === 'GET' && order(route) === 3);
  for (const route of routes) {
    if (!reading.includes(route)) await trial(route);
    else if (route === reading[0]) await besideEachOther(reading, trial);
  }
  expect(wrong).toEqual([]);
});
