import { describe, expect, test } from '@jest/globals';
import {
  endpointsOf,
  NotificationConfig,
  WebhookEndpoint,
} from '../../shared/contracts/notification-config.ts';
import {
  checkNotificationConfig,
  emptyGroups,
} from '../../services/tenant-config/rules/notification-config.ts';
import { marks } from '../../shared/contracts/marks.ts';
import { markedTexts } from '../../shared/schema/marked.ts';
import { problemsOf } from '../../shared/schema/validate.ts';

const url = 'https://hooks.example/a';
const paths = (value: unknown): string[] =>
  problemsOf(NotificationConfig, value)
    .map(({ path }) => path)
    .sort();
const refused = (config: unknown): string[] => {
  expect(problemsOf(NotificationConfig, config)).toEqual([]);
  return checkNotificationConfig(config as NotificationConfig, 2).map(({ path }) => path);
};

const whole = {
  webhook: {
    endpoints: [
      {
        url,
        headers: { 'X-Team': 'ops' },
        auth: { type: 'bearer', token: 'abc.def' },
        secret: 's',
        previous_secret: 'p',
        timeout_seconds: 9000,
        retry_attempts: 100,
        backoff: { initial_seconds: 0.5, factor: 2, max_seconds: 9000 },
      },
      { url: 'http://hooks.example/b', auth: { type: 'basic', username: 'u', password: 'p:ä' } },
    ],
  },
  email: {
    approval_recipients: ['a@b.example'],
    default_recipients: [],
    from_email: 'ops@b.example',
    template_overrides: {
      approval_request: { subject: 'Please decide', branding: { name: 'Ops' } },
    },
  },
  chat: {
    google_chat: {
      webhook_url: 'https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t',
      spaces: ['spaces/A'],
      include_links: true,
    },
  },
  teams: { webhook_url: 'https://prod-1.logic.azure.example/workflows/1?sig=k' },
  approver_groups: {
    risk_levels: { low: [], critical: ['cto', 'board'] },
    action_overrides: { scale_min_instances: ['sre'] },
  },
  escalation: { poll_interval_seconds: 60, escalation_window_minutes: 60, max_hops: 2 },
  approval_policy: { required: { critical: 2, low: 20 }, allow_self: false, machines: true },
};

test('the whole document, with values beyond the caps, is accepted', () => {
  expect(refused(whole)).toEqual([]);
  expect(refused({})).toEqual([]);
  expect(refused({ webhook: { endpoints: [] } })).toEqual([]);
  expect(checkNotificationConfig(null, 2)).toEqual([]);
});

const hook = (fields: object) => ({ webhook: { url, ...fields } });
const auth = (fields: object) => hook({ auth: fields });

describe('the schema names each problem of the form chosen, at its place', () => {
  const table: [string, unknown, string[]][] = [
    ['an unknown field', { not_a_field: {} }, ['/not_a_field']],
    [
      'a policy that no one, half a person or too many would meet',
      { approval_policy: { required: { low: 0, medium: 1.5, high: 21 } } },
      [
        '/approval_policy/required/high',
        '/approval_policy/required/low',
        '/approval_policy/required/medium',
      ],
    ],
    [
      'a policy of other words',
      { approval_policy: { allow_self: 'yes', humans: true, required: { extreme: 2 } } },
      [
        '/approval_policy/allow_self',
        '/approval_policy/humans',
        '/approval_policy/required/extreme',
      ],
    ],
    ['a webhook without url', { webhook: {} }, ['/webhook/url']],
    ['both forms', { webhook: { endpoints: [], url } }, ['/webhook/url']],
    [
      'an endpoint without url',
      { webhook: { endpoints: [{ secret: 's' }] } },
      ['/webhook/endpoints/0/url'],
    ],
    [
      'endpoints within an endpoint',
      { webhook: { endpoints: [{ url, endpoints: [] }] } },
      ['/webhook/endpoints/0/endpoints'],
    ],
    ['endpoints that are no list', { webhook: { endpoints: {} } }, ['/webhook/endpoints']],
    ['a webhook that is no object', { webhook: [] }, ['/webhook']],
    ['ftp', hook({ url: 'ftp://hooks.example' }), ['/webhook/url']],
    ['a url with a space', hook({ url: 'https://hooks.example/a b' }), ['/webhook/url']],
    ['a header name with a space', hook({ headers: { 'X A': 'b' } }), ['/webhook/headers/X A']],
    [
      'a header value with a line break',
      hook({ headers: { 'X-A': 'b\r\nc: d' } }),
      ['/webhook/headers/X-A'],
    ],
    ['a header value beyond ASCII', hook({ headers: { 'X-A': 'ü' } }), ['/webhook/headers/X-A']],
    ['auth without type', auth({ token: 't' }), ['/webhook/auth/type']],
    ['an unknown auth', auth({ type: 'digest' }), ['/webhook/auth/type']],
    ['bearer without token', auth({ type: 'bearer' }), ['/webhook/auth/token']],
    [
      'bearer with a password',
      auth({ type: 'bearer', token: 't', password: 'p' }),
      ['/webhook/auth/password'],
    ],
    ['a token with a line break', auth({ type: 'bearer', token: 'a\nb' }), ['/webhook/auth/token']],
    ['basic without password', auth({ type: 'basic', username: 'u' }), ['/webhook/auth/password']],
    [
      'a user name with a colon',
      auth({ type: 'basic', username: 'u:v', password: 'p' }),
      ['/webhook/auth/username'],
    ],
    [
      'api_key without key',
      auth({ type: 'api_key', header_name: 'X-K' }),
      ['/webhook/auth/api_key'],
    ],
    ['no seconds', hook({ timeout_seconds: 0 }), ['/webhook/timeout_seconds']],
    ['half a retry', hook({ retry_attempts: 0.5 }), ['/webhook/retry_attempts']],
    ['a shrinking factor', hook({ backoff: { factor: 0.5 } }), ['/webhook/backoff/factor']],
    [
      'a text for a number',
      hook({ backoff: { initial_seconds: '1' } }),
      ['/webhook/backoff/initial_seconds'],
    ],
    [
      'no address',
      { email: { default_recipients: ['ops@b.example', 'ops'] } },
      ['/email/default_recipients/1'],
    ],
    [
      'an address with a line break',
      { email: { from_email: 'a@b.example\r\nBcc: c@d.example' } },
      ['/email/from_email'],
    ],
    [
      'a subject with a line break',
      { email: { template_overrides: { approval_request: { subject: 'a\nb' } } } },
      ['/email/template_overrides/approval_request/subject'],
    ],
    [
      'an unknown risk level',
      { approver_groups: { risk_levels: { extreme: [] } } },
      ['/approver_groups/risk_levels/extreme'],
    ],
    [
      'a group for a list of groups',
      { approver_groups: { action_overrides: { scale: 'sre' } } },
      ['/approver_groups/action_overrides/scale'],
    ],
    ['hops below none', { escalation: { max_hops: -1 } }, ['/escalation/max_hops']],
  ];
  test.each(table)('%s', (_name, value, expected) => expect(paths(value)).toEqual(expected));
});

describe('rules that the schema cannot say', () => {
  const table: [string, unknown, string[]][] = [
    [
      'too many endpoints',
      { webhook: { endpoints: [{ url }, { url }, { url }] } },
      ['/webhook/endpoints'],
    ],
    ['no host', hook({ url: 'https://%' }), ['/webhook/url']],
    ['a password in the url', hook({ url: 'https://u:p@hooks.example' }), ['/webhook/url']],
    [
      'a user in the url of an endpoint',
      { webhook: { endpoints: [{ url }, { url: 'https://u@hooks.example' }] } },
      ['/webhook/endpoints/1/url'],
    ],
    [
      'a header twice',
      hook({ headers: { 'X-A': '1', 'x-a': '2' } }),
      ['/webhook/headers/X-A', '/webhook/headers/x-a'],
    ],
    [
      'the header of the key twice',
      hook({ headers: { 'x-api-key': '1' }, auth: { type: 'api_key', api_key: 'k' } }),
      ['/webhook/headers/x-api-key'],
    ],
    [
      'a reserved header for the key',
      auth({ type: 'api_key', api_key: 'k', header_name: 'Authorization' }),
      ['/webhook/auth/header_name'],
    ],
    ['a pointer with ~', hook({ headers: { 'Proxy-~': '1' } }), ['/webhook/headers/Proxy-~0']],
    ['a key that is not base64', hook({ secret: 'whsec_a' }), ['/webhook/secret']],
    ['no key', hook({ secret: 's', previous_secret: 'whsec_' }), ['/webhook/previous_secret']],
    ['only a previous secret', hook({ previous_secret: 's' }), ['/webhook/previous_secret']],
    ...(
      [
        [{ color: 'red;background:url(x)' }, 'color'],
        [{ logo_url: 'http://b.example/l.png' }, 'logo_url'],
        [{ logo_url: 'javascript:1' }, 'logo_url'],
      ] as const
    ).map(([branding, part]): [string, unknown, string[]] => [
      `branding ${JSON.stringify(branding)}`,
      { email: { template_overrides: { approval_request: { branding } } } },
      [`/email/template_overrides/approval_request/branding/${part}`],
    ]),
    [
      'a chat webhook that is no web address',
      { chat: { google_chat: { webhook_url: 'ftp://chat.googleapis.com/x' } } },
      ['/chat/google_chat/webhook_url'],
    ],
    [
      'a workflow of Teams that is no web address',
      { teams: { webhook_url: 'ftp://prod-1.logic.azure.example/x' } },
      ['/teams/webhook_url'],
    ],
    [
      'a chat webhook with a space',
      { chat: { google_chat: { webhook_url: 'https://chat.googleapis.com/x y' } } },
      ['/chat/google_chat/webhook_url'],
    ],
  ];
  test.each(table)('%s', (_name, value, expected) => expect(refused(value)).toEqual(expected));

  test.each([
    'Host',
    'content-length',
    'Content-Type',
    'TRANSFER-ENCODING',
    'Connection',
    'Authorization',
    'X-Service-Signature',
    'webhook-id',
    'Webhook-Anything',
    '__proto__',
    '__Proto__',
    'TE',
    'Keep-Alive',
    'Trailer',
    'Upgrade',
    'HTTP2-Settings',
    'Expect',
    'Proxy-Connection',
  ])('%s is reserved', (name) => {
    expect(refused(hook({ headers: { [name]: 'x' } }))).toEqual([`/webhook/headers/${name}`]);
    expect(refused(auth({ type: 'api_key', api_key: 'k', header_name: name }))).toEqual([
      '/webhook/auth/header_name',
    ]);
  });

  test.each(['User-Agent', 'X-Webhook-Id', 'Accept', 'constructor'])('%s is free', (name) => {
    expect(refused(hook({ headers: { [name]: 'x' } }))).toEqual([]);
    expect(refused(auth({ type: 'api_key', api_key: 'k', header_name: name }))).toEqual([]);
  });

  test('masks pass where secrets have a form', () => {
    expect(
      refused({
        ...hook({ secret: '********', auth: { type: 'bearer', token: '********' } }),
        chat: { google_chat: { webhook_url: '********' } },
        teams: { webhook_url: '********' },
      }),
    ).toEqual([]);
  });
});

test('both forms are one list', () => {
  expect(endpointsOf({ webhook: { url } })).toEqual([{ path: ['webhook'], endpoint: { url } }]);
  expect(
    endpointsOf({ webhook: { endpoints: [{ url }, { url }] } }).map(({ path }) => path.join('/')),
  ).toEqual(['webhook/endpoints/0', 'webhook/endpoints/1']);
  expect([...endpointsOf({}), ...endpointsOf(null)]).toEqual([]);
});

test('headers whose names speak of credentials are secrets', () => {
  const headers = {
    'X-Auth': '1',
    'x-vault-TOKEN': '1',
    'My-Secret': '1',
    'X-Functions-Key': '1',
    Cookie: '1',
    'X-Team': '1',
    Accept: '1',
  };
  const found = markedTexts(WebhookEndpoint, { url, headers });
  const secrets = found.filter(({ isSecret }) => isSecret);
  expect(secrets.map(({ path }) => path[1])).toEqual([
    'X-Auth',
    'x-vault-TOKEN',
    'My-Secret',
    'X-Functions-Key',
    'Cookie',
  ]);
});

test('every property is described, and marked where its name speaks of a secret or an address', () => {
  const speaksOfSecrets = /secret|token|password|api_key|webhook_url/;
  const walk = (schema: Record<string, unknown>, path: string): void => {
    for (const group of ['properties', 'patternProperties'] as const) {
      if (schema.type !== 'object') continue;
      for (const [name, property] of Object.entries(schema[group] ?? {})) {
        if (!(property as { description?: string }).description)
          throw new Error(`${path}/${name} is not described`);
        const { type, [marks.secret]: isSecret } = property as Record<string, unknown>;
        if (type === 'string' && speaksOfSecrets.test(name) && !isSecret)
          throw new Error(`${path}/${name} is not marked as a secret`);
        if (!/^(webhook_)?url$/.test(name)) continue;
        if (!(property as Record<string, unknown>)[marks.calledAddress])
          throw new Error(`${path}/${name} is not marked as an address to call`);
        if (!schema[marks.secretsOf]) throw new Error(`${path} does not bind secrets to ${name}`);
      }
    }
    for (const [name, part] of Object.entries(schema))
      if (typeof part === 'object' && part !== null)
        walk(part as Record<string, unknown>, `${path}/${name}`);
  };
  walk(NotificationConfig as unknown as Record<string, unknown>, '');
});

test('approver groups in which no one may decide are named where they stand', () => {
  const config: NotificationConfig = {
    approver_groups: {
      risk_levels: { low: ['sre', 'ghosts'], high: [] },
      action_overrides: { scale: ['ghosts'] },
    },
  };
  expect(emptyGroups(config, new Set(['sre'])).map(({ path }) => path)).toEqual([
    '/approver_groups/risk_levels/low/1',
    '/approver_groups/action_overrides/scale/0',
  ]);
  expect(emptyGroups(null, new Set())).toEqual([]);
});
