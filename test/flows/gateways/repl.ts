/**
 * The operator's console against a cluster: what it says, how it ends, and under whose name it is
 * audited. Commands are run by one member of the cluster, as they are by the process of a console;
 * what that process does itself is tested with one: pipes, the prompt, and joining.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join as pathOf } from 'node:path';
import { complete } from '../../../cli/completion.ts';
import { consoleTable } from '../../../cli/commands/console-commands.ts';
import { join, type ClusterSession } from '../../../cli/bus/cluster-session.ts';
import { describe as said, run } from '../../../cli/interpreter.ts';
import { eventually } from '../../support/cluster.ts';
import { operator, operatorPrompt, type Prompt, type Said } from '../../support/operator.ts';
import { soakTest } from '../../support/soak.ts';
import { createTenantWith, secretKey, type Client } from '../../support/strata.ts';
import { cluster } from './cluster.ts';

describe('the console of an operator', () => {
  let tenant: string;
  let admin: Client;
  let session: ClusterSession;
  beforeAll(async () => {
    ({ id: tenant, admin } = await createTenantWith(
      cluster.platform.url,
      cluster.platform,
      'Operated',
    ));
    Object.assign(process.env, { ...joining(), STRATA_OPERATOR: 'grace' });
    session = await join();
  });
  afterAll(async () => {
    await session?.leave();
  });

  const joining = (): Record<string, string> => ({
    NATS_URL: cluster.environment.NATS_URL!,
    SECRET_KEY: secretKey,
  });
  const piped = (...lines: readonly string[]): Promise<Said> =>
    operator(
      { ...joining(), STRATA_OPERATOR: 'grace', NODE_ID: 'gateway-1' },
      [],
      lines.join('\n'),
    );
  async function type(args: readonly string[]): Promise<Said> {
    let out = '';
    const print = (text: string): void => {
      out += `${text}\n`;
    };
    const { signal } = new AbortController();
    try {
      return { code: await run(args, session, { print, signal }, consoleTable), out, err: '' };
    } catch (error) {
      return { code: 1, out, err: `${said(error)}\n` };
    }
  }
  // eslint-disable-next-line typescript/no-explicit-any -- tests look into bodies of any shape
  const answered = async (...args: string[]): Promise<any> => {
    const { code, out, err } = await type([...args, '--json']);
    if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}: ${err}`);
    return JSON.parse(out);
  };
  /** Once its newest event by the operator is this. */
  const audited = (action: string, expected: object): Promise<void> =>
    eventually(async () => {
      const { body } = await cluster.platform.get(
        `/audit/events?action=${action}&actor=grace&limit=200`,
      );
      expect(body.items.at(-1)).toMatchObject(expected);
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
        (await admin.get(`/tenants/${tenant}/config/risk`)).body.global_settings
          .max_cost_impact_auto,
      ).toBe(4);
      await audited('config.risk.updated', {
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
      await audited('config.risk.rolled_back', {
        actor: { type: 'operator', id: 'grace' },
      });
    });

    test('the history of the platform, and rollback in it', async () => {
      const set = (value: number) =>
        answered('config', 'set', 'global', 'rolled', `{"config_value": ${value}}`, '--replace');
      const { revision } = await set(1);
      await set(2);
      const { out } = await type(['config', 'history', 'platform', '--resource', 'rolled']);
      expect(out).toContain('update global_config rolled by grace');
      expect(out).toContain('/config_value: 1 -> 2');
      expect(await answered('config', 'history', 'platform', String(revision))).toMatchObject({
        before: null,
        after: { config_value: 1 },
      });
      expect(await answered('config', 'rollback', 'platform', String(revision))).toMatchObject({
        outcome: 'updated',
        document: { config_value: 1 },
      });
      const purge = ['config', 'purge', 'global_config', 'rolled'];
      expect((await type(purge)).err).toContain('--reason is needed');
      const purged = await type([...purge, '--reason', 'a password']);
      expect(purged.out).toContain('one of the values is the one of now');
      const after = await answered('config', 'history', 'platform', String(revision));
      expect(after).toMatchObject({ after: null, purged: { reason: 'a password' } });
      const again = await type(['config', 'rollback', 'platform', String(revision)]);
      expect(again.err).toContain('was purged from the history');
    });

    soakTest('a tenant is called by its name wherever its id is wanted', async () => {
      const { platform } = cluster;
      const made = async (name: string): Promise<string> => {
        const admin = { email: `${name.replaceAll(' ', '.')}@names.example`.toLowerCase() };
        return (await platform.post('/tenants', { name, admin })).body.id as string;
      };
      const id = await made('Green Hills');
      const lines = [
        'config effective "green HILLS"',
        'audit tail --tenant "Green Hills" --limit 1',
        "cache drop 'Green Hills'",
        'config get risk "Green Hills"',
      ];
      const { code, out, err } = await piped(...lines);
      expect([code, err]).toEqual([0, '']);
      expect(out).toContain(`"tenant_id": "${id}"`);
      expect(out).toMatch(new RegExp(`tenant\\.\\S+  .*  ${id}`));

      expect((await type(['config', 'get', 'risk', 'green'])).err).toMatch(
        /^there is no tenant green; there are Green Hills\n/,
      );
      expect((await type(['config', 'effective', 'Nowhere'])).err).toMatch(
        /^there is no tenant Nowhere\n/,
      );
      const second = await made('GREEN HILLS');
      expect(await answered('config', 'effective', 'GREEN HILLS')).toMatchObject({
        tenant_id: second,
      });
      const several = await type(['config', 'effective', 'gReEn hIlLs']);
      expect(several.err).toMatch(/^several tenants are called .*; use the id: /);
      for (const each of [id, second]) expect(several.err).toContain(each);
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
      expect(
        (await answered('config', 'get', 'global', 'from.repl')).document.config_value,
      ).toEqual({
        warn: 1,
      });
      await audited('config.global.created', {
        actor: { type: 'operator', id: 'grace' },
        tenant_id: null,
      });
    });

    test('nodes, cache stats, cache keys, cache drop, reload, audit tail', async () => {
      await admin.get(`/tenants/${tenant}/config/risk`);
      const nodes = (await type(['nodes'])).out;
      expect(nodes).toMatch(/config-1 .* tenant-config.* well/);
      expect(nodes).toMatch(/gateway-1 .* gateway .* well/);
      expect(nodes).not.toContain('repl-grace');
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
      await audited('config.cache.invalidated', {
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
        expect.arrayContaining(['auth-2', 'config-1', 'gateway-1', 'gateway-2', 'identity-1']),
      );
      await audited('config_reloaded', {
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
      const all = await Promise.all(typos.map(([args]) => type(args)));
      expect(all.map(({ code, err }) => [code, err])).toEqual(
        typos.map(([, says]) => [1, expect.stringMatching(says)]),
      );
    });
  });

  soakTest(
    'a pipe brings commands, JSON typed as it is; the first that fails is the last',
    async () => {
      const { code, out, err } = await piped(
        '# the night shift',
        '',
        `config set agent ${tenant} piped {"default_region": "europe west", "custom": {"a": [1, "}"]}} --replace --reason "two words" --json`,
        'config get agent nonsense piped',
        'nodes',
      );
      expect(JSON.parse(out)).toMatchObject({
        outcome: 'created',
        document: { default_region: 'europe west', custom: { a: [1, '}'] } },
      });
      expect(err).toMatch(/^there is no tenant nonsense\n/);
      expect(code).toBe(1);
      const left = await piped(`config get agent ${tenant} piped`, 'exit', 'recofig', '');
      expect(left).toMatchObject({ code: 0, err: '' });
    },
  );

  describe('call', () => {
    const called = (action: string, params: object): Promise<Said> =>
      type(['call', action, JSON.stringify(params)]);

    test('any action, as the operator: audited like every other write', async () => {
      const body = { config_value: { page: 2 } };
      const put = await called('global-config.entries.put', { key: 'from.call', body });
      expect(JSON.parse(put.out)).toMatchObject({ outcome: 'created', updated_by: 'grace' });
      const { document } = await answered('config', 'get', 'global', 'from.call');
      expect(document.config_value).toEqual({ page: 2 });
      await audited('config.global.created', {
        actor: { type: 'operator', id: 'grace' },
        target: 'from.call',
      });
    });

    test.each<[string, string[], RegExp]>([
      [
        'access is checked',
        ['cluster.node.drop', '{"body": {"tenant_id": "x"}}'],
        /^insufficient_role: /,
      ],
      [
        'parameters are checked',
        ['global-config.entries.put', '{"key": "k", "body": {"nonsense": 1}}'],
        /^validation_failed: /,
      ],
      [
        'unknown parameters are refused',
        ['tenant-config.tenants.list', '{"bypass": true}'],
        /^validation_failed: /,
      ],
      ['what has no contract is not called', ['$node.list'], /^there is no action \$node\.list/],
      ['parameters are an object', ['audit.verify', '[]'], /^the parameters are a JSON object/],
    ])('%s', async (_name, args, message) => {
      const { code, out, err } = await type(['call', ...args]);
      expect({ code, out, err }).toEqual({ code: 1, out: '', err: expect.stringMatching(message) });
    });
  });

  describe('the prompt', () => {
    const home = mkdtempSync(pathOf(tmpdir(), 'strata-operator-'));
    const canary = 'canary-in-the-environment';
    let prompt: Prompt;
    beforeAll(async () => {
      prompt = await operatorPrompt({
        ...joining(),
        STRATA_OPERATOR: 'grace',
        HOME: home,
        SMTP_PASSWORD: canary,
      });
    });
    afterAll(() => {
      prompt?.kill();
      rmSync(home, { recursive: true, force: true });
    });

    test('runs the same commands, read by the same rules', async () => {
      const change = '{"global_settings": {"max_cost_impact_auto": 6}}';
      const set = await prompt.type(
        `config set risk ${tenant} ${change} --reason="typed at the prompt"`,
      );
      expect(set).toMatch(/updated, revision \d+/);
      expect(await prompt.type(`config history ${tenant} --limit 1`)).toContain(
        'by grace: typed at the prompt',
      );
      expect(await prompt.type('nodes')).toMatch(/gateway-1 .* gateway .* well/);
      expect(await prompt.type('config get')).toContain('<resource> is missing');
      expect(await prompt.type('help config rollback')).toContain(
        'config rollback <tenant> <revision> [--dry-run]',
      );
      expect(await prompt.type('config get -h')).toContain("Unknown option '-h'");
    });

    test.each([
      'emit cache.invalidate',
      'broadcast cache.invalidate {}',
      'broadcastLocal cache.invalidate {}',
      'dcall gateway-1 cluster.node.health',
      'bench cluster.node.health',
      'load ./strata.ts',
      'loadFolder services',
      'destroy cluster',
      'listener add cache.invalidate',
      'clear',
      'env',
      'info',
      'metrics',
      'exec ls',
      'process.env',
    ])('refuses %s', async (line) => {
      const [first] = line.split(' ');
      const shown = await prompt.type(line);
      expect(shown).toContain(`there is no command ${first}; help lists them`);
      expect(shown).not.toContain(canary);
    });

    test('its call is checked as everywhere', async () => {
      const denied = await prompt.type(
        `call cluster.node.drop {"body": {"tenant_id": "${tenant}"}}`,
      );
      expect(denied).toContain('insufficient_role');
      expect(await prompt.type('call $node.list')).toContain('there is no action $node.list');
      expect(await prompt.type('call tenant-config.tenants.list {"limit": 99}')).toContain(tenant);
    });

    test('keeps what lists the registry', async () => {
      expect(await prompt.type('services')).toContain('tenant-config');
      expect(await prompt.type('actions')).toContain('tenant-config.risk.put');
      expect(await prompt.type('events')).toContain('cache.invalidate');
    });

    test('Tab completes, and Ctrl-C ends a command, not the console', async () => {
      expect(await prompt.press('cache ke\t', /cache keys $/)).toContain('cache keys ');
      await prompt.press('--match nothing-like-it\r', /none\nstrata> $/);
      await prompt.press('audit tail --follow\r', /operator:grace/);
      await prompt.press('\u0003', /strata> $/);
      expect(await prompt.type('help nodes')).toContain('who is in the cluster');
    });

    test('what was typed while a command ran comes after it', async () => {
      const key = 'config.typed.ahead';
      const shown = await prompt.press(
        `config set global ${key} {"config_value": 1} --replace\rconfig get global ${key}\r`,
        /created, revision[^]*\nstrata> [^]*\nstrata> $/,
      );
      expect(shown).not.toContain('not_found');
    });

    test('exit leaves, and lines that may hold secrets are not in the history', async () => {
      const hook = 'https://93.184.216.34/hook';
      const secret = 'canary-typed-secret';
      const document = `{"webhook": {"url": "${hook}", "secret": "${secret}"}}`;
      const set = await prompt.type(`config set notifications ${tenant} ${document} --replace`);
      expect(set).toMatch(/, revision \d+/);
      await prompt.type('help nodes');
      await prompt.press('exit\r', /exit/);
      expect(await prompt.ended).toBe(0);
      const history = readFileSync(pathOf(home, '.moleculer_repl_history'), 'utf8');
      expect(history).toContain('help nodes');
      expect(history).toContain('config set global config.typed.ahead {"config_value": 1}');
      expect(history).not.toContain(secret);
    });
  });

  soakTest('without NATS it says what to do; help needs no cluster', async () => {
    const alone = await operator({}, ['nodes']);
    expect(alone).toMatchObject({ code: 1, out: '' });
    expect(alone.err).toContain('NATS_URL is not set');
    const usage = 'config rollback <tenant> <revision>';
    expect((await operator({}, ['help'])).out).toContain(usage);
    expect((await operator({}, ['config', 'rollback', '--help'])).out).toMatch(usage);
    const unknown = await operator({}, ['help', 'rolback']);
    expect(unknown).toEqual({ code: 1, out: '', err: 'there is no command rolback\n' });
  });

  test('the tab key: commands, resources, ids, flags', async () => {
    const offers = async (line: string): Promise<string[]> =>
      (await complete(line, session, consoleTable))[0];
    expect(await offers('ca')).toEqual(['call ', 'cache ']);
    expect(await offers('config r')).toEqual(['rollback ']);
    expect(await offers('config get r')).toEqual(['risk ']);
    expect(await offers(`config get risk ${tenant.slice(0, 8)}`)).toEqual([`${tenant} `]);
    const gateways = await offers('cache keys gate');
    expect(gateways).toContain('gateway-1 ');
    expect(gateways.filter((each) => !each.startsWith('gateway-'))).toEqual([]);
    expect(await offers('reload --d')).toEqual(['--dry-run ']);
    expect(await offers('call audit.v')).toEqual(['audit.verify ']);
    expect(await offers('call feed.')).toEqual([]);
  });
});
