/**
 * A gateway that knows nothing of Strata but AuthZEN: Authorization API 1.0 (OpenID, January 2026), and
 * draft 1 of the Access Request and Approval Profile. Its client is a fetch.
 *
 * The shapes are those of the published schemas (openid/authzen, api/schemas), but for two places at
 * which these contradict the specification and their own examples: `decision-base.json` closes
 * `context` (`additionalProperties: false` without `properties`), so that it admits the empty object
 * alone, and `access-evaluation-response.json` closes what it only refers to by `$ref`, so that it
 * admits not even `decision`. Here a decision is closed, and a context has the members that
 * docs/operations/authzen.md and the profile name, and no others.
 */
import { beforeAll, expect, test } from '@jest/globals';
import { Ajv2020, type AnySchema } from 'ajv/dist/2020.js';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { randomUUID } from 'node:crypto';
import { grown } from '../support/grown.ts';
import { runPasted } from '../support/pasted.ts';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  signIn,
  type TenantFixture,
} from '../support/strata.ts';

let strata: SharedStrata;
let tenant: TenantFixture;
let key: string;
let account: string;
/** As the metadata says. */
let endpoints: Record<string, string>;

const text = { type: 'string' };
const shape = (required: readonly string[], properties: object): AnySchema => ({
  type: 'object',
  required: [...required],
  properties,
  additionalProperties: false,
});
const accessRequest = shape(['endpoint', 'expires_at', 'binding_token'], {
  endpoint: text,
  expires_at: text,
  binding_token: { type: 'string', pattern: '^[\\w-]+\\.[\\w-]+\\.[\\w-]+$' },
});
const moment = { type: 'string', pattern: '^[-0-9]+T[.:0-9]+Z$' };
const contextShape = shape([], {
  evaluation_id: text,
  evaluated_at: moment,
  revision: { type: 'object' },
  reason: text,
  reasons: { type: 'array', items: { type: 'object', required: ['rule'] } },
  warnings: { type: 'array', items: shape(['path', 'message'], { path: text, message: text }) },
  retry_at: moment,
  stale: { const: true },
  next_action: { enum: ['request', 'retry', 'none'] },
  retry_after: { type: 'integer', minimum: 1 },
  access_request: accessRequest,
  approval: shape(['id', 'approved_until'], { id: text, approved_until: moment }),
  error: shape(['status', 'message'], { status: { type: 'integer' }, message: text }),
});
const answerShape = shape(['decision'], {
  decision: { type: 'boolean' },
  context: contextShape,
});
const shapes = {
  answer: answerShape,
  answers: shape(['evaluations'], { evaluations: { type: 'array', items: answerShape } }),
  metadata: {
    type: 'object',
    required: ['policy_decision_point', 'access_evaluation_endpoint'],
    additionalProperties: { anyOf: [text, { type: 'array', items: text }] },
  },
  task: shape(['task'], {
    task: shape(['id', 'status', 'status_endpoint'], {
      id: text,
      status: { enum: ['pending', 'approved', 'denied', 'expired', 'cancelled', 'failed'] },
      status_endpoint: text,
      expires_at: text,
      links: { type: 'object', additionalProperties: text },
    }),
    result: shape(['mode', 'approval'], {
      mode: { const: 'reevaluate' },
      approval: shape(['id', 'approved_until'], {
        id: text,
        approved_at: text,
        approved_until: text,
        state: text,
      }),
    }),
  }),
} satisfies Record<string, AnySchema>;
const ajv = new Ajv2020();

async function ask(
  shaped: keyof typeof shapes,
  url: string,
  body?: object,
  headers: Record<string, string> = {},
  credential = key,
) {
  // BASE_URL is where it would be reached; this Strata is on a free port.
  const response = await fetch(url.replace(/^https?:\/\/[^/]+/, strata.url), {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      authorization: `Bearer ${credential}`,
      'content-type': 'application/json',
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const answer = await response.json();
  if (response.ok) {
    const isValid = ajv.validate(shapes[shaped], answer);
    expect([isValid, ajv.errors, answer]).toEqual([true, null, answer]);
  }
  const type = response.headers.get('content-type');
  // eslint-disable-next-line typescript/no-explicit-any -- a foreign client knows no types of ours
  return { status: response.status, type, body: answer as any };
}

const question = (properties: object = {}, rest: object = {}) => ({
  subject: { type: 'agent', id: 'scaler-7' },
  resource: { type: 'cloud_run', id: 'checkout', properties: { min_instances: 4 } },
  action: { name: 'scale', properties: { risk_level: 'low', cost_impact: 1, ...properties } },
  ...rest,
});
const evaluate = (body: object) => ask('answer', endpoints.access_evaluation_endpoint!, body);
const high = <Rest extends object>(rest = {} as Rest) => ({
  ...question({ risk_level: 'high' }),
  ...rest,
});
async function denied(body: object) {
  const { body: answer } = await evaluate(body);
  expect([answer.decision, answer.context.reason]).toEqual([false, 'approval_required']);
  const { binding_token, expires_at } = answer.context.access_request;
  return { binding_token, expires_at, evaluation_id: answer.context.evaluation_id };
}
const request = (body: object, headers?: Record<string, string>) =>
  ask('task', endpoints.access_request_endpoint!, body, headers);
const decide = (id: string, decision: string) =>
  tenant.operator.post(`/tenants/${tenant.id}/approvals/${id}/decision`, { decision });

beforeAll(async () => {
  strata = await sharedStrata();
  const platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, `AuthZEN ${randomUUID()}`);
  await tenant.admin.put(`/tenants/${tenant.id}/services/checkout`, {
    service_type: 'cloud_run',
  });
  await tenant.admin.put(`/tenants/${tenant.id}/config/agents/scaler`, {});
  const made = await tenant.admin.post(`/tenants/${tenant.id}/service-accounts`, {
    name: 'gateway',
    roles: ['operator'],
  });
  account = made.body.id;
  const scopes = ['config:read', 'approvals:read', 'approvals:write', 'decide:on_behalf'];
  const keyed = await tenant.admin.post(
    `/tenants/${tenant.id}/service-accounts/${account}/api-keys`,
    {
      name: 'k',
      scopes,
    },
  );
  key = keyed.body.api_key;
  await grown(strata.database, tenant.id);
  const where = `${strata.url}/.well-known/authzen-configuration/tenants/${tenant.id}`;
  endpoints = (await ask('metadata', where)).body;
});

test('the metadata says where everything is, and what it can beside', () => {
  expect(endpoints).toMatchObject({
    policy_decision_point: expect.stringMatching(`/tenants/${tenant.id}$`),
    access_evaluations_endpoint: expect.stringMatching('/access/v1/evaluations$'),
    capabilities: ['urn:openid:authzen:capability:access-request'],
  });
});

test('what limits allow is allowed, and what they deny says why', async () => {
  expect((await evaluate(question())).body).toMatchObject({ decision: true });
  const { body } = await evaluate(question({ cost_impact: 1_000_000 }));
  expect([body.decision, body.context.reason]).toEqual([false, 'max_cost_impact_approval']);
  expect(body.context.access_request).toBeUndefined();
});

test('what cannot be answered is no permission', async () => {
  const unknown = await evaluate(question({}, { resource: { type: 'nothing', id: 'x' } }));
  expect([unknown.status, unknown.body.decision, unknown.body.context.error.status]).toEqual([
    200,
    false,
    404,
  ]);
  const { body } = await evaluate({ ...question(), action: { name: 'scale' } });
  expect([body.decision, body.context.error.status]).toEqual([false, 400]);
  const { resource } = question();
  const other = await evaluate(
    question({}, { resource: { ...resource, type: 'cloud_functions' } }),
  );
  expect(other.body.context.error).toEqual({
    status: 400,
    message: 'Some fields are not valid: /resource/type.',
  });
});

test('what is no question is a problem in the form of the protocol', async () => {
  const at = endpoints.access_evaluation_endpoint!;
  const { subject, action, resource } = question();
  const malformed = [
    {},
    { action, resource },
    { subject, resource },
    { subject, action },
    { subject: { id: 'a' }, action, resource },
    { subject: 'a', action, resource },
    { subject, action: { name: 123 }, resource },
    { subject, action, resource: { type: 'cloud_run' } },
  ];
  for (const body of malformed) {
    const refused = await ask('answer', at, body);
    expect([refused.status, refused.type]).toEqual([400, 'application/problem+json']);
    expect(refused.body).toMatchObject({
      type: 'about:blank',
      title: 'Bad Request',
      status: 400,
      detail: expect.any(String),
      code: 'validation_failed',
    });
  }
  const raw = (body: string, type: string) =>
    fetch(at.replace(/^https?:\/\/[^/]+/, strata.url), {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': type, 'x-request-id': 'abc-1' },
      body,
    });
  for (const [body, type] of [
    ['{', 'application/json'],
    ['', 'application/json'],
    [JSON.stringify(question()), 'text/plain'],
  ] as const) {
    const { status, headers } = await raw(body, type);
    expect([status, headers.get('content-type'), headers.get('x-request-id')]).toEqual([
      400,
      'application/problem+json',
      'abc-1',
    ]);
  }
  // Of several, one that is none leaves the others.
  const { body } = await ask('answers', endpoints.access_evaluations_endpoint!, {
    subject,
    action,
    evaluations: [{ resource }, {}],
  });
  expect(body.evaluations.map((each: { decision: boolean }) => each.decision)).toEqual([
    true,
    false,
  ]);
  expect(body.evaluations[1].context.error.status).toBe(400);
});

test('members that it does not know are no obstacle, and people see those of the action', async () => {
  const more = { method: 'GET', risk_level: 'high' };
  const asked = {
    ...high(),
    action: { name: 'scale', properties: more, soft: true },
    foo: 'bar',
    futureField: { nested: true },
  };
  const denial = await denied(asked);
  const { foo: _foo, futureField: _future, ...part } = asked;
  const client = { id: 'pep-1', name: 'Gateway' };
  const { status, body } = await request({ ...part, client, denial });
  expect([status, body.task.status]).toEqual([202, 'pending']);
  const { body: shown } = await tenant.operator.get(
    `/tenants/${tenant.id}/approvals/${body.task.id}`,
  );
  expect(shown.resource.action_properties).toEqual({ method: 'GET' });
  const other = { ...part, action: { ...part.action, soft: false } };
  expect((await request({ ...other, denial })).body.code).toBe('denial_invalid');
  const secret = { ...part, action: { name: 'scale', properties: { ...more, password: 'x' } } };
  const refused = await request({ ...secret, denial: await denied(secret) });
  expect([refused.status, refused.body.errors[0].path]).toEqual([
    400,
    '/action/properties/password',
  ]);
});

test('others than the caller are named by keys that may', async () => {
  const narrow = await tenant.admin.post(
    `/tenants/${tenant.id}/service-accounts/${account}/api-keys`,
    {
      name: 'narrow',
      scopes: ['config:read'],
    },
  );
  const at = endpoints.access_evaluation_endpoint!;
  const as = (body: object) => ask('answer', at, body, {}, narrow.body.api_key);
  expect((await as(question())).status).toBe(403);
  const own = question({}, { subject: { type: 'service', id: account } });
  expect((await as(own)).body.decision).toBe(true);

  // Of several, one for somebody else leaves the others.
  const several = endpoints.access_evaluations_endpoint!;
  const mixed = { ...own, evaluations: [{}, { subject: question().subject }, {}] };
  const { status, body } = await ask('answers', several, mixed, {}, narrow.body.api_key);
  expect([status, body.evaluations[1].context?.error.status]).toEqual([200, 403]);
  expect(body.evaluations.map((each: { decision: boolean }) => each.decision)).toEqual([
    true,
    false,
    true,
  ]);
});

test('several are answered as of one moment, as far as is asked', async () => {
  const evaluations = [{}, question({ cost_impact: 1_000_000 }), high(), {}];
  const all = async (semantic?: string) => {
    const { body } = await ask('answers', endpoints.access_evaluations_endpoint!, {
      ...question(),
      evaluations,
      ...(semantic !== undefined && { options: { evaluations_semantic: semantic } }),
    });
    return body.evaluations.map(({ decision }: { decision: boolean }) => decision);
  };
  expect(await all()).toEqual([true, false, false, true]);
  expect(await all('execute_all')).toEqual([true, false, false, true]);
  expect(await all('deny_on_first_deny')).toEqual([true, false]);
  expect(await all('permit_on_first_permit')).toEqual([true]);
  const single = await ask('answer', endpoints.access_evaluations_endpoint!, question());
  expect(single.body.decision).toBe(true);
});

test('deny, request, approve, evaluate again: for exactly what was approved', async () => {
  const asked = high({ context: { agent_type: 'scaler', time: '2026-11-25T08:00:00Z' } });
  const denial = await denied(asked);
  const { status, body } = await request({ ...asked, denial });
  expect([status, body.task.status]).toEqual([202, 'pending']);
  const { id, status_endpoint: at } = body.task;
  const { body: shown } = await tenant.operator.get(`/tenants/${tenant.id}/approvals/${id}`);
  expect(shown.resource).toMatchObject({
    subject: asked.subject,
    parameters: { min_instances: 4 },
  });
  const pending = await evaluate({ ...asked, context: { ...asked.context, approval: { id } } });
  expect(pending.body).toMatchObject({
    decision: false,
    context: { reason: 'grant_pending', next_action: 'retry', retry_after: 5 },
  });
  expect((await decide(id, 'approve')).status).toBe(200);
  const { body: done } = await ask('task', at);
  expect(done.task.status).toBe('approved');
  const { approval } = done.result;
  const keys = createRemoteJWKSet(new URL(`${strata.url}/.well-known/jwks.json`));
  const { payload } = await jwtVerify(approval.state, keys, { typ: 'strata-approval+jws' });
  expect(payload).toMatchObject({ jti: id, aud: endpoints.policy_decision_point });
  const again = (body2: object, brought: object = approval) =>
    evaluate({ ...body2, context: { ...asked.context, approval: brought } });
  expect((await again(asked)).body).toMatchObject({
    decision: true,
    context: { approval: { id, approved_until: approval.approved_until } },
  });

  const others = [
    { ...asked, subject: { type: 'agent', id: 'scaler-7', properties: { team: 'x' } } },
    { ...asked, resource: { ...asked.resource, properties: { min_instances: 400 } } },
    { ...asked, resource: { ...asked.resource, properties: {} } },
    question({ risk_level: 'high', cost_impact: 2 }),
    question({ risk_level: 'critical' }),
    { ...asked, action: { ...asked.action, name: 'delete' } },
  ];
  for (const other of others) {
    const { body: refused } = await again(other);
    expect([refused.decision, refused.context.reason, refused.context.next_action]).toEqual([
      false,
      'out_of_scope',
      'request',
    ]);
    expect(refused.context.access_request.binding_token).toEqual(expect.any(String));
  }
  const forged = [
    { id: randomUUID() },
    { id: 'x' },
    { id: '-'.repeat(36) },
    { ...approval, state: denial.binding_token },
    { ...approval, id: randomUUID() },
  ];
  for (const brought of forged)
    expect((await again(asked, brought)).body.context).toMatchObject({
      reason: 'approval_unverifiable',
      next_action: 'none',
    });
  const somebodyElse = { ...asked, subject: { type: 'agent', id: 'scaler-8' } };
  expect((await again(somebodyElse)).body.context.reason).toBe('approval_unverifiable');

  await strata.database.query(
    `UPDATE notifier.approvals SET decided_at = decided_at - interval '16 minutes' WHERE id = $1`,
    [id],
  );
  const late = await again(asked);
  expect([late.body.decision, late.body.context.reason]).toEqual([false, 'approval_expired']);
});

test('an approval does not outlive an emergency stop', async () => {
  const asked = high();
  const { body } = await request({ ...asked, denial: await denied(asked) });
  await decide(body.task.id, 'approve');
  const { body: done } = await ask('task', body.task.status_endpoint);
  const brought = { ...asked, context: { approval: done.result.approval } };
  expect((await evaluate(brought)).body.decision).toBe(true);
  const bounds = `/tenants/${tenant.id}/config/bounds`;
  await tenant.admin.patch(bounds, { automation_enabled: { const: false } });
  const stopped = await evaluate(brought);
  await tenant.admin.delete(bounds);
  expect([
    stopped.body.decision,
    stopped.body.context.reason,
    stopped.body.context.next_action,
  ]).toEqual([false, 'policy_denied', 'none']);
});

test('only what was denied to the caller is asked for', async () => {
  const asked = high();
  const denial = await denied(asked);
  const other = { ...asked, resource: { ...asked.resource, properties: {} } };
  const wrong = [
    { ...other, denial },
    { ...asked, denial: { ...denial, expires_at: '2099-01-01T00:00:00Z' } },
    { ...asked, denial: { ...denial, binding_token: key } },
  ];
  for (const body of wrong) {
    const refused = await request(body);
    expect([refused.status, refused.body.type]).toEqual([
      400,
      'urn:openid:authzen:access-request:error:invalid_denial_binding',
    ]);
  }
  const { status } = await ask(
    'task',
    endpoints.access_request_endpoint!,
    { ...asked, denial },
    {},
    tenant.admin.token,
  );
  expect(status).toBe(403);
});

test('a request is made once for its key, seen by its requester alone, and withdrawn', async () => {
  const asked = high();
  const denial = await denied(asked);
  const headers = { 'idempotency-key': randomUUID() };
  const first = await request({ ...asked, denial }, headers);
  const repeated = await request({ ...asked, denial }, headers);
  expect(repeated.body.task.id).toBe(first.body.task.id);
  const changed = question({ risk_level: 'critical' });
  const conflicting = await request({ ...changed, denial: await denied(changed) }, headers);
  const type = 'urn:openid:authzen:access-request:error:';
  expect([conflicting.status, conflicting.body.type]).toEqual([409, `${type}duplicate_request`]);
  const { status_endpoint: at, links } = first.body.task;
  const unknown = await ask('task', at, undefined, {}, tenant.admin.token);
  expect([unknown.status, unknown.body.type]).toEqual([404, `${type}unknown_task`]);
  expect((await ask('task', links.cancel, {})).body.task.status).toBe('cancelled');
  expect((await ask('task', at)).body.task.status).toBe('cancelled');
});

test('an approval that somebody else asked for, under a key like this one, is no task', async () => {
  const asked = high();
  const denial = await denied(asked);
  const { body: own } = await request({ ...asked, denial });
  const approval = await tenant.admin.get(`/tenants/${tenant.id}/approvals/${own.task.id}`);
  const { action, risk_level, title, cost_impact, service_id, service_type, resource } =
    approval.body;
  const planted = await tenant.admin.post(`/tenants/${tenant.id}/approvals`, {
    action,
    risk_level,
    title,
    service_id,
    service_type,
    resource,
    ...(cost_impact !== null && { cost_impact }),
    idempotency_key: `access ${approval.body.requested_by.id} next`,
  });
  expect(planted.status).toBe(202);
  const answer = await request({ ...asked, denial }, { 'idempotency-key': 'next' });
  expect([answer.status, answer.body.code]).toEqual([409, 'conflict']);
});

test('the subject of a request does not decide it, however a gateway spells it', async () => {
  const me = await tenant.operator.get('/auth/me');
  const { id, email } = me.body.user;
  const subjects = [
    { type: 'user', id },
    { type: 'User', id },
    { type: 'person', id },
    { type: 'user', id: id.toUpperCase() },
    { type: 'user', id: email.toUpperCase() },
  ];
  for (const subject of subjects) {
    const asked = high({ subject });
    const { body } = await request({ ...asked, denial: await denied(asked) });
    const own = await decide(body.task.id, 'approve');
    expect([subject, own.status, own.body.detail?.code]).toEqual([
      subject,
      403,
      'approval_own_request',
    ]);
  }
});

test('nor does whom the subject has just made an approver, by id as by address', async () => {
  const boss = { email: 'boss@authzen.example', roles: ['tenant_admin'] };
  const { client, user_id: id } = await addMember(tenant.admin, tenant.id, boss);
  await grown(strata.database, tenant.id);
  const mule = { email: 'mule@authzen.example', roles: ['reviewer'] };
  const theirs = await addMember(client, tenant.id, mule);
  for (const subject of [id, boss.email]) {
    const asked = high({ subject: { type: 'user', id: subject } });
    const { body } = await request({ ...asked, denial: await denied(asked) });
    const path = `/tenants/${tenant.id}/approvals/${body.task.id}/decision`;
    const decided = await theirs.client.post(path, { decision: 'approve' });
    expect([subject, decided.status, decided.body.detail?.code]).toEqual([
      subject,
      403,
      'approval_decider_added_by_requester',
    ]);
  }
});

test('a person who is signed in asks for themselves', async () => {
  const me = await tenant.operator.get('/auth/me');
  const by = new Client(strata.url, tenant.operator.token);
  const at = `/tenants/${tenant.id}/access/v1/evaluation`;
  const own = question({}, { subject: { type: 'user', id: me.body.user.id } });
  expect((await by.post(at, own)).body.decision).toBe(true);
  const refused = await by.post(at, question());
  expect([refused.status, refused.body.detail]).toEqual([
    403,
    expect.stringContaining(`whose type and id are user and ${me.body.user.id}. To name`),
  ]);
});

test('the example of the documentation runs as pasted', () => {
  const output = runPasted('docs/operations/authzen.md', 'Authorization API (AuthZEN)', {
    STRATA: strata.url,
    TOKEN: tenant.operator.token,
    TENANT: tenant.id,
  });
  expect(output.map((line) => JSON.parse(line) as object)).toEqual([
    expect.objectContaining({ access_evaluation_endpoint: expect.any(String) }),
    expect.objectContaining({ decision: true }),
  ]);
});
