/**
 * Clients that others generate from the OpenAPI document compile strictly, and work. The second
 * generator is for the soak.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { build } from 'esbuild';
import { execFile } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { installedGenerators } from '../support/generators.ts';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import { soakTest } from '../support/soak.ts';
import {
  adminPassword,
  Client,
  createTenant,
  signIn,
  type TenantFixture,
} from '../support/strata.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');

let strata: SharedStrata;
let tenant: TenantFixture;
/** Has the generators' packages, and in it one folder for this run. */
let generators: string;
let folder: string;

beforeAll(async () => {
  generators = await installedGenerators();
  folder = join(generators, `run-${process.pid}`);
  mkdirSync(folder, { recursive: true });
  strata = await sharedStrata();
  const platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Generated clients');
  const { text } = await new Client(strata.url).get('/openapi.json');
  writeFileSync(join(folder, 'openapi.json'), text);
});
afterAll(async () => {
  if (folder) rmSync(folder, { recursive: true, force: true });
});

/**
 * Has a generator write a client, compiles what uses it as strictly as TypeScript can, and gives
 * what it printed.
 */
async function used(generator: string, options: readonly string[], use: string): Promise<unknown> {
  await run(process.execPath, [join(generators, 'node_modules', generator), ...options], {
    cwd: folder,
  });
  writeFileSync(join(folder, 'use.ts'), use);
  const compilerOptions = {
    target: 'es2023',
    lib: ['es2023', 'dom', 'dom.iterable'],
    module: 'esnext',
    moduleResolution: 'bundler',
    allowImportingTsExtensions: true,
    strict: true,
    noUncheckedIndexedAccess: true,
    noEmit: true,
    types: [],
  };
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ compilerOptions, files: ['use.ts'] }),
  );
  const compiler = join(root, 'node_modules/typescript/bin/tsc');
  const { stdout: problems } = await run(process.execPath, [compiler, '-p', folder]).catch(
    (error: { readonly stdout: string }) => error,
  );
  expect(problems).toBe('');
  const outfile = join(folder, 'use.mjs');
  await build({
    entryPoints: [join(folder, 'use.ts')],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    logLevel: 'error',
  });
  const { stdout } = await run(process.execPath, [
    outfile,
    strata.url,
    tenant.admin.token!,
    tenant.id,
  ]);
  return JSON.parse(stdout);
}

const inputs = `
declare const process: { readonly argv: readonly string[] };
const [, , url, token, tenant_id] = process.argv as [string, string, string, string, string];
`;

test('openapi-typescript, with openapi-fetch', async () => {
  const results = await used(
    'openapi-typescript/bin/cli.js',
    ['openapi.json', '-o', 'strata.ts'],
    `
import createClient from 'openapi-fetch';
import type { components, paths } from './strata.ts';
${inputs}
const strata = createClient<paths>({ baseUrl: url, headers: { authorization: 'Bearer ' + token } });
const params = { path: { tenant_id } };

const risk = await strata.PUT('/tenants/{tenant_id}/config/risk', {
  params: { ...params, header: { 'x-change-reason': 'by a generated client' } },
  body: { global_settings: { max_cost_impact_auto: 41 } },
});
const effective = await strata.GET('/tenants/{tenant_id}/config/effective', {
  params: { ...params, query: { service_type: 'cloud_run', explain: true } },
});
const revision: number | undefined = effective.data?.revision.tenant;
const layer: components['schemas']['LayerName'] | 'bounds' | undefined =
  effective.data?.explain?.['max_cost_impact_auto']?.layer;
const history = await strata.GET('/tenants/{tenant_id}/config/history', {
  params: { ...params, query: { limit: 1 } },
});
const refused = await strata.GET('/tenants', {});
const code: components['schemas']['ErrorCode'] | undefined = refused.error?.detail.code;
// Types hold what the contract says of them.
const webhook: components['schemas']['Webhook'] = {
  endpoints: [{ url: 'https://hooks.acme.example', auth: { type: 'bearer', token: 'secret' } }],
};
// @ts-expect-error: there is no such field
const wrong: components['schemas']['RiskLimits']['max_cost'] = 1;
console.log(JSON.stringify({
  status: risk.response.status,
  isAhead: revision !== undefined && revision >= Number(risk.response.headers.get('x-config-revision')),
  value: effective.data?.values['max_cost_impact_auto'],
  layer,
  reason: history.data?.items[0]?.reason,
  code,
  endpoints: 'endpoints' in webhook ? webhook.endpoints.length : wrong,
}));
`,
  );
  expect(results).toEqual({
    status: 200,
    isAhead: true,
    value: 41,
    layer: 'tenant_risk',
    reason: 'by a generated client',
    code: 'insufficient_role',
    endpoints: 1,
  });
});

const secondGenerator = async (): Promise<void> => {
  const results = await used(
    '@hey-api/openapi-ts/bin/run.js',
    ['-i', 'openapi.json', '-o', 'hey'],
    `
import {
  authMe,
  configResolverDecide,
  tenantConfigAgentsGet,
  tenantConfigAgentsPut,
  type AgentConfig,
  type AutomationDecision,
} from './hey/index.ts';
import { client } from './hey/client.gen.ts';
${inputs}
client.setConfig({ baseUrl: url, auth: ({ scheme }) => (scheme === 'bearer' ? token : undefined) });
const path = { tenant_id, agent_type: 'scaler' };

const me = await authMe();
const body: AgentConfig = { agent_type: 'scaler', default_region: 'europe-west1' };
const made = await tenantConfigAgentsPut({ path, body });
const read = await tenantConfigAgentsGet({ path });
const region: string | undefined = read.data?.default_region;
const decided = await configResolverDecide({
  path: { tenant_id },
  body: { action: 'scale_min_instances', risk_level: 'low', cost_impact: 1 },
});
const decision: AutomationDecision | undefined = decided.data?.decision;
const refused = await tenantConfigAgentsGet({ path: { ...path, agent_type: 'nobody' } });
console.log(JSON.stringify({
  email: me.data?.user?.email,
  status: made.response?.status,
  region,
  decision,
  code: refused.error?.detail.code,
}));
`,
  );
  expect(results).toEqual({
    email: tenant.emails.tenant_admin,
    status: 201,
    region: 'europe-west1',
    decision: 'allow',
    code: 'not_found',
  });
};
soakTest('@hey-api/openapi-ts', secondGenerator);
