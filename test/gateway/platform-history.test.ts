/**
 * What the platform's configuration was: its history, rollback, and effective values as they were.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '../support/cluster.ts';
import { comparePast } from '../support/past-oracle.ts';
import { strataDatabase, withClient, type Database } from '../support/postgres.ts';
import { soakDescribe, soakTest } from '../support/soak.ts';
import {
  adminPassword,
  Client,
  createTenantWith,
  memberPassword,
  signIn,
  startStrata,
  type Answer,
  type Running,
  type TenantWith,
} from '../support/strata.ts';
import { randomFrom, type Random } from '../support/values-of-schema.ts';

let database: Database;
let strata: Running;
let platform: Client;
let tenant: TenantWith<'viewer'>;

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({ DATABASE_URL: database.url });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenantWith(strata.url, platform, 'Past', ['viewer']);
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

const type = '/config/service-types/cloud_run/default';
const revisionIn = ({ headers }: Answer): number => Number(headers.get('x-config-revision'));
const rollback = (revision: number, query = '', headers?: Record<string, string>) =>
  platform.post(`/config/rollback${query}`, { revision }, headers);
const codeIn = ({ status, body }: Answer): unknown[] => [status, body.detail?.code];

interface Entry {
  readonly revision: number;
  readonly config_type: string;
  readonly resource_id: string;
  readonly action: string;
  readonly changed_at: string;
}
async function wholeHistory(query = ''): Promise<Entry[]> {
  const items: Entry[] = [];
  for (let cursor = ''; ;) {
    const { status, body } = await platform.get(`/config/history?limit=7${query}${cursor}`);
    expect(status).toBe(200);
    items.push(...body.items);
    if (body.next_cursor === null) return items;
    cursor = `&cursor=${body.next_cursor}`;
  }
}

async function keyWith(...scopes: string[]): Promise<Client> {
  const made = await platform.post('/auth/api-key', { name: scopes.join(), scopes });
  expect(made.status).toBe(201);
  return new Client(strata.url, made.body.api_key);
}

describe('every write of the platform is in its history', () => {
  test('with who, when, why, before and after', async () => {
    const why = { 'x-change-reason': 'a new band' };
    const { body: me } = await platform.get('/auth/me');
    const before = (await platform.get(type)).body;
    const writes = [
      await platform.put('/config/global/told', { config_value: { a: 1 } }, why),
      await platform.patch('/config/global/told', { config_value: { a: null, b: 2 } }),
      await platform.patch(type, { default_settings: { received: true } }),
      await platform.put('/config/bounds', { received: { const: 1 } }),
      await platform.delete('/config/bounds'),
      await platform.delete('/config/global/told'),
    ];
    expect(writes.map(({ status }) => status)).toEqual([201, 200, 200, 201, 204, 204]);
    const [items, details] = [
      (await wholeHistory()).slice(0, 6).toReversed(),
      await Promise.all(
        writes.map(
          async (write) => (await platform.get(`/config/history/${revisionIn(write)}`)).body,
        ),
      ),
    ];
    const received = (config_value: unknown) => ({
      config_key: 'told',
      config_value,
      is_public: false,
      requires_restart: false,
    });
    const by = {
      changed_by: me.user.id,
      changed_by_name: me.user.email,
      changed_at: expect.stringMatching(/Z$/),
      reason: null,
    };
    const of = (config_type: string, resource_id: string) => ({ ...by, config_type, resource_id });
    const entry = of('global_config', 'told');
    const bounds = of('bounds_config', 'platform');
    const rule = { received: { const: 1 } };
    const expected = [
      {
        ...entry,
        action: 'create',
        reason: 'a new band',
        changes: expect.arrayContaining([{ path: '/config_value', after: { a: 1 } }]),
        before: null,
        after: received({ a: 1 }),
      },
      {
        ...entry,
        action: 'update',
        changes: [
          { path: '/config_value/a', before: 1 },
          { path: '/config_value/b', after: 2 },
        ],
        before: received({ a: 1 }),
        after: received({ b: 2 }),
      },
      {
        ...of('service_type_config', 'cloud_run/default'),
        action: 'update',
        changes: [{ path: '/default_settings/received', after: true }],
        before,
        after: { ...before, default_settings: { ...before.default_settings, received: true } },
      },
      {
        ...bounds,
        action: 'create',
        changes: [{ path: '/received', after: rule.received }],
        before: null,
        after: rule,
      },
      {
        ...bounds,
        action: 'delete',
        changes: [{ path: '/received', before: rule.received }],
        before: rule,
        after: null,
      },
      {
        ...entry,
        action: 'delete',
        changes: expect.arrayContaining([{ path: '/config_value', before: { b: 2 } }]),
        before: received({ b: 2 }),
        after: null,
      },
    ].map((each, index) => ({
      ...each,
      revision: revisionIn(writes[index]!),
      request_id: writes[index]!.headers.get('x-request-id'),
    }));
    expect(details).toEqual(expected);
    expect(items).toEqual(expected.map(({ before: _before, after: _after, ...item }) => item));
  });

  test('each item of a plan that is applied, too, and each can be taken back', async () => {
    const items = [
      { action: 'put', path: '/config/global/planned', body: { config_value: 1 } },
      { action: 'patch', path: type, body: { default_settings: { planned: true } } },
      { action: 'put', path: '/config/bounds', body: { planned: { const: 1 } } },
    ];
    const before = (await platform.get(type)).body;
    const { body: planned } = await platform.post('/config/plan', { items });
    const applied = await platform.post('/config/plan/apply', {
      digest: planned.digest,
      items,
      reason: 'as planned',
    });
    expect(applied.status).toBe(200);
    const entries = (await wholeHistory()).slice(0, 3).toReversed();
    expect(entries).toMatchObject([
      { config_type: 'global_config', action: 'create', reason: 'as planned' },
      { config_type: 'service_type_config', action: 'update', reason: 'as planned' },
      { config_type: 'bounds_config', action: 'create', reason: 'as planned' },
    ]);
    const patched = entries[1]!.revision;
    expect(entries.map(({ revision }) => revision)).toEqual([patched - 1, patched, patched + 1]);
    await platform.put(type, before);
    expect((await rollback(patched)).body.default_settings).toMatchObject({ planned: true });
    await platform.put(type, before);
    for (const path of ['/config/global/planned', '/config/bounds']) await platform.delete(path);
  });

  test('in pages, by kind and by document; a dry run and a refusal leave nothing', async () => {
    const all = await wholeHistory();
    expect(all.map(({ revision }) => revision)).toEqual(
      Array.from({ length: all.length }, (_each, index) => all.length - index),
    );
    await platform.put('/config/global/tried?dry_run=true', { config_value: 1 });
    await platform.put('/config/bounds', { received: {} });
    expect(await wholeHistory()).toEqual(all);
    const ofType = await wholeHistory('&config_type=service_type_config');
    expect(ofType).toEqual(all.filter(({ config_type: each }) => each === 'service_type_config'));
    expect(await wholeHistory('&resource_id=told')).toEqual(
      all.filter(({ resource_id: each }) => each === 'told'),
    );
    expect(codeIn(await platform.get('/config/history/999999'))).toEqual([404, 'not_found']);
    expect(codeIn(await rollback(999_999))).toEqual([404, 'not_found']);
  });

  test('at times that rise with the revision, also where a clock is set back', async () => {
    await database.query(
      `UPDATE strata.revisions SET changed_at = changed_at + interval '1 s' WHERE scope = 'platform'`,
    );
    for (const value of [1, 2]) await platform.put('/config/global/timed', { config_value: value });
    const times = (await wholeHistory()).map(({ changed_at: at }) => at);
    expect(times).toEqual(times.toSorted().toReversed());
    await delay(1000);
  });

  test('is for platform admins, and of their keys for those with platform:read', async () => {
    await platform.put('/config/global/hidden', { config_value: 'of the platform alone' });
    const [read, write] = [await keyWith('platform:read'), await keyWith('platform:write')];
    expect((await read.get('/config/history')).text).toContain('of the platform alone');
    expect(codeIn(await write.get('/config/history'))).toEqual([403, 'insufficient_scope']);
    expect(codeIn(await tenant.admin.get('/config/history'))).toEqual([403, 'insufficient_role']);
  });
});

/** HISTORY_SEEDS names more of them, and HISTORY_WRITES how many writes are made, as the soak does. */
const seeds = (process.env.HISTORY_SEEDS ?? '3').split(',').map(Number);
const writes = Number(process.env.HISTORY_WRITES ?? 12);

/** Random writes of every kind of document, some of which are refused. */
async function writeAnything(random: Random): Promise<void> {
  const any = <T>(...from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
  const value = any<unknown>(1, 'é"\\', null, { b: [1, { a: null }], a: 1e21, '': 0.1 }, [], false);
  const path = any('/config/global/one', '/config/global/two', '/config/global/two');
  const isPublic = any(true, false);
  await any(
    () => platform.put(path, { config_value: value, is_public: isPublic, data_type: 'json' }),
    () => platform.put(path, { config_value: value }),
    () => platform.patch(path, { requires_restart: isPublic }),
    () => platform.delete(path),
    () => platform.patch(type, { default_settings: { z: value, a: any(1, 2) } }),
    () => platform.patch(type, { is_active: isPublic }),
    () => platform.put('/config/service-types/batch/night', { monitoring_defaults: { x: value } }),
    () => platform.delete('/config/service-types/batch/night'),
    () => platform.patch('/config/bounds', { one: { enum: [value, 5] }, two: null }),
    () => platform.put('/config/bounds', { two: { const: value } }),
    () => platform.delete('/config/bounds'),
  )();
}

const documents = [
  '/config/global/one',
  '/config/global/two',
  type,
  '/config/service-types/batch/night',
  '/config/bounds',
];
/** A document byte for byte, without what says when it was written. */
const textOf = ({ status, text }: Answer): string =>
  `${status} ${status === 200 ? text.replace(/,"revision":\d+,"updated_by":"[^"]*",("updated_by_name":"[^"]*",)?"updated_at":"[^"]*"/, '') : ''}`;
const resourceOf = (path: string): string =>
  path === '/config/bounds' ? 'platform' : path.replace(/^\/config\/(global|service-types)\//, '');

describe('rollback', () => {
  test.each(seeds)('restores exactly, to any revision of random writes (seed %d)', async (seed) => {
    const random = randomFrom(seed);
    const start = (await wholeHistory())[0]!.revision;
    /** By revision: the document that it wrote, as it was read after it. */
    const left = new Map<number, readonly [string, string]>();
    while (left.size < writes) {
      await writeAnything(random);
      const [last] = (await platform.get('/config/history?limit=1')).body.items as Entry[];
      if (last!.revision === start || left.has(last!.revision)) continue;
      const path = documents.find((each) => resourceOf(each) === last!.resource_id)!;
      left.set(last!.revision, [path, textOf(await platform.get(path))]);
    }
    const order = [...left.keys()].toSorted(() => random() - 0.5);
    for (const revision of order) {
      const [path, text] = left.get(revision)!;
      const others = documents.filter((each) => each !== path);
      const before = await Promise.all(
        others.map(async (each) => textOf(await platform.get(each))),
      );
      const tried = await rollback(revision, '?dry_run=true');
      const restored = await rollback(revision);
      expect([tried.status, tried.body.dry_run, restored.status < 300]).toEqual([200, true, true]);
      expect([revision, path, textOf(await platform.get(path))]).toEqual([revision, path, text]);
      const after = await Promise.all(others.map(async (each) => textOf(await platform.get(each))));
      expect(after).toEqual(before);
    }
    const newest = await wholeHistory();
    expect(newest.slice(0, order.length).map(({ action }) => action)).toEqual(
      order.map(() => 'rollback'),
    );
  });

  test('answers like any write: precondition, reason, one revision, the audit event, the change of effective values', async () => {
    const path = '/config/global/rolled';
    const first = await platform.put(path, { config_value: 'first', is_public: true });
    const second = await platform.put(path, { config_value: 'second', is_public: true });
    const revision = revisionIn(first);
    const stale = await rollback(revision, '', { 'if-match': first.headers.get('etag')! });
    expect(codeIn(stale)).toEqual([412, 'precondition_failed']);
    const tried = await rollback(revision, '?dry_run=true');
    expect(tried.body).toEqual({
      dry_run: true,
      changes: [{ path: '/config_value', before: 'second', after: 'first' }],
      invalidates: ['global_rolled'],
    });
    const effective = `/tenants/${tenant.id}/config/effective`;
    expect((await tenant.viewer.get(effective)).body.values.rolled).toBe('second');
    const restored = await platform.post(
      '/config/rollback',
      { revision, reason: 'second was worse' },
      { 'if-match': second.headers.get('etag')! },
    );
    expect([restored.status, revisionIn(restored)]).toEqual([200, revisionIn(second) + 1]);
    expect(restored.body).toEqual((await platform.get(path)).body);
    expect(restored.body).toMatchObject({ config_value: 'first', revision: revisionIn(restored) });
    expect((await tenant.viewer.get(effective)).body.values.rolled).toBe('first');
    const [entry] = (await platform.get('/config/history?limit=1')).body.items;
    expect(entry).toMatchObject({ action: 'rollback', reason: 'second was worse' });
    await eventually(async () => {
      const events = await platform.get(
        '/audit/events?action=config.global.rolled_back&order=desc',
      );
      expect(events.body.items[0]).toMatchObject({
        target: 'rolled',
        payload: { revision: revisionIn(restored), reason: 'second was worse' },
        request_id: restored.headers.get('x-request-id'),
      });
    });
    expect((await platform.get('/audit/verify')).body.valid).toBe(true);
    const removed = await platform.delete(path);
    expect((await rollback(revisionIn(removed))).status).toBe(204);
    expect((await rollback(revision)).status).toBe(201);
    await platform.delete(path);
  });

  test('undoes what one revision did: what was there before it comes back, what it made goes', async () => {
    const path = '/config/global/undone';
    const created = revisionIn(await platform.put(path, { config_value: 1, is_public: true }));
    const changed = revisionIn(await platform.put(path, { config_value: 2, is_public: true }));
    const undo = (revision: number, query = '') =>
      platform.post(`/config/rollback${query}`, { undo: revision });
    const tried = await undo(changed, '?dry_run=true&impact=true');
    expect(tried.body).toMatchObject({
      changes: [{ path: '/config_value', before: 2, after: 1 }],
      impact: { by_key: { undone: { changed: expect.any(Number) } } },
    });
    expect((await undo(changed)).body).toMatchObject({ config_value: 1 });
    const { body: gone } = await undo(created, '?dry_run=true&impact=true');
    expect(gone.changes).toContainEqual({ path: '/config_value', before: 1 });
    expect((await undo(created)).status).toBe(204);
    expect((await platform.get(path)).status).toBe(404);
    expect((await undo(999_999)).status).toBe(404);
  });

  test('keeps to the rules of now', async () => {
    await platform.put('/config/service-types/gone/default', {});
    const bounds = await platform.put('/config/bounds', {
      x: { const: 1, service_types: ['gone'] },
    });
    await platform.delete('/config/bounds');
    await platform.delete('/config/service-types/gone/default');
    const refused = await rollback(revisionIn(bounds));
    expect([refused.status, refused.body.errors[0].path]).toEqual([422, '/x/service_types/0']);
    expect((await platform.get('/config/bounds')).status).toBe(404);
  });

  test('shows a key of platform:write alone nothing that it may not read', async () => {
    const write = await keyWith('platform:write');
    const path = '/config/global/once-private';
    const secret = 'told to no one else';
    const hidden = await platform.put(path, { config_value: secret });
    const shown = await platform.put(path, { config_value: 'shown', is_public: true });
    const bounds = await platform.put('/config/bounds', { x: { const: secret } });
    for (const { revision, query } of [hidden, bounds].flatMap((answer) =>
      ['', '?dry_run=true'].map((query) => ({ revision: revisionIn(answer), query })),
    )) {
      const answer = await write.post(`/config/rollback${query}`, { revision });
      expect(codeIn(answer)).toEqual([404, 'not_found']);
      expect(answer.text).not.toContain(secret);
    }
    await platform.delete(path);
    const back = await write.post('/config/rollback', { revision: revisionIn(shown) });
    expect([back.status, back.body.config_value]).toEqual([201, 'shown']);
    await platform.delete('/config/bounds');
  });
});

describe('as_of', () => {
  const effective = (asOf: string, query = ''): Promise<Answer> =>
    tenant.admin.get(`/tenants/${tenant.id}/config/effective?as_of=${asOf}${query}`);

  test('answers with the layers and bounds of platform and tenant as they were', async () => {
    const { id: tenantId } = tenant;
    const writers = { tenantId, platform: [platform], tenant: [tenant.admin] };
    expect(await comparePast(writers, { writes, seed: 11 })).toBe(writes);
  });

  test('says of which moment it is, and which layers are as they are now', async () => {
    const path = '/config/global/moved';
    await platform.put(path, { config_value: 1, is_public: true });
    const agent = await tenant.admin.put(`/tenants/${tenant.id}/config/agents/moved`, {});
    const { body: written } = await tenant.admin.get(
      `/tenants/${tenant.id}/config/history/${revisionIn(agent)}`,
    );
    await delay(2);
    const moved = await platform.put(path, { config_value: 2, is_public: true });
    const at = written.changed_at;
    for (const asOf of [at, String(revisionIn(agent))]) {
      const { body } = await effective(asOf);
      expect(body).toMatchObject({
        values: { moved: 1 },
        revision: { tenant: revisionIn(agent), platform: revisionIn(moved) - 1 },
        as_of: { at, now: ['env'] },
      });
    }
    const toCome = await effective('999999');
    expect(toCome.body).toMatchObject({ values: { moved: 2 }, as_of: { at: null, now: ['env'] } });
    expect((await effective('2999-01-01T00:00:00Z')).body.values.moved).toBe(2);
    const plain = await tenant.admin.get(`/tenants/${tenant.id}/config/effective`);
    expect(plain.body).not.toHaveProperty('as_of');
    await platform.delete(path);
  });
});

describe('what was withdrawn', () => {
  const path = '/config/global/withdrawn';
  const publish = (value: unknown) => platform.put(path, { config_value: value, is_public: true });
  const withdraw = (value: unknown) => platform.put(path, { config_value: value });
  const past = (asOf: string, of: TenantWith<never> = tenant): Promise<Answer> =>
    of.admin.get(`/tenants/${of.id}/config/effective?explain=true&as_of=${asOf}`);
  const timeOf = async (answer: Answer): Promise<string> =>
    (await platform.get(`/config/history/${revisionIn(answer)}`)).body.changed_at;

  afterEach(() => platform.delete(path));

  test('is in no answer of the past, also after it was deleted or published again', async () => {
    const first = await timeOf(await publish('canary'));
    await delay(2);
    expect((await past(first)).body.values.withdrawn).toBe('canary');
    const expectWithheld = async (): Promise<void> => {
      const answer = await past(first);
      expect(answer.text).not.toContain('canary');
      expect(answer.body).toMatchObject({ as_of: { at: first, withheld: true } });
    };
    const unlessTagged = (tag: string) =>
      tenant.admin.get(`/tenants/${tenant.id}/config/effective?as_of=${first}`, {
        'if-none-match': tag,
      });
    const tag = (await unlessTagged('"none"')).headers.get('etag')!;
    expect((await unlessTagged(tag)).status).toBe(304);
    await withdraw('canary');
    expect((await unlessTagged(tag)).status).toBe(200);
    await expectWithheld();
    await platform.delete(path);
    await expectWithheld();
    const again = await timeOf(await publish('published again'));
    await expectWithheld();
    expect((await past(again)).body).toMatchObject({
      values: { withdrawn: 'published again' },
      as_of: { at: again, now: ['env'] },
    });
    expect((await past(again)).body.as_of).not.toHaveProperty('withheld');
  });

  test('is not what was deleted while it was public: that decided values', async () => {
    const first = await timeOf(await publish('public to its end'));
    await platform.delete(path);
    const { body } = await past(first);
    expect(body.values.withdrawn).toBe('public to its end');
    expect(body.as_of).toEqual({ at: first, now: ['env'] });
  });

  test('is what a rollout had made public until it was reverted', async () => {
    await withdraw('canary');
    const body = { config_value: 'canary', is_public: true };
    const items = [{ action: 'put', path, body }];
    const { digest } = (await platform.post('/config/plan', { items })).body;
    const gate = [{ type: 'manual' }];
    const stages = [
      { tenants: [tenant.id], bake_minutes: 0, gate },
      { percent: 100, bake_minutes: 0, gate },
    ];
    const why = { title: 'By mistake', reason: 'None' };
    const made = await platform.post('/config/rollouts', { ...why, items, digest, stages });
    const step = (name: string, said: object) =>
      platform.post(`/config/rollouts/${made.body.id}/${name}`, said);
    const at: string = (await step('advance', { stage: null })).body.updated_at;
    await delay(2);
    await step('hold', { reason: 'Is it secret?' });
    expect((await past(at)).body.values.withdrawn).toBe('canary');
    expect((await step('revert', { reason: 'It is' })).body.state).toBe('reverted');
    const answer = await past(at);
    expect(answer.text).not.toContain('canary');
    expect(answer.body.as_of).toEqual({ at, now: ['env'], withheld: true });
  });

  test('a tenant has no past before it was made', async () => {
    const first = await timeOf(await publish('before the tenant'));
    await publish('since');
    const younger = await createTenantWith(strata.url, platform, 'Younger');
    for (const asOf of [first, '0']) {
      const answer = await past(asOf, younger);
      expect(codeIn(answer)).toEqual([404, 'before_history']);
      expect(answer.body.detail.message).toBe('The tenant did not exist then.');
    }
    expect((await past('1', younger)).body.values.withdrawn).toBe('since');
  });

  soakTest('of generated writes, no answer has a value that was withdrawn', async () => {
    const random = randomFrom(27);
    const moments: { at: string; value: string | null; isWithdrawn: boolean }[] = [];
    for (let write = 0; write < writes; write += 1) {
      const value = `canary-${write}-`;
      const kind = (['publish', 'publish', 'withdraw', 'delete'] as const)[
        Math.floor(random() * 4)
      ]!;
      const answer =
        kind === 'delete'
          ? await platform.delete(path)
          : await (kind === 'publish' ? publish : withdraw)(value);
      if (answer.status === 404) continue;
      const shown = kind === 'publish' ? value : null;
      if (kind === 'withdraw') for (const moment of moments) moment.isWithdrawn = true;
      moments.push({ at: await timeOf(answer), value: shown, isWithdrawn: false });
      await delay(2);
      const answers = await Promise.all(moments.map(({ at }) => past(at)));
      for (const [index, { body, text }] of answers.entries()) {
        const { value: published, isWithdrawn } = moments[index]!;
        const expected = isWithdrawn ? null : published;
        expect(body.values.withdrawn ?? null).toBe(expected);
        expect(body.as_of.withheld ?? false).toBe(isWithdrawn && published !== null);
        const seen = text.match(/canary-\d+-/g) ?? [];
        expect(seen.filter((canary) => canary !== expected)).toEqual([]);
      }
    }
    expect(moments.some(({ isWithdrawn, value }) => isWithdrawn && value !== null)).toBe(true);
  });
});

describe('a purge', () => {
  const name = { config_type: 'global_config', resource_id: 'leaked' };
  const path = '/config/global/leaked';
  const canary = 'canary-of-a-purge';
  const put = (value: unknown) => platform.put(path, { config_value: value, is_public: true });
  const purge = (of: object = name, by = platform) =>
    by.post('/config/history/purge', { ...of, reason: 'it was a password' });
  const past = (at: string) =>
    tenant.admin.get(`/tenants/${tenant.id}/config/effective?explain=true&as_of=${at}`);

  /** Everything that a platform admin can read of the past, as text. */
  async function everything(): Promise<string> {
    const entries = await wholeHistory('&resource_id=leaked');
    const details = await Promise.all(
      entries.map(({ revision }) => platform.get(`/config/history/${revision}`)),
    );
    const audit = await platform.get('/audit/events?order=desc&limit=200');
    return [JSON.stringify(entries), ...details.map(({ text }) => text), audit.text].join('\n');
  }
  const isRecorded = (revision: number) =>
    eventually(async () => {
      const { body } = await platform.get('/audit/events?order=desc&limit=20&target=leaked');
      const found = body.items.some(
        (event: { payload: { revision?: number } }) => event.payload.revision === revision,
      );
      expect(found).toBe(true);
    });

  test('takes past values from history, as_of and audit for good; rows and chain stay', async () => {
    const first = await put(canary);
    expect(codeIn(await purge())).toEqual([409, 'conflict']);
    // Withdrawn, and still the value of now.
    await platform.put(path, { config_value: canary });
    expect(codeIn(await purge())).toEqual([409, 'conflict']);
    const second = await put(`${canary} again`);
    const [written] = await wholeHistory('&resource_id=leaked');
    await delay(2);
    expect((await past(written!.changed_at)).text).toContain(canary);
    const last = await put('harmless');
    await isRecorded(revisionIn(last));
    expect(await everything()).toContain(canary);

    const done = await purge();
    expect(done.status).toBe(200);
    expect(done.body).toMatchObject({ ...name, entries: 4, still_in_force: false });
    await isRecorded(done.body.revision);
    await eventually(async () => expect(await everything()).not.toContain(canary));
    expect((await platform.get(path)).body.config_value).toBe('harmless');

    const after = await wholeHistory('&resource_id=leaked');
    expect(after.map(({ action }) => action)).toEqual([
      'purge',
      'update',
      'update',
      'update',
      'create',
    ]);
    for (const entry of after.slice(1))
      expect(entry).toMatchObject({ purged: { reason: 'it was a password' } });
    const asOf = await past(written!.changed_at);
    expect(asOf.text).not.toContain(canary);
    expect(asOf.body.as_of).toMatchObject({ withheld: true });
    expect(asOf.body.values).not.toHaveProperty('leaked');
    // What the document is since stays in the past of moments after the purge.
    await platform.put('/config/global/since', { config_value: 1 });
    const since = await past(done.body.at);
    expect(since.body.values.leaked).toBe('harmless');
    expect(since.body.as_of).not.toHaveProperty('withheld');
    const now = await platform.get(`/config/history/${revisionIn(last)}`);
    expect(now.body).toMatchObject({ before: null, after: { config_value: 'harmless' } });

    for (const body of [
      { revision: revisionIn(first) },
      { revision: revisionIn(second) },
      { undo: revisionIn(last) },
      { revision: done.body.revision },
      { undo: done.body.revision },
    ])
      expect(codeIn(await platform.post('/config/rollback', body))).toEqual([409, 'conflict']);
    expect((await platform.get('/audit/verify')).body).toMatchObject({ valid: true });
    expect((await platform.get(path)).body.config_value).toBe('harmless');
    await platform.delete(path);
  });

  test('reaches an entry that is gone, and refuses where there is nothing to purge', async () => {
    await put(`${canary} of the deleted`);
    const gone = await platform.delete(path);
    await isRecorded(revisionIn(gone));
    const done = await purge();
    expect(done.status).toBe(200);
    await eventually(async () => expect(await everything()).not.toContain(canary));
    expect(codeIn(await purge())).toEqual([409, 'conflict']);
    expect(codeIn(await purge({ ...name, resource_id: 'never-was' }))).toEqual([404, 'not_found']);
    expect(codeIn(await purge(name, tenant.admin))).toEqual([403, 'insufficient_role']);
  });

  test.each([
    ['service_type_config', 'cloud_run/purged', '/config/service-types/cloud_run/purged'],
    ['bounds_config', 'platform', '/config/bounds'],
  ] as const)('takes them from a %s, too', async (type, id, address) => {
    const body = (most: number) =>
      type === 'bounds_config'
        ? { max_instances: { maximum: most } }
        : { default_settings: { secret: most } };
    // No other number of these tests.
    expect((await platform.put(address, body(918_273))).status).toBeLessThan(300);
    const last = await platform.put(address, body(5));
    const read = async () => {
      const history = await wholeHistory(`&config_type=${type}&resource_id=${id}`);
      const audit = await platform.get(`/audit/events?order=desc&limit=50&target=${id}`);
      return { history: JSON.stringify(history), audit: audit.text };
    };
    await eventually(async () =>
      expect((await read()).audit).toContain(`"revision":${revisionIn(last)},`),
    );
    const before = await read();
    for (const text of Object.values(before)) expect(text).toContain('918273');
    expect((await purge({ config_type: type, resource_id: id })).status).toBe(200);
    await eventually(async () => {
      const after = await read();
      for (const text of Object.values(after)) expect(text).not.toContain('918273');
    });
    expect((await platform.get('/audit/verify')).body).toMatchObject({ valid: true });
    await platform.delete(address);
  });

  test('what was taken back by a rollback goes, though the value of now stood before it, too', async () => {
    const good = await put('harmless');
    const bad = await put(canary);
    const back = await platform.post('/config/rollback', { revision: revisionIn(good) });
    await isRecorded(revisionIn(back));
    const done = await purge();
    expect(done.body).toMatchObject({ still_in_force: true });
    await eventually(async () => expect(await everything()).not.toContain(canary));
    for (const body of [{ undo: revisionIn(back) }, { revision: revisionIn(bad) }])
      expect(codeIn(await platform.post('/config/rollback', body))).toEqual([409, 'conflict']);
    await put('later');
    const again = await platform.post('/config/rollback', { revision: revisionIn(back) });
    expect(again.body.config_value).toBe('harmless');
    await platform.delete(path);
  });

  test('attests the first event that a cut left', async () => {
    await isRecorded(revisionIn(await put(canary)));
    const query = <Row>(text: string) =>
      withClient(database.url, async (client) => (await client.query(text)).rows as Row[]);
    const [last] = await query<{ seq: string; hash: string }>(
      `SELECT seq, hash FROM audit.events WHERE chain = 'platform' AND seq = (
         SELECT max(seq) - 1 FROM audit.events WHERE chain = 'platform' AND target = 'leaked')`,
    );
    const cut = await platform.post('/audit/cut', { ...last, seq: Number(last!.seq) });
    expect(cut.status).toBe(200);
    await eventually(async () => {
      const left = `SELECT FROM audit.events WHERE chain = 'platform' AND seq <= ${last!.seq}`;
      expect(await query(left)).toEqual([]);
    });
    await put('harmless');
    expect((await purge()).status).toBe(200);
    await eventually(async () => expect(await everything()).not.toContain(canary));
    expect((await platform.get('/audit/verify')).body).toMatchObject({ valid: true });
  });

  test('an audit event whose hash no one attests breaks the chain, purged or not', async () => {
    const valid = async () => (await platform.get('/audit/verify')).body.valid;
    expect(await valid()).toBe(true);
    const change = (statement: string) =>
      withClient(database.url, async (client) => {
        await client.query('ALTER TABLE audit.events DISABLE TRIGGER append_only');
        await client.query(statement);
        await client.query('ALTER TABLE audit.events ENABLE TRIGGER append_only');
      });
    const first = "chain = 'platform' AND seq = (SELECT max(seq) FROM audit.purged_links)";
    const set = (assignment: string) =>
      change(`UPDATE audit.events SET ${assignment} WHERE ${first}`);
    await set(`actor_id = actor_id || '-'`);
    expect(await valid()).toBe(false);
    await set(`actor_id = left(actor_id, -1)`);
    expect(await valid()).toBe(true);
    await set(`hash = repeat('a', 64)`);
    expect(await valid()).toBe(false);
  });
});

soakDescribe('where the platform is older than its history', () => {
  let older: Database;
  let running: Running;
  let admin: Client;
  let member: TenantWith<never>;
  const put = (value: unknown) =>
    admin.put('/config/global/older', { config_value: value, is_public: true });
  const restore = (revision: number) => admin.post('/config/rollback', { revision });
  const then = async (asOf: string): Promise<Answer> =>
    member.admin.get(`/tenants/${member.id}/config/effective?as_of=${asOf}`);
  /** Revisions of writes from before it. */
  const before: Record<'overwritten' | 'last' | 'typed' | 'bounds', number> = {
    overwritten: 0,
    last: 0,
    typed: 0,
    bounds: 0,
  };
  const document = { a: [1, 'é', null], ' b ': { z: 1, y: 0.1 } };
  let texts: string[];
  const paths = ['/config/global/older', '/config/global/typed', type, '/config/bounds'];
  const read = () => Promise.all(paths.map(async (path) => textOf(await admin.get(path))));

  async function start(): Promise<void> {
    running = await startStrata({ DATABASE_URL: older.url });
    admin = await signIn(running.url, 'admin@example.com', adminPassword);
  }

  beforeAll(async () => {
    older = await strataDatabase();
    await start();
    member = await createTenantWith(running.url, admin, 'Older');
    before.overwritten = revisionIn(await put('overwritten'));
    before.last = revisionIn(await put(document));
    before.typed = revisionIn(
      await admin.put('/config/global/typed', { config_value: null, data_type: 'json' }),
    );
    await admin.patch(type, { default_settings: document });
    before.bounds = revisionIn(await admin.put('/config/bounds', { older: { const: document } }));
    texts = await read();
    await running.stop();
    // As the release before left it.
    await older.query(
      `DROP FUNCTION global_config.begin_history, global_config.begin_history_anew CASCADE`,
    );
    for (const table of [
      'configuration_history',
      'history_baseline',
      'history_beginning',
      'change_sets',
    ])
      await older.query(`DROP TABLE global_config.${table}`);
    await older.query(
      `DELETE FROM global_config.migrations WHERE name ~ '^GlobalConfig(History|ChangeSets|BreakGlass)'`,
    );
    await start();
    const signedIn = await signIn(running.url, member.emails.tenant_admin!, memberPassword);
    member = { ...member, admin: signedIn };
  });
  afterAll(async () => {
    await running?.stop();
    await older?.drop();
  });

  test('what stood when it began is known, and nothing of what was before', async () => {
    expect((await admin.get('/config/history')).body).toEqual({ items: [], next_cursor: null });
    const [beginning] = await older.query<{ at: Date; revision: string }>(
      'SELECT at, revision FROM global_config.history_beginning',
    );
    expect(Number(beginning!.revision)).toBe(before.bounds);
    const at = beginning!.at.toISOString();
    expect((await then(at)).body.values.older).toEqual(document);
    await put('later');
    await admin.delete('/config/bounds');
    expect((await then(at)).body).toMatchObject({
      values: { older: document },
      enforced: [],
      revision: { platform: before.bounds },
    });
    const earlier = new Date(beginning!.at.getTime() - 1).toISOString();
    // A tenant's revision from then is refused as its moment is.
    for (const asOf of [earlier, '1'])
      expect(codeIn(await then(asOf))).toEqual([404, 'before_history']);
    for (const answer of [
      await admin.get(`/config/history/${before.last}`),
      await restore(before.overwritten),
    ])
      expect(codeIn(answer)).toEqual([404, 'before_history']);
    expect((await then('2999-01-01T00:00:00Z')).body.values.older).toBe('later');
  });

  test('a rollback restores what it began with, where nothing was written in between', async () => {
    await admin.delete('/config/global/typed');
    await admin.patch(type, { default_settings: { more: 1 } });
    const patched = (await admin.get('/config/history?limit=1')).body.items[0];
    expect(patched).toMatchObject({ action: 'update', changes: [{ after: 1 }] });
    for (const revision of [before.last, before.typed, before.bounds])
      expect((await restore(revision)).status).toBeLessThan(300);
    const now = await read();
    expect([now[0], now[1], now[3]]).toEqual([texts[0], texts[1], texts[3]]);
  });

  test.each([
    [
      'changes a document',
      `UPDATE global_config.global_configurations SET config_value = '"unseen"', revision = $1`,
      { older: 'unseen' },
    ],
    ['removes a document', 'DELETE FROM global_config.global_configurations WHERE $1 > 0', {}],
  ])('it begins again where a node of the release before %s', async (_what, change, values) => {
    // It would decide what the entry is to say.
    await admin.delete('/config/bounds');
    await put('seen');
    const seen = new Date().toISOString();
    const { body } = await admin.get('/config/history?limit=1');
    const revision = body.items[0].revision as number;
    await delay(2);
    await withClient(older.url, async (client) => {
      await client.query('BEGIN');
      await client.query(
        `UPDATE strata.revisions SET revision = revision + 1, changed_at = clock_timestamp() WHERE scope = 'platform'`,
      );
      await client.query(change, [revision + 1]);
      await client.query('COMMIT');
    });
    await delay(2);
    const unseen = new Date().toISOString();
    await delay(2);
    await put('seen again');
    expect(codeIn(await then(seen))).toEqual([404, 'before_history']);
    expect(codeIn(await admin.get(`/config/history/${revision + 1}`))).toEqual([
      404,
      'before_history',
    ]);
    const { older: found, ...others } = (await then(unseen)).body.values;
    expect([{ ...(found !== undefined && { older: found }) }, others.typed]).toEqual([
      values,
      undefined,
    ]);
    expect((await restore(revision)).body.config_value).toBe('seen');
  });
});
