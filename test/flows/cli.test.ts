/**
 * The command line `strata`, out of the packed package, beside a real Strata: what it says, how it
 * ends, and what it never shows.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import {
  createServer as createTcpServer,
  type AddressInfo,
  type Server,
  type Socket,
} from 'node:net';
import { dirname, join } from 'node:path';
import jwt from 'jsonwebtoken';
import { table } from '../../cli/https/table.ts';
import { createAccessTokens, type AccessClaims } from '../../shared/security/access-tokens.ts';
import { installClient, nodes, type InstalledClient } from '../support/client-package.ts';
import { eventually } from '../support/cluster.ts';
import { commandLine, type CommandLine, type Ended } from '../support/command-line.ts';
import { grown } from '../support/grown.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { startReceiver } from '../support/receiver.ts';
import { soakTest } from '../support/soak.ts';
import {
  adminPassword,
  createTenant,
  createTenantWith,
  joinTenant,
  Client,
  memberPassword,
  secretKey,
  signIn,
  startStrata,
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
  strata = await startStrata({
    DATABASE_URL: database.url,
    WEBHOOK_ALLOW_HTTP: 'true',
    WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
  });
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
});
afterAll(async () => {
  cli?.remove();
  installed?.remove();
  await strata?.stop('SIGKILL');
  await database?.drop();
});

const asPlatform = (...args: string[]): Promise<Ended> =>
  cli.run(args, { environment: { STRATA_API_KEY: platformKey } });
/** Signed in once, each in a home of their own, for what takes a person. */
const signIns = new Map<string, Promise<Ended>>();
async function asPerson(email: string, password: string, ...args: string[]): Promise<Ended> {
  const environment = { STRATA_API_KEY: '', XDG_CONFIG_HOME: join(cli.folder, email) };
  const signedIn =
    signIns.get(email) ?? cli.run(['login', '--email', email], { environment, input: password });
  signIns.set(email, signedIn);
  const { code, err } = await signedIn;
  if (code !== 0) throw new Error(`the sign-in of ${email} ended with ${code}: ${err}`);
  return cli.run(args, { environment });
}
const asRoot = (...args: string[]): Promise<Ended> =>
  asPerson('admin@example.com', adminPassword, ...args);
const asAdmin = (...args: string[]): Promise<Ended> =>
  asPerson(tenant.emails.tenant_admin!, memberPassword, ...args);
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

describe('config', () => {
  test.each(nodes())(
    'effective equals GET effective, as a table and as JSON, with %s',
    async (node) => {
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
    },
  );

  test('set, get, explain, history and rollback, each with the names of the API', async () => {
    const path = 'global_settings.max_cost_impact_auto';
    const set = await answered(['config', 'set', 'risk', `${path}=4`, '--reason', 'ночь']);
    expect(set).toMatchObject({
      outcome: 'updated',
      document: { global_settings: { max_cost_impact_auto: 4 } },
    });
    expect((await risk()).max_cost_impact_auto).toBe(4);
    const got = await answered(['config', 'get', 'risk']);
    expect(got).toMatchObject({
      document: await tenant.admin
        .get(`/tenants/${tenant.id}/config/risk`)
        .then(({ body }) => body as object),
      revision: set.revision,
      updated_by_name: expect.any(String),
    });
    const { out } = await cli.run(['config', 'explain', 'max_cost_impact_auto']);
    expect(out).toMatch(/^max_cost_impact_auto +4 +tenant_risk +risk_config_\S+ .*env 15$/m);
    const history = await cli.run(['config', 'history', '--limit', '1']);
    expect(history.out).toContain('ночь');
    expect(history.out).toContain('/global_settings/max_cost_impact_auto: 15 -> 4');
    const back = await answered(['config', 'rollback', '1']);
    expect(back.document.global_settings.max_cost_impact_auto).toBe(15);
  });
});

test.each(['effective', 'explain'])(
  'config %s of a misspelt service names the nearest, and fails',
  async (what) => {
    await tenant.admin.put(`/tenants/${tenant.id}/services/checkout`, {
      service_type: 'cloud_run',
    });
    const { code, out, err } = await cli.run(['config', what, '--service', 'chekout']);
    expect([code, out]).toEqual([1, '']);
    expect(err).toMatch(/not_found: No service named "chekout". Did you mean checkout/);
  },
);

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
    [['config', 'get'], /^strata: <resource> is missing; usage: config get <resource>.*\n$/],
    [['config', 'get', 'agent', '..'], /^strata: "\.\." can't be the agent_type/],
    [['config', 'effective', '--api-key=canary'], /^strata: Unknown option '--api-key'; usage/],
    [
      ['config', 'set', 'risk', 'global_settings.max_cost_impact_auto=-1'],
      /^strata: validation_failed: .* \/global_settings\/max_cost_impact_auto .* \(request [0-9a-f-]{36}\)\n$/,
    ],
    [['config', 'get', 'global', 'nothing.there'], /^strata: not_found: .*\n$/],
    [['config', 'get', 'risk', '--tenant', 'Nowhere'], /^strata: there is no tenant Nowhere/],
    [['config', 'history', '--tenant', 'platform'], /^strata: insufficient_(role|scope): .*\n$/],
    [['config', 'get', 'risk', '--url', 'https://u:canary@strata.example'], /^strata: bad_url: /],
    [['config', 'get', 'risk', '--url', 'http://127.0.0.1:9'], /^strata: unreachable: .*--url/],
    [['config', 'get', 'risk', '--api-key-file', '/nowhere'], /^strata: unreadable: /],
    [
      ['config', 'diff', 'no-folder'],
      /^strata: unreadable: the folder is not read: no-folder: no such file or directory\n$/,
    ],
    [['audit', 'verify', '--file', 'no-file'], /^strata: no-file: no such file or directory\n$/],
    [['audit', 'verify', '--file', '/'], /^strata: illegal operation on a directory\n$/],
    [
      ['config', 'export', '/proc/nowhere'],
      /^strata: \/proc\/nowhere: no such file or directory\n$/,
    ],
  ];
  test('ends with 1 and is said in one line', async () => {
    const all = await Promise.all(
      misused.map(async ([args]) => ({ args, ...(await cli.run(args)) })),
    );
    expect(all).toEqual(
      misused.map(([args, says]) => ({ args, code: 1, out: '', err: expect.stringMatching(says) })),
    );
    for (const { err } of all) expect(err).not.toMatch(/canary|\n +at /);
  });

  test('no command is no mistake: the commands are listed', async () => {
    expect(await cli.run([])).toEqual({
      code: 0,
      out: expect.stringMatching(/^config get /),
      err: '',
    });
    const asked = await cli.run(['--url', strata.url, '--help']);
    expect(asked).toMatchObject({ code: 0, err: '' });
  });

  test('the version is said wherever the package is', () => {
    const elsewhere = join(cli.folder, 'renamed');
    cpSync(installed.path, elsewhere, { recursive: true });
    const said = execFileSync(process.execPath, [join(elsewhere, 'dist/strata.cjs'), '--version']);
    const manifest = readFileSync(join(installed.path, 'package.json'), 'utf8');
    expect(String(said).trim()).toBe((JSON.parse(manifest) as { version: string }).version);
  });

  test('a key that is none, and one that is refused, is not shown', async () => {
    for (const [key, says] of [
      ['canary with blanks', /no_key: STRATA_API_KEY holds no API key/],
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
    elsewhere.close();
    expect(redirected).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^strata: unreachable/),
    });
    expect(asked).toHaveLength(1);
    const nowhere = await cli.run(['whoami'], { environment: { STRATA_URL: '' } });
    expect(nowhere.err).toMatch(/^strata: no_url: where is Strata\?/);
  });
});

describe('a host that is slow', () => {
  const listening = async (server: Server): Promise<string> => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  };

  test('one that takes connections and answers nothing is given up within seconds', async () => {
    const sockets = new Set<Socket>();
    const mute = createTcpServer((socket) => {
      sockets.add(socket.on('error', () => {}));
    });
    const began = performance.now();
    const given = await cli.run(['whoami', '--url', await listening(mute)]);
    const tookMs = performance.now() - began;
    for (const socket of sockets) socket.destroy();
    mute.close();
    expect(given).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringMatching(/^strata: unreachable: .* answers nothing, .*check --url.*\n$/),
    });
    // The request, and the question whether the host is alive.
    expect(sockets.size).toBe(2);
    expect(tookMs).toBeLessThan(10_000);
  });

  test('one whose answer is a page, as that of a proxy for sign-in, has done nothing', async () => {
    const pages = createServer((_request, response) => {
      response.setHeader('content-type', 'text/html').end('<html>Sign in</html>');
    });
    const url = await listening(pages);
    const given = await Promise.all(
      [['stop', '--reason', 'incident 7'], ['resume'], ['whoami']].map((command) =>
        cli.run([...command, '--url', url, '--tenant', tenant.id]),
      ),
    );
    pages.close();
    const err = `strata: http_200: ${url} did not answer as Strata does\n`;
    expect(given).toEqual(Array.from(given, () => ({ code: 1, out: '', err })));
  });

  test('one that is alive is waited for, and the question carries no credential', async () => {
    const asked: IncomingMessage[] = [];
    const slow = createServer((request, response) => {
      asked.push(request);
      if (request.url === '/healthz') {
        response.end('{}');
        // Longer than the question may take: it has been answered.
        setTimeout(answer, 2000);
      }
    });
    const answer = async (): Promise<void> => {
      const url = `${strata.url}${asked[0]!.url}`;
      const { authorization = '' } = asked[0]!.headers;
      const answered = await fetch(url, { headers: { authorization } });
      waiting!.end(await answered.text());
    };
    let waiting: ServerResponse | undefined;
    slow.once('request', (_request, response) => {
      waiting = response;
    });
    const given = await cli.run(['whoami', '--url', await listening(slow)]);
    slow.close();
    expect(given).toMatchObject({ code: 0, err: '' });
    expect(given.out).toContain('Acme Robots');
    expect(asked.map(({ url }) => url)).toEqual(['/auth/me', '/healthz']);
    expect(asked[1]!.headers.authorization).toBeUndefined();
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
  // The audit hears of what has just been made a moment later.
  for (const id of [one, third])
    await eventually(async () =>
      expect((await platform.get(`/audit/events?tenant_id=${id}`)).body.items).not.toEqual([]),
    );
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

describe('signing in', () => {
  const signedOut = { STRATA_API_KEY: '' };
  const file = (): string => join(cli.folder, '.config/strata/sign-ins.json');
  const stored = () =>
    Object.values(JSON.parse(readFileSync(file(), 'utf8')).sign_ins as object)[0] as {
      access_token: string;
      refresh_token: string;
      expires_at: number;
    };
  const signedIn = (...args: string[]) => cli.run(args, { environment: signedOut });

  test('a file that others may read is not used', async () => {
    mkdirSync(dirname(file()), { recursive: true });
    writeFileSync(file(), JSON.stringify({ sign_ins: {} }));
    chmodSync(file(), 0o640);
    expect((await signedIn('whoami')).err).toMatch(/^strata: unsafe_file: .*chmod 600/);
    rmSync(file());
  });

  test('where none can be kept no session begins', async () => {
    const environment = { STRATA_API_KEY: '', XDG_CONFIG_HOME: '/proc' };
    const ended = await cli.run(['login', '--email', 'a@acme.example'], { environment });
    expect(ended).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^strata: unwritable: .*\/proc\/strata: .*XDG_CONFIG_HOME\n$/),
    });
  });

  test('with a password from a pipe: kept for the owner alone, renewed, ended', async () => {
    const email = tenant.emails.operator!;
    const wrong = await cli.run(['login', '--email', email], {
      environment: signedOut,
      input: 'not the canary\n',
    });
    expect(wrong).toMatchObject({ code: 1, err: expect.stringMatching(/^strata: auth_/) });
    expect(wrong.err + wrong.out).not.toContain('canary');
    expect((await signedIn('whoami')).err).toMatch(/^strata: not_signed_in: .*strata login/);

    const login = await cli.run(['login', '--email', email], {
      environment: signedOut,
      input: `${memberPassword}\n`,
    });
    expect(login).toMatchObject({ code: 0, err: '' });
    expect(login.out).toMatch(new RegExp(`${email} +Acme Robots +operator`));
    expect(statSync(file()).mode & 0o777).toBe(0o600);
    expect(readFileSync(file(), 'utf8')).not.toContain(memberPassword);

    // The address is that of the sign-in where no other is told.
    const environment = { ...signedOut, STRATA_URL: '' };
    expect((await cli.run(['config', 'get', 'risk'], { environment })).code).toBe(0);

    // Several at once renew it once: a refresh token is good for one use.
    const { expires_at: _expires, ...others } = stored();
    const all = { last: strata.url, sign_ins: { [strata.url]: { ...others, expires_at: 0 } } };
    writeFileSync(file(), JSON.stringify(all));
    const ended = await Promise.all([1, 2, 3].map(() => signedIn('whoami', '--json')));
    expect(ended.map(({ code }) => code)).toEqual([0, 0, 0]);
    expect(stored().refresh_token).not.toBe(others.refresh_token);

    const { access_token: token } = stored();
    expect((await signedIn('logout')).code).toBe(0);
    expect((await signedIn('whoami')).err).toMatch(/^strata: not_signed_in/);
    expect((await new Client(strata.url, token).get('/auth/me')).status).toBe(401);
  });

  test('signing out ends the session also when its access token has run out', async () => {
    const email = tenant.emails.operator!;
    const input = memberPassword;
    await cli.run(['login', '--email', email], { environment: signedOut, input });
    const { access_token: good, refresh_token: refreshToken } = stored();
    const { sub, sid, tid, roles } = jwt.decode(good) as AccessClaims;
    const tokens = createAccessTokens({
      secret_key: secretKey,
      secret_key_previous: null,
      base_url: strata.url,
      access_token_ttl_seconds: -60,
    });
    const runOut = tokens.issue({ sub, sid, tid, roles });
    const expired = { access_token: runOut, refresh_token: refreshToken, expires_at: 0 };
    const all = { last: strata.url, sign_ins: { [strata.url]: { kind: 'session', ...expired } } };
    writeFileSync(file(), JSON.stringify(all));
    // A key that is told beside it is not what is signed out.
    expect((await cli.run(['logout'])).code).toBe(0);
    const { status, body } = await new Client(strata.url, good).get('/auth/me');
    expect([status, body.detail.code]).toEqual([401, 'auth_session_revoked']);
  });

  test('a key from a file, from stdin, or kept; a person continues in another tenant', async () => {
    const environment = signedOut;
    const input = `${adminKey}\n`;
    writeFileSync(join(cli.folder, 'key'), input);
    const received = [
      await cli.run(['whoami', '--api-key-file', 'key'], { environment }),
      await cli.run(['whoami', '--api-key-file', '-'], { environment, input }),
      await cli.run(['login', '--with-key'], { environment, input }),
      await signedIn('whoami'),
    ];
    for (const { code, out } of received)
      expect([code, out]).toEqual([0, expect.stringContaining('Acme Robots')]);
    expect((await signedIn('switch', 'Beta Works')).err).toMatch(/a key is of one tenant/);
    expect((await signedIn('logout')).code).toBe(0);

    const other = await createTenantWith(strata.url, platform, 'Beta Works');
    const email = tenant.emails.viewer!;
    await joinTenant(other.admin, other.id, tenant.viewer, { email, roles: ['viewer'] });
    const login = ['login', '--email', email];
    const password = { environment, input: memberPassword };
    expect((await cli.run([...login, '--tenant', 'beta works'], password)).out).toMatch(
      /Beta Works/,
    );
    expect(await signedIn('config', 'effective', '--json')).toMatchObject({
      code: 0,
      out: expect.stringContaining(other.id),
    });
    expect((await signedIn('switch', 'Acme Robots')).out).toMatch(/Acme Robots +viewer/);
    const mismatch = await signedIn('config', 'effective', '--tenant', other.id);
    expect(mismatch.err).toMatch(/^strata: tenant_mismatch: .*strata switch/);
    expect((await signedIn('logout')).code).toBe(0);
  });

  soakTest('approvals: requested with a key, waited for, decided by a person', async () => {
    await grown(database, tenant.id);
    const request = ['approvals', 'request', 'scale_min_instances', 'Twice as many'];
    const asked = await answered([...request, '--risk', 'high', '--cost', '20']);
    expect(asked).toMatchObject({ state: 'pending', title: 'Twice as many', cost_impact: 20 });
    expect((await cli.run(['approvals', 'list', '--state', 'pending'])).out).toContain(asked.id);
    const own = await cli.run(['approvals', 'approve', asked.id]);
    expect(own).toMatchObject({ code: 1, err: expect.stringMatching(/^strata: \w+: /) });

    const waiting = cli.run(['approvals', 'wait', asked.id]);
    const input = memberPassword;
    const environment = signedOut;
    await cli.run(['login', '--email', tenant.emails.operator!], { environment, input });
    const approved = await signedIn('approvals', 'approve', asked.id, '--comment', 'continue');
    expect(approved).toMatchObject({ code: 0, out: expect.stringContaining('approved') });
    expect((await waiting).code).toBe(0);
    expect(await answered(['approvals', 'show', asked.id])).toMatchObject({
      decision: { decision: 'approve', comment: 'continue' },
    });

    const second = await answered([...request, '--risk', 'high']);
    expect((await signedIn('approvals', 'deny', second.id)).code).toBe(0);
    expect((await cli.run(['approvals', 'wait', second.id])).code).toBe(3);
  });
});

test('decide ends with 0 for a yes alone', async () => {
  const decide = (...args: string[]) => cli.run(['decide', 'scale_min_instances', ...args]);
  expect(await decide('--risk', 'low', '--cost', '4', '--service', 'checkout')).toEqual({
    code: 0,
    out: 'allow\n',
    err: '',
  });
  const costly = await decide('--risk', 'low', '--cost', '1000000');
  expect(costly).toMatchObject({ code: 3, err: '' });
  expect(costly.out).toMatch(/^deny\nrule +limit +asked .*\nmax_cost_impact_approval +/);
  const unread = cli.run(['decide', 'resize', '--risk', 'low', '--cost', '1000000'], {
    isUnread: true,
  });
  expect(await unread).toEqual({ code: 3, out: '', err: '' });
  expect((await decide('--risk', 'high')).out).toMatch(/^approval_required\n/);
  expect((await decide('--risk', 'low', '--service', 'chekout')).err).toMatch(/^strata: not_found/);
  const always = { from: '2020-01-01T00:00', until: '2090-01-01T00:00', timezone: 'UTC' };
  const freezes = `/tenants/${tenant.id}/config/freezes`;
  expect((await tenant.admin.put(freezes, { all: { during: [always] } })).status).toBe(201);
  expect((await decide('--risk', 'low')).out).toMatch(/^deny[^]*\nfreeze all +/);
  await tenant.admin.delete(freezes);
});

soakTest(
  'decisions: those that were recorded, one with its limits, and all under a proposal',
  async () => {
    const from = new Date().toISOString();
    const intent = { action: 'resize', risk_level: 'low', cost_impact: 4, record: true };
    const decided = await tenant.operator.post(`/tenants/${tenant.id}/decide`, intent);
    const id = decided.body.decision_id as string;
    const listed = await asAdmin('decisions', 'list', '--from', from);
    expect([listed.code, listed.err]).toEqual([0, '']);
    expect(listed.out).toMatch(new RegExp(`^id +when +decision .*\n${id} .* allow .* resize`));
    expect((await asAdmin('decisions', 'show', id)).out).toContain('max_cost_impact_auto');
    const stricter = {
      action: 'patch',
      path: `/tenants/${tenant.id}/config/risk`,
      body: { global_settings: { max_cost_impact_auto: 3 } },
    };
    const items = JSON.stringify([stricter]);
    const { code, out } = await asAdmin('decisions', 'replay', '--from', from, '--items', items);
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(/^1 decisions, 0 the same\nallow→approval_required: 1\n/),
    ]);
  },
);

test('audit: the newest events, also as lines of JSON; the proof of the chain', async () => {
  await cli.run(['config', 'set', 'risk', 'global_settings.max_concurrent_automations=6']);
  const action = 'config.risk.updated';
  await eventually(async () => {
    const { text } = await tenant.admin.get(`/audit/events?action=${action}&limit=200`);
    expect(text).toContain('"/global_settings/max_concurrent_automations"');
  });
  const tail = ['audit', 'tail', '--action', 'config.*', '--limit', '2', '--json'];
  const { out } = await cli.run(tail);
  const events = out
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as object);
  expect(events).toContainEqual(expect.objectContaining({ action }));
  const verified = await cli.run(['audit', 'verify']);
  expect(verified).toMatchObject({ code: 0, err: '' });
  expect(verified.out).toMatch(
    new RegExp(`^chain +events +head\n${tenant.id} +\\d+ +[0-9a-f]{64}`),
  );
});

soakTest(
  'audit: a chain is exported as lines of JSON, and what was exported is cut off',
  async () => {
    const name = 'Cut Works';
    const { id } = (
      await platform.post('/tenants', { name, admin: { email: 'ada@cut-works.example' } })
    ).body as { id: string };
    const exported = async (...args: string[]) => {
      const { code, out, err } = await asPlatform('audit', 'export', '--tenant', ...args);
      expect([code, err]).toEqual([0, '']);
      return out
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as { seq: number; hash: string } & Record<string, unknown>);
    };
    for (const status of ['disabled', 'active']) await platform.patch(`/tenants/${id}`, { status });
    await eventually(async () => {
      const { body } = await platform.get(`/audit/events?tenant_id=${id}&action=tenant.updated`);
      expect(body.items).toHaveLength(2);
    });
    const events = await exported(name.toLowerCase());
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_event, index) => index + 1));
    expect(new Set(events.map(({ tenant_id }) => tenant_id))).toEqual(new Set([id]));
    expect((await exported('platform')).every(({ tenant_id }) => tenant_id !== id)).toBe(true);
    const long = await asPlatform(
      'audit',
      'export',
      '--tenant',
      id,
      '--before',
      '2020-01-01T00:00:00Z',
    );
    expect(long).toMatchObject({ code: 0, out: '' });

    const { seq, hash } = events[1]!;
    const cut = ['audit', 'cut', String(seq), hash, '--tenant', name];
    expect(await asPlatform(...cut)).toMatchObject({
      code: 1,
      err: expect.stringMatching(/scope/),
    });
    const other = await asRoot('audit', 'cut', String(seq), events[0]!.hash, '--tenant', name);
    expect(other).toMatchObject({ code: 1, err: expect.stringMatching(/^strata: conflict: /) });
    const { code, out } = await asRoot(...cut);
    expect([code, JSON.parse(out)]).toEqual([
      0,
      expect.objectContaining({ tenant_id: id, seq, hash }),
    ]);
    expect((await exported(id))[0]!.seq).toBe(seq + 1);
    const verified = await asPlatform('audit', 'verify', '--tenant', name);
    expect(verified).toMatchObject({ code: 0, out: expect.stringMatching(/cut_at/) });
  },
);

test('audit checkpoints: the signed note of the head of the chain', async () => {
  // As the node that signs each hour stores it.
  await database.query(
    `INSERT INTO audit.checkpoints (chain, seq, hash, made_at, note)
     SELECT chain, seq, hash, now(), 'a note of the head' FROM audit.chains WHERE chain = $1
     ON CONFLICT (chain, seq) DO UPDATE SET note = excluded.note`,
    [tenant.id],
  );
  expect(await cli.run(['audit', 'checkpoints'])).toMatchObject({
    code: 0,
    err: '',
    out: expect.stringContaining('a note of the head'),
  });
});

test('audit waiting and retry: chains whose next event is refused', async () => {
  const event = randomUUID();
  await database.query(
    `INSERT INTO strata.chain_waits (chain, event_id, tries, error, since, retry_at)
     VALUES ($1, $2, 5, 'validation_failed: not an event', now(), now() + interval '1 hour')`,
    [tenant.id, event],
  );
  const waiting = await asPlatform('audit', 'waiting');
  expect(waiting).toMatchObject({ code: 0, out: expect.stringContaining(event) });
  expect(waiting.out).toContain('validation_failed');
  const retried = await asPlatform('audit', 'retry', '--tenant', tenant.id);
  expect([retried.code, JSON.parse(retried.out)]).toEqual([0, { chains: 1 }]);
  // Nothing of the chain waits any more, so it continues.
  await eventually(async () =>
    expect(
      await database.query('SELECT FROM strata.chain_waits WHERE event_id = $1', [event]),
    ).toEqual([]),
  );
  expect((await asPlatform('audit', 'waiting')).out).not.toContain(event);
});

soakTest('config purge: by people alone, with a reason, of what is no more in force', async () => {
  const path = '/config/global/cli.leaked';
  await platform.put(path, { config_value: 'a password' });
  const purge = ['config', 'purge', 'global_config', 'cli.leaked', '--reason', 'leaked'];
  expect(await asPlatform(...purge)).toMatchObject({
    code: 1,
    err: expect.stringMatching(/scope/),
  });
  expect((await asRoot(...purge)).err).toMatch(/^strata: conflict: .* holds now/);
  await platform.delete(path);
  expect(await asRoot(...purge)).toMatchObject({
    code: 0,
    out: expect.stringContaining('2 entries'),
  });
  const history = await asPlatform('config', 'history', '--tenant', 'platform');
  expect(history.out).not.toContain('a password');
});

soakTest('tenants: found by a word, disabled, deleted, and the deletion taken back', async () => {
  const name = 'Passing Trade';
  await platform.post('/tenants', { name, admin: { email: 'ada@passing.example' } });
  const tenants = (...args: string[]) => asPlatform('tenants', ...args);
  expect((await tenants('list', 'passing')).out).toMatch(
    /^name +id +status\nPassing Trade +\S+ +active\n$/,
  );
  const early = await tenants('delete', name);
  expect(early).toMatchObject({
    code: 1,
    err: expect.stringMatching(/^strata: tenant_not_disabled: /),
  });
  expect((await tenants('disable', 'passing trade')).out).toMatch(/ disabled$/m);
  const deleted = await tenants('delete', name);
  expect(deleted).toMatchObject({ code: 0, out: expect.stringMatching(/ disabled +20\d\d-/) });
  expect((await tenants('enable', name)).out).toMatch(/ active$/m);
  expect((await tenants('list', 'passing', '--json')).out).toContain('"erase_at": null');
});

soakTest('accounts: found by their address, disabled, and enabled again', async () => {
  const email = tenant.emails.viewer!;
  const key = await keyOf(platform, ['platform:read', 'identity:manage']);
  const accounts = (...args: string[]) =>
    cli.run(['accounts', ...args], { environment: { STRATA_API_KEY: key } });
  expect((await accounts('find', email)).out).toMatch(
    /^email +id +status +name\nviewer@\S+ +\S+ +active +-?/,
  );
  expect((await accounts('disable', email)).out).toMatch(/ disabled /m);
  const asThem = () =>
    new Client(strata.url).post('/auth/login', { email, password: memberPassword });
  expect((await asThem()).status).toBe(401);
  expect((await accounts('enable', email)).out).toMatch(/ active /m);
  expect((await asThem()).status).toBe(200);
  expect((await accounts('find', 'nobody@nowhere.example')).err).toMatch(
    /^strata: there is no account of nobody@nowhere\.example/,
  );
});

test('nodes: each with its release, what it hosts, and how it is', async () => {
  const key = await keyOf(platform, ['platform:read']);
  const environment = { STRATA_API_KEY: key };
  const shown = await cli.run(['nodes'], { environment });
  expect(shown).toMatchObject({ code: 0, err: '' });
  expect(shown.out).toMatch(
    /^node +host +pieces +release +state +lease +sending +started +last_seen\n/,
  );
  const [{ node, pieces, state }, ...others] = JSON.parse(
    (await cli.run(['nodes', '--json'], { environment })).out,
  );
  expect([state, others]).toEqual(['well', []]);
  expect(shown.out.split('\n')[1]).toMatch(
    new RegExp(`^${node} .*${pieces.join(',')} .* well +yes +\\d+ `),
  );
});

soakTest('nodes: what a node sends, and what waits for any of them', async () => {
  const another = await createTenant(strata.url, platform, 'Slow Hooks');
  const held: ServerResponse[] = [];
  const receiver = await startReceiver((_n, response) => {
    held.push(response);
  });
  await another.admin.put(`/tenants/${another.id}/config/notifications`, {
    webhook: { url: receiver.url },
  });
  const asks = { action: 'scale', title: 'Twice', risk_level: 'low' };
  await another.operator.post(`/tenants/${another.id}/approvals`, asks);
  await receiver.wait(() => true);
  const { body } = await platform.get('/config/nodes');
  expect(body.backlog).toEqual({ notices: expect.any(Number), audit_events: expect.any(Number) });
  expect(body.backlog.notices).toBeGreaterThanOrEqual(1);
  expect(body.items).toEqual([expect.objectContaining({ sending: 1 })]);
  const shown = await asPlatform('nodes');
  expect(shown.out).toMatch(/\nwaiting for any node: [1-9]\d* notices, \d+ audit events\n$/);

  for (const response of held) response.writeHead(204).end();
  await eventually(async () =>
    expect((await platform.get('/config/nodes')).body).toMatchObject({
      backlog: { notices: 0 },
      items: [{ sending: 0 }],
    }),
  );
  await receiver.close();
});

describe('completion', () => {
  /** What bash makes of a line, with the real script. */
  const completed = (path: string, ...words: string[]): string[] => {
    const program = `source "$1"; shift; COMP_WORDS=(strata "$@"); COMP_CWORD=$#; _strata; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const bin = join(installed.path, '../../.bin');
    const env = {
      HOME: cli.folder,
      PATH: `${bin}:${dirname(process.execPath)}:/usr/bin:/bin`,
      STRATA_URL: strata.url,
      STRATA_API_KEY: adminKey,
    };
    const args = ['--norc', '-c', program, 'bash', path, ...words];
    return execFileSync('bash', args, { env, encoding: 'utf8' }).trim().split('\n').sort();
  };

  soakTest('commands, flags, resources and tenants, in bash', async () => {
    const path = join(cli.folder, 'strata.bash');
    writeFileSync(path, (await cli.run(['completion', 'bash'])).out);
    execFileSync('bash', ['-n', path]);
    expect(completed(path, 'config', 'ex')).toEqual(['explain', 'export']);
    expect(completed(path, 'config', 'get', 'ri')).toEqual(['risk']);
    expect(completed(path, '--tenant', 'x', 'audit', '')).toEqual([
      'checkpoints',
      'cut',
      'export',
      'retry',
      'tail',
      'verify',
      'waiting',
    ]);
    expect(completed(path, 'config', 'set', '--if')).toEqual(['--if-match']);
    expect(completed(path, 'audit', 'tail', '--tenant', '')).toEqual([tenant.id]);
    expect(completed(path, 'completion', '')).toEqual(['bash', 'zsh']);
  });

  test('a script for zsh', async () => {
    const { out } = await cli.run(['completion', 'zsh']);
    expect(out).toMatch(/^#compdef strata\n/);
  });
});

describe('folders', () => {
  const folderOf = (name: string): string => join(cli.folder, name);
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(folderOf(path)), { recursive: true });
    writeFileSync(folderOf(path), text);
  };

  soakTest('what is exported does not differ; what is changed in it is imported', async () => {
    const { id, admin } = tenant;
    const secret = 'canary-of-the-webhook';
    const hook = { webhook: { url: 'https://93.184.216.34/hook', secret } };
    const { status, text: said } = await admin.put(`/tenants/${id}/config/notifications`, hook);
    expect([status, said]).toEqual([200, expect.not.stringContaining(secret)]);
    await admin.put(`/tenants/${id}/config/agents/exported`, {
      custom: JSON.parse(
        '{"__proto__": {"a": 1}, "no": "no", "n": "0123", "lines": "a\\nb", "big": 9007199254740991}',
      ),
    });
    const { out, code } = await cli.run(['config', 'export', 'acme']);
    expect(code).toBe(0);
    expect(out).toMatch(/^agent\/exported\.yaml$/m);
    expect(readFileSync(folderOf('acme/notifications.yaml'), 'utf8')).toContain('********');
    const same = await cli.run(['config', 'diff', 'acme']);
    expect(same).toEqual({ code: 0, out: 'nothing differs\n', err: '' });
    expect((await cli.run(['config', 'import', 'acme'])).out).toBe('nothing differs\n');
    expect((await cli.run(['config', 'export', 'acme'])).err).toMatch(/--overwrite/);

    write('acme/service/billing.yaml', 'service_type: cloud_run\nmin_instances: 2\n');
    const text = readFileSync(folderOf('acme/risk.yaml'), 'utf8');
    write('acme/risk.yaml', text.replace(/max_resource_scaling: .*/, 'max_resource_scaling: 2.5'));
    const differs = await cli.run(['config', 'diff', 'acme']);
    expect(differs.code).toBe(2);
    expect(differs.out).toMatch(/^risk +\/global_settings\/max_resource_scaling +\S+ +2\.5$/m);
    const tried = await cli.run(['config', 'import', 'acme', '--dry-run']);
    expect(tried.code).toBe(0);
    expect((await risk()).max_resource_scaling).not.toBe(2.5);
    expect((await cli.run(['config', 'import', 'acme', '--reason', 'from git'])).code).toBe(0);
    expect((await risk()).max_resource_scaling).toBe(2.5);

    rmSync(folderOf('acme/agent/exported.yaml'));
    expect((await cli.run(['config', 'diff', 'acme'])).code).toBe(0);
    const gone = await answered(['config', 'import', 'acme', '--prune']);
    expect(gone).toContainEqual({
      document: 'agent/exported',
      outcome: 'deleted',
      revision: expect.any(Number),
    });
  });

  soakTest('what differs is proposed as one change set, and what has drifted is told', async () => {
    expect((await cli.run(['config', 'export', 'drifting'])).code).toBe(0);
    expect(await cli.run(['drift', 'drifting'])).toEqual({
      code: 0,
      out: 'nothing differs\n',
      err: '',
    });
    write('drifting/service/proposed.yaml', 'service_type: cloud_run\nmin_instances: 3\n');
    write('drifting/agent/proposed.yaml', 'custom: {a: b}\n');
    const set = await answered(['propose', 'drifting', '--reason', 'from git', '--manual']);
    expect(set).toMatchObject({
      state: 'pending',
      title: 'drifting',
      apply: 'manual',
      required: 1,
    });
    expect(set.items.map(({ path }: { path: string }) => path)).toEqual([
      `/tenants/${tenant.id}/config/agents/proposed`,
      `/tenants/${tenant.id}/services/proposed`,
    ]);
    const { code, out } = await cli.run(['drift', 'drifting', '--ignore', 'service/proposed']);
    expect([code, out]).toEqual([2, expect.not.stringContaining('service/proposed')]);
    const both = 'service/proposed,agent/proposed';
    expect((await cli.run(['drift', 'drifting', '--ignore', both])).code).toBe(0);
    const there = `/tenants/${tenant.id}/config/agents/elsewhere`;
    expect((await tenant.admin.put(there, { custom: { a: 1 } })).status).toBe(201);
    expect((await cli.run(['drift', 'drifting', '--ignore', both])).out).toMatch(
      /agent\/elsewhere/,
    );
  });

  test('a file that is not usable is refused by its name', async () => {
    write('bad/global/x.yaml', 'config_value: 1');
    expect(await cli.run(['config', 'diff', 'bad'])).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^strata: bad_file: global\/x\.yaml is the platform's/),
    });
  });

  soakTest('a plan that was changed underneath is refused and names what moved', async () => {
    await platform.put('/config/global/cli.limit', { config_value: 1, is_public: true });
    await platform.put('/config/global/cli.other', { config_value: 'a', is_public: true });
    const export_ = await asPlatform('config', 'export', 'platform', '--tenant', 'platform');
    expect(export_).toMatchObject({ code: 0, err: '' });

    write('platform/global/cli.limit.yaml', 'config_value: 2\nis_public: true\n');
    const planned = await asPlatform('plan', 'platform');
    expect(planned).toMatchObject({ code: 2, err: '' });
    expect(planned.out).toMatch(/^\/config\/global\/cli\.limit +\/config_value +1 +2$/m);
    expect(planned.out).toMatch(/^Acme Robots +all +cli\.limit +1 +2 +global/m);
    const [, digest] = /^digest (\S+)$/m.exec(planned.out)!;

    await platform.put('/config/global/cli.other', { config_value: 'b', is_public: true });
    const refused = await asPlatform('apply', 'platform', '--digest', digest!);
    expect(refused).toMatchObject({ code: 1, out: '' });
    expect(refused.err).toMatch(/^strata: precondition_failed: .*global_cli\.other.* Plan again/);
    expect((await platform.get('/config/global/cli.limit')).body.config_value).toBe(1);

    write('platform/global/cli.other.yaml', 'config_value: b\nis_public: true\n');
    const again = /^digest (\S+)$/m.exec((await asPlatform('plan', 'platform')).out)![1]!;
    const applied = await asPlatform('apply', 'platform', '--digest', again, '--reason', 'sale');
    expect(applied).toMatchObject({ code: 0, err: '' });
    expect(applied.out).toMatch(/put +\/config\/global\/cli\.limit +updated/);
    expect((await platform.get('/config/global/cli.limit')).body.config_value).toBe(2);
    expect(await asPlatform('plan', 'platform')).toEqual({
      code: 0,
      out: 'nothing differs\n',
      err: '',
    });
  });
});

soakTest(
  'freezes import makes the windows of a freeze those of a calendar, and keeps what else it says',
  async () => {
    const path = `/tenants/${tenant.id}/config/freezes`;
    const during = [{ dates: ['01-01'], timezone: 'UTC' }];
    await tenant.admin.put(path, { holidays: { during, reason: 'rest' } });
    const file = join(cli.folder, 'holidays.ics');
    const event = ['DTSTART;VALUE=DATE:20201225', 'RRULE:FREQ=YEARLY'];
    const write = (lines: readonly string[]): void =>
      writeFileSync(
        file,
        ['BEGIN:VCALENDAR', 'BEGIN:VEVENT', ...lines, 'END:VEVENT', 'END:VCALENDAR'].join('\r\n'),
      );
    write(event);
    const args = ['freezes', 'import', 'holidays', file, '--timezone', 'Europe/Rome'];
    const before = (await tenant.admin.get(path)).body;
    expect((await cli.run([...args, '--dry-run'])).out).toContain('/holidays/during ');
    expect((await tenant.admin.get(path)).body).toEqual(before);
    expect(await answered(args)).toMatchObject({ outcome: 'updated' });
    expect((await tenant.admin.get(path)).body).toEqual({
      holidays: { during: [{ dates: ['12-25'], timezone: 'Europe/Rome' }], reason: 'rest' },
    });
    write(['DTSTART;VALUE=DATE:20201225', 'RRULE:FREQ=SECONDLY']);
    const refused = await cli.run(args);
    expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('/VEVENT/0/RRULE')]);
    expect((await cli.run(args.slice(0, 4))).err).toContain('--timezone is needed');
    await tenant.admin.delete(path);
  },
);

test('stop refuses every automation with its reason, resume lifts it', async () => {
  const automated = async (): Promise<unknown> =>
    (await tenant.admin.get(`/tenants/${tenant.id}/config/effective`)).body.values
      .automation_enabled;
  // One that only warns, and for a type, is no stop.
  const limited = { const: false, mode: 'warn', service_types: ['cloud_run'] };
  await tenant.admin.patch(`/tenants/${tenant.id}/config/bounds`, { automation_enabled: limited });
  expect(await automated()).toBe(true);
  const stopped = await cli.run(['stop', '--reason', 'incident 7']);
  expect([stopped.code, stopped.out]).toEqual([0, expect.stringMatching(/stopped/)]);
  expect(await automated()).toBe(false);
  const { body } = await tenant.admin.get(`/tenants/${tenant.id}/config/bounds`);
  expect(body.automation_enabled).toEqual({ const: false, reason: 'incident 7' });
  expect((await cli.run(['resume'])).code).toBe(0);
  expect(await automated()).toBe(true);
});

test('a stop that a policy guards is lifted by a proposal, or in an emergency', async () => {
  const guarded = await createTenant(strata.url, platform, 'Guarded');
  const at = `/tenants/${guarded.id}/config`;
  const policy = { config_types: ['bounds_config'], tightening: 'free' };
  expect((await guarded.admin.put(`${at}/change-policy`, policy)).status).toBe(201);
  const run = (...args: string[]): Promise<Ended> =>
    asPerson(guarded.emails.tenant_admin!, memberPassword, ...args, '--reason', 'incident 8');
  const isStopped = async (): Promise<boolean> =>
    (await guarded.admin.get(`${at}/bounds`)).body.automation_enabled?.const === false;
  expect(await run('stop')).toMatchObject({ code: 0, err: '' });
  expect((await run('resume')).err).toMatch(/^strata: change_approval_required/);
  const proposed = await run('resume', '--propose');
  expect([proposed.code, proposed.out]).toEqual([0, expect.stringMatching(/^waits for approval/)]);
  expect(await isStopped()).toBe(true);
  const why = 'Payments are down and no one else is awake';
  expect(await run('resume', '--break-glass', why)).toMatchObject({ code: 0, err: '' });
  expect(await isStopped()).toBe(false);
});

test('a calendar whose freezes a policy guards is proposed, or written in an emergency', async () => {
  const guarded = await createTenant(strata.url, platform, 'Guarded calendar');
  const at = `/tenants/${guarded.id}/config`;
  const policy = { config_types: ['freezes_config'] };
  expect((await guarded.admin.put(`${at}/change-policy`, policy)).status).toBe(201);
  const file = join(cli.folder, 'guarded.ics');
  const event = ['BEGIN:VEVENT', 'DTSTART;VALUE=DATE:20201225', 'RRULE:FREQ=YEARLY', 'END:VEVENT'];
  writeFileSync(file, ['BEGIN:VCALENDAR', ...event, 'END:VCALENDAR'].join('\r\n'));
  const args = ['freezes', 'import', 'holidays', file, '--timezone', 'Europe/Rome'];
  const run = (...more: string[]): Promise<Ended> =>
    asPerson(guarded.emails.tenant_admin!, memberPassword, ...args, ...more, '--reason', 'rest');
  expect((await run()).err).toMatch(/^strata: change_approval_required/);
  const proposed = await run('--propose');
  expect(proposed).toMatchObject({ code: 0, out: expect.stringMatching(/^waits for/), err: '' });
  const why = 'The holidays begin tonight and no one else is awake';
  expect(await run('--break-glass', why)).toMatchObject({ code: 0, err: '' });
  expect((await guarded.admin.get(`${at}/freezes`)).body.holidays.during).toHaveLength(1);
});

soakTest('members, who decides, keys and deliveries, as the console has them', async () => {
  const email = tenant.emails.tenant_admin!;
  const routes = {
    approver_groups: { risk_levels: { high: ['board'] } },
    email: { approval_recipients: [email] },
  };
  expect(
    (await tenant.admin.patch(`/tenants/${tenant.id}/config/notifications`, routes)).status,
  ).toBe(200);
  expect((await asAdmin('members')).out).toMatch(/operator@\S+ +- +operator +- +active/);
  expect((await asAdmin('who')).out).toMatch(/high risk +board +no one/);
  expect((await asAdmin('keys')).out).toMatch(/cli +strata_/);
  const asked = await tenant.operator.post(`/tenants/${tenant.id}/approvals`, {
    action: 'spend',
    title: 'More',
    risk_level: 'high',
  });
  expect(asked.status).toBe(202);
  const of = ['--approval', asked.body.id];
  await eventually(async () => {
    const path = `/tenants/${tenant.id}/notifications/deliveries?state=delivered`;
    const { body } = await tenant.admin.get(`${path}&approval_id=${asked.body.id}`);
    expect(body.items).not.toEqual([]);
  });
  const [delivery] = (await answered(['deliveries', 'list', '--state', 'delivered', ...of])).items;
  const shown = await answered(['deliveries', 'show', delivery.id]);
  expect(shown).toMatchObject({ target: delivery.target, log: [{ error: null }] });
  const again = await asAdmin('deliveries', 'replay', delivery.id);
  expect([again.code, again.out]).toEqual([0, expect.stringContaining(delivery.id)]);
});

soakTest('destinations are listed, tried, and sent their events again', async () => {
  const receiver = await startReceiver();
  const path = `/tenants/${tenant.id}/config/event-destinations`;
  const siem = { url: receiver.url, batch: { max_seconds: 0 } };
  expect((await tenant.admin.put(path, { siem })).status).toBeLessThan(300);
  await eventually(async () =>
    expect((await asAdmin('destinations', 'list')).out).toMatch(/siem +http:\S+ +current/),
  );
  const tried = await asAdmin('destinations', 'test', 'siem');
  expect([tried.code, tried.out]).toEqual([0, expect.stringContaining('204')]);
  const again = await asAdmin('destinations', 'replay', 'siem', '--from', '2');
  expect([again.code, again.err]).toEqual([0, '']);
  await receiver.wait(({ body }) => body.data.first_seq === 2);
  await receiver.close();
  const lost = await asAdmin('destinations', 'test', 'siem');
  expect([lost.code, lost.out]).toEqual([1, expect.stringContaining('cannot be reached')]);
  expect((await tenant.admin.delete(path)).status).toBe(204);
});

test('audit verify --file proves an export offline, and says where it was changed', async () => {
  const { out } = await cli.run(['audit', 'export']);
  const file = join(cli.folder, 'audit.ndjson');
  const verify = (lines: readonly string[], ...more: string[]): Promise<Ended> => {
    writeFileSync(file, lines.join('\n'));
    const environment = { STRATA_URL: 'https://nowhere.invalid', STRATA_API_KEY: '' };
    return cli.run(['audit', 'verify', '--file', file, '--json', ...more], { environment });
  };
  const lines = out.trimEnd().split('\n');
  const last = JSON.parse(lines.at(-1)!);
  const whole = await verify(lines);
  expect(whole).toMatchObject({ code: 0, err: '' });
  expect(JSON.parse(whole.out)).toEqual({
    chain: tenant.id,
    events: lines.length,
    head: String(last.seq),
    head_hash: last.hash,
  });
  const changed = lines.with(2, lines[2]!.replace('"action":"', '"action":"x'));
  expect(await verify(changed)).toMatchObject({
    code: 1,
    out: expect.stringContaining('"broken_at": 3'),
  });
  const missing = lines.toSpliced(2, 1);
  expect(JSON.parse((await verify(missing)).out)).toMatchObject({
    broken_at: 3,
    problem: 'the event is missing',
  });
  const cut = lines.slice(2);
  expect((await verify(cut)).err).toContain('--after needs the hash before it');
  expect((await verify(cut, '--after', JSON.parse(lines[1]!).hash)).code).toBe(0);
});

test.each([
  ['a device', '/dev/full', 'ENOSPC'],
  ['a file that has place for a part', 'export.ndjson', 'EFBIG'],
])('what %s does not take whole is a failure', (_what, file, code) => {
  const bin = join(installed.path, '../../.bin/strata');
  // In KiB, of which the help fills more.
  const script = 'ulimit -f 4; "$0" "$1" help > "$2"';
  const { status, stderr } = spawnSync('bash', ['-c', script, process.execPath, bin, file], {
    cwd: cli.folder,
    encoding: 'utf8',
  });
  expect([status, stderr]).toEqual([
    1,
    expect.stringMatching(new RegExp(`^strata: the answer is not written: .*${code}`)),
  ]);
});

soakTest('a rollout is shown with its stages, and goes where its steps say', async () => {
  const entry = '/config/global/staged';
  const value = (config_value: number) => ({ config_value, is_public: true });
  expect((await platform.put(entry, value(1))).status).toBe(201);
  const items = [{ action: 'put', path: entry, body: value(2) }];
  const { digest } = (await platform.post('/config/plan', { items })).body;
  const manual = { bake_minutes: 60, gate: [{ type: 'manual' }] };
  const stages = [50, 100].map((percent) => ({ percent, ...manual }));
  const staged = { title: 'Twice as much', reason: 'It is time', items, digest, stages };
  const { status, body, text } = await platform.post('/config/rollouts', staged);
  expect({ status, text }).toMatchObject({ status: 201 });

  expect((await asPlatform('rollouts', 'list')).out).toMatch(/Twice as much +planned +none of 2/);
  const step = async (name: string, ...more: string[]): Promise<string> => {
    const { code, out, err } = await asPlatform('rollouts', name, body.id, ...more);
    expect({ name, code, err }).toEqual({ name, code: 0, err: '' });
    return out;
  };
  const why = ['--reason', 'looks odd'];
  expect(await step('advance')).toMatch(/running, baking +1 of 2/);
  expect(await step('hold', ...why)).toMatch(/held +1 of 2/);
  expect(await step('show')).toMatch(/1 +here +50 % +60 min/);
  expect(await step('resume', ...why)).toMatch(/running, baking +1 of 2/);
  expect(await step('revert', ...why)).toMatch(/reverted/);
  expect((await platform.get(entry)).body.config_value).toBe(1);
});

soakTest(
  'a folder owns what it sets: what is taken over by hand is told, and not written over',
  async () => {
    const { id, admin } = tenant;
    const folder = (name: string): string => join(cli.folder, name);
    const write = (path: string, text: string): void => {
      mkdirSync(dirname(folder(path)), { recursive: true });
      writeFileSync(folder(path), text);
    };
    write('owned/agent/owned.yaml', 'custom: {a: 1, b: 1}\n');
    const by = ['--managed-by', 'git/acme'];
    const path = `/tenants/${id}/config/agents/owned`;
    // What is there already is claimed as well, once.
    expect((await admin.put(path, { custom: { a: 1, b: 1 } })).status).toBe(201);
    expect(await answered(['config', 'import', 'owned', ...by])).toEqual([
      { document: 'agent/owned', outcome: 'updated', revision: expect.any(Number) },
    ]);
    expect((await cli.run(['config', 'import', 'owned', ...by])).out).toBe('nothing differs\n');
    const set = ['config', 'set', 'agent', 'owned', 'custom.a=2'];
    expect((await cli.run(set)).err).toMatch(/^strata: field_managed: \/custom\/a .*git\/acme/);
    expect((await cli.run([...set, '--take-over', 'git/acme'])).code).toBe(0);
    const drifted = await cli.run(['drift', 'owned']);
    expect([drifted.code, drifted.out]).toEqual([
      2,
      expect.stringMatching(/taken over from git\/acme: agent\/owned \/custom\/a by \S+ at 2/),
    ]);
    const refused = await cli.run(['config', 'import', 'owned', ...by]);
    expect([refused.code, refused.err]).toEqual([
      1,
      expect.stringMatching(/field_managed: agent\/owned: .*took it over at/),
    ]);
    // The folder says the same by now, which its next run says, too.
    write('owned/agent/owned.yaml', 'custom: {a: 2, b: 1}\n');
    const agreed = await cli.run(['config', 'import', 'owned', ...by]);
    expect([agreed.code, agreed.out]).toEqual([
      0,
      expect.stringContaining('taken over from git/acme: agent/owned /custom/a by'),
    ]);
    expect((await cli.run(set.slice(0, -1).concat('custom.a=3'))).code).toBe(1);
    const proposed = await answered(['propose', 'owned', '--reason', 'from git', ...by]).catch(
      (error: Error) => error.message,
    );
    expect(proposed).toBeNull();
    write('owned/agent/owned.yaml', 'custom: {a: 2, b: 2}\n');
    const change = await answered(['propose', 'owned', '--reason', 'from git', ...by]);
    expect(change).toMatchObject({ state: 'pending', managed_by: 'git/acme' });
  },
);

soakTest('a plan that needs an approval is applied in an emergency, by a person', async () => {
  expect((await platform.put('/config/change-policy', { platform: {} })).status).toBe(201);
  const entry = 'emergency/global/cli.emergency.yaml';
  mkdirSync(dirname(join(cli.folder, entry)), { recursive: true });
  writeFileSync(join(cli.folder, entry), 'config_value: 1\nis_public: true\n');
  const by = ['--managed-by', 'git/platform'];
  const planned = await asPlatform('plan', 'emergency', ...by, '--json');
  const { digest } = JSON.parse(planned.out) as { digest: string };
  const apply = ['apply', 'emergency', '--digest', digest, ...by];
  const why = ['--break-glass', 'Payments are down and no one else is awake'];
  expect((await asPlatform(...apply)).err).toMatch(/^strata: change_approval_required/);
  expect((await asPlatform(...apply, ...why)).err).toMatch(/^strata: insufficient_scope/);
  expect((await platform.get('/config/global/cli.emergency')).status).toBe(404);
  const short = await asRoot(...apply, '--break-glass', 'too short');
  expect(short.err).toMatch(/^strata: validation_failed/);
  const applied = await asRoot(...apply, ...why);
  expect(applied).toMatchObject({ code: 0, err: '' });
  expect((await platform.get('/config/global/cli.emergency')).body.config_value).toBe(1);
  const [last] = (await platform.get('/config/history?limit=1')).body.items;
  expect(last).toMatchObject({ break_glass: true });
  const { body: owned } = await platform.get(
    '/config/managed-fields?document=%2Fconfig%2Fglobal%2Fcli.emergency',
  );
  expect(owned.items[0].fields).toContainEqual({ path: '/config_value', owner: 'git/platform' });
});

soakTest('every command there is has been run by these tests, and did what it says', () => {
  const names = table.commands.map(({ name }) => name);
  expect(names.filter((name) => !cli.done.has(name))).toEqual([]);
});
