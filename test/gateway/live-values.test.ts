/**
 * Effective values that a service holds live: entity tags that never confirm another value, and the
 * least revisions of both scopes.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../support/cluster.ts';
import { watch, type WatchStream } from '../support/event-stream.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { soakTest } from '../support/soak.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenantWith,
  signIn,
  startStrata,
  type Answer,
  type Running,
  type TenantWith,
} from '../support/strata.ts';

const folder = mkdtempSync(join(tmpdir(), 'strata-live-'));
const envFile = join(folder, 'strata.env');
let database: Database;
let strata: Running;
let platform: Client;
let tenant: TenantWith<'viewer'>;

beforeAll(async () => {
  setEnvironment(11);
  database = await strataDatabase();
  strata = await startStrata({ DATABASE_URL: database.url, ENV_FILE: envFile });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenantWith(strata.url, platform, 'Live', ['viewer']);
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
  rmSync(folder, { recursive: true, force: true });
});

function setEnvironment(timeoutSeconds: number): void {
  writeFileSync(envFile, `HTTP_CLIENT_TIMEOUT_SECONDS=${timeoutSeconds}\n`);
}
async function reload(timeoutSeconds: number): Promise<void> {
  setEnvironment(timeoutSeconds);
  const { status } = await platform.post('/config/reload', { reload_env: true });
  expect(status).toBe(200);
}

const effective = (query = ''): string => `/tenants/${tenant.id}/config/effective${query}`;
const read = (headers?: Record<string, string>, query = ''): Promise<Answer> =>
  tenant.viewer.get(effective(query), headers);
const tagOf = ({ headers }: Answer): string => headers.get('etag')!;
const ifNoneMatch = (tag: string): Promise<Answer> => read({ 'if-none-match': tag });

describe('the entity tag of effective values', () => {
  test('names both revisions and the environment, which is in no body', async () => {
    const answer = await read();
    const { tenant: ofTenant, platform: ofPlatform } = answer.body.revision;
    expect(tagOf(answer)).toMatch(new RegExp(`^"${ofTenant}\\.${ofPlatform}-[A-Za-z0-9_-]{8,}"$`));
    expect(answer.body).not.toHaveProperty('environment');
    const repeated = [await read(), await read(), await read()];
    expect(repeated.map(tagOf)).toEqual(Array.from(repeated, () => tagOf(answer)));
    expect(repeated.map(({ text }) => text)).toEqual(Array.from(repeated, () => answer.text));
  });

  test.each<[string, (tag: string) => string, number]>([
    ['itself', (tag) => tag, 304],
    ['itself, weak', (tag) => `W/${tag}`, 304],
    ['one of several', (tag) => `"1", ${tag}`, 304],
    ['anything', () => '*', 304],
    ['another', (tag) => tag.replace('-', '0-'), 200],
    ['its revisions alone', (tag) => `${tag.split('-')[0]}"`, 200],
  ])('If-None-Match with %s', async (_what, given, status) => {
    const answer = await read();
    const again = await ifNoneMatch(given(tagOf(answer)));
    expect([again.status, again.text, tagOf(again)]).toEqual([
      status,
      status === 304 ? '' : answer.text,
      tagOf(answer),
    ]);
  });

  test.each<[string, () => Promise<unknown>]>([
    [
      'the tenant',
      () =>
        tenant.admin.patch(`/tenants/${tenant.id}/config/risk`, {
          global_settings: { max_concurrent_automations: 4 },
        }),
    ],
    [
      'the platform',
      () => platform.put('/config/global/live', { config_value: 1, is_public: true }),
    ],
    [
      "the tenant's bounds",
      () =>
        tenant.admin.patch(`/tenants/${tenant.id}/config/bounds`, {
          max_resource_scaling: { maximum: 2, reason: 'a test' },
        }),
    ],
    [
      "the platform's bounds",
      () =>
        platform.patch('/config/bounds', {
          max_concurrent_automations: { maximum: 3, reason: 'a test' },
        }),
    ],
  ])('matches no more once %s has changed', async (_who, change) => {
    const before = await read();
    await change();
    const after = await ifNoneMatch(tagOf(before));
    expect(after.status).toBe(200);
    expect(tagOf(after)).not.toBe(tagOf(before));
    expect((await ifNoneMatch(tagOf(after))).status).toBe(304);
  });

  test('matches no more once a reload has moved a default of the environment, under the same revisions', async () => {
    const before = await read();
    expect(before.body.values.http_client_timeout_seconds).toBe(11);
    await reload(12);
    const after = await ifNoneMatch(tagOf(before));
    expect([after.status, after.body.values.http_client_timeout_seconds]).toEqual([200, 12]);
    expect(after.body.revision).toEqual(before.body.revision);
    expect(tagOf(after)).not.toBe(tagOf(before));
    await reload(11);
    expect((await ifNoneMatch(tagOf(before))).status).toBe(304);
  });

  test('is that of a moment of the past, too', async () => {
    const now = await read();
    const past = await read({}, `?as_of=${now.body.revision.tenant - 1}`);
    expect(tagOf(past)).not.toBe(tagOf(now));
    const again = await read(
      { 'if-none-match': tagOf(past) },
      `?as_of=${past.body.revision.tenant}`,
    );
    expect(again.status).toBe(304);
  });
});

describe('X-Min-Revision of effective values', () => {
  const atLeast = async (text: string): Promise<unknown> => {
    const { status, body } = await read({ 'x-min-revision': text });
    return status === 200 ? status : [status, body.detail.code];
  };

  test('is one of the tenant, or those of tenant and platform', async () => {
    const { tenant: ofTenant, platform: ofPlatform } = (await read()).body.revision;
    for (const there of [`${ofTenant}`, `${ofTenant}.${ofPlatform}`, '0', '0.0', `0.${ofPlatform}`])
      expect([there, await atLeast(there)]).toEqual([there, 200]);
    for (const yetToCome of [
      `${ofTenant + 1}`,
      `${ofTenant}.${ofPlatform + 1}`,
      `0.${ofPlatform + 1}`,
    ])
      expect([yetToCome, await atLeast(yetToCome)]).toEqual([
        yetToCome,
        [412, 'precondition_failed'],
      ]);
    await platform.put('/config/global/live', { config_value: 2, is_public: true });
    expect(await atLeast(`${ofTenant}.${ofPlatform + 1}`)).toBe(200);
  });

  test.each(['x', '-1', '1.', '.1', '1.2.3', '1,2', '1e3', '12345678901234567'])(
    '%s is none',
    async (text) => {
      const { status, body } = await read({ 'x-min-revision': text });
      expect([status, body.errors]).toEqual([
        422,
        [{ path: '/x-min-revision', message: expect.any(String) }],
      ]);
    },
  );
});

describe('effective values are watched', () => {
  const context = '?agent_type=live';
  const stream = (by: Client = tenant.viewer, query = context, lastEventId?: string) =>
    watch(by, effective(`/watch${query}`), lastEventId);
  const idOf = ({ body }: Answer): string => `${body.revision.tenant}.${body.revision.platform}`;
  const writeAgent = (agent: string, custom: object) =>
    tenant.admin.put(`/tenants/${tenant.id}/config/agents/${agent}`, { custom });
  const writePlatform = (key: string, value: unknown) =>
    platform.put(`/config/global/${key}`, { config_value: value, is_public: true });
  const changesOf = ({ events }: WatchStream) =>
    events.filter(({ event }) => event === 'effective.changed');
  const next = (from: WatchStream, count: number) =>
    eventually(async () => {
      expect(changesOf(from).length).toBeGreaterThanOrEqual(count);
      return changesOf(from)[count - 1]!;
    });

  test('each change of the tenant and of the platform by its keys, and none that is shadowed or of others', async () => {
    await writeAgent('live', { n: 0 });
    const from = await stream();
    expect([from.status, from.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    const ready = await from.until(({ event }) => event === 'ready');
    const now = await read({}, context);
    expect([ready.idText, ready.data.revision]).toEqual([idOf(now), now.body.revision]);

    await writeAgent('other', { n: 1 });
    await writeAgent('live', { n: 1 });
    const ofTenant = await next(from, 1);
    expect(ofTenant.data).toEqual({ revision: expect.any(Object), keys: ['custom'] });
    expect(ofTenant.idText).toBe(idOf(await read({}, context)));

    await writePlatform('band', 1);
    expect((await next(from, 2)).data.keys).toEqual(['band']);
    await platform.put('/config/global/hidden', { config_value: 1 });
    await tenant.admin.patch(`/tenants/${tenant.id}/config/risk`, {
      global_settings: { max_cost_impact_auto: 3 },
    });
    // Before the next write, with which it may be told at once.
    expect((await next(from, 3)).data.keys).toContain('max_cost_impact_auto');
    await platform.patch('/config/bounds', {
      max_cost_impact_auto: { maximum: 2, reason: 'a test' },
    });
    expect((await next(from, 4)).data.keys).toContain('max_cost_impact_auto');
    await platform.delete('/config/global/band');
    expect((await next(from, 5)).data.keys).toEqual(['band']);
    expect(changesOf(from)).toHaveLength(5);
    const ids = changesOf(from).map(({ data }) => data.revision as unknown as typeof now.body);
    expect(ids.map((each) => each.tenant + each.platform)).toEqual(
      ids.map((each) => each.tenant + each.platform).toSorted((a, b) => a - b),
    );
    from.leave();
  });

  test('a reload that moves a default is told, and what is read then is the new value', async () => {
    const from = await stream();
    await from.until(({ event }) => event === 'ready');
    await reload(13);
    const { data } = await next(from, 1);
    expect(data.keys).toEqual(['http_client_timeout_seconds']);
    expect((await read({}, context)).body.values.http_client_timeout_seconds).toBe(13);
    await reload(13);
    await writePlatform('after_reload', Date.now());
    expect((await next(from, 2)).data.keys).toEqual(['after_reload']);
    from.leave();
  });

  soakTest(
    'a heartbeat every 5 s names the revision that holds, also one that changed no value',
    async () => {
      const from = await stream();
      await from.until(({ event }) => event === 'ready');
      await writeAgent('other', { n: Date.now() });
      const now = await read({}, context);
      const beat = await from.until(
        ({ event, idText }) => event === 'heartbeat' && idText === idOf(now),
      );
      expect(beat.data).toEqual({ revision: now.body.revision });
      const [first, second] = await eventually(async () => {
        const beats = from.events.filter(({ event }) => event === 'heartbeat');
        expect(beats.length).toBeGreaterThanOrEqual(2);
        return beats;
      });
      expect([first!.event, second!.event]).toEqual(['heartbeat', 'heartbeat']);
      expect(changesOf(from)).toEqual([]);
      from.leave();
    },
  );

  test('who comes back is sent the keys that differ from then, and nothing where none do', async () => {
    await writeAgent('live', { n: 100 });
    const before = await read({}, context);
    const left = idOf(before);
    const nothing = await stream(tenant.viewer, context, left);
    expect((await nothing.until(({ event }) => event === 'ready')).idText).toBe(left);

    await writeAgent('live', { n: 101 });
    await writeAgent('live', { n: 102, more: true });
    await tenant.admin.patch(`/tenants/${tenant.id}/config/risk`, {
      global_settings: { max_concurrent_automations: 2 },
    });
    await writePlatform('while_away', 1);
    const resumed = await stream(tenant.viewer, context, left);
    const { data, idText } = await resumed.until(({ event }) => event === 'effective.changed');
    expect([data.keys, idText]).toEqual([
      ['custom', 'max_concurrent_automations', 'while_away'],
      idOf(await read({}, context)),
    ]);
    expect(resumed.events[0]!.event).toBe('ready');
    expect(changesOf(resumed)).toHaveLength(1);

    await writeAgent('live', { n: 100 });
    await tenant.admin.patch(`/tenants/${tenant.id}/config/risk`, {
      global_settings: {
        max_concurrent_automations: before.body.values.max_concurrent_automations,
      },
    });
    await platform.delete('/config/global/while_away');
    const again = await stream(tenant.viewer, context, left);
    const beat = await again.until(({ event }) => event === 'heartbeat');
    expect(beat.data).toEqual({ revision: (await read({}, context)).body.revision });
    expect(changesOf(again)).toEqual([]);
    for (const each of [nothing, resumed, again]) each.leave();
  });

  test('who comes back from before a withdrawal is told to read everything again, and no key', async () => {
    await writePlatform('taken_back', 'canary');
    const left = idOf(await read({}, context));
    await platform.put('/config/global/taken_back', { config_value: 'canary' });
    const resumed = await stream(tenant.viewer, context, left);
    await resumed.until(({ event }) => event === 'reset');
    expect(changesOf(resumed)).toEqual([]);
    expect(JSON.stringify(resumed.events)).not.toContain('taken_back');
    resumed.leave();
    await platform.delete('/config/global/taken_back');
  });

  test('those who come back together share the question of what was', async () => {
    const left = idOf(await read({}, context));
    await writeAgent('live', { n: Math.random() });
    const before = await questions();
    const streams = await Promise.all(
      Array.from({ length: 15 }, () => stream(tenant.admin, context, left)),
    );
    const received = await Promise.all(
      streams.map((each) => each.until(({ event }) => event === 'effective.changed')),
    );
    expect(received.map(({ data }) => data.keys)).toEqual(streams.map(() => ['custom']));
    expect((await questions()).past - before.past).toBeLessThan(10);
    for (const each of streams) each.leave();
  });

  test('who was away during a reload is told of the default that it moved', async () => {
    const left = idOf(await read({}, context));
    await reload(14);
    const resumed = await stream(tenant.viewer, context, left);
    const { data } = await resumed.until(({ event }) => event === 'effective.changed');
    expect(data.keys).toContain('http_client_timeout_seconds');
    resumed.leave();
  });

  test.each([
    ['a tenant revision to come', (t: number, p: number) => `${t + 1000}.${p}`],
    ['a platform revision to come', (t: number, p: number) => `${t}.${p + 1000}`],
    ['before the first', (_t: number, p: number) => `0.${p}`],
  ])('%s is told to read everything again', async (_what, id) => {
    const { body } = await read({}, context);
    const from = await stream(
      tenant.viewer,
      context,
      id(body.revision.tenant, body.revision.platform),
    );
    const reset = await from.until(({ event }) => event === 'reset');
    expect([reset.idText, reset.data.revision]).toEqual([
      idOf(await read({}, context)),
      body.revision,
    ]);
    await writeAgent('live', { n: Math.random() });
    expect((await next(from, 1)).data.keys).toEqual(['custom']);
    from.leave();
  });

  test('an agent that comes, goes and comes back is a change each time', async () => {
    const from = await stream(tenant.viewer, '?agent_type=coming');
    await from.until(({ event }) => event === 'ready');
    await writeAgent('coming', { n: 1 });
    expect((await next(from, 1)).data.keys).toEqual(['custom']);
    await tenant.admin.delete(`/tenants/${tenant.id}/config/agents/coming`);
    expect((await next(from, 2)).data.keys).toEqual(['custom']);
    from.leave();
  });

  test('what cannot be watched is refused before it begins', async () => {
    const other = await createTenantWith(strata.url, platform, 'Not live', ['viewer']);
    await tenant.admin.put(`/tenants/${tenant.id}/services/typed`, { service_type: 'cloud_run' });
    const outcomes = await Promise.all([
      stream(other.viewer),
      stream(tenant.viewer, '?service_id=typed&service_type=cloud_sql'),
      stream(tenant.viewer, '?agent_type=No'),
      stream(tenant.viewer, context, '12'),
      stream(tenant.viewer, '?unknown=1'),
    ]);
    expect(outcomes.map(({ status, body }) => [status, body?.detail.code])).toEqual([
      [403, 'tenant_mismatch'],
      [422, 'validation_failed'],
      [422, 'validation_failed'],
      [422, 'validation_failed'],
      [422, 'validation_failed'],
    ]);
  });

  test('many streams of several contexts are told of one change by one question, each once', async () => {
    const agents = Array.from({ length: 5 }, (_each, n) => `fleet-${n}`);
    for (const agent of agents) await writeAgent(agent, { n: 0 });
    const key = await tenant.admin.post('/auth/api-key', { name: 'all', scopes: ['config:read'] });
    const fleet = new Client(strata.url, key.body.api_key);
    const streams = await Promise.all(
      Array.from({ length: 50 }, (_each, n) =>
        stream(fleet, `?agent_type=${agents[n % agents.length]}`),
      ),
    );
    const ofTenant = await Promise.all(
      Array.from({ length: 20 }, () => watch(fleet, `/tenants/${tenant.id}/config/watch`)),
    );
    const all = [...streams, ...ofTenant];
    await Promise.all(all.map((each) => each.until(({ event }) => event === 'ready')));
    const before = await questions();
    await tenant.admin.patch(`/tenants/${tenant.id}/config/risk`, {
      global_settings: { max_concurrent_automations: 1 },
    });
    await Promise.all(streams.map((each) => next(each, 1)));
    await Promise.all(
      ofTenant.map((each) => each.until(({ event }) => event === 'config.changed')),
    );
    const asked = await questions();
    // Of one change; where a busy machine renews a lease late, what is shared is looked at once
    // more.
    const mostQuestions = 3;
    expect(asked.values - before.values).toBeLessThanOrEqual(mostQuestions);
    expect(asked.changes - before.changes).toBeLessThanOrEqual(mostQuestions);
    await writePlatform('for_all', Date.now());
    await Promise.all(streams.map((each) => next(each, 2)));
    expect((await questions()).values - asked.values).toBeLessThanOrEqual(mostQuestions);
    expect(new Set(streams.map((each) => JSON.stringify(changesOf(each)))).size).toBe(1);
    for (const each of all) each.leave();
  });

  test('contexts whose documents are too large together are watched, a few in each question', async () => {
    const large = await createTenantWith(strata.url, platform, 'Live and large');
    await database.query(
      `INSERT INTO tenant_config.agent_configurations
       SELECT $1, 'agent-' || n, json_build_object('agent_type', 'agent-' || n, 'custom', json_build_object('text', repeat('x', 1000000))), 1, 'test', now()
       FROM generate_series(1, 20) n`,
      [large.id],
    );
    const key = await large.admin.post('/auth/api-key', { name: 'all', scopes: ['config:read'] });
    const fleet = new Client(strata.url, key.body.api_key);
    const streams = await Promise.all(
      Array.from({ length: 20 }, (_each, n) =>
        watch(fleet, `/tenants/${large.id}/config/effective/watch?agent_type=agent-${n + 1}`),
      ),
    );
    expect(new Set(streams.map(({ status }) => status))).toEqual(new Set([200]));
    await writePlatform('for_the_large', Date.now());
    const changes = await Promise.all(streams.map((each) => next(each, 1)));
    expect(changes.map(({ data }) => data)).toEqual(
      streams.map(() => expect.objectContaining({ keys: ['for_the_large'] })),
    );
    for (const each of streams) each.leave();
  });

  /** How often the gateway has asked for what all streams share. */
  async function questions(): Promise<{ values: number; changes: number; past: number }> {
    const { text } = await tenant.admin.get('/metrics');
    const count = (what: string): number =>
      Number(new RegExp(`^strata_watch_reads_total{what="${what}"} (\\d+)$`, 'm').exec(text)?.[1]);
    return { values: count('values'), changes: count('changes'), past: count('past') };
  }
});

test('a stream ends with the role that it was opened by', async () => {
  const member = { email: 'leaving@live.example', roles: ['viewer'] };
  const { client, user_id: id } = await addMember(tenant.admin, tenant.id, member);
  const from = await watch(client, effective('/watch'));
  await from.until(({ event }) => event === 'ready');
  await tenant.admin.delete(`/tenants/${tenant.id}/users/${id}`);
  const { data } = await from.until(({ event }) => event === 'closed');
  expect(data).toEqual({ code: expect.stringMatching(/tenant_mismatch|insufficient_role/) });
  await from.ended;
});

describe('a fleet that shares an API key', () => {
  /** FLEET_STREAMS makes it larger, such as the 1,000 of `npm run test:soak`. */
  const size = Number(process.env.FLEET_STREAMS ?? 200);
  test('of hundreds without names is admitted; those that name themselves are counted by name', async () => {
    const { body: account } = await tenant.admin.post(`/tenants/${tenant.id}/service-accounts`, {
      name: 'fleet',
      roles: ['viewer'],
    });
    const made = await tenant.admin.post(
      `/tenants/${tenant.id}/service-accounts/${account.id}/api-keys`,
      { name: 'fleet', scopes: ['config:read'] },
    );
    const fleet = new Client(strata.url, made.body.api_key);
    const open: WatchStream[] = [];
    for (let begun = 0; begun < size; begun += 100)
      open.push(
        ...(await Promise.all(
          Array.from({ length: 100 }, () => watch(fleet, effective('/watch'))),
        )),
      );
    expect(new Set(open.map(({ status }) => status))).toEqual(new Set([200]));
    const named = await Promise.all(
      Array.from({ length: 22 }, () =>
        watch(fleet, effective('/watch'), undefined, { 'x-client-id': 'one' }),
      ),
    );
    expect(named.filter(({ status }) => status === 429)).toHaveLength(2);
    const another = await watch(fleet, effective('/watch'), undefined, { 'x-client-id': 'two' });
    expect(another.status).toBe(200);
    for (const each of [...open, ...named, another]) each.leave();
  });
});
