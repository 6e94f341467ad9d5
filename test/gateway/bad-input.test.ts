/** G6: bad input is refused with its code and place. */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  adminPassword,
  createTenant,
  signIn,
  type Client,
  type Send,
  type TenantFixture,
} from '../support/strata.ts';

let strata: SharedStrata;
let platform: Client;
let tenant: TenantFixture;

beforeAll(async () => {
  strata = await sharedStrata();
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

type By = 'platform' | 'operator';
type Sent = Send & { readonly by?: By };
interface Case {
  readonly what: string;
  readonly method: string;
  /** `T` stands for the tenant. */
  readonly path: string;
  readonly send: Sent;
  readonly status: number;
  readonly code: string;
  /** JSON Pointer to what is wrong; not compared where it is left out. */
  readonly at?: string | undefined;
}

/** Requests to one route that its contract refuses. */
const invalid = (
  method: string,
  path: string,
  rows: readonly (readonly [what: string, send: Sent, at?: string])[],
): Case[] =>
  rows.map(([what, send, at]) => ({
    what,
    method,
    path,
    send,
    status: 422,
    code: 'validation_failed',
    at,
  }));

/** Requests that are refused with this status and code. */
const refused = (
  status: number,
  code: string,
  rows: readonly (readonly [what: string, method: string, path: string, send: Sent, at?: string])[],
): Case[] =>
  rows.map(([what, method, path, send, at]) => ({ what, method, path, send, status, code, at }));

const risk = '/tenants/T/config/risk';
const agent = '/tenants/T/config/agents/there';
const service = '/tenants/T/services/fixed';
const fresh = '/tenants/T/services/fresh';
const project = '/tenants/T/projects/p/config';
const notify = '/tenants/T/config/notifications';
const entry = '/config/global/k';
const office = { days: ['mon'], start: '09:00', end: '17:00', timezone: 'UTC' };
const type = '/config/service-types/cloud_run/default';
const asking = '/tenants/T/approvals';
const intent = { action: 'scale', risk_level: 'low' };
const automation = '/tenants/T/automations/00000000-0000-4000-8000-000000000000';
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
const uuid = '00000000-0000-4000-8000-000000000000';
const passkey = { id: 'AA', rawId: 'AA', type: 'public-key', clientExtensionResults: {} };
const deep = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);

const cases: readonly Case[] = [
  // the text itself
  ...refused(400, 'invalid_json', [
    ['broken JSON', 'PUT', risk, raw('{"a":')],
    ['no JSON at all', 'PUT', agent, raw('hello')],
    ['a trailing comma', 'PATCH', agent, raw('{"a":1,}')],
    ['a comment', 'PUT', project, raw('{/* */}')],
    ['NaN', 'PUT', risk, raw('{"global_settings":{"max_cost_impact_auto":NaN}}')],
    ['a byte-order mark', 'PUT', agent, raw('\uFEFF{}')],
    [
      'bytes that are not UTF-8',
      'PUT',
      agent,
      { raw: Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]) },
    ],
    ['an empty body', 'PUT', risk, raw('')],
  ]),
  ...refused(415, 'unsupported_media_type', [
    [
      'another media type',
      'PUT',
      risk,
      { raw: 'a=1', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
    ],
    [
      'text',
      'POST',
      '/tenants',
      { raw: '{}', headers: { 'content-type': 'text/plain' }, by: 'platform' },
    ],
  ]),
  ...refused(413, 'payload_too_large', [
    [
      'more than 1 MiB',
      'PUT',
      agent,
      raw(JSON.stringify({ custom: { x: 'y'.repeat(1024 * 1024) } })),
    ],
  ]),
  // what could not be kept
  ...invalid('PUT', agent, [['2^53 + 1', raw('{"custom":{"n":9007199254740993}}'), '/custom/n']]),
  ...invalid('PUT', entry, [
    ['1e400', { raw: '{"config_value":1e400}', by: 'platform' }, '/config_value'],
    ['1e-400', { raw: '{"config_value":[0,1e-400]}', by: 'platform' }, '/config_value/1'],
  ]),
  ...invalid('PUT', agent, [
    ['too many digits', raw('{"custom":{"n":0.1000000000000000055}}'), '/custom/n'],
    ['negative zero', raw('{"custom":{"n":-0}}'), '/custom/n'],
  ]),
  ...invalid('PUT', project, [['U+0000 in a text', raw('{"name":"a\\u0000b"}'), '/name']]),
  ...invalid('PUT', agent, [['U+0000 in a name', raw('{"custom":{"a\\u0000":1}}'), '/custom/a\0']]),
  ...invalid('PUT', project, [['half a surrogate pair', raw('{"name":"\\ud800"}'), '/name']]),
  ...invalid('PUT', risk, [
    [
      'a field given twice',
      raw('{"service_overrides":{},"service_overrides":{}}'),
      '/service_overrides',
    ],
  ]),
  ...invalid('PUT', entry, [
    ['nesting of 65', { raw: `{"config_value":${deep(64)}}`, by: 'platform' }],
    ['nesting of 200,000', { raw: `{"config_value":${deep(200_000)}}`, by: 'platform' }],
  ]),
  // shapes
  ...invalid('PUT', risk, [['an array for an object', { body: [] }, '']]),
  ...invalid('PUT', agent, [['null for an object', { body: null }, '']]),
  ...invalid('PATCH', project, [['a number for an object', { body: 7 }, '']]),
  ...invalid('PUT', risk, [
    ['an unknown field', { body: { extra: 1 } }, '/extra'],
    ['an unknown nested field', inRisk('max_cost', 1), '/global_settings/max_cost'],
    ['__proto__ where it is unknown', raw('{"__proto__":{"a":1}}'), '/__proto__'],
  ]),
  ...invalid('PUT', agent, [['a slash in an unknown name', { body: { 'a/b~c': 1 } }, '/a~1b~0c']]),
  ...invalid('PATCH', agent, [['an unknown field by PATCH', { body: { extra: 1 } }, '/extra']]),
  // risk
  ...invalid('PUT', risk, [
    [
      'a number as text',
      inRisk('max_cost_impact_auto', '5'),
      '/global_settings/max_cost_impact_auto',
    ],
    [
      'a negative limit',
      inRisk('max_cost_impact_auto', -1),
      '/global_settings/max_cost_impact_auto',
    ],
    [
      'auto over approval',
      inRisk('max_cost_impact_auto', 51),
      '/global_settings/max_cost_impact_auto',
    ],
    [
      'scaling under 1',
      inRisk('max_resource_scaling', 0.5),
      '/global_settings/max_resource_scaling',
    ],
    [
      'half a minute',
      inRisk('approval_timeout_minutes', 1.5),
      '/global_settings/approval_timeout_minutes',
    ],
    [
      'no minutes',
      inRisk('approval_timeout_minutes', 0),
      '/global_settings/approval_timeout_minutes',
    ],
    [
      'more than a week',
      inRisk('approval_timeout_minutes', 10_081),
      '/global_settings/approval_timeout_minutes',
    ],
    [
      '1001 automations',
      inRisk('max_concurrent_automations', 1001),
      '/global_settings/max_concurrent_automations',
    ],
  ]),
  ...invalid('PATCH', risk, [
    ['a flag as a number', inRisk('automation_enabled', 1), '/global_settings/automation_enabled'],
  ]),
  ...invalid('PUT', risk, [
    [
      'an unknown service type',
      { body: { service_overrides: { teapot: {} } } },
      '/service_overrides/teapot',
    ],
    [
      'an override of the wrong type',
      { body: { service_overrides: { cloud_run: { max_cost_impact_auto: 'x' } } } },
      '/service_overrides/cloud_run/max_cost_impact_auto',
    ],
    [
      'an override of business hours without an end',
      { body: { service_overrides: { cloud_run: { business_hours: { ...office, end: '' } } } } },
      '/service_overrides/cloud_run/business_hours/end',
    ],
    [
      'an override of a limit that is misspelt',
      { body: { service_overrides: { cloud_run: { max_cost_impact_atuo: 2 } } } },
      '/service_overrides/cloud_run/max_cost_impact_atuo',
    ],
    [
      'an override over its approval',
      { body: { service_overrides: { cloud_run: { max_cost_impact_auto: 99 } } } },
      '/service_overrides/cloud_run/max_cost_impact_auto',
    ],
    [
      'an override that is no object',
      { body: { service_overrides: { cloud_run: 1 } } },
      '/service_overrides/cloud_run',
    ],
  ]),
  // agents, services, projects
  ...invalid('PUT', agent, [
    ['another agent type in the body', { body: { agent_type: 'else' } }, '/agent_type'],
  ]),
  ...invalid('PUT', '/tenants/T/config/agents/Scaler', [
    ['an agent type with capitals', { body: {} }, '/agent_type'],
  ]),
  ...invalid('PUT', agent, [
    [
      'min over max',
      { body: { default_scaling: { min_instances: 3, max_instances: 2 } } },
      '/default_scaling/min_instances',
    ],
    [
      'business hours of no time zone',
      { body: { business_hours: { ...office, timezone: 'Berlin' } } },
      '/business_hours/timezone',
    ],
    [
      'a threshold as text',
      { body: { monitoring_thresholds: { cpu: '80' } } },
      '/monitoring_thresholds/cpu',
    ],
  ]),
  ...invalid('PUT', fresh, [
    ['no service type at creation', { body: {} }, '/service_type'],
    ['an unknown service type', { body: { service_type: 'teapot' } }, '/service_type'],
  ]),
  ...invalid('PUT', service, [
    ['a changed service type', { body: { service_type: 'cloud_sql' } }, '/service_type'],
    ["over the type's limit", { body: { max_instances: 101 } }, '/max_instances'],
  ]),
  ...invalid('PUT', fresh, [
    [
      "under the type's limit",
      { body: { service_type: 'cloud_sql', min_instances: 0 } },
      '/min_instances',
    ],
  ]),
  ...invalid('PUT', service, [
    [
      'a 25th hour',
      {
        body: {
          maintenance_windows: [{ days: ['mon'], start: '25:00', end: '02:00', timezone: 'UTC' }],
        },
      },
      '/maintenance_windows/0/start',
    ],
    [
      'no time zone of this world',
      {
        body: {
          maintenance_windows: [
            { days: ['mon'], start: '01:00', end: '02:00', timezone: 'Mars/Base' },
          ],
        },
      },
      '/maintenance_windows/0/timezone',
    ],
    [
      'business hours without a day',
      { body: { business_hours: { ...office, days: [] } } },
      '/business_hours/days',
    ],
  ]),
  ...refused(403, 'insufficient_role', [
    [
      'an operator changes automation',
      'PATCH',
      service,
      { body: { automation_enabled: false }, by: 'operator' },
    ],
    [
      'an operator changes channels',
      'PATCH',
      service,
      { body: { notification_channels: ['x'] }, by: 'operator' },
    ],
  ]),
  ...invalid('PUT', project, [
    [
      'a currency of two letters',
      { body: { budget: { amount: 1, currency: 'EU' } } },
      '/budget/currency',
    ],
    ['a label that is a number', { body: { labels: { a: 1 } } }, '/labels/a'],
  ]),
  ...invalid('PUT', '/tenants/T/projects/a%20b/config', [
    ['a path id with a space', { body: {} }, '/project_id'],
  ]),
  // notifications
  ...invalid('PUT', notify, [
    ['both webhook forms', hook({ url: 'https://a.example', endpoints: [] })],
    ['ftp', hook({ url: 'ftp://a.example' })],
    ['http', hook({ url: 'http://a.example' }), '/webhook/url'],
    ['a password in the url', hook({ url: 'https://u:p@a.example' }), '/webhook/url'],
    ['loopback', hook({ url: 'https://127.0.0.1/hook' }), '/webhook/url'],
    ['loopback as one number', hook({ url: 'https://2130706433/hook' }), '/webhook/url'],
    ['a name for loopback', hook({ url: 'https://localhost/hook' }), '/webhook/url'],
    [
      'the metadata server among endpoints',
      hook({ endpoints: [{ url: 'https://8.8.8.8' }, { url: 'https://169.254.169.254/latest' }] }),
      '/webhook/endpoints/1/url',
    ],
  ]),
  ...invalid('PATCH', notify, [
    [
      'a private address by PATCH',
      hook({ endpoints: [{ url: 'https://[::ffff:10.0.0.1]/' }] }),
      '/webhook/endpoints/0/url',
    ],
    ['a name for loopback by PATCH', hook({ url: 'https://localhost/hook' }), '/webhook/url'],
  ]),
  ...invalid('PUT', notify, [
    [
      'chat within',
      {
        body: {
          chat: { google_chat: { webhook_url: 'https://[fd00::1]/v1/spaces/A/messages?key=k' } },
        },
      },
      '/chat/google_chat/webhook_url',
    ],
    [
      'a name for loopback as chat',
      { body: { chat: { google_chat: { webhook_url: 'https://localhost/' } } } },
      '/chat/google_chat/webhook_url',
    ],
    [
      'chat over http',
      { body: { chat: { google_chat: { webhook_url: 'http://8.8.8.8/' } } } },
      '/chat/google_chat/webhook_url',
    ],
    [
      'addresses that are no texts',
      { body: { webhook: { endpoints: [null, 7, { url: [] }] }, chat: 'x' } },
    ],
    [
      'a reserved header',
      hook({ url: 'https://a.example', headers: { Host: 'b' } }),
      '/webhook/headers/Host',
    ],
    [
      'a header with a line break',
      hook({ url: 'https://a.example', headers: { 'X-A': 'a\r\nb: c' } }),
    ],
    ['an unknown auth', hook({ url: 'https://a.example', auth: { type: 'digest' } })],
    [
      'the mask with nothing stored',
      hook({ url: 'https://a.example', secret: '********' }),
      '/webhook/secret',
    ],
    [
      'a subject with a line break',
      { body: { email: { template_overrides: { approval_request: { subject: 'a\nb' } } } } },
      '/email/template_overrides/approval_request/subject',
    ],
    [
      'no address',
      { body: { email: { approval_recipients: ['nobody'] } } },
      '/email/approval_recipients/0',
    ],
    [
      'an unknown risk level',
      { body: { approver_groups: { risk_levels: { extreme: [] } } } },
      '/approver_groups/risk_levels/extreme',
    ],
  ]),
  // approvals, deliveries, links
  ...invalid('POST', asking, [
    ['no body to ask with', {}],
    ['nothing asked', { body: {} }, '/action'],
    ['an action with a space', asks({ action: 'scale up' }), '/action'],
    ['an action of 101', asks({ action: 'a'.repeat(101) }), '/action'],
    ['a risk of no level', asks({ risk_level: 'extreme' }), '/risk_level'],
    ['a risk of null', asks({ risk_level: null }), '/risk_level'],
    ['an empty title', asks({ title: '' }), '/title'],
    ['a title of two lines', asks({ title: 'a\nb' }), '/title'],
    ['a title of 301', asks({ title: 't'.repeat(301) }), '/title'],
    [
      'a title that is half a surrogate pair',
      raw('{"action":"a","risk_level":"low","title":"\\udc00"}'),
      '/title',
    ],
    ['U+0000 in a description', asks({ description: 'a\0b' }), '/description'],
    ['a description of 10,001', asks({ description: 'd'.repeat(10_001) }), '/description'],
    ['a resource that is a list', asks({ resource: [] }), '/resource'],
    ['a negative cost', asks({ cost_impact: -1 }), '/cost_impact'],
    ['a cost as text', asks({ cost_impact: '1' }), '/cost_impact'],
    [
      'a cost of 1e400',
      raw('{"action":"a","risk_level":"low","title":"t","cost_impact":1e400}'),
      '/cost_impact',
    ],
    ['metadata that is a text', asks({ metadata: 'x' }), '/metadata'],
    [
      'a number in metadata that JSON cannot keep',
      raw('{"action":"a","risk_level":"low","title":"t","metadata":{"n":9007199254740993}}'),
      '/metadata/n',
    ],
    [
      'half a surrogate pair in metadata',
      raw('{"action":"a","risk_level":"low","title":"t","metadata":{"a":["\\ud800"]}}'),
      '/metadata/a/0',
    ],
    [
      'metadata nested 65 deep',
      raw(`{"action":"a","risk_level":"low","title":"t","metadata":{"a":${deep(64)}}}`),
    ],
  ]),
  ...refused(413, 'payload_too_large', [
    ['metadata over 1 MiB', 'POST', asking, asks({ metadata: { x: 'y'.repeat(1024 * 1024) } })],
  ]),
  ...invalid('POST', '/tenants/T/decide', [
    ['an intent without a risk', { body: { action: 'scale' } }, '/risk_level'],
    ['a scaling below nothing', { body: { ...intent, resource_scaling: -1 } }, '/resource_scaling'],
    ['a decision at no time', { body: { ...intent, at: 'now' } }, '/at'],
  ]),
  ...invalid('POST', '/tenants/T/automations', [
    ['a time to live of 4 s', { body: { ...intent, ttl_seconds: 4 } }, '/ttl_seconds'],
    [
      'a time to live of more than a day',
      { body: { ...intent, ttl_seconds: 86_401 } },
      '/ttl_seconds',
    ],
    ['a start at a time of its own', { body: { ...intent, at: '2036-01-01T00:00:00Z' } }, '/at'],
    ['an empty key', { body: { ...intent, idempotency_key: '' } }, '/idempotency_key'],
    ['a state of its own', { body: { ...intent, state: 'running' } }, '/state'],
  ]),
  ...invalid('GET', '/tenants/T/automations?state=lost', [['no such state', {}, '/state']]),
  ...invalid('GET', `${automation}?wait=61`, [['a wait too long', {}, '/wait']]),
  ...invalid('POST', `${automation}/finish`, [['no outcome', { body: {} }, '/outcome']]),
  ...refused(404, 'not_found', [
    ['an automation that is not there', 'GET', automation, {}],
    ['a heartbeat of nothing', 'POST', `${automation}/heartbeat`, {}],
    ['the end of nothing', 'POST', `${automation}/finish`, { body: { outcome: 'x' } }],
    [
      'an intent for nothing',
      'POST',
      '/tenants/T/automations',
      { body: { ...intent, service_id: 'x' } },
    ],
  ]),
  ...invalid('POST', asking, [
    [
      '__proto__ beside the fields',
      raw('{"action":"a","risk_level":"low","title":"t","__proto__":{"state":"approved"}}'),
      '/__proto__',
    ],
    ["a state of the asker's", asks({ state: 'approved' }), '/state'],
    ['an expiry in the past', asks({ expires_at: '2020-01-01T00:00:00Z' }), '/expires_at'],
    ['an expiry that is a number', asks({ expires_at: 1_900_000_000 }), '/expires_at'],
    ['an expiry without a zone', asks({ expires_at: '2036-01-01T00:00:00' }), '/expires_at'],
    ['an expiry on February 30', asks({ expires_at: '2036-02-30T00:00:00Z' }), '/expires_at'],
    ['an expiry in a leap second', asks({ expires_at: '2036-12-31T23:59:60Z' }), '/expires_at'],
    [
      'an expiry beyond the year 9999',
      asks({ expires_at: '9999-12-31T23:59:59-10:00' }),
      '/expires_at',
    ],
    [
      'an expiry beyond the calendar',
      asks({ expires_at: '+275761-01-01T00:00:00Z' }),
      '/expires_at',
    ],
    ['an empty idempotency_key', asks({ idempotency_key: '' }), '/idempotency_key'],
    ['an idempotency_key of 201', asks({ idempotency_key: 'k'.repeat(201) }), '/idempotency_key'],
  ]),
  ...invalid('POST', `${asking}?dry_run=true`, [
    ['an unknown query of a request', asks({}), '/dry_run'],
  ]),
  ...invalid('GET', `${asking}?state=lost`, [['approvals of no state', {}, '/state']]),
  ...invalid('GET', `${asking}?limit=1000`, [['more approvals than a page', {}, '/limit']]),
  ...invalid('GET', `${asking}${cursor('abc')}`, [
    ['a cursor of approvals that is a word', {}, '/cursor'],
  ]),
  ...invalid('GET', `${asking}${cursor('2026-01-01T00:00:00.000Z ')}`, [
    ['a cursor without an id', {}, '/cursor'],
  ]),
  ...invalid(
    'GET',
    `${asking}${cursor('2026-02-30T00:00:00.000Z 00000000-0000-4000-8000-000000000000')}`,
    [['a cursor on February 30', {}, '/cursor']],
  ),
  ...invalid('GET', '/tenants/T/approvals/1', [['an approval that is no id', {}, '/approval_id']]),
  ...refused(404, 'not_found', [['an approval that is not there', 'GET', approval, {}]]),
  ...invalid('POST', `${approval}/decision`, [
    ['a decision that is neither', { body: { decision: 'maybe' } }, '/decision'],
    ['no decision', { body: {} }, '/decision'],
    ['a comment of 2001', { body: { decision: 'deny', comment: 'c'.repeat(2001) } }, '/comment'],
    ["a decision in another's name", { body: { decision: 'deny', by: 'x' } }, '/by'],
  ]),
  ...refused(404, 'not_found', [
    ['a decision on nothing', 'POST', `${approval}/decision`, { body: { decision: 'deny' } }],
    ['an acknowledgement of nothing', 'POST', `${approval}/ack`, {}],
  ]),
  ...invalid('GET', `${notices}?channel=fax`, [['deliveries of no channel', {}, '/channel']]),
  ...invalid('GET', '/tenants/T/config/history?resource_id=%00', [
    ['a change of what no text can name', {}, '/resource_id'],
  ]),
  ...invalid('POST', '/approvals/decision?token=t', [
    [
      'a comment in a form that cannot be kept',
      {
        raw: 'comment=a%00b',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
      },
      '/comment',
    ],
  ]),
  ...invalid('GET', `${notices}?state=sent`, [['deliveries of no state', {}, '/state']]),
  ...invalid('GET', `${notices}?approval_id=x`, [
    ['deliveries of no approval', {}, '/approval_id'],
  ]),
  ...invalid('GET', `${notices}${cursor('abc')}`, [
    ['a cursor of deliveries that is a word', {}, '/cursor'],
  ]),
  ...invalid('GET', `${notices}${cursor("' 1=1")}`, [
    ['a cursor of deliveries that is SQL', {}, '/cursor'],
  ]),
  ...refused(404, 'not_found', [
    ['a delivery that is not there', 'GET', delivery, {}],
    ['a replay of nothing', 'POST', `${delivery}/replay`, {}],
  ]),
  ...refused(403, 'insufficient_role', [
    ['a replay by an operator', 'POST', `${delivery}/replay`, { by: 'operator' }],
  ]),
  ...invalid('POST', '/tenants/T/notifications/test', [
    ['a test of no channel', { body: { channel: 'fax' } }, '/channel'],
    ['a test of what is not configured', { body: { channel: 'chat' } }, '/channel'],
    ['a test of endpoint -1', { body: { channel: 'webhook', endpoint: -1 } }, '/endpoint'],
    [
      'a test of an endpoint that is none',
      { body: { channel: 'webhook', endpoint: 7 } },
      '/endpoint',
    ],
    ['a test of one mail', { body: { channel: 'email', endpoint: 0 } }, '/endpoint'],
  ]),
  ...invalid('GET', '/approvals/decision', [['no link', {}, '/token']]),
  ...refused(404, 'not_found', [
    ['a link that is none', 'GET', '/approvals/decision?token=abc', {}],
    ['a link of three parts', 'POST', '/approvals/decision?token=a.b.c', {}],
  ]),
  ...invalid('POST', `/approvals/decision?token=${'a'.repeat(4001)}`, [
    ['a link too long', {}, '/token'],
  ]),
  // platform
  ...invalid('PUT', entry, [['no value', { body: {}, by: 'platform' }, '/config_value']]),
  ...refused(404, 'not_found', [
    [
      'another key',
      'PATCH',
      '/config/global/there',
      { body: { config_key: 'else' }, by: 'platform' },
    ],
  ]),
  ...invalid('PUT', '/config/global/business_hours', [
    [
      'business hours as text',
      { body: { config_value: 'mon-fri', is_public: true }, by: 'platform' },
      '/config_value',
    ],
  ]),
  ...invalid('PUT', '/config/global/a%2Fb', [
    ['a key with a slash', { body: { config_value: 1 }, by: 'platform' }, '/key'],
  ]),
  ...invalid('PUT', entry, [
    [
      'an unknown data type',
      { body: { config_value: 1, data_type: 'yaml' }, by: 'platform' },
      '/data_type',
    ],
  ]),
  ...invalid('PUT', '/config/service-types/cloud_run/my_default', [
    ['an underscore in a configuration name', { body: {}, by: 'platform' }, '/configuration_name'],
  ]),
  ...invalid('PUT', type, [
    [
      'limits the wrong way round',
      { body: { scaling_limits: { min_instances: 5, max_instances: 1 } }, by: 'platform' },
      '/scaling_limits/min_instances',
    ],
  ]),
  ...invalid('POST', '/tenants', [
    ['no name', { body: { admin: { email: 'a@b.example' } }, by: 'platform' }, '/name'],
  ]),
  ...refused(422, 'auth_password_too_short', [
    [
      'a short password',
      'POST',
      '/tenants',
      {
        body: { name: 'x', admin: { email: 'short@b.example', password: 'short' } },
        by: 'platform',
      },
      '/password',
    ],
  ]),
  ...invalid('POST', '/tenants/T/users', [
    ['no role', { body: { email: 'a@b.example', roles: [] } }, '/roles'],
    ['an unknown role', { body: { email: 'a@b.example', roles: ['root'] } }, '/roles/0'],
    [
      'a password for somebody else',
      { body: { email: 'a@b.example', roles: ['viewer'], password: 'a password of mine' } },
      '/password',
    ],
    [
      'a name for somebody else',
      { body: { email: 'a@b.example', roles: ['viewer'], display_name: 'Ada' } },
      '/display_name',
    ],
  ]),
  ...invalid('POST', '/tenants/T/config/rollback', [
    ['a rollback to nowhere', { body: { revision: 0 } }, '/revision'],
    ['a rollback of nothing', { body: {} }, '/revision'],
    ['an undo of nothing', { body: { undo: 0 } }, '/undo'],
    ['a rollback and an undo', { body: { revision: 1, undo: 1 } }, '/undo'],
  ]),
  ...invalid('POST', '/tenants/T/config/changesets', [
    [
      'a name that no service has',
      {
        body: {
          title: 'Scale',
          reason: 'a campaign',
          items: [{ action: 'delete', path: '/tenants/T/services/a%20b' }],
        },
      },
      '/items/0/path',
    ],
  ]),
  ...invalid('POST', '/config/plan', [
    ['a plan of nothing', { body: { items: [] }, by: 'platform' }, '/items'],
    [
      'an action that is no write',
      { body: { items: [{ action: 'get', path: '/config/bounds' }] }, by: 'platform' },
      '/items/0/action',
    ],
    [
      'the path of a tenant',
      {
        body: { items: [{ action: 'put', path: '/tenants/T/config/bounds', body: {} }] },
        by: 'platform',
      },
      '/items/0/path',
    ],
  ]),
  ...invalid('POST', '/config/plan/apply', [
    [
      'a digest that is none',
      {
        body: { digest: 'x', items: [{ action: 'delete', path: '/config/bounds' }] },
        by: 'platform',
      },
      '/digest',
    ],
  ]),
  ...invalid('POST', '/config/rollback', [
    [
      'a rollback of the platform to nowhere',
      { body: { revision: 0 }, by: 'platform' },
      '/revision',
    ],
    [
      'a rollback of the platform to no whole number',
      { body: { revision: '1' }, by: 'platform' },
      '/revision',
    ],
  ]),
  ...invalid('POST', '/config/reload', [
    [
      'tenants of a reload that are no ids',
      { body: { invalidate: { tenant_ids: ['x'] } }, by: 'platform' },
      '/invalidate/tenant_ids/0',
    ],
  ]),
  // passkeys
  ...invalid('POST', '/auth/webauthn/login/verify', [
    [
      'an assertion without its user',
      {
        body: {
          challenge_id: uuid,
          credential: {
            ...passkey,
            response: { clientDataJSON: 'e30', authenticatorData: 'AA', signature: 'AA' },
          },
        },
      },
      '/credential/response/userHandle',
    ],
    [
      'a signature that is not base64url',
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
      '/credential/response/signature',
    ],
  ]),
  ...invalid('POST', '/auth/webauthn/register/verify', [
    [
      'a credential id of 1024 bytes',
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
      '/credential/id',
    ],
    ['no credential', { body: { challenge_id: uuid } }, '/credential'],
  ]),
  ...invalid('DELETE', '/auth/webauthn/credentials/mine', [
    ['a passkey id that is none', {}, '/id'],
  ]),
  // the request around it
  ...invalid('PUT', `${risk}?dryrun=true`, [
    ['an unknown query parameter', { body: {} }, '/dryrun'],
  ]),
  ...invalid('PUT', `${risk}?dry_run=1`, [['a flag that is none', { body: {} }, '/dry_run']]),
  ...invalid('PUT', `${risk}?dry_run=true&dry_run=true`, [
    ['a parameter given twice', { body: {} }, '/dry_run'],
  ]),
  ...invalid('PUT', `${risk}?tenant_id=00000000-0000-4000-8000-000000000000`, [
    ['the tenant in the query', { body: {} }, '/tenant_id'],
  ]),
  ...invalid('GET', '/tenants/T/services?limit=0', [['a limit of 0', {}, '/limit']]),
  ...invalid('GET', '/tenants/T/services?limit=201', [['a limit of 201', {}, '/limit']]),
  ...invalid('GET', '/tenants/T/services?cursor=%21%21', [
    ['a cursor that is none', {}, '/cursor'],
  ]),
  ...invalid('GET', '/tenants/T/config/history?cursor=YWJj', [
    ['a cursor of another list', {}, '/cursor'],
  ]),
  ...invalid('GET', '/audit/events?cursor=YSBiIGM', [['a cursor that is no time', {}, '/cursor']]),
  ...invalid('GET', `/audit/events${cursor('2026-01-01T00:00:00.000Z')}`, [
    ['a cursor of events without a place', {}, '/cursor'],
  ]),
  ...[
    '/tenants',
    '/auth/users',
    '/auth/sso/providers',
    '/tenants/T/users',
    '/auth/sessions',
    '/auth/api-keys',
    '/auth/webauthn/credentials',
  ].flatMap((path) => {
    const send: Sent = path.startsWith('/tenants/T') ? {} : { by: 'platform' };
    return invalid('GET', `${path}${cursor('abc')}`, [
      [`a cursor of ${path} that is a word`, send, '/cursor'],
    ]);
  }),
  ...invalid('GET', '/audit/events?since=0000-01-01T00:00:00Z', [
    ['events since the year 0', {}, '/since'],
  ]),
  ...invalid('GET', '/audit/events?until=2016-12-31T23:59:60Z', [
    ['events until a leap second', {}, '/until'],
  ]),
  ...invalid('GET', '/tenants/T/config/effective?as_of=9999-12-31T23:59:59-10:00', [
    ['a moment beyond the year 9999', {}, '/as_of'],
  ]),
  ...['2026-11-31T00:00:00Z', '2026-02-29T00:00:00Z', '2026-11-30T24:00:00Z'].flatMap((none) => [
    ...invalid('GET', `/tenants/T/config/effective?as_of=${none}`, [
      [`the past of ${none}`, {}, '/as_of'],
    ]),
    ...invalid('GET', `/audit/events?since=${none}`, [[`events since ${none}`, {}, '/since']]),
    ...invalid('GET', `/audit/events?until=${none}`, [[`events until ${none}`, {}, '/until']]),
    ...invalid('GET', `/audit/export?before=${none}`, [
      [`an export before ${none}`, {}, '/before'],
    ]),
  ]),
  ...invalid('GET', '/audit/events?since=yesterday', [['a time that is none', {}, '/since']]),
  ...invalid('GET', '/tenants/T/config/history/x', [['a revision that is none', {}, '/revision']]),
  ...invalid('GET', '/config/history/x', [
    ['a revision of the platform that is none', { by: 'platform' }, '/revision'],
  ]),
  ...invalid('GET', '/config/history?config_type=agent_config', [
    ["a tenant's documents in the platform's history", { by: 'platform' }, '/config_type'],
  ]),
  ...invalid('GET', '/config/history?cursor=YWJj', [
    ["a cursor of another list in the platform's history", { by: 'platform' }, '/cursor'],
  ]),
  ...invalid('GET', risk, [
    ['a minimum revision that is none', { headers: { 'x-min-revision': '-1' } }, '/x-min-revision'],
  ]),
  ...invalid('PUT', risk, [
    [
      'a reason of 501',
      { body: {}, headers: { 'x-change-reason': 'r'.repeat(501) } },
      '/x-change-reason',
    ],
  ]),
  ...invalid('DELETE', '/tenants/T/config/bounds', [
    ['a body where none is taken', { body: { 'max/instances': null } }, '/max~1instances'],
    ['a body that is no object where none is taken', { body: null }, ''],
  ]),
  ...invalid('POST', `${automation}/heartbeat`, [
    ['a field where none is taken', { body: { ttl_seconds: 600 } }, '/ttl_seconds'],
  ]),
  ...refused(404, 'not_found', [
    [
      'an automation that is none, by a client that sends {} everywhere',
      'POST',
      `${automation}/heartbeat`,
      { body: {} },
    ],
  ]),
  ...refused(412, 'precondition_failed', [
    [
      'an entity tag that is not current',
      'PUT',
      risk,
      { body: {}, headers: { 'if-match': '"123456"' } },
    ],
    ['a weak entity tag', 'PUT', risk, { body: {}, headers: { 'if-match': 'W/"1"' } }],
  ]),
];

describe('a request that is wrong', () => {
  test(`there are at least 60 cases`, () => {
    expect(cases.length).toBeGreaterThanOrEqual(60);
  });

  test.each(cases)('$what: $method $path', async ({ method, path, send, status, code, at }) => {
    const { by, ...request } = send;
    const clients = { platform, operator: tenant.operator };
    const client = by ? clients[by] : tenant.admin;
    const answer = await client.send(method, path.replace('/T/', `/${tenant.id}/`), request);
    expect({ status: answer.status, code: answer.body?.detail.code }).toEqual({ status, code });
    if (at !== undefined)
      expect(answer.body.errors.map((error: { path: string }) => error.path)).toContain(at);
    // Every 422 says where it is wrong.
    if (status === 422) expect(answer.body.errors.length).toBeGreaterThan(0);
  });
});

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
