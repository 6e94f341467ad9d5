/**
 * Groups of a directory, by requests in the form in which Entra and Okta send them: the directory
 * says who is in one, an administrator what that gives, and it holds at once.
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { audited } from '../support/audit.ts';
import { grown } from '../support/grown.ts';
import { runPasted } from '../support/pasted.ts';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  signIn,
  type Answer,
  type TenantFixture,
} from '../support/strata.ts';

const groupSchema = 'urn:ietf:params:scim:schemas:core:2.0:Group';

let strata: SharedStrata;
/** Where it says that it is reached. */
let base: string;
let tenant: TenantFixture;
let other: TenantFixture;
let directory: Client;
/** Of the other tenant. */
let foreign: Client;

beforeAll(async () => {
  strata = await sharedStrata();
  const document = await new Client(strata.url).get('/openapi.json');
  base = document.body.servers[0].url;
  const platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Scim groups directory');
  other = await createTenant(strata.url, platform, 'Scim groups elsewhere');
  [directory, foreign] = [await keyOf(tenant), await keyOf(other)];
});

async function keyOf({ id, admin }: TenantFixture, scopes = ['scim:provision']): Promise<Client> {
  const accounts = `/tenants/${id}/service-accounts`;
  const account = await admin.post(accounts, { name: 'directory', roles: ['tenant_admin'] });
  const made = await admin.post(`${accounts}/${account.body.id}/api-keys`, { name: 'k', scopes });
  if (made.status !== 201) throw new Error(made.text);
  return new Client(strata.url, made.body.api_key);
}

const scimPath = (path: string, id = tenant.id): string => `/tenants/${id}/scim/v2/${path}`;
const send = (method: string, path: string, body?: object, client = directory): Promise<Answer> =>
  client.send(method, path, {
    ...(body !== undefined && { raw: JSON.stringify(body) }),
    headers: body === undefined ? {} : { 'content-type': 'application/scim+json' },
  });
const patch = (id: string, ...operations: readonly object[]): Promise<Answer> =>
  send('PATCH', scimPath(`Groups/${id}`), { Operations: operations });
const userPatch = (id: string, active: boolean): Promise<Answer> =>
  send('PATCH', scimPath(`Users/${id}`), {
    Operations: [{ op: 'replace', value: { active } }],
  });
async function made(sent: Promise<Answer>): Promise<Answer['body']> {
  const answer = await sent;
  if (answer.status !== 201) throw new Error(answer.text);
  return answer.body;
}
let count = 0;
const groupOf = (members: readonly string[] = [], more: object = {}): Promise<Answer['body']> =>
  made(
    send('POST', scimPath('Groups'), {
      schemas: [groupSchema],
      displayName: `Group ${(count += 1)}`,
      members: members.map((value) => ({ value })),
      ...more,
    }),
  );
/** A member, signed in, whom the directory has taken over. */
async function person(roles: readonly string[] = ['viewer'], groups: readonly string[] = []) {
  const email = `person-${(count += 1)}@people.example`;
  const { client } = await addMember(tenant.admin, tenant.id, { email, roles, groups });
  const { id } = await made(send('POST', scimPath('Users'), { userName: email }));
  return { client, id: id as string, email };
}
const mapping = (id: string, tenantId = tenant.id): string =>
  `/tenants/${tenantId}/directory-groups/${id}`;
async function give(id: string, roles: readonly string[], groups: readonly string[] = []) {
  const answer = await tenant.admin.put(mapping(id), { roles, groups });
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.body;
}
async function memberOf(id: string): Promise<Answer['body']> {
  const { body } = await tenant.admin.get(`/tenants/${tenant.id}/users?limit=200`);
  return body.items.find((member: { user_id: string }) => member.user_id === id);
}
const rightsOf = async (id: string): Promise<unknown[]> => {
  const { roles, groups, by_directory: directory } = await memberOf(id);
  return [roles, groups, directory.roles, directory.groups];
};
/** What only an operator may do, by the status of the answer. */
const operates = async (client: Client): Promise<number> =>
  (await client.post(`/tenants/${tenant.id}/automations`, { action: 'scale', risk_level: 'low' }))
    .status;
const refusal = ({ status, body }: Answer): unknown[] => [
  status,
  body.scimType ?? null,
  body.code ?? body.detail.code,
];

test('Okta and Entra create, find, rename and remove a group and its people', async () => {
  const [ada, grace] = [await person(), await person()];
  const group = await groupOf([ada.id], { externalId: '00g1' });
  expect(group).toEqual({
    schemas: [groupSchema],
    id: expect.any(String),
    externalId: '00g1',
    displayName: expect.any(String),
    members: [{ value: ada.id, display: ada.email }],
    meta: {
      resourceType: 'Group',
      created: expect.any(String),
      lastModified: expect.any(String),
      location: `${base}${scimPath(`Groups/${group.id}`)}`,
    },
  });
  const found = async (filter: string, more = ''): Promise<Answer['body']> =>
    (await directory.get(scimPath(`Groups?filter=${encodeURIComponent(filter)}${more}`))).body;
  expect((await found(`displayName eq "${group.displayName.toUpperCase()}"`)).Resources).toEqual([
    group,
  ]);
  // PostgreSQL and JavaScript make other small letters of these.
  const capital = await groupOf([], { displayName: 'Équipe İstanbul ΟΔΟΣ' });
  expect((await found('displayName eq "équipe İSTANBUL ΟΔΟΣ"')).Resources).toEqual([capital]);
  const { members: _members, ...bare } = group;
  const without = await found('externalId eq "00g1"', '&excludedAttributes=members');
  expect([without.totalResults, without.Resources]).toEqual([1, [bare]]);
  const one = await directory.get(scimPath(`Groups/${group.id}?excludedAttributes=members`));
  expect(one.body).toEqual(bare);

  const members = async (...operations: object[]): Promise<unknown> => {
    const { status, body } = await patch(group.id, ...operations);
    return [status, body.members?.map(({ value }: { value: string }) => value)];
  };
  const [a, g] = [{ value: ada.id }, { value: grace.id.toUpperCase() }];
  expect(await members({ op: 'Add', path: 'members', value: [g, a] })).toEqual([
    200,
    [ada.id, grace.id],
  ]);
  expect(await members({ op: 'Remove', path: 'members', value: [a] })).toEqual([200, [grace.id]]);
  expect(await members({ op: 'Remove', path: 'members', value: [] })).toEqual([200, [grace.id]]);
  const byFilter = `members[value eq "${grace.id}"]`;
  expect(await members({ op: 'remove', path: byFilter }, { op: 'add', path: 'members', value: a })) //
    .toEqual([200, [ada.id]]);
  expect(await members({ op: 'replace', path: 'members', value: [g] })).toEqual([200, [grace.id]]);
  expect(await members({ op: 'remove', path: 'members' })).toEqual([200, []]);
  const renamed = await patch(group.id, {
    op: 'replace',
    value: { id: group.id, displayName: 'On call' },
  });
  expect(renamed.body.displayName).toBe('On call');
  const put = await send('PUT', scimPath(`Groups/${group.id}`), {
    displayName: 'Whole',
    members: [a],
  });
  expect([put.status, put.body.displayName, put.body.externalId, put.body.members]).toEqual([
    200,
    'Whole',
    undefined,
    [{ value: ada.id, display: ada.email }],
  ]);
  expect((await send('DELETE', scimPath(`Groups/${group.id}`))).status).toBe(204);
  expect(refusal(await directory.get(scimPath(`Groups/${group.id}`)))).toEqual([
    404,
    null,
    'not_found',
  ]);
});

describe('what a group gives', () => {
  test('is nothing until an administrator says what, and then holds at once', async () => {
    const [ada, grace] = [await person(), await person(['viewer'], ['sre'])];
    const group = await groupOf([ada.id, grace.id]);
    expect(await rightsOf(ada.id)).toEqual([['viewer'], [], [], []]);
    expect(await operates(ada.client)).toBe(403);

    const given = await give(group.id, ['operator'], ['payments', 'sre']);
    expect(given).toMatchObject({ members: 2, roles: ['operator'], groups: ['payments', 'sre'] });
    expect(await operates(ada.client)).toBeLessThan(300);
    expect(await rightsOf(ada.id)).toEqual([
      ['viewer', 'operator'],
      ['payments', 'sre'],
      ['operator'],
      ['payments', 'sre'],
    ]);
    expect(await rightsOf(grace.id)).toEqual([
      ['viewer', 'operator'],
      ['sre', 'payments'],
      ['operator'],
      ['payments'],
    ]);
    const listed = await tenant.admin.get(`/tenants/${tenant.id}/directory-groups?limit=200`);
    expect(listed.body.items).toContainEqual(given);

    await patch(group.id, { op: 'remove', path: `members[value eq "${ada.id}"]` });
    expect(await operates(ada.client)).toBe(403);
    expect(await operates(grace.client)).toBeLessThan(300);
    await send('DELETE', scimPath(`Groups/${group.id}`));
    expect(await operates(grace.client)).toBe(403);
    expect(await rightsOf(grace.id)).toEqual([['viewer'], ['sre'], [], []]);
  });

  test('of several groups is all of it, and what people gave stays when it goes', async () => {
    const { id, client } = await person(['operator']);
    const [one, two] = [await groupOf([id]), await groupOf([id])];
    await give(one.id, ['operator', 'reviewer'], ['a']);
    await give(two.id, ['reviewer'], ['b', 'a']);
    expect(await rightsOf(id)).toEqual([
      ['operator', 'reviewer'],
      ['a', 'b'],
      ['reviewer'],
      ['a', 'b'],
    ]);
    await give(one.id, []);
    expect(await rightsOf(id)).toEqual([
      ['operator', 'reviewer'],
      ['a', 'b'],
      ['reviewer'],
      ['a', 'b'],
    ]);
    await patch(two.id, { op: 'remove', path: 'members' });
    expect(await rightsOf(id)).toEqual([['operator'], [], [], []]);
    expect(await operates(client)).toBeLessThan(300);
  });

  test('is not taken away by hand, and what is added by hand is', async () => {
    const { id } = await person();
    const group = await groupOf([id]);
    await give(group.id, ['operator'], ['payments']);
    const address = `/tenants/${tenant.id}/users/${id}`;
    for (const body of [{ roles: ['viewer'] }, { groups: [] }]) {
      const refused = await tenant.admin.patch(address, body);
      expect([refused.status, refused.body.detail.code]).toEqual([409, 'conflict']);
      expect(refused.body.detail.message).toMatch('A group of the directory gives');
    }
    const more = { roles: ['operator', 'reverter'], groups: ['payments', 'sre'] };
    expect((await tenant.admin.patch(address, more)).status).toBe(200);
    // The directory's come after those by hand.
    expect(await rightsOf(id)).toEqual([
      ['reverter', 'operator'],
      ['sre', 'payments'],
      ['operator'],
      ['payments'],
    ]);
    // Whoever is left with nothing by hand is a viewer.
    const least = { roles: ['operator'], groups: ['payments', 'sre'] };
    expect((await tenant.admin.patch(address, least)).body.roles).toEqual(['viewer', 'operator']);
    await give(group.id, []);
    expect(await rightsOf(id)).toEqual([['viewer'], ['sre'], [], []]);
  });

  test('comes back with a person who is active again, and not with one who was deleted', async () => {
    const { id, email } = await person();
    const group = await groupOf([id]);
    await give(group.id, ['operator']);
    await userPatch(id, false);
    expect(await memberOf(id)).toBeUndefined();
    await userPatch(id, true);
    expect(await rightsOf(id)).toEqual([['viewer', 'operator'], [], ['operator'], []]);
    expect(await memberOf(id)).toMatchObject({ status: 'invited', can_act: false });
    // An administrator may invite whom the directory has deactivated, and they are in it again.
    await userPatch(id, false);
    const body = { email, roles: ['viewer'] };
    const invited = await tenant.admin.post(`/tenants/${tenant.id}/users`, body);
    expect([invited.status, invited.body.roles]).toEqual([201, ['viewer', 'operator']]);

    await send('DELETE', scimPath(`Users/${id}`));
    await made(send('POST', scimPath('Users'), { userName: email }));
    expect(await rightsOf(id)).toEqual([['viewer'], [], [], []]);
    expect((await directory.get(scimPath(`Groups/${group.id}`))).body.members).toEqual([]);
  });

  test('decides no approval that was asked for before', async () => {
    const { id, client } = await person();
    const group = await groupOf();
    await give(group.id, ['reviewer']);
    const at = `/tenants/${tenant.id}/approvals`;
    const ask = async (): Promise<string> =>
      (await tenant.operator.post(at, { action: 'scale', risk_level: 'low', title: 'Scale' })).body
        .id;
    const before = await ask();
    await patch(group.id, { op: 'add', path: 'members', value: [{ value: id }] });
    const after = await ask();
    const decide = (approval: string): Promise<Answer> =>
      client.post(`${at}/${approval}/decision`, { decision: 'approve' });
    const late = await decide(before);
    expect([late.status, late.body.detail.code]).toEqual([403, 'insufficient_role']);
    expect(late.body.detail.message).toContain('after this approval was asked for');
    expect((await decide(after)).status).toBe(200);
  });

  /**
   * Somebody has been in a group for long, and the administrator has another give the same; then one
   * of the two ceases to. Two more approvals that the administrator asked for: from before and after.
   */
  async function afterTwoGave(ends: 'older' | 'newer') {
    const { id, client } = await person();
    const [older, newer] = [await groupOf([id]), await groupOf([id])];
    await give(older.id, ['reviewer']);
    await grown(strata.database, tenant.id);
    const at = `/tenants/${tenant.id}/approvals`;
    const ask = async (by: Client): Promise<string> =>
      (await by.post(at, { action: 'scale', risk_level: 'low', title: 'Scale' })).body.id;
    const before = await ask(tenant.operator);
    await give(newer.id, ['reviewer']);
    await give((ends === 'older' ? older : newer).id, []);
    expect((await memberOf(id)).roles).toContain('reviewer');
    const decide = async (approval: string): Promise<unknown[]> => {
      const answer = await client.post(`${at}/${approval}/decision`, { decision: 'approve' });
      return [answer.status, answer.body.detail?.code ?? answer.body.state];
    };
    return { decide, before, own: await ask(tenant.admin), others: await ask(tenant.operator) };
  }

  test('that gave the same later counts from then on, where the one that gave it first ceases to', async () => {
    const { decide, before, own, others } = await afterTwoGave('older');
    expect(await decide(own)).toEqual([403, 'approval_decider_added_by_requester']);
    expect(await decide(before)).toEqual([403, 'insufficient_role']);
    expect(await decide(others)).toEqual([200, 'approved']);
  });

  test('that gave the same later takes nothing where it ceases to', async () => {
    const { decide, before, own } = await afterTwoGave('newer');
    expect(await decide(own)).toEqual([200, 'approved']);
    expect(await decide(before)).toEqual([200, 'approved']);
  });

  test('is never tenant_admin, and for administrators of the tenant to say', async () => {
    const group = await groupOf();
    const codeOf = async (sent: Promise<Answer>): Promise<unknown[]> => {
      const { status, body } = await sent;
      return [status, body.detail?.code ?? null];
    };
    const gives = { roles: ['operator'], groups: [] };
    const put = (client: Client, body: object = gives, id = tenant.id) =>
      codeOf(client.put(mapping(group.id, id), body));
    expect(await put(tenant.admin, { roles: ['tenant_admin'], groups: [] })).toEqual([
      422,
      'validation_failed',
    ]);
    expect(await put(tenant.admin, { roles: ['operator'] })).toEqual([422, 'validation_failed']);
    expect(await put(directory)).toEqual([403, 'insufficient_scope']);
    expect(await put(await keyOf(tenant, ['members:write']))).toEqual([403, 'insufficient_scope']);
    expect(await put(tenant.operator)).toEqual([403, 'insufficient_role']);
    expect(await put(other.admin)).toEqual([403, 'tenant_mismatch']);
    expect(await put(other.admin, gives, other.id)).toEqual([404, 'not_found']);
    expect(await put(tenant.admin)).toEqual([200, null]);
  });
});

test('what is not of its form, or of others, is refused, and nothing of the request is done', async () => {
  const { id } = await person();
  const group = await groupOf([id], { externalId: 'mine' });
  await groupOf([], { externalId: 'another' });
  const { id: theirs } = await made(
    send('POST', scimPath('Users', other.id), { userName: 'theirs@else.example' }, foreign),
  );
  const value = [400, 'invalidValue', 'validation_failed'];
  const path = [400, 'invalidPath', 'scim_path_invalid'];
  const rename = { op: 'replace', path: 'displayName', value: 'Half done' };
  const cases: readonly (readonly [object, unknown[]])[] = [
    [{ op: 'add', path: 'members', value: [{ value: theirs }] }, value],
    [{ op: 'add', path: 'members', value: [{ value: 'nobody' }] }, value],
    [{ op: 'add', path: 'members', value: [{ value: 7 }] }, value],
    [{ op: 'add', path: 'members', value: 'x' }, value],
    [{ op: 'add', path: 'members', value: manyMembers(1001) }, value],
    [{ op: 'replace', path: 'displayName', value: '' }, value],
    [{ op: 'replace', path: 'members[value eq "x"]', value: 'x' }, path],
    [{ op: 'remove', path: 'members[display eq "x"]' }, path],
    [{ op: 'replace', path: 'roles', value: ['operator'] }, path],
    [{ op: 'remove' }, path],
    [{ op: 'replace', value: { id: randomUUID() } }, [400, 'mutability', 'scim_mutability']],
    [
      { op: 'replace', path: 'externalId', value: 'another' },
      [409, 'uniqueness', 'scim_uniqueness'],
    ],
  ];
  for (const [operation, expected] of cases)
    expect([operation, refusal(await patch(group.id, rename, operation))]).toEqual([
      operation,
      expected,
    ]);
  expect((await directory.get(scimPath(`Groups/${group.id}`))).body).toEqual(group);
  for (const filter of ['displayName co "x"', 'userName eq "x"', 'members eq "x"']) {
    const answer = await directory.get(scimPath(`Groups?filter=${encodeURIComponent(filter)}`));
    expect(refusal(answer)).toEqual([400, 'invalidFilter', 'scim_filter_invalid']);
    // By what groups are found, which have no userName.
    expect(answer.body.detail).toContain('one of displayName, externalId, id,');
  }
  const own = await foreign.get(scimPath(`Groups/${group.id}`, other.id));
  expect(refusal(own)).toEqual([404, null, 'not_found']);
  expect(refusal(await foreign.get(scimPath('Groups')))).toEqual([403, null, 'tenant_mismatch']);
  expect((await foreign.get(scimPath('Groups', other.id))).body.totalResults).toBe(0);
});
const manyMembers = (most: number): object[] =>
  Array.from({ length: most }, () => ({ value: randomUUID() }));

test('the audit says who did what, and the page has an example', async () => {
  const { id } = await person();
  const group = await groupOf();
  await patch(group.id, { op: 'add', path: 'members', value: [{ value: id }] });
  await give(group.id, ['operator']);
  await send('DELETE', scimPath(`Groups/${group.id}`));
  const eventOf = async (action: string, target: string): Promise<Answer['body']> =>
    audited(tenant.admin, action, (event) => event.target === target);
  const [updated, given] = [
    await eventOf('tenant.directory_group_updated', group.id),
    await eventOf('tenant.directory_group_given', group.id),
  ];
  expect([updated.actor.type, updated.payload]).toEqual([
    'service',
    expect.objectContaining({ added: [id], removed: [] }),
  ]);
  const changes = [{ path: '/roles', before: [], after: ['operator'] }];
  expect([given.actor.type, given.payload]).toEqual(['user', expect.objectContaining({ changes })]);
  for (const what of ['created', 'deleted'])
    await eventOf(`tenant.directory_group_${what}`, group.id);
  const member = await eventOf('tenant.member_updated', id);
  expect(member.payload).toMatchObject({ because: 'directory_group' });

  const said = runPasted('docs/operations/directories.md', 'Groups', {
    STRATA: strata.url,
    TENANT: tenant.id,
    ID: id,
    TOKEN: directory.token,
    ADMIN: tenant.admin.token,
  });
  expect(said).toEqual(['On call', 'operator']);
});

test('what a group gives holds at once for more people than are told one by one', async () => {
  const { id, client } = await person();
  const others = await Promise.all(
    Array.from({ length: 110 }, (_each, index) =>
      made(send('POST', scimPath('Users'), { userName: `many-${index}@many.example` })),
    ),
  );
  const group = await groupOf([id, ...others.map((other) => other.id as string)]);
  expect(await operates(client)).toBe(403);
  await give(group.id, ['operator']);
  expect(await operates(client)).toBeLessThan(300);
  await give(group.id, []);
  expect(await operates(client)).toBe(403);
});
