/** G6: bad input is refused with its code and place, and what is accepted reads back exactly as it was sent. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { isDeepStrictEqual } from 'node:util';
import { createDatabase, type Database } from '../support/postgres.ts';
import {
  adminPassword,
  createTenant,
  signIn,
  startStrata,
  type Client,
  type Running,
  type Send,
  type TenantFixture,
} from '../support/strata.ts';

let database: Database;
let strata: Running;
let platform: Client;
let tenant: TenantFixture;

beforeAll(async () => {
  database = await createDatabase();
  strata = await startStrata({ DATABASE_URL: database.url, LOG_LEVEL: 'warn' });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Bad input');
  await tenant.admin.put(`/tenants/${tenant.id}/services/fixed`, {
    service_type: 'cloud_run',
    automation_enabled: true,
    min_instances: 1,
    max_instances: 2,
  });
  await tenant.admin.put(`/tenants/${tenant.id}/config/agents/there`, { default_cpu: '1' });
});
afterAll(async () => {
  await strata?.stop();
  await database?.drop();
});

type Case = readonly [
  what: string,
  method: string,
  path: string,
  send: Send & { by?: 'platform' | 'operator' },
  status: number,
  code: string,
  at?: string,
];
const risk = '/tenants/T/config/risk';
const agent = '/tenants/T/config/agents/there';
const service = '/tenants/T/services/fixed';
const fresh = '/tenants/T/services/fresh';
const project = '/tenants/T/projects/p/config';
const notify = '/tenants/T/config/notifications';
const entry = '/config/global/k';
const type = '/config/service-types/cloud_run/default';
const asking = '/tenants/T/approvals';
const approval = '/tenants/T/approvals/00000000-0000-4000-8000-000000000000';
const notices = '/tenants/T/notifications/deliveries';
const delivery = '/tenants/T/notifications/deliveries/00000000-0000-4000-8000-000000000000';
const wish = { action: 'scale', risk_level: 'low', title: 'Scale up' };
const asks = (more: object): Send => ({ body: { ...wish, ...more } });
const cursor = (text: string): string => `?cursor=${Buffer.from(text).toString('base64url')}`;
const raw = (text: string): Send => ({ raw: text });
const inRisk = (name: string, value: unknown): Send => ({
  body: { global_settings: { [name]: value } },
});
const hook = (endpoint: unknown): Send => ({ body: { webhook: endpoint } });
const invalid = [422, 'validation_failed'] as const;
const uuid = '00000000-0000-4000-8000-000000000000';
const passkey = { id: 'AA', rawId: 'AA', type: 'public-key', clientExtensionResults: {} };
const deep = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);

const cases: readonly Case[] = [
  // the text itself
  ['broken JSON', 'PUT', risk, raw('{"a":'), 400, 'invalid_json'],
  ['no JSON at all', 'PUT', agent, raw('hello'), 400, 'invalid_json'],
  ['a trailing comma', 'PATCH', agent, raw('{"a":1,}'), 400, 'invalid_json'],
  ['a comment', 'PUT', project, raw('{/* */}'), 400, 'invalid_json'],
  [
    'NaN',
    'PUT',
    risk,
    raw('{"global_settings":{"max_cost_impact_auto":NaN}}'),
    400,
    'invalid_json',
  ],
  ['a byte-order mark', 'PUT', agent, raw('\uFEFF{}'), 400, 'invalid_json'],
  [
    'bytes that are not UTF-8',
    'PUT',
    agent,
    { raw: Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]) },
    400,
    'invalid_json',
  ],
  ['an empty body', 'PUT', risk, raw(''), 400, 'invalid_json'],
  [
    'another media type',
    'PUT',
    risk,
    { raw: 'a=1', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
    415,
    'unsupported_media_type',
  ],
  [
    'text',
    'POST',
    '/tenants',
    { raw: '{}', headers: { 'content-type': 'text/plain' }, by: 'platform' },
    415,
    'unsupported_media_type',
  ],
  [
    'more than 1 MiB',
    'PUT',
    agent,
    raw(JSON.stringify({ custom: { x: 'y'.repeat(1024 * 1024) } })),
    413,
    'payload_too_large',
  ],
  // what could not be kept
  ['2^53 + 1', 'PUT', agent, raw('{"custom":{"n":9007199254740993}}'), ...invalid, '/custom/n'],
  [
    '1e400',
    'PUT',
    entry,
    { raw: '{"config_value":1e400}', by: 'platform' },
    ...invalid,
    '/config_value',
  ],
  [
    '1e-400',
    'PUT',
    entry,
    { raw: '{"config_value":[0,1e-400]}', by: 'platform' },
    ...invalid,
    '/config_value/1',
  ],
  [
    'too many digits',
    'PUT',
    agent,
    raw('{"custom":{"n":0.1000000000000000055}}'),
    ...invalid,
    '/custom/n',
  ],
  ['negative zero', 'PUT', agent, raw('{"custom":{"n":-0}}'), ...invalid, '/custom/n'],
  ['U+0000 in a text', 'PUT', project, raw('{"name":"a\\u0000b"}'), ...invalid, '/name'],
  ['U+0000 in a name', 'PUT', agent, raw('{"custom":{"a\\u0000":1}}'), ...invalid, '/custom/a\0'],
  ['half a surrogate pair', 'PUT', project, raw('{"name":"\\ud800"}'), ...invalid, '/name'],
  [
    'a field given twice',
    'PUT',
    risk,
    raw('{"service_overrides":{},"service_overrides":{}}'),
    ...invalid,
    '/service_overrides',
  ],
  [
    'nesting of 65',
    'PUT',
    entry,
    { raw: `{"config_value":${deep(64)}}`, by: 'platform' },
    ...invalid,
  ],
  [
    'nesting of 200,000',
    'PUT',
    entry,
    { raw: `{"config_value":${deep(200_000)}}`, by: 'platform' },
    ...invalid,
  ],
  // shapes
  ['an array for an object', 'PUT', risk, { body: [] }, ...invalid, ''],
  ['null for an object', 'PUT', agent, { body: null }, ...invalid, ''],
  ['a number for an object', 'PATCH', project, { body: 7 }, ...invalid, ''],
  ['an unknown field', 'PUT', risk, { body: { extra: 1 } }, ...invalid, '/extra'],
  [
    'an unknown nested field',
    'PUT',
    risk,
    inRisk('max_cost', 1),
    ...invalid,
    '/global_settings/max_cost',
  ],
  [
    '__proto__ where it is unknown',
    'PUT',
    risk,
    raw('{"__proto__":{"a":1}}'),
    ...invalid,
    '/__proto__',
  ],
  ['a slash in an unknown name', 'PUT', agent, { body: { 'a/b~c': 1 } }, ...invalid, '/a~1b~0c'],
  ['an unknown field by PATCH', 'PATCH', agent, { body: { extra: 1 } }, ...invalid, '/extra'],
  // risk
  [
    'a number as text',
    'PUT',
    risk,
    inRisk('max_cost_impact_auto', '5'),
    ...invalid,
    '/global_settings/max_cost_impact_auto',
  ],
  [
    'a negative limit',
    'PUT',
    risk,
    inRisk('max_cost_impact_auto', -1),
    ...invalid,
    '/global_settings/max_cost_impact_auto',
  ],
  [
    'auto over approval',
    'PUT',
    risk,
    inRisk('max_cost_impact_auto', 51),
    ...invalid,
    '/global_settings/max_cost_impact_auto',
  ],
  [
    'scaling under 1',
    'PUT',
    risk,
    inRisk('max_resource_scaling', 0.5),
    ...invalid,
    '/global_settings/max_resource_scaling',
  ],
  [
    'half a minute',
    'PUT',
    risk,
    inRisk('approval_timeout_minutes', 1.5),
    ...invalid,
    '/global_settings/approval_timeout_minutes',
  ],
  [
    'no minutes',
    'PUT',
    risk,
    inRisk('approval_timeout_minutes', 0),
    ...invalid,
    '/global_settings/approval_timeout_minutes',
  ],
  [
    'more than a week',
    'PUT',
    risk,
    inRisk('approval_timeout_minutes', 10_081),
    ...invalid,
    '/global_settings/approval_timeout_minutes',
  ],
  [
    '1001 automations',
    'PUT',
    risk,
    inRisk('max_concurrent_automations', 1001),
    ...invalid,
    '/global_settings/max_concurrent_automations',
  ],
  [
    'a flag as a number',
    'PATCH',
    risk,
    inRisk('automation_enabled', 1),
    ...invalid,
    '/global_settings/automation_enabled',
  ],
  [
    'an unknown service type',
    'PUT',
    risk,
    { body: { service_overrides: { teapot: {} } } },
    ...invalid,
    '/service_overrides/teapot',
  ],
  [
    'an override of the wrong type',
    'PUT',
    risk,
    { body: { service_overrides: { cloud_run: { max_cost_impact_auto: 'x' } } } },
    ...invalid,
    '/service_overrides/cloud_run/max_cost_impact_auto',
  ],
  [
    'an override over its approval',
    'PUT',
    risk,
    { body: { service_overrides: { cloud_run: { max_cost_impact_auto: 99 } } } },
    ...invalid,
    '/service_overrides/cloud_run/max_cost_impact_auto',
  ],
  [
    'an override that is no object',
    'PUT',
    risk,
    { body: { service_overrides: { cloud_run: 1 } } },
    ...invalid,
    '/service_overrides/cloud_run',
  ],
  // agents, services, projects
  [
    'another agent type in the body',
    'PUT',
    agent,
    { body: { agent_type: 'else' } },
    ...invalid,
    '/agent_type',
  ],
  [
    'an agent type with capitals',
    'PUT',
    '/tenants/T/config/agents/Scaler',
    { body: {} },
    ...invalid,
    '/agent_type',
  ],
  [
    'min over max',
    'PUT',
    agent,
    { body: { default_scaling: { min_instances: 3, max_instances: 2 } } },
    ...invalid,
    '/default_scaling/min_instances',
  ],
  [
    'a threshold as text',
    'PUT',
    agent,
    { body: { monitoring_thresholds: { cpu: '80' } } },
    ...invalid,
    '/monitoring_thresholds/cpu',
  ],
  ['no service type at creation', 'PUT', fresh, { body: {} }, ...invalid, '/service_type'],
  [
    'an unknown service type',
    'PUT',
    fresh,
    { body: { service_type: 'teapot' } },
    ...invalid,
    '/service_type',
  ],
  [
    'a changed service type',
    'PUT',
    service,
    { body: { service_type: 'cloud_sql' } },
    ...invalid,
    '/service_type',
  ],
  [
    "over the type's limit",
    'PUT',
    service,
    { body: { max_instances: 101 } },
    ...invalid,
    '/max_instances',
  ],
  [
    "under the type's limit",
    'PUT',
    fresh,
    { body: { service_type: 'cloud_sql', min_instances: 0 } },
    ...invalid,
    '/min_instances',
  ],
  [
    'a 25th hour',
    'PUT',
    service,
    {
      body: {
        maintenance_windows: [{ days: ['mon'], start: '25:00', end: '02:00', timezone: 'UTC' }],
      },
    },
    ...invalid,
    '/maintenance_windows/0/start',
  ],
  [
    'no time zone of this world',
    'PUT',
    service,
    {
      body: {
        maintenance_windows: [
          { days: ['mon'], start: '01:00', end: '02:00', timezone: 'Mars/Base' },
        ],
      },
    },
    ...invalid,
    '/maintenance_windows/0/timezone',
  ],
  [
    'an operator changes automation',
    'PATCH',
    service,
    { body: { automation_enabled: false }, by: 'operator' },
    403,
    'insufficient_role',
  ],
  [
    'an operator changes channels',
    'PATCH',
    service,
    { body: { notification_channels: ['x'] }, by: 'operator' },
    403,
    'insufficient_role',
  ],
  [
    'a currency of two letters',
    'PUT',
    project,
    { body: { budget: { amount: 1, currency: 'EU' } } },
    ...invalid,
    '/budget/currency',
  ],
  [
    'a label that is a number',
    'PUT',
    project,
    { body: { labels: { a: 1 } } },
    ...invalid,
    '/labels/a',
  ],
  [
    'a path id with a space',
    'PUT',
    '/tenants/T/projects/a%20b/config',
    { body: {} },
    ...invalid,
    '/project_id',
  ],
  // notifications
  [
    'both webhook forms',
    'PUT',
    notify,
    hook({ url: 'https://a.example', endpoints: [] }),
    ...invalid,
  ],
  ['ftp', 'PUT', notify, hook({ url: 'ftp://a.example' }), ...invalid],
  ['http', 'PUT', notify, hook({ url: 'http://a.example' }), ...invalid, '/webhook/url'],
  [
    'a password in the url',
    'PUT',
    notify,
    hook({ url: 'https://u:p@a.example' }),
    ...invalid,
    '/webhook/url',
  ],
  ['loopback', 'PUT', notify, hook({ url: 'https://127.0.0.1/hook' }), ...invalid, '/webhook/url'],
  [
    'loopback as one number',
    'PUT',
    notify,
    hook({ url: 'https://2130706433/hook' }),
    ...invalid,
    '/webhook/url',
  ],
  [
    'a name for loopback',
    'PUT',
    notify,
    hook({ url: 'https://localhost/hook' }),
    ...invalid,
    '/webhook/url',
  ],
  [
    'the metadata server among endpoints',
    'PUT',
    notify,
    hook({ endpoints: [{ url: 'https://8.8.8.8' }, { url: 'https://169.254.169.254/latest' }] }),
    ...invalid,
    '/webhook/endpoints/1/url',
  ],
  [
    'a private address by PATCH',
    'PATCH',
    notify,
    hook({ endpoints: [{ url: 'https://[::ffff:10.0.0.1]/' }] }),
    ...invalid,
    '/webhook/endpoints/0/url',
  ],
  [
    'a name for loopback by PATCH',
    'PATCH',
    notify,
    hook({ url: 'https://localhost/hook' }),
    ...invalid,
    '/webhook/url',
  ],
  [
    'chat within',
    'PUT',
    notify,
    {
      body: {
        chat: { google_chat: { webhook_url: 'https://[fd00::1]/v1/spaces/A/messages?key=k' } },
      },
    },
    ...invalid,
    '/chat/google_chat/webhook_url',
  ],
  [
    'a name for loopback as chat',
    'PUT',
    notify,
    { body: { chat: { google_chat: { webhook_url: 'https://localhost/' } } } },
    ...invalid,
    '/chat/google_chat/webhook_url',
  ],
  [
    'chat over http',
    'PUT',
    notify,
    { body: { chat: { google_chat: { webhook_url: 'http://8.8.8.8/' } } } },
    ...invalid,
    '/chat/google_chat/webhook_url',
  ],
  [
    'addresses that are no texts',
    'PUT',
    notify,
    { body: { webhook: { endpoints: [null, 7, { url: [] }] }, chat: 'x' } },
    ...invalid,
  ],
  [
    'a reserved header',
    'PUT',
    notify,
    hook({ url: 'https://a.example', headers: { Host: 'b' } }),
    ...invalid,
    '/webhook/headers/Host',
  ],
  [
    'a header with a line break',
    'PUT',
    notify,
    hook({ url: 'https://a.example', headers: { 'X-A': 'a\r\nb: c' } }),
    ...invalid,
  ],
  [
    'an unknown auth',
    'PUT',
    notify,
    hook({ url: 'https://a.example', auth: { type: 'digest' } }),
    ...invalid,
  ],
  [
    'the mask with nothing stored',
    'PUT',
    notify,
    hook({ url: 'https://a.example', secret: '********' }),
    ...invalid,
    '/webhook/secret',
  ],
  [
    'a subject with a line break',
    'PUT',
    notify,
    { body: { email: { template_overrides: { approval_request: { subject: 'a\nb' } } } } },
    ...invalid,
    '/email/template_overrides/approval_request/subject',
  ],
  [
    'no address',
    'PUT',
    notify,
    { body: { email: { approval_recipients: ['nobody'] } } },
    ...invalid,
    '/email/approval_recipients/0',
  ],
  [
    'an unknown risk level',
    'PUT',
    notify,
    { body: { approver_groups: { risk_levels: { extreme: [] } } } },
    ...invalid,
    '/approver_groups/risk_levels/extreme',
  ],
  // approvals, deliveries, links
  ['no body to ask with', 'POST', asking, {}, ...invalid],
  ['nothing asked', 'POST', asking, { body: {} }, ...invalid, '/action'],
  ['an action with a space', 'POST', asking, asks({ action: 'scale up' }), ...invalid, '/action'],
  ['an action of 101', 'POST', asking, asks({ action: 'a'.repeat(101) }), ...invalid, '/action'],
  [
    'a risk of no level',
    'POST',
    asking,
    asks({ risk_level: 'extreme' }),
    ...invalid,
    '/risk_level',
  ],
  ['a risk of null', 'POST', asking, asks({ risk_level: null }), ...invalid, '/risk_level'],
  ['an empty title', 'POST', asking, asks({ title: '' }), ...invalid, '/title'],
  ['a title of two lines', 'POST', asking, asks({ title: 'a\nb' }), ...invalid, '/title'],
  ['a title of 301', 'POST', asking, asks({ title: 't'.repeat(301) }), ...invalid, '/title'],
  [
    'a title that is half a surrogate pair',
    'POST',
    asking,
    raw('{"action":"a","risk_level":"low","title":"\\udc00"}'),
    ...invalid,
    '/title',
  ],
  [
    'U+0000 in a description',
    'POST',
    asking,
    asks({ description: 'a\0b' }),
    ...invalid,
    '/description',
  ],
  [
    'a description of 10,001',
    'POST',
    asking,
    asks({ description: 'd'.repeat(10_001) }),
    ...invalid,
    '/description',
  ],
  ['a resource that is a list', 'POST', asking, asks({ resource: [] }), ...invalid, '/resource'],
  ['a negative cost', 'POST', asking, asks({ cost_impact: -1 }), ...invalid, '/cost_impact'],
  ['a cost as text', 'POST', asking, asks({ cost_impact: '1' }), ...invalid, '/cost_impact'],
  [
    'a cost of 1e400',
    'POST',
    asking,
    raw('{"action":"a","risk_level":"low","title":"t","cost_impact":1e400}'),
    ...invalid,
    '/cost_impact',
  ],
  ['metadata that is a text', 'POST', asking, asks({ metadata: 'x' }), ...invalid, '/metadata'],
  [
    'a number in metadata that JSON cannot keep',
    'POST',
    asking,
    raw('{"action":"a","risk_level":"low","title":"t","metadata":{"n":9007199254740993}}'),
    ...invalid,
    '/metadata/n',
  ],
  [
    'half a surrogate pair in metadata',
    'POST',
    asking,
    raw('{"action":"a","risk_level":"low","title":"t","metadata":{"a":["\\ud800"]}}'),
    ...invalid,
    '/metadata/a/0',
  ],
  [
    'metadata nested 65 deep',
    'POST',
    asking,
    raw(`{"action":"a","risk_level":"low","title":"t","metadata":{"a":${deep(64)}}}`),
    ...invalid,
  ],
  [
    'metadata over 1 MiB',
    'POST',
    asking,
    asks({ metadata: { x: 'y'.repeat(1024 * 1024) } }),
    413,
    'payload_too_large',
  ],
  [
    '__proto__ beside the fields',
    'POST',
    asking,
    raw('{"action":"a","risk_level":"low","title":"t","__proto__":{"state":"approved"}}'),
    ...invalid,
    '/__proto__',
  ],
  ["a state of the asker's", 'POST', asking, asks({ state: 'approved' }), ...invalid, '/state'],
  [
    'an expiry in the past',
    'POST',
    asking,
    asks({ expires_at: '2020-01-01T00:00:00Z' }),
    ...invalid,
    '/expires_at',
  ],
  [
    'an expiry that is a number',
    'POST',
    asking,
    asks({ expires_at: 1_900_000_000 }),
    ...invalid,
    '/expires_at',
  ],
  [
    'an expiry without a zone',
    'POST',
    asking,
    asks({ expires_at: '2036-01-01T00:00:00' }),
    ...invalid,
    '/expires_at',
  ],
  [
    'an expiry on February 30',
    'POST',
    asking,
    asks({ expires_at: '2036-02-30T00:00:00Z' }),
    ...invalid,
    '/expires_at',
  ],
  [
    'an expiry in a leap second',
    'POST',
    asking,
    asks({ expires_at: '2036-12-31T23:59:60Z' }),
    ...invalid,
    '/expires_at',
  ],
  [
    'an expiry beyond the year 9999',
    'POST',
    asking,
    asks({ expires_at: '9999-12-31T23:59:59-10:00' }),
    ...invalid,
    '/expires_at',
  ],
  [
    'an expiry beyond the calendar',
    'POST',
    asking,
    asks({ expires_at: '+275761-01-01T00:00:00Z' }),
    ...invalid,
    '/expires_at',
  ],
  [
    'an empty idempotency_key',
    'POST',
    asking,
    asks({ idempotency_key: '' }),
    ...invalid,
    '/idempotency_key',
  ],
  [
    'an idempotency_key of 201',
    'POST',
    asking,
    asks({ idempotency_key: 'k'.repeat(201) }),
    ...invalid,
    '/idempotency_key',
  ],
  [
    'an unknown query of a request',
    'POST',
    `${asking}?dry_run=true`,
    asks({}),
    ...invalid,
    '/dry_run',
  ],
  ['approvals of no state', 'GET', `${asking}?state=lost`, {}, ...invalid, '/state'],
  ['more approvals than a page', 'GET', `${asking}?limit=1000`, {}, ...invalid, '/limit'],
  [
    'a cursor of approvals that is a word',
    'GET',
    `${asking}${cursor('abc')}`,
    {},
    ...invalid,
    '/cursor',
  ],
  [
    'a cursor without an id',
    'GET',
    `${asking}${cursor('2026-01-01T00:00:00.000Z ')}`,
    {},
    ...invalid,
    '/cursor',
  ],
  [
    'a cursor on February 30',
    'GET',
    `${asking}${cursor('2026-02-30T00:00:00.000Z 00000000-0000-4000-8000-000000000000')}`,
    {},
    ...invalid,
    '/cursor',
  ],
  ['an approval that is no id', 'GET', '/tenants/T/approvals/1', {}, ...invalid, '/approval_id'],
  ['an approval that is not there', 'GET', approval, {}, 404, 'not_found'],
  [
    'a decision that is neither',
    'POST',
    `${approval}/decision`,
    { body: { decision: 'maybe' } },
    ...invalid,
    '/decision',
  ],
  ['no decision', 'POST', `${approval}/decision`, { body: {} }, ...invalid, '/decision'],
  [
    'a comment of 2001',
    'POST',
    `${approval}/decision`,
    { body: { decision: 'deny', comment: 'c'.repeat(2001) } },
    ...invalid,
    '/comment',
  ],
  [
    "a decision in another's name",
    'POST',
    `${approval}/decision`,
    { body: { decision: 'deny', by: 'x' } },
    ...invalid,
    '/by',
  ],
  [
    'a decision on nothing',
    'POST',
    `${approval}/decision`,
    { body: { decision: 'deny' } },
    404,
    'not_found',
  ],
  ['an acknowledgement of nothing', 'POST', `${approval}/ack`, {}, 404, 'not_found'],
  ['deliveries of no channel', 'GET', `${notices}?channel=fax`, {}, ...invalid, '/channel'],
  ['deliveries of no state', 'GET', `${notices}?state=sent`, {}, ...invalid, '/state'],
  ['deliveries of no approval', 'GET', `${notices}?approval_id=x`, {}, ...invalid, '/approval_id'],
  [
    'a cursor of deliveries that is a word',
    'GET',
    `${notices}${cursor('abc')}`,
    {},
    ...invalid,
    '/cursor',
  ],
  [
    'a cursor of deliveries that is SQL',
    'GET',
    `${notices}${cursor("' 1=1")}`,
    {},
    ...invalid,
    '/cursor',
  ],
  ['a delivery that is not there', 'GET', delivery, {}, 404, 'not_found'],
  ['a replay of nothing', 'POST', `${delivery}/replay`, {}, 404, 'not_found'],
  [
    'a replay by an operator',
    'POST',
    `${delivery}/replay`,
    { by: 'operator' },
    403,
    'insufficient_role',
  ],
  [
    'a test of no channel',
    'POST',
    '/tenants/T/notifications/test',
    { body: { channel: 'fax' } },
    ...invalid,
    '/channel',
  ],
  [
    'a test of what is not configured',
    'POST',
    '/tenants/T/notifications/test',
    { body: { channel: 'chat' } },
    ...invalid,
    '/channel',
  ],
  [
    'a test of endpoint -1',
    'POST',
    '/tenants/T/notifications/test',
    { body: { channel: 'webhook', endpoint: -1 } },
    ...invalid,
    '/endpoint',
  ],
  [
    'a test of an endpoint that is none',
    'POST',
    '/tenants/T/notifications/test',
    { body: { channel: 'webhook', endpoint: 7 } },
    ...invalid,
    '/endpoint',
  ],
  [
    'a test of one mail',
    'POST',
    '/tenants/T/notifications/test',
    { body: { channel: 'email', endpoint: 0 } },
    ...invalid,
    '/endpoint',
  ],
  ['no link', 'GET', '/approvals/decision', {}, ...invalid, '/token'],
  ['a link that is none', 'GET', '/approvals/decision?token=abc', {}, 404, 'not_found'],
  ['a link of three parts', 'POST', '/approvals/decision?token=a.b.c', {}, 404, 'not_found'],
  [
    'a link too long',
    'POST',
    `/approvals/decision?token=${'a'.repeat(4001)}`,
    {},
    ...invalid,
    '/token',
  ],
  // platform
  ['no value', 'PUT', entry, { body: {}, by: 'platform' }, ...invalid, '/config_value'],
  [
    'another key',
    'PATCH',
    '/config/global/there',
    { body: { config_key: 'else' }, by: 'platform' },
    404,
    'not_found',
  ],
  [
    'a key with a slash',
    'PUT',
    '/config/global/a%2Fb',
    { body: { config_value: 1 }, by: 'platform' },
    ...invalid,
    '/key',
  ],
  [
    'an unknown data type',
    'PUT',
    entry,
    { body: { config_value: 1, data_type: 'yaml' }, by: 'platform' },
    ...invalid,
    '/data_type',
  ],
  [
    'an underscore in a configuration name',
    'PUT',
    '/config/service-types/cloud_run/my_default',
    { body: {}, by: 'platform' },
    ...invalid,
    '/configuration_name',
  ],
  [
    'limits the wrong way round',
    'PUT',
    type,
    { body: { scaling_limits: { min_instances: 5, max_instances: 1 } }, by: 'platform' },
    ...invalid,
    '/scaling_limits/min_instances',
  ],
  [
    'no name',
    'POST',
    '/tenants',
    { body: { admin: { email: 'a@b.example' } }, by: 'platform' },
    ...invalid,
    '/name',
  ],
  [
    'a short password',
    'POST',
    '/tenants',
    { body: { name: 'x', admin: { email: 'short@b.example', password: 'short' } }, by: 'platform' },
    422,
    'auth_password_too_short',
    '/password',
  ],
  [
    'no role',
    'POST',
    '/tenants/T/users',
    { body: { email: 'a@b.example', roles: [] } },
    ...invalid,
    '/roles',
  ],
  [
    'an unknown role',
    'POST',
    '/tenants/T/users',
    { body: { email: 'a@b.example', roles: ['root'] } },
    ...invalid,
    '/roles/0',
  ],
  [
    'a rollback to nowhere',
    'POST',
    '/tenants/T/config/rollback',
    { body: { revision: 0 } },
    ...invalid,
    '/revision',
  ],
  [
    'tenants of a reload that are no ids',
    'POST',
    '/config/reload',
    { body: { invalidate: { tenant_ids: ['x'] } }, by: 'platform' },
    ...invalid,
    '/invalidate/tenant_ids/0',
  ],
  // passkeys
  [
    'an assertion without its user',
    'POST',
    '/auth/webauthn/login/verify',
    {
      body: {
        challenge_id: uuid,
        credential: {
          ...passkey,
          response: { clientDataJSON: 'e30', authenticatorData: 'AA', signature: 'AA' },
        },
      },
    },
    ...invalid,
    '/credential/response/userHandle',
  ],
  [
    'a signature that is not base64url',
    'POST',
    '/auth/webauthn/login/verify',
    {
      body: {
        challenge_id: uuid,
        credential: {
          ...passkey,
          response: {
            clientDataJSON: 'e30',
            authenticatorData: 'AA',
            signature: 'a+b=',
            userHandle: 'AA',
          },
        },
      },
    },
    ...invalid,
    '/credential/response/signature',
  ],
  [
    'a credential id of 1024 bytes',
    'POST',
    '/auth/webauthn/register/verify',
    {
      body: {
        challenge_id: uuid,
        credential: {
          ...passkey,
          id: 'A'.repeat(1366),
          response: { clientDataJSON: 'e30', attestationObject: 'AA' },
        },
      },
    },
    ...invalid,
    '/credential/id',
  ],
  [
    'no credential',
    'POST',
    '/auth/webauthn/register/verify',
    { body: { challenge_id: uuid } },
    ...invalid,
    '/credential',
  ],
  ['a passkey id that is none', 'DELETE', '/auth/webauthn/credentials/mine', {}, ...invalid, '/id'],
  // the request around it
  ['an unknown query parameter', 'PUT', `${risk}?dryrun=true`, { body: {} }, ...invalid, '/dryrun'],
  ['a flag that is none', 'PUT', `${risk}?dry_run=1`, { body: {} }, ...invalid, '/dry_run'],
  [
    'a parameter given twice',
    'PUT',
    `${risk}?dry_run=true&dry_run=true`,
    { body: {} },
    ...invalid,
    '/dry_run',
  ],
  [
    'the tenant in the query',
    'PUT',
    `${risk}?tenant_id=00000000-0000-4000-8000-000000000000`,
    { body: {} },
    ...invalid,
    '/tenant_id',
  ],
  ['a limit of 0', 'GET', '/tenants/T/services?limit=0', {}, ...invalid, '/limit'],
  ['a limit of 201', 'GET', '/tenants/T/services?limit=201', {}, ...invalid, '/limit'],
  ['a cursor that is none', 'GET', '/tenants/T/services?cursor=%21%21', {}, ...invalid, '/cursor'],
  [
    'a cursor of another list',
    'GET',
    '/tenants/T/config/history?cursor=YWJj',
    {},
    ...invalid,
    '/cursor',
  ],
  ['a cursor that is no time', 'GET', '/audit/events?cursor=YSBiIGM', {}, ...invalid, '/cursor'],
  [
    'a cursor of events without a place',
    'GET',
    `/audit/events${cursor('2026-01-01T00:00:00.000Z')}`,
    {},
    ...invalid,
    '/cursor',
  ],
  ...[
    '/tenants',
    '/auth/users',
    '/auth/sso/providers',
    '/tenants/T/users',
    '/auth/sessions',
    '/auth/api-keys',
    '/auth/webauthn/credentials',
  ].map(
    (path) =>
      [
        `a cursor of ${path} that is a word`,
        'GET',
        `${path}${cursor('abc')}`,
        path.startsWith('/tenants/T') ? {} : { by: 'platform' as const },
        ...invalid,
        '/cursor',
      ] as const,
  ),
  [
    'events since the year 0',
    'GET',
    '/audit/events?since=0000-01-01T00:00:00Z',
    {},
    ...invalid,
    '/since',
  ],
  [
    'events until a leap second',
    'GET',
    '/audit/events?until=2016-12-31T23:59:60Z',
    {},
    ...invalid,
    '/until',
  ],
  [
    'a moment beyond the year 9999',
    'GET',
    '/tenants/T/config/effective?as_of=9999-12-31T23:59:59-10:00',
    {},
    ...invalid,
    '/as_of',
  ],
  ['a time that is none', 'GET', '/audit/events?since=yesterday', {}, ...invalid, '/since'],
  ['a revision that is none', 'GET', '/tenants/T/config/history/x', {}, ...invalid, '/revision'],
  [
    'a minimum revision that is none',
    'GET',
    risk,
    { headers: { 'x-min-revision': '-1' } },
    ...invalid,
    '/x-min-revision',
  ],
  [
    'a reason of 501',
    'PUT',
    risk,
    { body: {}, headers: { 'x-change-reason': 'r'.repeat(501) } },
    ...invalid,
    '/x-change-reason',
  ],
  [
    'an entity tag that is not current',
    'PUT',
    risk,
    { body: {}, headers: { 'if-match': '"123456"' } },
    412,
    'precondition_failed',
  ],
  [
    'a weak entity tag',
    'PUT',
    risk,
    { body: {}, headers: { 'if-match': 'W/"1"' } },
    412,
    'precondition_failed',
  ],
];

describe('a request that is wrong', () => {
  test(`there are at least 60 cases`, () => {
    expect(cases.length).toBeGreaterThanOrEqual(60);
  });

  test.each(cases)('%s: %s %s', async (...row: Case) => {
    const [, method, path, { by, ...send }, status, code, at] = row;
    const client =
      by === 'platform' ? platform : by === 'operator' ? tenant.operator : tenant.admin;
    const answer = await client.send(method, path.replace('/T/', `/${tenant.id}/`), send);
    expect({ status: answer.status, code: answer.body?.detail.code }).toEqual({ status, code });
    if (at !== undefined)
      expect(answer.body.errors.map((error: { path: string }) => error.path)).toContain(at);
    if (status === 422)
      expect(answer.body.errors.length + Number(code === 'validation_failed')).toBeGreaterThan(0);
  });
});

// ---------------------------------------------------------------- generated bodies

const total = 20_000;
const inFlight = 16;

const awkward = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom(
    '__proto__',
    'constructor',
    '',
    '\u2028',
    '\u{1f600}',
    'toString',
    '********',
    '%00',
    '"',
    "'; DROP TABLE x; --",
  ),
);
const json = fc.jsonValue({ maxDepth: 4, stringUnit: 'binary' });
const plain = fc.dictionary(awkward, json, { maxKeys: 4, noNullPrototype: true });
const maybe = <T>(valid: fc.Arbitrary<T>): fc.Arbitrary<unknown> =>
  fc.oneof(
    { weight: 6, arbitrary: valid as fc.Arbitrary<unknown> },
    { weight: 1, arbitrary: json as fc.Arbitrary<unknown> },
  );
const some = (
  fields: Record<string, fc.Arbitrary<unknown>>,
): fc.Arbitrary<Record<string, unknown>> =>
  fc.record(
    Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, maybe(value)])),
    { requiredKeys: [] },
  );

const limits = some({
  max_cost_impact_auto: fc.double({ min: 0, max: 40, noNaN: true }),
  max_cost_impact_approval: fc.double({ min: 40, noNaN: true }),
  max_resource_scaling: fc.double({ min: 1, noNaN: true, noDefaultInfinity: true }),
  approval_timeout_minutes: fc.integer({ min: 1, max: 10_080 }),
  automation_enabled: fc.boolean(),
});
const instances = some({
  min_instances: fc.integer({ min: 0, max: 3 }),
  max_instances: fc.integer({ min: 3, max: 50 }),
});

interface Route {
  readonly path: string;
  readonly by?: 'platform';
  readonly body: fc.Arbitrary<unknown>;
  readonly patch?: true;
  readonly read: (sent: Record<string, unknown>, read: Record<string, unknown>) => boolean;
}
/** Every field that was sent reads back as it was sent. */
const kept = (sent: Record<string, unknown>, read: Record<string, unknown>): boolean =>
  Object.keys(sent).every((name) => isDeepStrictEqual(sent[name], read[name]));
const routes: readonly Route[] = [
  {
    path: '/tenants/T/config/risk',
    body: some({
      global_settings: limits,
      service_overrides: fc.dictionary(fc.constantFrom('cloud_run', 'cloud_sql'), plain, {
        noNullPrototype: true,
      }),
    }),
    read: (sent, read) =>
      kept((sent.global_settings ?? {}) as never, read.global_settings as never) &&
      (!sent.service_overrides ||
        isDeepStrictEqual(sent.service_overrides, read.service_overrides)),
  },
  {
    path: '/tenants/T/config/agents/generated',
    read: kept,
    body: some({
      default_region: fc.string({ minLength: 1, maxLength: 50 }),
      default_scaling: instances,
      monitoring_thresholds: fc.dictionary(
        awkward,
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        { noNullPrototype: true },
      ),
      templates: plain,
      custom: plain,
      tools: fc.array(fc.string({ minLength: 1 }), { maxLength: 3 }),
    }),
  },
  {
    path: '/tenants/T/services/generated',
    read: kept,
    body: some({
      service_type: fc.constant('cloud_run'),
      service_name: fc.string({ minLength: 1, maxLength: 50 }),
      custom_thresholds: plain,
      min_instances: fc.integer({ min: 0, max: 3 }),
      max_instances: fc.integer({ min: 3, max: 50 }),
      monitoring_enabled: fc.boolean(),
    }),
  },
  {
    path: '/tenants/T/projects/generated/config',
    read: kept,
    body: some({
      name: fc.string({ minLength: 1, maxLength: 50, unit: 'binary' }),
      labels: fc.dictionary(awkward, fc.string({ unit: 'binary' }), { noNullPrototype: true }),
      project_config: plain,
      budget: fc.record({
        amount: fc.double({ min: 0, noNaN: true, noDefaultInfinity: true }),
        currency: fc.constant('EUR'),
      }),
    }),
  },
  {
    path: '/tenants/T/config/notifications',
    read: (sent, read) => isDeepStrictEqual(sent, read),
    body: some({
      escalation: some({ max_hops: fc.integer({ min: 0, max: 20 }) }),
      approver_groups: some({
        risk_levels: some({ low: fc.array(fc.constantFrom('a', 'b')) }),
        action_overrides: fc.dictionary(
          fc.constantFrom('x', 'y', '__proto__'),
          fc.array(fc.constantFrom('a', 'b')),
          { noNullPrototype: true },
        ),
      }),
    }),
  },
  {
    path: '/config/global/generated',
    by: 'platform',
    read: kept,
    body: fc.record(
      { config_value: json, is_public: maybe(fc.boolean()) },
      { requiredKeys: ['config_value'] },
    ),
  },
  {
    path: '/config/service-types/generated/default',
    by: 'platform',
    read: kept,
    body: some({
      default_settings: plain,
      monitoring_defaults: plain,
      is_active: fc.boolean(),
      scaling_limits: instances,
    }),
  },
];
const others = [
  '/tenants',
  '/tenants/T/users',
  '/tenants/T/config/rollback',
  '/configurations/cache/invalidate',
  '/auth/refresh',
];

test.each<[string, unknown, { path: string; message: string }[]]>([
  [
    'of the kind of auth that was meant',
    { webhook: { url: 'https://a.example', auth: { type: 'digest' } } },
    [{ path: '/webhook/auth/type', message: 'must be one of bearer, basic, api_key' }],
  ],
  [
    'of the form of webhook that was meant',
    { webhook: { endpoints: [], url: 'https://a.example' } },
    [{ path: '/webhook/url', message: 'unknown field' }],
  ],
  [
    'in a document that may be null',
    { email: null },
    [{ path: '/email', message: 'must be object' }],
  ],
  [
    'of neither type',
    7,
    [
      { path: '', message: 'must be object' },
      { path: '', message: 'must be null' },
    ],
  ],
])('a problem %s is said once, and nothing beside it', async (...[, body, errors]) => {
  expect(
    (await tenant.admin.put(`/tenants/${tenant.id}/config/notifications`, body)).body.errors,
  ).toEqual(errors);
});

test(`${total} generated bodies: no 5xx, and what is accepted reads back as sent`, async () => {
  let left = total;
  let accepted = 0;
  const statuses = new Map<number, number>();
  /** One lane owns its documents, so that what it reads is what it wrote. */
  async function lane(index: number): Promise<void> {
    const samples = fc.sample(
      fc.tuple(
        fc.nat({ max: routes.length + 1 }),
        fc.constant(0),
        ...routes.map(({ body }) => body),
        json,
      ),
      { numRuns: Math.ceil(total / inFlight), seed: 1000 + index },
    );
    for (const sample of samples) {
      if (left <= 0) return;
      left -= 1;
      const route = routes[sample[0] as number];
      const body = route ? sample[2 + (sample[0] as number)] : sample.at(-1);
      const path = (route?.path ?? others[left % others.length]!)
        .replace('/T/', `/${tenant.id}/`)
        .replace('generated', `generated-${index}`);
      // The risk limits and notification_config exist once per tenant: one lane writes them, the others only try.
      const shared = route !== undefined && !path.includes('generated') && index !== 0;
      const client = (route ? route.by === 'platform' : path === '/tenants')
        ? platform
        : tenant.admin;
      const answer = await client.send(
        route ? 'PUT' : 'POST',
        shared ? `${path}?dry_run=true` : path,
        { body },
      );
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
      if (answer.status >= 500)
        throw new Error(`${answer.status} ${path} ${JSON.stringify(body)} ${answer.text}`);
      if (!route || shared || answer.status >= 300) continue;
      accepted += 1;
      const read = await client.get(path);
      // Through text: what a value is in JSON, such as 0 for -0, is what was sent.
      const sent = JSON.parse(JSON.stringify(body)) as Record<string, unknown>;
      if (
        read.status !== 200 ||
        !(sent === null ? read.body === null : route.read(sent, read.body))
      )
        throw new Error(`${path} was sent ${JSON.stringify(body)} and reads ${read.text}`);
    }
  }
  await Promise.all(Array.from({ length: inFlight }, (_each, index) => lane(index)));
  expect(left).toBeLessThanOrEqual(0);
  expect(accepted).toBeGreaterThan(total / 10);
  expect([...statuses.values()].reduce((sum, count) => sum + count)).toBe(total);
}, 300_000);
