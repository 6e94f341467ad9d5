/**
 * The package `@strata/client`, as somebody else installs it, beside a real Strata: in Node, in
 * strict TypeScript, in a browser.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { connect } from '../../../client/source/index.ts';
import { openBrowser } from '../../support/browser.ts';
import {
  gzippedLength,
  installClient,
  loadedBy,
  nodes,
  type InstalledClient,
} from '../../support/client-package.ts';
import { eventually } from '../../support/cluster.ts';
import { exampleOf } from '../../support/pasted.ts';
import { startProxy } from '../../support/proxy.ts';
import { createTenant, type TenantFixture } from '../../support/strata.ts';
import { platform, strata } from './strata.ts';

let tenant: TenantFixture;
let apiKey: string;
let installed: InstalledClient;

beforeAll(async () => {
  const installing = installClient();
  installing.catch(() => {});
  tenant = await createTenant(strata.url, platform, 'Client');
  const { id, admin } = tenant;
  await admin.put(`/tenants/${id}/services/checkout`, { service_type: 'cloud_run' });
  await admin.put(`/tenants/${id}/config/agents/cost_optimizer`, {
    custom: { zero: 0, off: false, empty: '', large: Number.MAX_SAFE_INTEGER, none: null },
  });
  const odd = { ['__proto__']: 1, zero: 0, off: false, empty: '', large: Number.MAX_SAFE_INTEGER };
  for (const [key, value] of Object.entries(odd))
    await platform.put(`/config/global/${key}`, { config_value: value, is_public: true });
  const scopes = ['config:read', 'automations:read', 'automations:write'];
  const { body } = await admin.post('/auth/api-key', { name: 'service', scopes });
  apiKey = (body as { api_key: string }).api_key;
  installed = await installing;
});
afterAll(async () => {
  installed?.remove();
});

const query = 'agent_type=cost_optimizer&service_id=checkout';
const effective = async () =>
  (await tenant.viewer.get(`/tenants/${tenant.id}/config/effective?explain=true&${query}`))
    .body as {
    values: Record<string, unknown>;
    revision: object;
    explain: Record<string, { layer: string; source: string }>;
  };
/** The beginning of a program that connects. */
const connecting = (): string => `
  import { connect } from '@strata/client';
  const config = await connect({
    url: '${strata.url}', tenant: '${tenant.id}', token: '${apiKey}',
    context: { agentType: 'cost_optimizer', serviceId: 'checkout' },
  });
`;

describe('the package', () => {
  test('is small, needs nothing, and loads nothing of Node before a file is asked for', () => {
    const { path, folder } = installed;
    expect(readdirSync(join(folder, 'node_modules/@strata'))).toEqual(['client']);
    const manifest = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'));
    expect(manifest.dependencies).toBeUndefined();
    const entry = join(path, 'dist/index.js');
    for (const file of loadedBy(entry, 'atOnce'))
      expect(readFileSync(file, 'utf8')).not.toMatch(/node:|require\(/);
    // As it is shipped, which is minified, with all that it can ever load, which is what keeps
    // files.
    const all = loadedBy(entry, 'ever');
    expect(all).toContain(join(path, 'dist/file-storage.js'));
    expect(gzippedLength(all)).toBeLessThan(9000);
    for (const file of ['README.md', 'LICENSE', 'dist/index.d.ts'])
      expect([file, existsSync(join(path, file))]).toEqual([file, true]);
  });

  test('does nothing before connect', async () => {
    const said = await installed.run(
      process.execPath,
      `const asked = [];
       for (const name of ['fetch', 'setTimeout', 'setInterval'])
         globalThis[name] = () => { asked.push(name); };
       await import('@strata/client');
       console.log(JSON.stringify(asked));`,
    );
    expect(JSON.parse(said)).toEqual([]);
  });
});

describe.each(nodes())('with %s', (node) => {
  test('every value equals GET effective, with its layer', async () => {
    const said = await installed.run(
      node,
      `${connecting()}
       const keys = Object.keys(config.values);
       const details = keys.map((key) => config.details(key));
       console.log(JSON.stringify({
         values: Object.fromEntries(keys.map((key) => [key, config.get(key, 'missing')])),
         layers: Object.fromEntries(details.map(({ layer }, index) => [keys[index], layer])),
         revision: config.revision,
       }));
       await config.close();`,
    );
    const { values, revision, explain } = await effective();
    const layers = Object.fromEntries(
      Object.entries(explain).map(([key, { layer }]) => [key, layer]),
    );
    expect(JSON.parse(said)).toEqual({ values, layers, revision });
    expect(Object.keys(values)).toEqual(
      expect.arrayContaining(['__proto__', 'zero', 'off', 'empty', 'large']),
    );
  });

  test('decides, and runs an automation that says by itself that it runs', async () => {
    const said = await installed.run(
      node,
      `${connecting()}
       const intent = { action: 'scale_min_instances', riskLevel: 'low', costImpact: 4 };
       const may = await config.decide(intent);
       const costly = await config.decide({ ...intent, costImpact: 1e6 });
       const run = await config.automation({ ...intent, ttlSeconds: 9 });
       const first = run.expiresAt;
       for (let tries = 0; tries < 600 && run.expiresAt <= first; tries += 1)
         await new Promise((done) => setTimeout(done, 100));
       const seen = [run.state, run.expiresAt > first, run.signal.aborted, await run.started()];
       await run.finish('succeeded');
       console.log(JSON.stringify({ may, costly, seen, state: run.state }));
       await config.close();`,
    );
    const { may, costly, seen, state } = JSON.parse(said);
    expect(may.decision).toBe('allow');
    expect(costly).toMatchObject({
      decision: 'deny',
      reasons: expect.arrayContaining([expect.objectContaining({ rule: expect.any(String) })]),
    });
    expect(seen).toEqual(['running', true, false, true]);
    expect(state).toBe('finished');
  });

  test('runs exactly what was redeemed, as its README says, and stops with its slot', async () => {
    const pasted = exampleOf('client/README.md', 'Exactly once', 'js');
    const said = await installed.run(
      node,
      `${connecting()}
       ${pasted}
       const code = (error) => error.code ?? error.message;
       const intent = { action: 'scale', riskLevel: 'low' };
       const codes = [
         await config.automation.run({ ...intent, costImpact: 1e6 }, () => 'worked').catch(code),
         await config.automation.run({ ...intent, riskLevel: 'high' }, () => 'worked', { timeoutMs: 500 }).catch(code),
         await config.automation.run(intent, () => { throw new Error('mine'); }).catch(code),
       ];
       const headers = { authorization: 'Bearer ${tenant.admin.token}', 'content-type': 'application/json' };
       const tenant = '${strata.url}/tenants/${tenant.id}';
       const last = async () => (await (await fetch(tenant + '/automations?limit=1', { headers })).json()).items[0];
       const lost = await config.automation.run({ ...intent, ttlSeconds: 5 }, async ({ signal }) => {
         const { id } = await last();
         await fetch(tenant + '/automations/' + id + '/finish', { method: 'POST', headers, body: '{"outcome":"ended by somebody"}' });
         await new Promise((done) => signal.addEventListener('abort', done));
       }).catch(code);
       const one = await config.automation(intent);
       await one.redeem();
       const again = await one.redeem().catch(code);
       await one.finish('succeeded');
       const paid = await config.automation.run({ ...intent, costImpact: 2 }, async ({ cost }) => { cost(0.5); return (await last()).id; });
       const spent = (await (await fetch(tenant + '/automations/' + paid, { headers })).json()).actual_cost;
       console.log(JSON.stringify({ done, codes, lost, again, spent }));
       await config.close();`,
    );
    expect(JSON.parse(said)).toEqual({
      done: 'scaled to 4',
      codes: ['not_started', 'timeout', 'mine'],
      lost: 'slot_lost',
      again: 'grant_used',
      spent: 0.5,
    });
  });

  test('a write of the platform arrives, and atLeast sees one of the tenant at once', async () => {
    const key = `from.platform.${nodes().indexOf(node)}`;
    const cpu = `${2 + nodes().indexOf(node)}`;
    const said = await installed.run(
      node,
      `${connecting()}
       const token = '${tenant.admin.token}';
       const headers = { authorization: 'Bearer ' + token, 'content-type': 'application/json' };
       const write = await fetch('${strata.url}/tenants/${tenant.id}/config/agents/cost_optimizer', {
         method: 'PATCH', headers, body: JSON.stringify({ default_cpu: '${cpu}' }),
       });
       const revision = Number(write.headers.get('x-config-revision'));
       await config.atLeast(revision);
       const seen = config.get('default_cpu');
       const platform = { authorization: 'Bearer ${platform.token}', 'content-type': 'application/json' };
       const arriving = new Promise((done) => config.on('change', ({ changes }) => {
         if (changes.some(({ key }) => key === '${key}')) done(changes);
       }));
       await fetch('${strata.url}/config/global/${key}', {
         method: 'PUT', headers: platform, body: JSON.stringify({ config_value: 7, is_public: true }),
       });
       await arriving;
       console.log(JSON.stringify([seen, config.get('${key}')]));
       await config.close();`,
    );
    expect(JSON.parse(said)).toEqual([cpu, 7]);
  });

  test('starts from the file of an earlier run, and from none that may not be used', async () => {
    const said = await installed.run(
      node,
      `import { connect } from '@strata/client';
       import { chmodSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
       const file = 'kept.json';
       rmSync(file, { force: true });
       const options = {
         url: '${strata.url}', tenant: '${tenant.id}', token: '${apiKey}', lastKnownGood: file,
         context: { agentType: 'cost_optimizer', serviceId: 'checkout' },
       };
       await (await connect(options)).close();
       const whole = readFileSync(file, 'utf8');
       const mode = (statSync(file).mode & 0o777).toString(8);
       globalThis.fetch = async () => { throw new TypeError('away'); };
       async function start(context = options.context) {
         const warnings = [];
         const warn = (message) => warnings.push(message);
         try {
           const startup = { timeoutMs: 200 };
           const config = await connect({ ...options, context, startup, warn });
           const seen = [config.state.from, config.get('large'), config.get('off', true)];
           await config.close();
           return [...seen, ...warnings];
         } catch ({ code }) {
           return [code, ...warnings];
         }
       }
       const seen = { mode, whole: await start(), foreign: await start({ serviceId: 'other' }) };
       writeFileSync(file, whole.slice(0, -20));
       seen.truncated = await start();
       writeFileSync(file, whole.replace('"format":1', '"format":2'));
       seen.newer = await start();
       writeFileSync(file, whole);
       chmodSync(file, 0o646);
       seen.writable = await start();
       console.log(JSON.stringify(seen));`,
    );
    const unused = (why: RegExp) => ['timeout', expect.stringMatching(why)];
    expect(JSON.parse(said)).toEqual({
      mode: '600',
      whole: ['file', Number.MAX_SAFE_INTEGER, false],
      foreign: unused(/another url, tenant or context/),
      truncated: unused(/damaged/),
      newer: unused(/newer client/),
      writable: unused(/everybody may write/),
    });
  });
});

test('a program in the strictest TypeScript knows the types of its keys', async () => {
  const program = `
    import { connect } from '@strata/client';
    const config = await connect({
      url: '${strata.url}', tenant: '${tenant.id}', token: () => '${apiKey}',
      context: { agentType: 'cost_optimizer', serviceId: 'checkout' },
      schema: { region: 'string', custom: { type: 'object' } },
    });
    const cost: number = config.limit('max_cost_impact_auto');
    const isOn: boolean = config.limit('automation_enabled');
    const region: string = config.get('region', 'none');
    const custom: Readonly<Record<string, unknown>> | undefined = config.get('custom');
    // @ts-expect-error -- a text is no number
    const wrong: number = config.get('region', 'none');
    // @ts-expect-error -- the key's fallback is a text
    config.get('region', 3);
    const free = config.get<number>('anything', 3);
    const stop: () => void = config.on('change', ({ changes }) => changes.map(({ key }) => key));
    stop();
    const child = await config.with({ serviceId: 'checkout' });
    const past = await config.at(new Date());
    export const pasted = async (): Promise<string> => {
      ${exampleOf('client/README.md', 'Exactly once', 'js')}
      return done;
    };
    console.log(JSON.stringify([cost, isOn, region, custom?.['large'], free, past.get('min_instances', 1)]));
    await config.close();
    console.log(child.state.status, typeof wrong);
  `;
  const compiled = await installed.compile(program);
  const { values } = await effective();
  const { max_cost_impact_auto: cost, automation_enabled: isOn } = values;
  for (const node of nodes()) {
    const [line, status] = (await installed.run(node, compiled)).split('\n');
    expect(JSON.parse(line!)).toEqual([cost, isOn, 'none', Number.MAX_SAFE_INTEGER, 3, 1]);
    expect(status).toBe('closed string');
  }
});

test('a stream that is cut continues where it was: each write is told once', async () => {
  const proxy = await startProxy(Number(new URL(strata.url).port));
  const config = await connect({
    url: `http://127.0.0.1:${proxy.port}`,
    tenant: tenant.id,
    token: apiKey,
    warn: () => {},
  });
  const received: unknown[] = [];
  config.on('change', ({ changes }) => received.push(...changes.map(({ after }) => after)));
  const isLive = () => eventually(async () => expect(config.state.status).toBe('live'));
  const write = (value: number) =>
    platform.put('/config/global/cut', { config_value: value, is_public: true });
  try {
    await isLive();
    await write(1);
    await eventually(async () => expect(config.get('cut')).toBe(1));
    proxy.reset();
    await write(2);
    await eventually(async () => expect(config.get('cut')).toBe(2));
    await isLive();
    await write(3);
    await eventually(async () => expect(config.get('cut')).toBe(3));
    expect(received).toEqual([1, 2, 3]);
    expect(config.details('cut')).toMatchObject({ from: 'stream', stale: false });
  } finally {
    await config.close();
    await proxy.stop();
  }
});

test('an automation that an earlier request began has its time begun again', async () => {
  const { port } = new URL(strata.url);
  /** What was answered to the first request, which nobody receives. */
  const lost = Promise.withResolvers<{ id: string; expires_at: string }>();
  let isLost = false;
  const front = createServer(async (request, response) => {
    const body = await new Response(Readable.toWeb(request)).text();
    const { url = '', method = '', headers } = request;
    const answer = await fetch(`http://127.0.0.1:${port}${url}`, {
      method,
      headers: { authorization: headers.authorization!, 'content-type': 'application/json' },
      ...(body !== '' && { body }),
    });
    const text = await answer.text();
    if (!isLost && url.endsWith('/automations')) {
      isLost = true;
      lost.resolve(JSON.parse(text));
      response.destroy();
    } else response.writeHead(answer.status, { 'content-type': 'application/json' }).end(text);
  }).listen(0, '127.0.0.1');
  await once(front, 'listening');
  const about = { tenant: tenant.id, token: apiKey, warn: () => {} };
  const url = `http://127.0.0.1:${(front.address() as AddressInfo).port}`;
  const [direct, behind] = await Promise.all([
    connect({ ...about, url: strata.url }),
    connect({ ...about, url }),
  ]);
  try {
    const intent = { action: 'scale', riskLevel: 'low', ttlSeconds: 600 } as const;
    const repeated = await behind.automation(intent);
    const first = await lost.promise;
    expect(repeated.id).toBe(first.id);
    expect(Date.parse(repeated.expiresAt!)).toBeGreaterThan(Date.parse(first.expires_at));
    await repeated.finish('succeeded');

    const known = { ...intent, idempotencyKey: 'of an earlier process' };
    const before = await direct.automation(known);
    const begun = before.expiresAt!;
    const after = await direct.automation(known);
    expect(after.id).toBe(before.id);
    expect(Date.parse(after.expiresAt!)).toBeGreaterThan(Date.parse(begun));
    await after.finish('succeeded');
  } finally {
    await Promise.all([direct.close(), behind.close()]);
    front.closeAllConnections();
    front.close();
  }
});

test('a browser has the same values, sees a write of the platform, and starts from what it kept', async () => {
  const dist = join(installed.path, 'dist');
  const site = createServer(({ url = '/' }, response) => {
    const file = join(dist, url);
    const isModule = readdirSync(dist).includes(url.slice(1)) && existsSync(file);
    response.setHeader('content-type', isModule ? 'text/javascript' : 'text/html');
    response.end(isModule ? readFileSync(file) : '<!doctype html><title>client</title>');
  });
  await new Promise<void>((done) => {
    site.listen(0, 'localhost', done);
  });
  const browser = await openBrowser();
  try {
    const page = await browser.newPage();
    await page.exposeFunction('writePlatform', async () => {
      await platform.put('/config/global/from.page', { config_value: 7, is_public: true });
    });
    await page.goto(`http://localhost:${(site.address() as AddressInfo).port}/`);
    const said = await page.evaluate<{
      values: string;
      arrived: number;
      fromFile: string[];
    }>(`(async () => {
      const { connect } = await import('/index.js');
      const options = {
        url: '${strata.url}', tenant: '${tenant.id}', token: '${apiKey}',
        context: { agentType: 'cost_optimizer', serviceId: 'checkout' },
        lastKnownGood: localStorage, startup: { timeoutMs: 500 },
      };
      const config = await connect({ ...options, startup: { timeoutMs: 60_000 } });
      const values = Object.fromEntries(
        Object.keys(config.values).map((key) => [key, config.get(key)]),
      );
      const arriving = new Promise((done) => config.on('change', ({ changes }) => {
        if (changes.some(({ key }) => key === 'from.page')) done();
      }));
      await writePlatform();
      await arriving;
      const arrived = config.get('from.page');
      await config.close();
      const real = globalThis.fetch;
      globalThis.fetch = async () => { throw new TypeError('away'); };
      const again = await connect(options);
      const fromFile = [again.state.from, again.details('automation_enabled').layer];
      await again.close();
      globalThis.fetch = real;
      // As text: what hands objects over knows no __proto__ of their own.
      return { values: JSON.stringify(values), arrived, fromFile };
    })()`);
    const { values, explain } = await effective();
    expect({ ...JSON.parse(said.values), 'from.page': said.arrived }).toEqual({ ...values });
    expect(said.fromFile).toEqual(['file', explain.automation_enabled!.layer]);
  } finally {
    await browser.close();
    site.close();
  }
});
