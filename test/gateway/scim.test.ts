/**
 * SCIM 2.0 by requests in the form in which Entra and Okta send them: who is provisioned by a
 * directory of one tenant, what ends when they are no more, and what stays out of its reach.
 */
import { beforeAll, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { audited } from '../support/audit.ts';
import { runPasted } from '../support/pasted.ts';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  createTenantWith,
  memberPassword,
  signIn,
  type Answer,
  type TenantFixture,
  type TenantWith,
} from '../support/strata.ts';

const userSchema = 'urn:ietf:params:scim:schemas:core:2.0:User';
const errorSchema = 'urn:ietf:params:scim:api:messages:2.0:Error';

let strata: SharedStrata;
/** Where it says that it is reached. */
let base: string;
let platform: Client;
let tenant: TenantFixture;
let other: TenantFixture;
let directory: Client;

beforeAll(async () => {
  strata = await sharedStrata();
  const document = await new Client(strata.url).get('/openapi.json');
  base = document.body.servers[0].url;
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Scim directory');
  other = await createTenant(strata.url, platform, 'Scim elsewhere');
  await strata.database.query(
    `INSERT INTO auth.sso_providers VALUES (gen_random_uuid(), 'P', 'https://idp.example', 'c', 's',
       $1, $2, false, '{}', '{}', true, now(), now())`,
    [tenant.id, JSON.stringify([{ domain: 'owned.example', verified: true }])],
  );
  directory = await keyOf(tenant, ['scim:provision']);
});

async function keyOf({ id, admin }: TenantWith<never>, scopes: readonly string[]): Promise<Client> {
  const accounts = `/tenants/${id}/service-accounts`;
  const account = await admin.post(accounts, { name: 'directory', roles: ['tenant_admin'] });
  const made = await admin.post(`${accounts}/${account.body.id}/api-keys`, { name: 'k', scopes });
  if (made.status !== 201) throw new Error(made.text);
  return new Client(strata.url, made.body.api_key);
}

const users = (path = '', id = tenant.id): string => `/tenants/${id}/scim/v2/Users${path}`;
const scim = { 'content-type': 'application/scim+json' };
const send = (method: string, path: string, body?: object, client = directory): Promise<Answer> =>
  client.send(method, path, {
    ...(body !== undefined && { raw: JSON.stringify(body) }),
    headers: body === undefined ? {} : scim,
  });
const patch = (id: string, ...operations: readonly object[]): Promise<Answer> =>
  send('PATCH', users(`/${id}`), {
    schemas: ['urn:ietf:params:scim:api:messages:2.0:PatchOp'],
    Operations: operations,
  });
let made = 0;
const somebody = (domain = 'owned.example'): string => `person-${(made += 1)}@${domain}`;
async function provision(userName = somebody(), more: object = {}): Promise<Answer['body']> {
  const answer = await send('POST', users(), { schemas: [userSchema], userName, ...more });
  if (answer.status !== 201) throw new Error(answer.text);
  return answer.body;
}
const find = (filter: string): Promise<Answer> =>
  directory.get(users(`?filter=${encodeURIComponent(filter)}`));
async function memberOf(id: string, { admin, id: tenantId } = tenant): Promise<Answer['body']> {
  const { body } = await admin.get(`/tenants/${tenantId}/users?limit=200`);
  return body.items.find((member: { user_id: string }) => member.user_id === id);
}
const refusal = ({ status, body, headers }: Answer): unknown[] => [
  status,
  body.scimType ?? null,
  body.code,
  body.schemas[0] === errorSchema && body.status === String(status),
  headers.get('content-type'),
];
const refused = (status: number, scimType: string | null, code: string): unknown[] => [
  status,
  scimType,
  code,
  true,
  'application/scim+json',
];

test('Okta looks for a person, creates, replaces, deactivates and brings them back', async () => {
  const userName = somebody();
  const none = await directory.get(
    users(`?filter=${encodeURIComponent(`userName eq "${userName}"`)}&startIndex=1&count=100`),
  );
  expect([none.status, none.body.totalResults, none.body.Resources]).toEqual([200, 0, []]);
  const sent = {
    schemas: [userSchema],
    userName,
    name: { givenName: 'Ada', familyName: 'Lovelace' },
    emails: [{ primary: true, value: userName, type: 'work' }],
    displayName: 'Ada Lovelace',
    locale: 'en-US',
    externalId: '00ujl29u0le5T6Aj10h7',
    groups: [],
    password: '1mz050nq',
    active: true,
  };
  const created = await send('POST', users(), sent);
  const { id } = created.body;
  const location = `${base}${users(`/${id}`)}`;
  expect([created.status, created.headers.get('location')]).toEqual([201, location]);
  expect(created.headers.get('content-type')).toBe('application/scim+json');
  expect(created.body).toEqual({
    schemas: [userSchema],
    id: expect.any(String),
    externalId: '00ujl29u0le5T6Aj10h7',
    userName,
    name: { givenName: 'Ada', familyName: 'Lovelace' },
    displayName: 'Ada Lovelace',
    active: true,
    emails: [{ value: userName, type: 'work', primary: true }],
    meta: {
      resourceType: 'User',
      created: expect.any(String),
      lastModified: expect.any(String),
      location,
    },
  });
  expect((await directory.get(users(`/${id}`))).body).toEqual(created.body);
  expect(await memberOf(id)).toMatchObject({
    roles: ['viewer'],
    status: 'active',
    managed_by: 'scim',
  });
  expect(refusal(await send('POST', users(), sent))).toEqual(
    refused(409, 'uniqueness', 'scim_uniqueness'),
  );
  const replaced = await send('PUT', users(`/${id}`), { ...sent, displayName: 'Ada King', id });
  expect([replaced.status, replaced.body.displayName]).toEqual([200, 'Ada King']);
  const off = await patch(id, { op: 'replace', value: { active: false } });
  expect([off.status, off.body.active, await memberOf(id)]).toEqual([200, false, undefined]);
  const on = await patch(id, { op: 'replace', value: { active: true } });
  expect([on.status, on.body.active]).toEqual([200, true]);
  expect(await memberOf(id)).toMatchObject({ roles: ['viewer'], managed_by: 'scim' });
  // Names of attributes are the same in upper and lower case.
  const shouted = { userName, ACTIVE: 'False', Name: { GivenName: 'Ada' }, displayname: 'A' };
  const left = await send('PUT', users(`/${id}`), shouted);
  expect(left.body).toMatchObject({ active: false, name: { givenName: 'Ada' }, displayName: 'A' });
  expect(await memberOf(id)).toBeUndefined();
});

test('Entra changes attributes with capitals, texts for booleans, arrays and dotted names', async () => {
  const { id } = await provision(undefined, { externalId: '58342554-38d6-4ec8-948c-50044d0a33fd' });
  const changed = await patch(
    id,
    { op: 'Replace', path: 'displayName', value: 'Grace' },
    { op: 'Add', path: 'name.givenName', value: 'Grace' },
    { op: 'Add', value: { 'name.familyName': 'Hopper', title: 'Rear admiral' } },
    { op: 'Replace', path: 'emails[type eq "work"].value', value: 'not-an-account@else.example' },
    {
      op: 'Add',
      path: 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department',
      value: 'Navy',
    },
    { op: 'Replace', path: `${userSchema}:externalId`, value: [{ value: 'new' }] },
  );
  expect(changed.body).toMatchObject({
    displayName: 'Grace',
    name: { givenName: 'Grace', familyName: 'Hopper' },
    externalId: 'new',
    active: true,
  });
  const bare = await patch(id, { op: 'Remove', path: 'name.givenName' });
  expect(bare.body.name).toEqual({ familyName: 'Hopper' });
  for (const value of ['False', [{ value: 'False' }], false]) {
    expect((await patch(id, { op: 'Replace', path: 'active', value })).body.active).toBe(false);
    expect((await patch(id, { op: 'Replace', path: 'active', value: 'True' })).body.active).toBe(
      true,
    );
  }
});

test("no account is made for somebody whose externalId is another one's", async () => {
  await provision(undefined, { externalId: 'taken' });
  const userName = somebody();
  const sent = { schemas: [userSchema], userName, externalId: 'taken' };
  expect(refusal(await send('POST', users(), sent))).toEqual(
    refused(409, 'uniqueness', 'scim_uniqueness'),
  );
  const found = await platform.get(`/auth/users?email=${userName}`);
  expect([found.status, found.body.items]).toEqual([200, []]);
});

test('people are found by userName, externalId and id, and listed in pages', async () => {
  // Of another tenant, which is in no list of this one.
  await provision();
  const fresh = await createTenantWith(strata.url, platform, 'Scim pages');
  const key = await keyOf(fresh, ['scim:provision']);
  const made: string[] = [];
  for (const n of [1, 2, 3]) {
    const body = { userName: `Page-${n}@pages.example`, externalId: `E"${n}` };
    made.push((await send('POST', users('', fresh.id), body, key)).body.id);
  }
  const idsOf = async (query: string): Promise<unknown[]> => {
    const { body } = await key.get(users(`?${query}`, fresh.id));
    const ids = body.Resources.map(({ id }: { id: string }) => made.indexOf(id));
    return [body.totalResults, body.startIndex, body.itemsPerPage, ids];
  };
  const by = (filter: string): Promise<unknown[]> => idsOf(`filter=${encodeURIComponent(filter)}`);
  expect(await by('userName eq "PAGE-2@pages.example"')).toEqual([1, 1, 1, [1]]);
  expect(await by('externalid EQ "E\\"3"')).toEqual([1, 1, 1, [2]]);
  expect(await by('externalId eq "e\\"3"')).toEqual([0, 1, 0, []]);
  expect(await by(`id eq "${made[0]}"`)).toEqual([1, 1, 1, [0]]);
  expect(await by('id eq "no one"')).toEqual([0, 1, 0, []]);
  expect(await idsOf('startIndex=2&count=1')).toEqual([3, 2, 1, [1]]);
  expect(await idsOf('startIndex=0&count=0')).toEqual([3, 1, 0, []]);
  expect(await idsOf('startIndex=-7&count=-1')).toEqual([3, 1, 0, []]);
  expect(await idsOf('startIndex=9')).toEqual([3, 9, 0, []]);
});

test('what is deprovisioned is over when answered: membership, sessions, keys and first sign-in', async () => {
  for (const end of [
    (id: string) => patch(id, { op: 'Replace', path: 'active', value: 'False' }),
    (id: string) => send('DELETE', users(`/${id}`)),
  ]) {
    const member = await addMember(tenant.admin, tenant.id, {
      email: somebody('left.example'),
      roles: ['operator'],
    });
    const { user } = (await member.client.get('/auth/me')).body;
    // Whoever is a member already keeps their roles, and is the directory's from now on.
    const { id } = await provision(user.email);
    expect(id).toBe(user.id);
    expect(await memberOf(id)).toMatchObject({ roles: ['operator'], managed_by: 'scim' });
    const risk = `/tenants/${tenant.id}/config/risk`;
    expect((await member.client.get(risk)).status).toBe(200);
    const made = await member.client.post('/auth/api-key', { name: 'k' });
    const key = new Client(strata.url, made.body.api_key);
    expect((await key.get(risk)).status).toBe(200);
    expect((await end(id)).status).toBeLessThan(300);
    const over = await member.client.get(risk);
    expect([over.status, over.body.detail.code]).toEqual([401, 'auth_session_revoked']);
    expect((await key.get(risk)).body.detail.code).toBe('auth_api_key_invalid');
    expect(await memberOf(id)).toBeUndefined();
    const [kept] = await strata.database.query<{ status: string }>(
      'SELECT status FROM auth.users WHERE id = $1',
      [id],
    );
    expect(kept).toEqual({ status: 'active' });
  }
});

test('the last administrator stays, and nothing of the request is done', async () => {
  const { user } = (await tenant.admin.get('/auth/me')).body;
  const { id } = await provision(user.email);
  const kept = refused(409, null, 'conflict');
  const name = { op: 'replace', path: 'displayName', value: 'Changed' };
  const off = { op: 'replace', path: 'active', value: false };
  expect(refusal(await patch(id, name, off))).toEqual(kept);
  expect(refusal(await send('DELETE', users(`/${id}`)))).toEqual(kept);
  const { body } = await directory.get(users(`/${id}`));
  expect([body.active, body.displayName]).toEqual([true, undefined]);
  expect((await tenant.admin.get(`/tenants/${tenant.id}/config/risk`)).status).toBe(200);
});

test('an account of others is invited at most, and neither changed nor seen', async () => {
  const { user } = (await other.operator.get('/auth/me')).body;
  const accountOf = (): Promise<unknown[]> =>
    strata.database.query('SELECT * FROM auth.users WHERE id = $1', [user.id]);
  const before = await accountOf();
  const { id } = await provision(user.email, {
    displayName: 'Puppet',
    password: 'taken-over-1234',
  });
  expect(id).toBe(user.id);
  expect(await memberOf(id)).toMatchObject({ status: 'invited', can_act: false });
  const foreign = { op: 'replace', path: 'userName', value: somebody() };
  expect(refusal(await patch(id, foreign))).toEqual(refused(400, 'mutability', 'scim_mutability'));
  await patch(id, {
    op: 'replace',
    path: 'emails[primary eq true].value',
    value: 'x@evil.example',
  });
  await patch(id, { op: 'replace', value: { active: false } });
  expect(await accountOf()).toEqual(before);
  expect(await memberOf(id, other)).toMatchObject({ roles: ['operator'], managed_by: null });
  expect((await other.operator.get(`/tenants/${other.id}/config/risk`)).status).toBe(200);
  const { body } = await other.viewer.get('/auth/me');
  expect(refusal(await directory.get(users(`/${body.user.id}`)))).toEqual(
    refused(404, null, 'not_found'),
  );
  expect((await find(`id eq "${body.user.id}"`)).body.totalResults).toBe(0);
  const roles = { op: 'add', path: 'roles', value: [{ value: 'tenant_admin' }] };
  const { id: own } = await provision();
  await patch(own, roles);
  expect(await memberOf(own)).toMatchObject({ roles: ['viewer'], groups: [] });
  expect((await signIn(strata.url, user.email, memberPassword)) instanceof Client).toBe(true);
});

test('a key of the scope does SCIM of its tenant alone, and no other key does', async () => {
  const config = `/tenants/${tenant.id}/config/risk`;
  expect((await directory.get(config)).body.detail.code).toBe('insufficient_scope');
  expect((await directory.get(`/tenants/${tenant.id}/users`)).status).toBe(403);
  expect(refusal(await directory.get(users('', other.id)))).toEqual(
    refused(403, null, 'tenant_mismatch'),
  );
  const wide = await keyOf(tenant, ['identity:manage', 'members:read', 'members:write']);
  expect(refusal(await wide.get(users()))).toEqual(refused(403, null, 'insufficient_scope'));
  const body = { userName: somebody() };
  expect(refusal(await send('POST', users(), body, wide))).toEqual(
    refused(403, null, 'insufficient_scope'),
  );
  expect(refusal(await tenant.operator.get(users()))).toEqual(
    refused(403, null, 'insufficient_role'),
  );
  expect(refusal(await new Client(strata.url).get(users()))).toEqual(
    refused(401, null, 'auth_token_missing'),
  );
});

test('what is not of its form is refused as SCIM refuses, and does nothing', async () => {
  const { id } = await provision();
  for (const filter of [
    'userName co "x"',
    'title eq "x"',
    'userName eq x',
    'userName eq "a" and active eq true',
    'userName eq "\\u0000"',
    '(userName eq "x")',
  ])
    expect(refusal(await find(filter))).toEqual(
      refused(400, 'invalidFilter', 'scim_filter_invalid'),
    );
  const path = refused(400, 'invalidPath', 'scim_path_invalid');
  const value = refused(400, 'invalidValue', 'validation_failed');
  const cases: readonly (readonly [object, unknown[]])[] = [
    [{ op: 'replace', path: 'members[value eq "x"]', value: 'x' }, path],
    [{ op: 'replace', path: '__proto__', value: 'x' }, path],
    [{ op: 'remove' }, path],
    [{ op: 'replace', path: 'active', value: 'maybe' }, value],
    [{ op: 'replace', path: 'active', value: { toString: 'true' } }, value],
    [{ op: 'replace', path: 'displayName', value: { a: 1 } }, value],
    [{ op: 'replace', value: 'x' }, value],
    [{ op: 'move', path: 'active', value: true }, value],
    [{ op: 'replace', path: 'id', value: 'x' }, refused(400, 'mutability', 'scim_mutability')],
  ];
  const first = { op: 'replace', path: 'displayName', value: 'Half done' };
  for (const [operation, expected] of cases)
    expect(refusal(await patch(id, first, operation))).toEqual(expected);
  expect((await directory.get(users(`/${id}`))).body.displayName).toBeUndefined();
  expect(refusal(await send('POST', users(), { userName: 'no address' }))).toEqual(value);
  const broken = await directory.send('POST', users(), { raw: '{', headers: scim });
  expect(refusal(broken)).toEqual(refused(400, 'invalidSyntax', 'invalid_json'));
});

test('an id that no user has is 404, whatever it looks like', async () => {
  const notFound = refused(404, null, 'not_found');
  const off = { Operations: [{ op: 'replace', path: 'active', value: false }] };
  for (const id of ['00919288221112222', 'ADA', randomUUID().toUpperCase(), randomUUID()]) {
    expect(refusal(await directory.get(users(`/${id}`)))).toEqual(notFound);
    expect(refusal(await send('PATCH', users(`/${id}`), off))).toEqual(notFound);
    expect(refusal(await send('PUT', users(`/${id}`), { userName: somebody() }))).toEqual(notFound);
    expect(refusal(await send('DELETE', users(`/${id}`)))).toEqual(notFound);
    const group = `/tenants/${tenant.id}/scim/v2/Groups/${id}?excludedAttributes=members`;
    expect(refusal(await directory.get(group))).toEqual(notFound);
  }
  // Who may not ask learns nothing of ids, and a query stays one that is not of its form.
  const stranger = new Client(strata.url);
  expect((await stranger.get(users('/ADA'))).status).toBe(401);
  expect(refusal(await directory.get(users('?count=x')))).toEqual(
    refused(400, 'invalidValue', 'validation_failed'),
  );
});

test('it says what it is, and the audit who did what', async () => {
  const at = `/tenants/${tenant.id}/scim/v2`;
  const provider = await directory.get(`${at}/ServiceProviderConfig`);
  expect(provider.body).toMatchObject({
    patch: { supported: true },
    bulk: { supported: false },
    filter: { supported: true, maxResults: 200 },
  });
  const types = (await directory.get(`${at}/ResourceTypes`)).body.Resources;
  expect(types.map(({ endpoint }: { endpoint: string }) => endpoint)).toEqual([
    '/Users',
    '/Groups',
  ]);
  const [schema] = (await directory.get(`${at}/Schemas`)).body.Resources;
  expect(schema.id).toBe(userSchema);
  const { id } = await provision();
  await patch(id, { op: 'replace', path: 'displayName', value: 'Known' });
  await send('DELETE', users(`/${id}`));
  for (const what of ['created', 'updated', 'deleted']) {
    const event = await audited(
      tenant.admin,
      `tenant.scim_user_${what}`,
      ({ target }) => target === id,
    );
    expect(event.tenant_id).toBe(tenant.id);
  }
});

test('the example of the page provisions somebody', async () => {
  const made = runPasted('docs/operations/directories.md', 'Directories', {
    STRATA: strata.url,
    TENANT: tenant.id,
    TOKEN: directory.token,
  });
  expect(made).toEqual(['ada@owned.example', 'false']);
});
