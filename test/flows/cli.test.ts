/** The command line `strata`, out of the packed package, beside a real Strata: what it says, how it ends, and what it never shows. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { installClient, nodes, type InstalledClient } from '../support/client-package.ts';
import { commandLine, type CommandLine, type Ended } from '../support/command-line.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  adminPassword,
  createTenant,
  signIn,
  startStrata,
  type Client,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

let database: Database;
let strata: Running;
let platform: Client;
let tenant: TenantFixture;
let installed: InstalledClient;
let cli: CommandLine;

/** Has everything a key may have, in the tenant. */
let adminKey: string;
let platformKey: string;

const keyOf = async (client: Client, scopes: readonly string[]): Promise<string> => {
  const { status, text, body } = await client.post('/auth/api-key', { name: 'cli', scopes });
  if (status !== 201) throw new Error(text);
  return (body as { api_key: string }).api_key;
};

beforeAll(async () => {
  const installing = installClient();
  installing.catch(() => {});
  database = await strataDatabase();
  strata = await startStrata({ DATABASE_URL: database.url });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Acme Robots');
  await tenant.admin.put(`/tenants/${tenant.id}/services/checkout`, { service_type: 'cloud_run' });
  adminKey = await keyOf(tenant.admin, [
    'config:read',
    'config:write',
    'approvals:read',
    'approvals:write',
    'approvals:decide',
    'audit:read',
    'auth:self',
  ]);
  platformKey = await keyOf(platform, [
    'config:read',
    'platform:read',
    'platform:write',
    'audit:read',
    'auth:self',
  ]);
  installed = await installing;
  cli = commandLine(installed, { STRATA_URL: strata.url, STRATA_API_KEY: adminKey });
}, 120_000);
afterAll(async () => {
  cli?.remove();
  installed?.remove();
  await strata?.stop('SIGKILL');
  await database?.drop();
});

const asPlatform = (...args: string[]): Promise<Ended> =>
  cli.run(args, { environment: { STRATA_API_KEY: platformKey } });
/** What a command answers as JSON; throws what it said where it failed. */
const answered = async (
  args: readonly string[],
  more?: Parameters<CommandLine['run']>[1],
  // eslint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
): Promise<any> => {
  const { code, out, err } = await cli.run([...args, '--json'], more);
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}: ${err}`);
  return JSON.parse(out);
};
const risk = async (): Promise<Record<string, unknown>> =>
  (await tenant.admin.get(`/tenants/${tenant.id}/config/risk`)).body.global_settings;

describe.each(nodes())('config, with %s', (node) => {
  test('effective equals GET effective, as a table and as JSON', async () => {
    await tenant.admin.put(`/tenants/${tenant.id}/config/agents/cost_optimizer`, {
      default_region: 'europe west',
      custom: { zero: 0, off: false, none: null },
    });
    const args = ['config', 'effective', '--agent', 'cost_optimizer', '--service', 'checkout'];
    const query = 'agent_type=cost_optimizer&service_id=checkout';
    const path = `/tenants/${tenant.id}/config/effective?${query}`;
    const { body } = await tenant.viewer.get(path);
    expect(await answered(args, { node })).toEqual(body);

    const { code, out, err } = await cli.run(args, { node });
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const lines = out.trimEnd().split('\n');
    expect(lines[0]).toMatch(/^key +value$/);
    expect(lines).toHaveLength(Object.keys(body.values).length + 1);
    expect(out).toMatch(/^default_region +"europe west"$/m);
    expect(out).toMatch(/^custom +\{"zero":0,"off":false,"none":null\}$/m);
  });

  test('set, get, explain, history and rollback, each with the names of the API', async () => {
    const path = 'global_settings.max_cost_impact_auto';
    const set = await answered(['config', 'set', 'risk', `${path}=4`, '--reason', 'ночь'], {
      node,
    });
    expect(set).toMatchObject({
      outcome: 'updated',
      document: { global_settings: { max_cost_impact_auto: 4 } },
    });
    expect((await risk()).max_cost_impact_auto).toBe(4);
    const got = await answered(['config', 'get', 'risk'], { node });
    expect(got).toMatchObject({
      document: await tenant.admin
        .get(`/tenants/${tenant.id}/config/risk`)
        .then(({ body }) => body as object),
      revision: set.revision,
      updated_by_name: expect.any(String),
    });
    const { out } = await cli.run(['config', 'explain', 'max_cost_impact_auto'], { node });
    expect(out).toMatch(/^max_cost_impact_auto +4 +tenant_risk +risk_config_\S+ .*env 15$/m);
    const history = await cli.run(['config', 'history', '--limit', '1'], { node });
    expect(history.out).toContain('ночь');
    expect(history.out).toContain('/global_settings/max_cost_impact_auto: 15 -> 4');
    const back = await answered(['config', 'rollback', '1'], { node });
    expect(back.document.global_settings.max_cost_impact_auto).toBe(15);
  });
});

test('config set takes values, texts, JSON; patch, unset, unset --all; names are data', async () => {
  const agent = ['agent', 'typed'];
  const created = await answered(['config', 'set', ...agent, '{"custom": {}}', '--replace']);
  expect(created).toMatchObject({ outcome: 'created', revision: expect.any(Number) });
  const words = [
    'default_region=eu west',
    'custom.n=1.5',
    'custom.off=false',
    '/custom/a.b=null-ish',
  ];
  const hostile = ['custom.__proto__.polluted=true', 'custom.list=[1, "x"]', 'custom.text="4"'];
  const { document } = await answered(['config', 'set', ...agent, ...words, ...hostile]);
  expect(document.default_region).toBe('eu west');
  expect(Object.entries(document.custom)).toEqual(
    expect.arrayContaining([
      ['n', 1.5],
      ['off', false],
      ['a.b', 'null-ish'],
      ['__proto__', { polluted: true }],
      ['list', [1, 'x']],
      ['text', '4'],
    ]),
  );
  const tried = await answered(['config', 'patch', ...agent, '{"default_cpu": "2"}', '--dry-run']);
  expect(tried).toMatchObject({ dry_run: true, changes: [{ path: '/default_cpu', after: '2' }] });
  const fewer = await answered(['config', 'unset', ...agent, 'default_region', 'custom.list']);
  expect(fewer.document).not.toHaveProperty('default_region');
  expect(fewer.document.custom).not.toHaveProperty('list');
  const stale = await cli.run(['config', 'unset', ...agent, '--all', '--if-match', '1']);
  expect(stale).toMatchObject({
    code: 1,
    out: '',
    err: expect.stringMatching(/precondition_failed/),
  });
  expect(await answered(['config', 'unset', ...agent, '--all'])).toMatchObject({
    outcome: 'deleted',
  });
  expect((await cli.run(['config', 'get', ...agent])).err).toMatch(/^strata: not_found: /);
});

describe('what goes wrong', () => {
  const misused: [string[], RegExp][] = [
    [[], /^config get /],
    [['config', 'gte'], /^strata: config needs one of get, .*\n$/],
    [['recofig'], /^strata: there is no command recofig; help lists them\n$/],
    [['config', 'get'], /^strata: <resource> is missing; usage: config get <resource>.*\n$/],
    [['config', 'get', 'agent'], /^strata: agent needs <agent_type>; usage: .*\n$/],
    [['config', 'get', 'agent', '..'], /^strata: "\.\." can't be the agent_type/],
    [['config', 'set', 'risk'], /^strata: JSON or <path>=<value> is needed/],
    [['config', 'set', 'risk', '{"a":'], /^strata: the JSON is not valid/],
    [['config', 'set', 'risk', '{"a": 9007199254740993}'], /^strata: the JSON is not valid/],
    [['config', 'unset', 'risk', '--all'], /^strata: risk is always there/],
    [['config', 'effective', '--fast'], /^strata: Unknown option '--fast'/],
    [['config', 'effective', '--api-key=canary'], /^strata: Unknown option '--api-key'; usage/],
    [['decide', 'scale'], /^strata: --risk is missing/],
    [
      ['config', 'set', 'risk', 'global_settings.max_cost_impact_auto=-1'],
      /^strata: validation_failed: .* \/global_settings\/max_cost_impact_auto .* \(request [0-9a-f-]{36}\)\n$/,
    ],
    [['config', 'get', 'global', 'nothing.there'], /^strata: not_found: .*\n$/],
    [['config', 'get', 'risk', '--tenant', 'Nowhere'], /^strata: there is no tenant Nowhere/],
    [['config', 'history', '--tenant', 'platform'], /^strata: insufficient_(role|scope): .*\n$/],
    [['config', 'get', 'risk', '--url', 'http://strata.example'], /^strata: not_https: /],
    [['config', 'get', 'risk', '--url', 'https://u:canary@strata.example'], /^strata: bad_url: /],
    [['config', 'get', 'risk', '--url', 'ftp://strata.example'], /^strata: bad_url: /],
    [['config', 'get', 'risk', '--url', 'http://127.0.0.1:9'], /^strata: unreachable: .*--url/],
    [['config', 'get', 'risk', '--api-key-file', '/nowhere'], /^strata: unreadable: /],
  ];
  test.each(misused)('%j', async (args, says) => {
    const { code, out, err } = await cli.run(args);
    if (args.length === 0) expect({ code, err }).toEqual({ code: 0, err: '' });
    else expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(args.length === 0 ? out : err).toMatch(says);
    expect(out + err).not.toMatch(/canary|\n +at /);
  });

  test('a key that is none, and one that is refused, is not shown', async () => {
    for (const [key, says] of [
      ['canary with blanks', /no_key: STRATA_API_KEY holds no API key/],
      ['canary\r\nx-evil: 1', /no_key: /],
      ['canary-canary', /auth_.*invalid: .*STRATA_API_KEY/],
    ] as const) {
      const { code, err } = await cli.run(['whoami'], { environment: { STRATA_API_KEY: key } });
      expect([code, err]).toEqual([1, expect.stringMatching(says)]);
      expect(err).not.toContain('canary');
    }
  });

  test('a key does not follow a redirect, nor go to where somebody once signed in', async () => {
    const asked: (string | undefined)[] = [];
    const elsewhere = createServer(({ headers }, response) => {
      asked.push(headers.authorization);
      response.writeHead(307, { location: `${strata.url}/auth/me` }).end();
    }).listen(0, '127.0.0.1');
    await new Promise((listening) => elsewhere.once('listening', listening));
    const url = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}`;
    const redirected = await cli.run(['whoami', '--url', url]);
    expect(redirected).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^strata: unreachable/),
    });
    expect(asked).toHaveLength(1);
    elsewhere.close();
    const nowhere = await cli.run(['whoami'], { environment: { STRATA_URL: '' } });
    expect(nowhere.err).toMatch(/^strata: no_url: where is Strata\?/);
  });
});

test('a tenant goes by its name; names that occur twice and hostile ones are safe', async () => {
  const made = async (name: string): Promise<string> => {
    const slug = name.replaceAll(/[^a-z]/gi, '');
    const admin = { email: `${slug}.${Math.random()}@names.example`.toLowerCase() };
    return (await platform.post('/tenants', { name, admin })).body.id as string;
  };
  const [one, two] = [await made('Green Hills'), await made('Green Hills')];
  const hostile = '$(touch pwned)`;\u001b[2J\u202e --all';
  const third = await made(hostile);
  const tail = (name: string) => asPlatform('audit', 'tail', '--tenant', name, '--limit', '1');
  const several = await tail('green hills');
  expect(several).toMatchObject({ code: 1, out: '' });
  for (const id of [one, two]) expect(several.err).toContain(id);
  expect((await tail(one)).out).toMatch(new RegExp(`tenant\\.\\S+ {2}.* {2}${one}`));
  expect((await tail(hostile)).out).toContain(third);

  const listed = await asPlatform('call', 'tenant-config.tenants.list', '{"q": "touch"}');
  expect(listed.out).toContain('\\u001b[2J\\u202e');
  expect(listed.out).not.toMatch(/[\p{Cf}]|(?!\n)\p{Cc}/u);
  expect(JSON.parse(listed.out).items[0].name).toBe(hostile);
  const missed = await tail('touch');
  expect(missed.err).toMatch(/^strata: there is no tenant touch; there are .*\\u001b.*\n$/);

  const offered = await asPlatform('__complete', 'audit', 'tail', '--tenant', '');
  expect(offered.out).toContain(`${third}\n`);
  expect(offered.out).not.toMatch(/touch|\$|`| /);

  const named = await cli.run(['config', 'get', 'risk', '--json'], {
    environment: { STRATA_TENANT: 'acme ROBOTS' },
  });
  expect(JSON.parse(named.out).document.global_settings).toBeDefined();
});
