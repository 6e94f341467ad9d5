/** The environment becomes one settings object, or a list of everything that is wrong with it. */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { roles, type NodeRole } from '../../services/node-roles.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { ensureSecretKey } from '../../shared/security/secret-key-file.ts';
import {
  cutSecrets,
  fileWarnings,
  takesClearCredentials,
  describeChanges,
  loadSettings,
  readEnvironment,
  SettingsInvalid,
  unknownSettings,
  variableOf,
  type Environment,
  type SettingProblem,
} from '../../shared/settings/settings.ts';
import { settingsTable, type Field, type Row } from '../../shared/settings/settings-table.ts';

const key = 'k'.repeat(32);
const rows = Object.entries(settingsTable) as [Field, Row][];
const roleNamed = (wanted: string): NodeRole => roles.find(({ name }) => name === wanted)!;

/**
 * What is wrong with the settings of a node that hosts the roles of these names; of all roles
 * by default.
 */
function problemsOf(
  environment: Environment,
  hosted: readonly string[] = roles.map(({ name }) => name),
): SettingProblem[] {
  try {
    loadSettings(environment, { roles: hosted.map(roleNamed) });
    return [];
  } catch (error) {
    if (!(error instanceof SettingsInvalid)) throw error;
    return error.problems;
  }
}
/** The variables of these problems. */
const wrong = (environment: Environment, hosted?: readonly string[]): string[] =>
  problemsOf(environment, hosted).map(({ variable }) => variable);

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'strata-settings-'));
});
afterEach(() => {
  rmSync(directory, { recursive: true });
});

describe('defaults', () => {
  test('are those that operators rely on', () => {
    expect(loadSettings({})).toMatchObject({
      approval_webhook_timeout_seconds: 30,
      approval_webhook_retry_attempts: 3,
      approval_webhook_backoff_initial_seconds: 1,
      approval_webhook_backoff_factor: 2,
      approval_webhook_backoff_max_seconds: 8,
      smtp_use_tls: true,
      default_max_cost_impact_auto: 15,
      default_max_cost_impact_approval: 50,
      default_max_resource_scaling: 3,
      default_approval_timeout_minutes: 30,
      default_require_approval_for_high_risk: true,
      default_auto_approve_rollbacks: true,
      default_automation_enabled: true,
      default_business_hours_only: false,
      default_max_concurrent_automations: 5,
      approval_webhook_timeout_cap_seconds: 120,
      approval_webhook_retry_cap: 10,
      approval_webhook_backoff_cap_seconds: 300,
      approval_webhook_endpoints_cap: 20,
      port: 8080,
      host: '127.0.0.1',
      coherence_fence_ms: 2000,
      request_timeout_ms: 10_000,
      access_token_ttl_seconds: 900,
    });
  });

  test('every default fits its own row', () => {
    const shown = rows.filter(([, { default: value }]) => value !== null && String(value) !== '');
    const environment = shown.map(([field, row]) => [variableOf(field), String(row.default)]);
    expect(loadSettings(Object.fromEntries(environment))).toEqual(loadSettings({}));
  });

  test.each(['', '  '])('a variable that is %j counts as unset', (blank) => {
    const environment = rows.map(([field]) => [variableOf(field), blank]);
    expect(loadSettings(Object.fromEntries(environment))).toEqual(loadSettings({}));
  });

  test.each([
    [{}, 'http://127.0.0.1:8080', 'http://127.0.0.1:8080'],
    [{ HOST: '::1', PORT: '80' }, 'http://[::1]:80', 'http://[::1]'],
    [{ HOST: '0.0.0.0', PORT: '9000' }, 'http://localhost:9000', 'http://localhost:9000'],
    [{ HOST: '::' }, 'http://localhost:8080', 'http://localhost:8080'],
    [
      { BASE_URL: 'https://strata.example/api' },
      'https://strata.example/api',
      'https://strata.example',
    ],
    [
      { BASE_URL: 'https://strata.example', FRONTEND_ORIGIN: 'https://app.example' },
      'https://strata.example',
      'https://app.example',
    ],
  ])('addresses of %j', (environment, base, origin) => {
    expect(loadSettings(environment)).toMatchObject({ base_url: base, frontend_origin: origin });
  });

  test.each([
    [{ DB_HOST: 'db_1.internal,db_2.internal' }],
    [{ DB_HOST: '::1' }],
    [{ BASE_URL: 'https://[::1]:8443' }],
    [{ BASE_URL: 'http://strata_gateway:8080/strata' }],
    [{ REDIS_URL: 'redis://:p@127.0.0.1:6379/15' }],
    [{ REDIS_URL: 'rediss://a/' }],
    [{ FRONTEND_ORIGIN: 'https://xn--bcher-kva.example', CORS_ORIGINS: 'http://127.0.0.1:3000' }],
  ])('hosts: %j', (environment) => {
    expect(wrong({ ...environment, SECRET_KEY: key })).toEqual([]);
  });

  test.each(['mail.example', '127.0.0.1', '::1'])('SMTP_SERVER may be %s', (host) => {
    expect(loadSettings({ SMTP_SERVER: host }).smtp_server).toBe(host);
  });

  test.each(['256.1.1.1', '[::1]', 'a host', 'fe80::1%eth0'])(
    'HOST %s makes no address, unless BASE_URL does',
    (host) => {
      expect(wrong({ HOST: host })).toEqual(['HOST']);
      expect(wrong({ HOST: host, BASE_URL: 'nonsense' })).toEqual(['BASE_URL', 'HOST']);
      expect(wrong({ HOST: host, BASE_URL: 'https://strata.example' })).toEqual([]);
    },
  );

  test.each([
    ['embedded', {}, ['admin@example.com']],
    ['with a database', { DATABASE_URL: 'postgres://db/strata', SECRET_KEY: key }, []],
    ['with DB_HOST', { DB_HOST: 'db', SECRET_KEY: key }, []],
    [
      'on a gateway of a cluster',
      { NATS_URL: 'tls://bus', REDIS_URL: 'redis://r', SECRET_KEY: key },
      [],
    ],
    [
      'told',
      { PLATFORM_ADMIN_EMAILS: ' a@x.example, b@x.example,' },
      ['a@x.example', 'b@x.example'],
    ],
  ])('platform admins %s', (_name, environment, emails) => {
    expect(
      loadSettings(environment, { roles: [roleNamed('gateway')] }).platform_admin_emails,
    ).toEqual(emails);
  });

  test('DB_* make up an absent DATABASE_URL, escaped', () => {
    const parts = {
      DB_HOST: 'db.example',
      DB_PORT: '6432',
      DB_NAME: 'a/b',
      DB_USER: 'u@x',
      DB_PASSWORD: 'p:/?#',
      SECRET_KEY: key,
    };
    expect(loadSettings(parts).database_url).toBe(
      'postgres://u%40x:p%3A%2F%3F%23@db.example:6432/a%2Fb',
    );
    expect(loadSettings({ ...parts, DATABASE_URL: 'postgres://other/strata' }).database_url).toBe(
      'postgres://other/strata',
    );
    expect(loadSettings({ DB_HOST: '::1', SECRET_KEY: key }).database_url).toBe(
      'postgres://strata@[::1]:5432/strata',
    );
  });

  test('frozen, lists too', () => {
    for (const settings of [
      loadSettings({}),
      loadSettings({ CORS_ORIGINS: 'https://a.example' }),
    ]) {
      expect(Object.isFrozen(settings)).toBe(true);
      for (const value of Object.values(settings)) expect(Object.isFrozen(value)).toBe(true);
    }
  });
});

/** Texts that no row of the type takes, and those next to its bounds. */
function badTexts(row: Row): string[] {
  switch (row.type) {
    case 'boolean':
      return ['2', 'maybe', 'truee', 'constructor'];
    case 'integer':
      return [
        'x',
        '1.0',
        '1e3',
        '0x10',
        '+5',
        '1_000',
        '007',
        // More than a column of whole numbers holds.
        '9'.repeat(20),
        '9'.repeat(400),
        String(row.min - 1),
        ...(row.max === undefined ? [] : [String(row.max + 1)]),
      ];
    case 'number':
      return ['x', '1e3', '0x10', 'Infinity', 'NaN', '.5', '9'.repeat(400), String(row.min - 0.5)];
    default:
      return [];
  }
}
const badForms: Partial<Record<Field, string[]>> = {
  base_url: [
    'strata.example',
    'ftp://a',
    'https://a/',
    'https://a?x=1',
    'https://u:p@a',
    'https://a b',
    'http://a:99999',
    'https://a,https://b',
    'https://*.example',
    'https://"a"',
    'https://a\\b',
  ],
  default_business_hours: [
    'mon-fri 09:00-17:00',
    '{"days":["mon"],"start":"09:00","end":"17:00"}',
    '{"days":["monday"],"start":"09:00","end":"17:00","timezone":"UTC"}',
    '{"days":["mon"],"start":"9:00","end":"17:00","timezone":"UTC"}',
    '{"days":["mon"],"start":"09:00","end":"17:00","timezone":"Mars/Base"}',
  ],
  default_record_decisions: ['some'],
  frontend_origin: [
    'a',
    'https://a/',
    'https://a/b',
    'https://A.example',
    'https://a:443',
    'javascript:alert(1)',
    'https://*.example',
  ],
  trusted_proxies: ['proxy', '10.0.0.0/33', '10.0.0.1'],
  cors_origins: ['a', 'https://a, https://b/', 'null', 'https://*.example'],
  node_id: ['a b', 'a/b', 'x'.repeat(101)],
  log_level: ['INFO', 'verbose'],
  strata_operator: ['a\tb', 'x'.repeat(101)],
  nats_url: [
    'localhost:4222',
    'http://a',
    'nats://a,b',
    'nats://a, nats://b',
    'nats://a,nats://b:70000',
    'nats://u:%zz@a',
  ],
  nats_namespace: ['a.b', 'a b', '*', 'a>', 'x'.repeat(51), 'strata-nodes'],
  db_host: ['db:5432', 'postgres://db', '"db"', '[::1]', '/run/postgresql', 'u@db', 'a, b', 'a,'],
  database_url: [
    'db',
    'mysql://a/b',
    'postgres://',
    'postgres://a b',
    'postgres://a,/b',
    'postgres://u:p/w@a/b',
  ],
  prometheus_url: ['prometheus:9090', 'ftp://a'],
  slack_api_url: ['slack.com/api', 'ftp://a'],
  redis_url: [
    'r:6379',
    'http://r',
    'redis://',
    'redis://a:6379,b:x',
    'redis://u:%zz@a',
    'redis://a/strata',
    'redis://a,b/0/1',
  ],
  nats_nkey_seed: ['SU', 'UA'.padEnd(58, 'A')],
  secret_key: ['short', 'k'.repeat(31)],
  secret_key_previous: ['short'],
  platform_admin_emails: ['a', 'a@b, c', 'a b@c'],
  platform_sign_in_policy: ['passkey', 'ANY', 'passkey_or_sso,any'],
  webhook_allowed_networks: [
    '10.0.0.1',
    '10.0.0.0/33',
    '10/8',
    'fd00::/129',
    'localhost/8',
    '10.0.0.0/8;127.0.0.0/8',
  ],
  from_email: ['strata', 'a b@c', '@', 'Strata<strata@b>', '<a@b>', 'a@b;c@d'],
  smtp_server: ['mail:587', 'smtp://mail', '[::1]', 'me@mail', 'a b', '"mail"', 'a,b', 'a\u200b'],
  mail_allowed_domains: [
    'Example.com',
    'a@b.example',
    '*.example',
    'a_b.example',
    '-a.example',
    'a..b',
  ],
};

describe('the address of the database', () => {
  test.each([
    'postgres://u:p@a/b',
    'postgresql://u:p@a:5432,b:5433/c?target_session_attrs=read-write&sslmode=verify-full',
    'postgres://u:p@[::1]:5432,[fd00::1]/c?target_session_attrs=primary',
    'postgres:///b?host=/run/postgresql',
  ])('%s is one', (text) => {
    expect(problemsOf({ SECRET_KEY: key, DATABASE_URL: text }, [])).toEqual([]);
  });

  test.each([
    ['postgres://u:canary@a, b/c', 'without spaces'],
    ['postgres://u:canary@a,,b/c', 'must name a host before and after each comma'],
    ['postgres://u:canary@a,:5433/c', 'must name a host before and after each comma'],
    ['postgres://u:canary@a:5432,b:70000/c', 'must have hosts such as name:5432'],
    ['postgres://u:canary/1@a/c', 'in user and password %2F'],
    ['postgres://u:canary@a,b/c?target_session_attrs=any', 'no target_session_attrs but'],
  ])('%s is none, and its secret is not shown', (text, said) => {
    const [problem] = problemsOf({ SECRET_KEY: key, DATABASE_URL: text }, []);
    expect(problem).toEqual({ variable: 'DATABASE_URL', message: expect.stringContaining(said) });
    expect(problem!.message).not.toContain('canary');
  });
});

describe('rows', () => {
  test('every row with a form or choices has bad values here', () => {
    expect(Object.keys(badForms).sort()).toEqual(
      rows
        .filter(([, row]) => 'form' in row || 'choices' in row)
        .map(([field]) => field)
        .sort(),
    );
  });

  const refused = rows.map(([field, row]): [string, string[]] => [
    variableOf(field),
    [...badTexts(row), ...(badForms[field] ?? [])],
  ]);
  test.each(refused.filter(([, texts]) => texts.length > 0))('%s refuses %j', (variable, texts) => {
    for (const text of texts) {
      const [problem, ...others] = problemsOf({ SECRET_KEY: key, [variable]: text }, []);
      expect([text, problem?.variable, others]).toEqual([text, variable, []]);
    }
  });

  const bounds = rows.flatMap(([field, row]): [string, number, Field][] => {
    if (row.type !== 'integer' && row.type !== 'number') return [];
    const most = row.max ?? row.min + 1e6;
    return [
      [variableOf(field), row.min, field],
      [variableOf(field), most, field],
    ];
  });
  test.each(bounds)('%s takes %d', (variable, bound, field) => {
    const room = { DEFAULT_MAX_COST_IMPACT_AUTO: '0', DEFAULT_MAX_COST_IMPACT_APPROVAL: '2000000' };
    expect(loadSettings({ ...room, [variable]: String(bound) })[field]).toBe(bound);
  });

  test.each([
    ['true', true],
    ['1', true],
    ['yes', true],
    ['ON', true],
    ['False', false],
    ['0', false],
    ['NO', false],
    ['off', false],
  ])('boolean %s', (text, value) => {
    expect(loadSettings({ SMTP_USE_TLS: text, DB_SSL: text })).toMatchObject({
      smtp_use_tls: value,
      db_ssl: value,
    });
  });

  test('lists are trimmed; secrets are kept to the byte', () => {
    expect(
      loadSettings({ WEBHOOK_ALLOWED_NETWORKS: ' 127.0.0.0/8 , fd00::/8 ,' })
        .webhook_allowed_networks,
    ).toEqual(['127.0.0.0/8', 'fd00::/8']);
    expect(loadSettings({ SMTP_PASSWORD: ' p w ', SMTP_SERVER: ' mail ' })).toMatchObject({
      smtp_password: ' p w ',
      smtp_server: 'mail',
    });
  });
});

describe('problems', () => {
  const canary = 'canary-9f3b';
  const secrets = rows.filter(([, row]) => row.secret).map(([field]) => field);

  test('all at once, by variable, in the order of the table', () => {
    expect(
      wrong({
        PORT: 'x',
        LOG_LEVEL: 'loud',
        DATABASE_URL: 'db',
        SMTP_USE_TLS: 'perhaps',
        DEFAULT_MAX_RESOURCE_SCALING: '0',
      }),
    ).toEqual([
      'PORT',
      'LOG_LEVEL',
      'DATABASE_URL',
      'SMTP_USE_TLS',
      'DEFAULT_MAX_RESOURCE_SCALING',
      'SECRET_KEY',
    ]);
  });

  test('no message has a value, secret or not', () => {
    const environment = Object.fromEntries(
      rows.map(([field, row]) => [
        variableOf(field),
        row.type === 'string' && !row.form && !row.choices ? 'x' : canary,
      ]),
    );
    const problems = problemsOf(environment);
    for (const field of ['database_url', 'redis_url', 'nats_url', 'secret_key'] as const)
      expect(problems.map(({ variable }) => variable)).toContain(variableOf(field));
    expect(new SettingsInvalid(problems).stack).not.toContain(canary);
    expect(secrets).toEqual(
      expect.arrayContaining([
        'secret_key',
        'smtp_password',
        'db_password',
        'nats_password',
        'nats_token',
        'webhook_secret',
        'platform_admin_password',
      ]),
    );
  });

  test("SECRET_KEY is required with a database of one's own, and counted in bytes", () => {
    for (const own of [{ DATABASE_URL: 'postgres://db/x' }, { DB_HOST: 'db' }]) {
      expect(wrong(own)).toEqual(['SECRET_KEY']);
      expect(wrong({ ...own, SECRET_KEY: 'é'.repeat(16) })).toEqual([]);
    }
  });

  test('max_cost_impact_auto is at most max_cost_impact_approval', () => {
    const costs = (auto: string, approval: string): string[] =>
      wrong({ DEFAULT_MAX_COST_IMPACT_AUTO: auto, DEFAULT_MAX_COST_IMPACT_APPROVAL: approval });
    expect(costs('20.5', '20.5')).toEqual([]);
    expect(costs('20.6', '20.5')).toEqual(['DEFAULT_MAX_COST_IMPACT_AUTO']);
    expect(costs('60', 'x')).toEqual(['DEFAULT_MAX_COST_IMPACT_APPROVAL']);
  });
});

describe('pieces of a cluster', () => {
  const needs: Record<string, string[]> = {
    'config-resolver': [],
    'tenant-config': ['DATABASE_URL'],
    'global-config': ['DATABASE_URL'],
    audit: ['DATABASE_URL'],
    auth: ['DATABASE_URL', 'REDIS_URL'],
    notifier: ['DATABASE_URL', 'REDIS_URL'],
    gateway: ['REDIS_URL'],
  };
  const bus = { NATS_URL: 'nats://a:4222,nats://b:4222', NATS_USER: 'strata', SECRET_KEY: key };

  test('each has its row', () => {
    expect(roles.map(({ name }) => name).sort()).toEqual(Object.keys(needs).sort());
  });

  test.each(Object.entries(needs))('%s needs %j', (role, missing) => {
    expect(wrong(bus, [role])).toEqual(missing);
    expect(wrong({ ...bus, DB_HOST: 'db', REDIS_URL: 'redis://r' }, [role])).toEqual([]);
    expect(wrong({}, [role])).toEqual([]);
  });

  test('a part of the pieces needs NATS_URL, without which it reaches no other', () => {
    const missing = (hosted: readonly string[], isPart: boolean): string[] => {
      try {
        loadSettings({ SECRET_KEY: key }, { roles: hosted.map(roleNamed), isPart });
        return [];
      } catch (error) {
        return (error as SettingsInvalid).problems.map(({ variable }) => variable);
      }
    };
    expect(missing(['gateway'], true)).toEqual(['NATS_URL']);
    expect(missing(Object.keys(needs), false)).toEqual([]);
  });

  test('what is missing is said once, with the pieces that need it', () => {
    expect(
      problemsOf({ NATS_URL: 'tls://a' }, ['gateway', 'auth', 'audit', 'config-resolver']),
    ).toEqual([
      { variable: 'SECRET_KEY', message: 'is required with NATS_URL set, the same on every node' },
      {
        variable: 'DATABASE_URL',
        message: '(or DB_HOST) is required, with NATS_URL set, by auth, audit',
      },
      { variable: 'REDIS_URL', message: 'is required, with NATS_URL set, by gateway, auth' },
    ]);
    expect(wrong({ NATS_URL: 'tls://a', DATABASE_URL: 'postgres://db/x' }, ['audit'])).toEqual([
      'SECRET_KEY',
    ]);
    // Nobody talks to the nodes of a cluster without it, the operator's console included.
    for (const roles of [['config-resolver'], []])
      expect(wrong({ NATS_URL: 'tls://a' }, roles)).toEqual(['SECRET_KEY']);
  });
});

describe('NATS', () => {
  const natsProblems = (environment: Environment): string[] =>
    wrong({ SECRET_KEY: key, ...environment }, []);

  test.each([
    'nats://127.0.0.1:4222',
    'nats://localhost',
    'nats://[::1]:4222',
    'tls://bus.example',
    'nats://user:password@bus',
  ])('may be %s', (url) => {
    expect(natsProblems({ NATS_URL: url })).toEqual([]);
  });

  test.each([
    'nats://bus',
    'nats://10.0.0.1:4222',
    'nats://127.0.0.1,nats://bus',
    'nats://localhost.example',
    'nats://127.0.0.1.example',
    'tls://a,nats://b',
    'nats://user:password@a,nats://b',
  ])('is not %s, which anybody may use, unless the operator says so', (url) => {
    expect(natsProblems({ NATS_URL: url })).toEqual(['NATS_URL']);
    for (const more of [
      { NATS_ALLOW_PLAIN: 'true' },
      { NATS_USER: 'strata' },
      { NATS_TOKEN: 'x' },
      { NATS_TLS_CA: 'ca.pem' },
    ])
      expect(natsProblems({ NATS_URL: url, ...more })).toEqual([]);
  });

  test('takes no credentials in clear over a network, unless the operator says so', () => {
    const takes = (environment: Environment): boolean =>
      takesClearCredentials(loadSettings({ SECRET_KEY: key, ...environment }, { roles: [] }));
    const remote = { NATS_URL: 'nats://bus', NATS_USER: 'strata' };
    expect(takes(remote)).toBe(false);
    expect(takes({ ...remote, NATS_URL: 'nats://127.0.0.1,nats://bus' })).toBe(false);
    expect(takes({ ...remote, NATS_ALLOW_PLAIN: 'true' })).toBe(true);
    expect(takes({ ...remote, NATS_TLS_CA: 'ca.pem' })).toBe(true);
    expect(takes({ NATS_URL: 'tls://bus' })).toBe(true);
    expect(takes({ NATS_URL: 'nats://127.0.0.1:4222' })).toBe(true);
  });

  test('is for nodes with SECRET_KEY, and for neighbours with an API key, which host nothing', () => {
    const neighbour = { NATS_URL: 'tls://bus', STRATA_API_KEY: 'strata_x' };
    expect(wrong(neighbour, [])).toEqual([]);
    expect(wrong(neighbour, ['config-resolver'])).toEqual(['SECRET_KEY']);
    expect(wrong({ NATS_URL: 'tls://bus' }, [])).toEqual(['SECRET_KEY']);
  });
});

test.each([
  ['a', 'needs 12 to 256 characters'],
  ['Administrator1!', 'is a common password'],
  ['ada@acme.example', 'contains the name or address of its owner, or the name of their tenant'],
])('PLATFORM_ADMIN_PASSWORD=%s is refused with all other problems', (...[password, message]) => {
  const environment = { PLATFORM_ADMIN_EMAILS: 'ada@acme.example', PORT: 'x' };
  expect(problemsOf({ ...environment, PLATFORM_ADMIN_PASSWORD: password })).toEqual([
    expect.objectContaining({ variable: 'PORT' }),
    { variable: 'PLATFORM_ADMIN_PASSWORD', message },
  ]);
});

describe('ENV_FILE', () => {
  test('wins over the process environment, and is read afresh each time', () => {
    const file = join(directory, 'env');
    writeFileSync(file, '# comment\nPORT=9001\nexport LOG_LEVEL="debug"\n');
    const environment = { ENV_FILE: file, PORT: '9000', HOST: '0.0.0.0' };
    expect(loadSettings(readEnvironment(environment))).toMatchObject({
      port: 9001,
      log_level: 'debug',
      host: '0.0.0.0',
      env_file: file,
    });
    writeFileSync(file, 'PORT=\n');
    expect(loadSettings(readEnvironment(environment))).toMatchObject({
      port: 8080,
      log_level: 'info',
    });
  });

  test('that cannot be read is a problem', () => {
    const file = join(directory, 'none');
    expect(() => readEnvironment({ ENV_FILE: file })).toThrow(
      `The settings are not valid: ENV_FILE names ${file}, which cannot be read (ENOENT)`,
    );
  });

  test('that is no text in UTF-8, of which no line would be a setting, is one, too', () => {
    const file = join(directory, 'env');
    for (const encoding of ['utf16le', 'latin1'] as const) {
      writeFileSync(file, '\ufeffDB_PASSWORD=pässword\n', encoding);
      expect(() => readEnvironment({ ENV_FILE: file })).toThrow('which is not a text in UTF-8');
    }
    writeFileSync(file, '\ufeffDB_PASSWORD=pässword\r\n');
    expect(readEnvironment({ ENV_FILE: file }).DB_PASSWORD).toBe('pässword');
  });

  test('secrets that end before a # which is in no quotes are reported, and not shown', () => {
    const file = join(directory, 'env');
    writeFileSync(
      file,
      [
        'DB_PASSWORD=canary#1',
        'export REDIS_PASSWORD = a b#c',
        'SMTP_PASSWORD="a#b"',
        "NATS_PASSWORD='a#b'",
        'NATS_TOKEN=a # the token',
        'WEBHOOK_SECRET=# none',
        'HOST=a#b',
      ].join('\n'),
    );
    expect(readEnvironment({ ENV_FILE: file }).DB_PASSWORD).toBe('canary');
    expect(cutSecrets({ ENV_FILE: file })).toEqual(['DB_PASSWORD', 'REDIS_PASSWORD']);
    const [warning] = fileWarnings({ ENV_FILE: file });
    expect(warning).toMatch(/^ENV_FILE: DB_PASSWORD ends before its #.* quotes/);
    expect(fileWarnings({ ENV_FILE: file }).join()).not.toContain('canary');
  });

  test('names that are no settings are reported with the nearest one; those of the process are not', () => {
    const file = join(directory, 'env');
    writeFileSync(
      file,
      ['SMPT_SERVER=x', 'coherence_fense_ms=1', 'PORT=1', 'HOME=/x', `${'Z'.repeat(200)}=1`].join(
        '\n',
      ),
    );
    expect(unknownSettings({ ENV_FILE: file, PROT: '1' })).toEqual([
      { name: 'SMPT_SERVER', nearest: 'SMTP_SERVER' },
      { name: 'coherence_fense_ms', nearest: 'COHERENCE_FENCE_MS' },
      { name: 'HOME', nearest: undefined },
      { name: 'Z'.repeat(200), nearest: undefined },
    ]);
    expect(unknownSettings({ PROT: '1' })).toEqual([]);
  });
});

describe('changes', () => {
  test('names, never values, and which need a restart', () => {
    const before = loadSettings({ SMTP_PASSWORD: 'canary-one', CORS_ORIGINS: 'https://a.example' });
    const after = loadSettings({
      SMTP_PASSWORD: 'canary-two',
      CORS_ORIGINS: 'https://a.example',
      CACHE_DEFAULT_TTL: '7',
      DATA_DIR: '/srv/strata',
    });
    expect(describeChanges(before, after)).toEqual({
      changed: ['DATA_DIR', 'CACHE_DEFAULT_TTL', 'SMTP_PASSWORD'],
      requires_restart: ['DATA_DIR'],
    });
    expect(describeChanges(before, before)).toEqual({ changed: [], requires_restart: [] });
  });

  test('a reload applies the rest, and names what needs a restart until there was one', () => {
    const file = join(directory, 'env');
    const { ENV_FILE: outer } = process.env;
    process.env.ENV_FILE = file;
    const write = (...lines: string[]): void => writeFileSync(file, lines.join('\n'));
    try {
      write('NODE_ID=n', `SECRET_KEY=${key}`, 'PORT=8080');
      const live = liveSettings(loadSettings(readEnvironment()), {}, []);
      const asStarted = { port: 8080, base_url: 'http://127.0.0.1:8080', secret_key: key };
      const other = ['NODE_ID=n', `SECRET_KEY=${'o'.repeat(32)}`, 'PORT=9090'];
      const requires_restart = ['PORT', 'BASE_URL', 'SECRET_KEY'];

      write(...other, 'CACHE_DEFAULT_TTL=7');
      const changes = { changed: ['CACHE_DEFAULT_TTL'], requires_restart };
      expect(live.preview()).toEqual(changes);
      expect(live.reload()).toEqual(changes);
      expect(live.current).toMatchObject({
        ...asStarted,
        frontend_origin: asStarted.base_url,
        cache_default_ttl: 7,
      });
      // Whoever reloads because others did must see an end of it.
      expect(live.reload()).toEqual({ changed: [], requires_restart });

      const pages = 'https://pages.example';
      write(...other, 'CACHE_DEFAULT_TTL=7', `FRONTEND_ORIGIN=${pages}`);
      expect(live.reload()).toEqual({ changed: ['FRONTEND_ORIGIN'], requires_restart });
      expect(live.current).toMatchObject({ ...asStarted, frontend_origin: pages });
    } finally {
      if (outer === undefined) delete process.env.ENV_FILE;
      else process.env.ENV_FILE = outer;
    }
  });

  test('limits, defaults, lifetimes and mail apply on reload; addresses and keys need a restart', () => {
    const groups =
      /^(default|approval_webhook|smtp|webhook_allow(ed)?|http_client|watch_max|platform)_|^held_requests|_per_(caller|tenant|person|minute)$/;
    const others: Field[] = [
      'from_email',
      'mail_allowed_domains',
      'approvals_max_pending',
      'audit_verifications_waiting',
      'tenant_erase_after_days',
      'session_retention_days',
      'approval_retention_days',
      'delivery_retention_days',
      'decision_retention_days',
      'cache_default_ttl',
      'fast_path',
      'access_token_ttl_seconds',
      'rate_limit_per_minute',
      'network_rate_limit_per_minute',
      'frontend_origin',
      'cors_origins',
      'slack_api_url',
      'prometheus_url',
      'log_level',
    ];
    const expected = rows.filter(([field]) => groups.test(field) || others.includes(field));
    const applied = rows.filter(([, row]) => row.requires_restart !== true);
    expect(applied.map(([field]) => field)).toEqual(expected.map(([field]) => field));
  });
});

describe('the key of embedded mode', () => {
  test("is made once, fits SECRET_KEY, is the owner's alone, and leaves nothing else behind", () => {
    const home = join(directory, 'data');
    const first = ensureSecretKey(home);
    expect(first.made).toBe(true);
    expect(ensureSecretKey(home)).toEqual({ key: first.key, made: false });
    expect(loadSettings({ SECRET_KEY: first.key }).secret_key).toBe(first.key);
    expect(readdirSync(home)).toEqual(['secret.key']);
    expect(statSync(join(home, 'secret.key')).mode & 0o777).toBe(0o600);
  });

  test('an empty file is refused, not replaced', () => {
    writeFileSync(join(directory, 'secret.key'), '');
    expect(() => ensureSecretKey(directory)).toThrow(SettingsInvalid);
    expect(statSync(join(directory, 'secret.key')).size).toBe(0);
  });

  test('beside a database, one that is missing is not replaced either', () => {
    mkdirSync(join(directory, 'restored', 'postgres'), { recursive: true });
    expect(() => ensureSecretKey(join(directory, 'restored'))).toThrow(
      /restored\/secret\.key is missing/,
    );
    expect(readdirSync(join(directory, 'restored'))).toEqual(['postgres']);
  });
});
