/** BASE_URL may have a path, which is that of a proxy: it takes the path off. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  adminPassword,
  Client,
  createTenantWith,
  signIn,
  startStrata,
  type Running,
} from '../support/strata.ts';

const base = 'https://ops.example/tools/strata';

let database: Database;
let strata: Running;

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({ DATABASE_URL: database.url, BASE_URL: base });
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

test('the page of the API loads its script and the document from below it', async () => {
  const { status, text } = await new Client(strata.url).get('/docs');
  const { pathname } = new URL(base);
  expect([status, text]).toEqual([
    200,
    expect.stringContaining(`src="${pathname}/docs/js/scalar.js"`),
  ]);
  expect(text).toContain(`&quot;url&quot;:&quot;${pathname}/openapi.json&quot;`);
});

test('addresses that clients are given begin with all of it', async () => {
  const platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  const { id, admin } = await createTenantWith(strata.url, platform, 'Behind a path');
  const accounts = `/tenants/${id}/service-accounts`;
  const account = await admin.post(accounts, { name: 'directory', roles: ['tenant_admin'] });
  const scopes = ['scim:provision'];
  const made = await admin.post(`${accounts}/${account.body.id}/api-keys`, { name: 'k', scopes });
  const directory = new Client(strata.url, made.body.api_key);
  const scim = `/tenants/${id}/scim/v2`;
  const user = await directory.post(`${scim}/Users`, { userName: 'ada@path.example' });
  const group = await directory.post(`${scim}/Groups`, { displayName: 'On call' });
  const types = await directory.get(`${scim}/ResourceTypes`);
  const flags = await admin.post(`/tenants/${id}/ofrep/v1/evaluate/flags`, { context: {} });
  const metadata = await new Client(strata.url).get('/.well-known/oauth-protected-resource/mcp');
  const challenged = await new Client(strata.url).post('/mcp', {});
  const challenge = challenged.headers.get('www-authenticate');
  expect([
    user.headers.get('location'),
    group.headers.get('location'),
    types.body.Resources[0].meta.location,
    flags.body.eventStreams[0].url.replace(/[?].*/, ''),
    metadata.body.resource,
    /resource_metadata="([^"]+)"/.exec(challenge!)?.[1],
  ]).toEqual([
    `${base}${scim}/Users/${user.body.id}`,
    `${base}${scim}/Groups/${group.body.id}`,
    `${base}${scim}/ResourceTypes/User`,
    `${base}/tenants/${id}/ofrep/v1/events`,
    `${base}/mcp`,
    `${base}/.well-known/oauth-protected-resource/mcp`,
  ]);
});
