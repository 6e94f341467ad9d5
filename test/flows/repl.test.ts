/** The operator's console against a cluster: what it says, how it ends, and under whose name it is audited. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { complete } from '../../gateway/repl/interpreter.ts';
import { join } from '../../gateway/repl/session.ts';
import { eventually, startCluster, type Cluster } from '../support/cluster.ts';
import { operator, type Said } from '../support/operator.ts';

let cluster: Cluster;
let tenant: string;
beforeAll(async () => {
  cluster = await startCluster({ gateways: 1 });
  tenant = cluster.tenant.id;
}, 120_000);
afterAll(async () => {
  await cluster?.stop();
});

const type = (args: readonly string[], input?: string): Promise<Said> =>
  operator(
    { NATS_URL: cluster.environment.NATS_URL!, STRATA_OPERATOR: 'grace', NODE_ID: 'gateway-1' },
    args,
    input,
  );
// eslint-disable-next-line typescript/no-explicit-any -- tests look into bodies of any shape
const answered = async (...args: string[]): Promise<any> => {
  const { code, out, err } = await type(args);
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}: ${err}`);
  return JSON.parse(out);
};
const audited = (action: string): Promise<unknown> =>
  eventually(async () => {
    const { body } = await cluster.platform.get(
      `/audit/events?action=${action}&actor=grace&limit=200`,
    );
    expect(body.items.length).toBeGreaterThan(0);
    return body.items.at(-1);
  });

describe('one command', () => {
  test("config get, set, history, effective, explain, rollback; each write is the operator's", async () => {
    expect(
      (await answered('config', 'get', 'risk', tenant)).document.global_settings
        .max_cost_impact_auto,
    ).toBe(15);
    const set = await answered(
      'config',
      'set',
      'risk',
      tenant,
      '{"global_settings": {"max_cost_impact_auto": 4}}',
      '--reason',
      'night shift',
    );
    expect(set).toMatchObject({
      outcome: 'updated',
      updated_by: 'grace',
      document: { global_settings: { max_cost_impact_auto: 4, max_concurrent_automations: 5 } },
    });
    expect(
      (await cluster.tenant.admin.get(`/tenants/${tenant}/config/risk`)).body.global_settings
        .max_cost_impact_auto,
    ).toBe(4);
    expect(await audited('config.risk.updated')).toMatchObject({
      actor: { type: 'operator', id: 'grace' },
      tenant_id: tenant,
      payload: { reason: 'night shift' },
    });

    const history = await type(['config', 'history', tenant, '--limit', '1']);
    expect(history.out).toContain('update tenant_risk_config');
    expect(history.out).toContain('by grace: night shift');
    expect(history.out).toContain('/global_settings/max_cost_impact_auto: 15 -> 4');
    expect((await answered('config', 'effective', tenant)).values.max_cost_impact_auto).toBe(4);
    expect(await answered('config', 'explain', tenant, 'max_cost_impact_auto')).toMatchObject({
      max_cost_impact_auto: {
        value: 4,
        layer: 'tenant_risk',
        updated_by: 'grace',
        shadowed: [{ layer: 'env', value: 15 }],
      },
    });
    expect(await answered('config', 'rollback', tenant, '1', '--dry-run')).toMatchObject({
      dry_run: true,
    });
    expect(
      (await answered('config', 'rollback', tenant, '1')).document.global_settings
        .max_cost_impact_auto,
    ).toBe(15);
    expect(await audited('config.risk.rolled_back')).toMatchObject({
      actor: { type: 'operator', id: 'grace' },
    });
  });

  test('a global entry is created with --replace and read back', async () => {
    expect(
      (await type(['config', 'set', 'global', 'from.repl', '{"config_value": 1}'])).err,
    ).toMatch(/^not_found: /);
    expect(
      await answered(
        'config',
        'set',
        'global',
        'from.repl',
        '{"config_value": {"warn": 1}}',
        '--replace',
      ),
    ).toMatchObject({ outcome: 'created' });
    expect((await answered('config', 'get', 'global', 'from.repl')).document.config_value).toEqual({
      warn: 1,
    });
    expect(await audited('config.global.created')).toMatchObject({
      actor: { type: 'operator', id: 'grace' },
      tenant_id: null,
    });
  });

  test('nodes, cache stats, cache keys, cache drop, reload, audit tail', async () => {
    await cluster.tenant.admin.get(`/tenants/${tenant}/config/risk`);
    const nodes = (await type(['nodes'])).out;
    expect(nodes).toMatch(/config-1 .* global-config,tenant-config +well/);
    expect(nodes).toMatch(/gateway-1 .* gateway or neighbour +well/);
    expect(nodes).toMatch(/repl-grace-\d+ .* this REPL +well/);
    expect((await type(['cache', 'stats', 'gateway-1'])).out).toMatch(
      /gateway-1 +configuration_service +\d+/,
    );
    expect((await type(['cache', 'keys', 'gateway-1', '--match', tenant])).out).toContain(
      `risk_config_${tenant}`,
    );
    expect((await answered('cache', 'drop', tenant)).invalidated).toContain(
      `risk_config_${tenant}`,
    );
    expect(
      (await type(['cache', 'keys', 'gateway-1', '--match', `risk_config_${tenant}`])).out,
    ).toBe('none\n');
    expect(await audited('config.cache.invalidated')).toMatchObject({
      actor: { type: 'operator', id: 'grace' },
      tenant_id: tenant,
    });
    const reload = await answered('reload');
    expect(reload).toMatchObject({
      status: 'ok',
      invalidated: { all: true, tenant_ids: [] },
      reinitialized: ['configuration_service', 'dynamic_config_service'],
    });
    expect(reload.nodes).toEqual(
      expect.arrayContaining(['config-1', 'config-2', 'gateway-1', 'identity-1', 'identity-2']),
    );
    expect(await audited('config_reloaded')).toMatchObject({
      actor: { type: 'operator', id: 'grace' },
    });
    expect((await type(['audit', 'tail', '--actor', 'grace', '--limit', '1'])).out).toMatch(
      /^\S+ {2}config_reloaded {2}operator:grace {2}platform .*\n$/,
    );
  });

  test('a refusal has its code, what is wrong where, the request id, and ends with 1', async () => {
    const wrong = await type([
      'config',
      'set',
      'risk',
      tenant,
      '{"global_settings": {"max_cost_impact_auto": -1}}',
    ]);
    expect(wrong).toMatchObject({ code: 1, out: '' });
    expect(wrong.err).toMatch(
      /^validation_failed: .*\n {2}\/global_settings\/max_cost_impact_auto .*\n {2}request [0-9a-f-]{36}\n$/,
    );
    const typos: [string[], RegExp][] = [
      [['config', 'get'], /^<resource> is missing\nusage: config get <resource> <address\.\.\.>/],
      [['config', 'get', 'risk'], /risk needs <tenant_id>/],
      [['config', 'gte'], /config needs one of get, /],
      [['recofig'], /there is no command recofig/],
      [['nodes', '--fast'], /Unknown option '--fast'/],
      [['config', 'set', 'risk', tenant, '{"a":'], /the JSON is not valid/],
      [['config', 'rollback', tenant, 'x'], /x is not a revision/],
    ];
    for (const [args, says] of typos) {
      const { code, err } = await type(args);
      expect([code, err]).toEqual([1, expect.stringMatching(says)]);
    }
  });
});

test('a pipe brings commands, JSON typed as it is; the first that fails is the last', async () => {
  const { code, out, err } = await type(
    [],
    [
      '# the night shift',
      '',
      `config set agent ${tenant} piped {"default_region": "europe west", "custom": {"a": [1, "}"]}} --replace --reason "two words"`,
      'config get agent nonsense piped',
      'nodes',
    ].join('\n'),
  );
  expect(JSON.parse(out)).toMatchObject({
    outcome: 'created',
    document: { default_region: 'europe west', custom: { a: [1, '}'] } },
  });
  expect(err).toMatch(/^validation_failed: /);
  expect(code).toBe(1);
  expect((await type([], 'nodes\nexit\nrecofig\n')).code).toBe(0);
});

test('without NATS it says what to do; help needs no cluster', async () => {
  const alone = await operator({}, ['nodes']);
  expect(alone).toMatchObject({ code: 1, out: '' });
  expect(alone.err).toContain('NATS_URL is not set');
  expect((await operator({}, ['help'])).out).toContain('config rollback <tenant> <revision>');
});

test('the tab key: commands, resources, ids, flags', async () => {
  Object.assign(process.env, { NATS_URL: cluster.environment.NATS_URL, STRATA_OPERATOR: 'grace' });
  const session = await join();
  const offers = async (line: string): Promise<string[]> => (await complete(line, session))[0];
  expect(await offers('ca')).toEqual(['cache ']);
  expect(await offers('config r')).toEqual(['rollback ']);
  expect(await offers('config get r')).toEqual(['risk ']);
  expect(await offers(`config get risk ${tenant.slice(0, 8)}`)).toEqual([`${tenant} `]);
  expect(await offers('cache keys gate')).toEqual(['gateway-1 ']);
  expect(await offers('reload --d')).toEqual(['--dry-run ']);
  await session.leave();
});
