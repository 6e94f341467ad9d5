/** OpenFeature's Remote Evaluation Protocol: by the SDK's own provider, and request by request. */
import { OFREPProvider } from '@openfeature/ofrep-provider';
import { OpenFeature } from '@openfeature/server-sdk';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { runPasted } from '../support/pasted.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  adminPassword,
  Client,
  createTenant,
  signIn,
  startStrata,
  type Answer,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

let database: Database;
let strata: Running;
let tenant: TenantFixture;
let at: string;

const flags = (path = '') => `${at}/ofrep/v1/evaluate/flags${path}`;
const ofCheckout = { context: { targetingKey: 'checkout', user: 'ignored' } };

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({ DATABASE_URL: database.url });
  const platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Flags');
  at = `/tenants/${tenant.id}`;
  await tenant.admin.put(`${at}/services/checkout`, {
    service_type: 'cloud_run',
    max_instances: 7,
    monitoring_enabled: true,
    custom_thresholds: { latency_ms: 250 },
  });
});
afterAll(async () => {
  await OpenFeature.close();
  await strata?.stop('SIGKILL');
  await database?.drop();
});

async function keyOf(scopes: readonly string[], narrowed_to?: object): Promise<string> {
  const body = { name: 'flags', scopes, ...(narrowed_to && { narrowed_to }) };
  return (await tenant.admin.post('/auth/api-key', body)).body.api_key;
}

test("the SDK's provider reads flags of every type, of the context it is given", async () => {
  const key = await keyOf(['config:read'], { service_ids: ['checkout'] });
  const provider = new OFREPProvider({
    baseUrl: strata.url + at,
    headers: [['authorization', `Bearer ${key}`]],
  });
  await OpenFeature.setProviderAndWait(provider);
  const client = OpenFeature.getClient();
  const { context } = ofCheckout;
  expect(await client.getNumberDetails('max_instances', 1, context)).toMatchObject({
    value: 7,
    variant: 'service_instance',
    reason: 'TARGETING_MATCH',
    flagMetadata: { layer: 'service_instance', revision: expect.any(Number) },
  });
  expect(await client.getBooleanValue('monitoring_enabled', false, context)).toBe(true);
  expect(await client.getObjectValue('custom_thresholds', {}, context)).toEqual({
    latency_ms: 250,
  });
  expect(await client.getStringDetails('max_instances', 'x', context)).toMatchObject({
    value: 'x',
    errorCode: 'TYPE_MISMATCH',
  });
  expect(await client.getNumberDetails('no_such_key', 3, context)).toMatchObject({
    value: 3,
    errorCode: 'FLAG_NOT_FOUND',
  });
  // What is outside of a narrow key is the default of the code.
  const elsewhere = await client.getNumberDetails('max_instances', 1, { targetingKey: 'search' });
  expect(elsewhere).toMatchObject({ value: 1, reason: 'ERROR' });
});

test('all flags of a context have a tag of the revisions and of the context', async () => {
  const all = await tenant.viewer.post(flags(), ofCheckout);
  expect(all.status).toBe(200);
  expect(Object.keys(all.body).sort()).toEqual(['flags', 'metadata']);
  expect(all.body.flags).toContainEqual({
    key: 'max_instances',
    value: 7,
    reason: 'TARGETING_MATCH',
    variant: 'service_instance',
    metadata: {
      layer: 'service_instance',
      source: `service_instance_${tenant.id}_checkout`,
      revision: expect.any(Number),
    },
  });
  const tag = { 'if-none-match': all.headers.get('etag')! };
  const again = (body: object): Promise<Answer> => tenant.viewer.post(flags(), body, tag);
  const same = await again({ context: { serviceId: 'checkout' } });
  expect([same.status, same.text]).toEqual([304, '']);
  expect((await again({})).status).toBe(200);
  expect((await again({ context: { agent_type: 'checkout' } })).status).toBe(200);
  await tenant.admin.patch(`${at}/services/checkout`, { max_instances: 8 });
  const changed = await again(ofCheckout);
  expect(changed.status).toBe(200);
  const found = changed.body.flags.find(({ key }: { key: string }) => key === 'max_instances');
  expect(found.value).toBe(8);
});

test('without a context flags are static, and a guardrail says that it decided', async () => {
  const plain = await tenant.viewer.post(flags('/automation_enabled'));
  expect(plain.body).toMatchObject({ key: 'automation_enabled', reason: 'STATIC' });
  const stop = { automation_enabled: { const: false, reason: 'incident 7' } };
  await tenant.admin.patch(`${at}/config/bounds`, stop);
  const { body } = await tenant.viewer.post(flags('/automation_enabled'), ofCheckout);
  expect(body).toMatchObject({ value: false, metadata: { enforced: true } });
  await tenant.admin.delete(`${at}/config/bounds`);
});

test.each([
  ['a context that is none', { context: 'checkout' }, 400, 'INVALID_CONTEXT'],
  ['a name that is none', { context: { targetingKey: 'no name' } }, 400, 'INVALID_CONTEXT'],
  [
    'another type than that of the service',
    { context: { targetingKey: 'checkout', service_type: 'x' } },
    400,
    'INVALID_CONTEXT',
  ],
])('%s is an error of the protocol', async (_what, sent, status, errorCode) => {
  const one = await tenant.viewer.post(flags('/max_instances'), sent);
  expect([one.status, one.body]).toEqual([
    status,
    {
      key: 'max_instances',
      errorCode,
      errorDetails: expect.any(String),
      code: 'validation_failed',
      request_id: expect.any(String),
    },
  ]);
  const all = await tenant.viewer.post(flags(), sent);
  expect([all.status, all.body.errorCode, all.body.key]).toEqual([status, errorCode, undefined]);
});

test('no JSON, nobody and others are refused in its form', async () => {
  const raw = await tenant.viewer.send('POST', flags('/a'), { raw: '{' });
  expect([raw.status, raw.body.errorCode]).toEqual([400, 'PARSE_ERROR']);
  const nobody = await new Client(strata.url).post(flags('/a'), {});
  expect([nobody.status, nobody.body.errorCode]).toEqual([401, 'GENERAL']);
  const key = new Client(strata.url, await keyOf(['config:read'], { service_ids: ['checkout'] }));
  const outside = await key.post(flags(), {});
  expect([outside.status, outside.body.code]).toEqual([403, 'insufficient_scope']);
  const secret = await tenant.viewer.post(flags('/__proto__'), {});
  expect([secret.status, secret.body.errorCode]).toEqual([404, 'FLAG_NOT_FOUND']);
});

test('the example of the documentation runs as pasted', () => {
  const output = runPasted('docs/operations/openfeature.md', 'Feature flags', {
    STRATA: strata.url,
    TOKEN: tenant.admin.token,
    TENANT: tenant.id,
  });
  expect(output).toEqual(['tenant_risk', 'FLAG_NOT_FOUND', '304']);
});
