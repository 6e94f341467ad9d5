/** Changes with an end: at their time each field becomes what it was, once, and everybody sees it. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { audited, requireProvedAudit } from '../support/audit.ts';
import { eventually } from '../support/cluster.ts';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  adminPassword,
  createTenant,
  signIn,
  type Answer,
  type Client,
  type TenantFixture,
} from '../support/strata.ts';

let strata: SharedStrata;
let platform: Client;
let tenant: TenantFixture;

beforeAll(async () => {
  strata = await sharedStrata();
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Temporary');
  good(await tenant.admin.put(service(), { service_type: 'cloud_run', max_instances: 8 }));
});

const at = (rest: string): string => `/tenants/${tenant.id}${rest}`;
const service = (id = 'checkout'): string => at(`/services/${id}`);
const risk = (): string => at('/config/risk');
const good = (answer: Answer): Answer => {
  if (answer.status >= 300) throw new Error(`${answer.status} ${answer.text}`);
  return answer;
};
const soon = (ms: number): string => new Date(Date.now() + ms).toISOString();
const far = (): string => soon(3_600_000);
const temporarily = (path: string, until: string): string =>
  `${path}?until=${encodeURIComponent(until)}`;
const open = async (document: string) => {
  const path = at(`/config/temporary-changes?document=${encodeURIComponent(document)}`);
  return good(await tenant.admin.get(path)).body.items;
};
const limits = async () => good(await tenant.admin.get(risk())).body;
const effective = async (key: string, query = '') =>
  good(await tenant.admin.get(at(`/config/effective?${query}`))).body.values[key];
/** The time of all that end by then is set to now, which is what the passing of time would do. */
const passTime = (document: string, until = 'infinity') =>
  strata.database.query(
    `UPDATE strata.temporary_changes SET until = now(), due_at = now()
     WHERE path = $1 AND until <= $2 AND ended_at IS NULL`,
    [document, until],
  );
const problems = (answer: Answer) => [answer.status, answer.body.errors];

test('a value ends at its time, which effective values, history and audit show', async () => {
  const until = soon(1500);
  const path = temporarily(service(), until);
  const reason = { 'x-change-reason': 'Sale of the week' };
  good(await tenant.operator.send('PATCH', path, { headers: reason, body: { max_instances: 20 } }));
  expect(await effective('max_instances', 'service_id=checkout')).toBe(20);
  const [made] = await open(service());
  expect([made]).toMatchObject([
    {
      fields: [{ path: '/max_instances', value: 20, becomes: 8 }],
      until,
      reason: 'Sale of the week',
      note: null,
    },
  ]);
  await eventually(async () =>
    expect(await effective('max_instances', 'service_id=checkout')).toBe(8),
  );
  expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(until));
  expect(await open(service())).toEqual([]);
  const history = at('/config/history');
  const { items } = good(await tenant.admin.get(`${history}?resource_id=checkout&limit=2`)).body;
  expect(items).toMatchObject([
    {
      changed_by: 'tenant-config',
      reason: `Ends the temporary change of revision ${made.revision}: Sale of the week`,
      changes: [{ path: '/max_instances', before: 20, after: 8 }],
    },
    { revision: made.revision, until, reason: 'Sale of the week' },
  ]);
  expect(items[0].until).toBeUndefined();
  const detail = good(await tenant.admin.get(`${history}/${made.revision}`)).body;
  expect(detail.until).toBe(until);
  const action = 'config.service.updated';
  await audited(platform, action, ({ payload }) => payload.temporary_change_id === made.id);
  await audited(platform, action, ({ payload }) => payload.until === until);
});

test('an override that was not there before goes again, and its object with it', async () => {
  const before = (await limits()).service_overrides;
  const override = { service_overrides: { cloud_sql: { max_cost_impact_auto: 3 } } };
  good(await tenant.admin.patch(temporarily(risk(), far()), override));
  good(await tenant.admin.patch(risk(), { global_settings: { max_cost_impact_auto: 9 } }));
  await passTime(risk());
  await eventually(async () => expect((await limits()).service_overrides).toEqual(before));
  expect((await limits()).global_settings.max_cost_impact_auto).toBe(9);
});

test('an override that was taken out comes back, also where another in its place ends first', async () => {
  const override = { cloud_functions: { max_cost_impact_auto: 3 } };
  const before = good(await tenant.admin.patch(risk(), { service_overrides: override })).body;
  const removal = { service_overrides: { cloud_functions: null } };
  good(await tenant.admin.patch(temporarily(risk(), soon(7_200_000)), removal));
  const other = { service_overrides: { cloud_functions: { max_resource_scaling: 2 } } };
  const sooner = far();
  good(await tenant.admin.patch(temporarily(risk(), sooner), other));
  await passTime(risk(), sooner);
  await eventually(async () => expect(await open(risk())).toHaveLength(1));
  await passTime(risk());
  await eventually(async () => expect(await limits()).toEqual(before));
});

describe('what is changed since', () => {
  test('stays, also where it became the temporary value again', async () => {
    const path = service('kept');
    good(
      await tenant.admin.put(path, {
        service_type: 'cloud_run',
        max_instances: 4,
        min_instances: 1,
      }),
    );
    good(
      await tenant.admin.patch(temporarily(path, far()), { max_instances: 6, min_instances: 2 }),
    );
    good(await tenant.admin.patch(path, { max_instances: 5 }));
    good(await tenant.admin.patch(path, { max_instances: 6 }));
    expect(await open(path)).toMatchObject([{ fields: [{ path: '/min_instances' }] }]);
    await passTime(path);
    await eventually(async () => expect(await open(path)).toEqual([]));
    const { max_instances, min_instances } = good(await tenant.admin.get(path)).body;
    expect({ max_instances, min_instances }).toEqual({ max_instances: 6, min_instances: 1 });
  });

  test('until another time becomes what it was for good, once', async () => {
    const path = service('twice');
    good(await tenant.admin.put(path, { service_type: 'cloud_run', max_instances: 4 }));
    good(await tenant.admin.patch(temporarily(path, far()), { max_instances: 6 }));
    const later = soon(7_200_000);
    good(await tenant.admin.patch(temporarily(path, later), { max_instances: 7 }));
    expect(await open(path)).toMatchObject([
      { until: later, fields: [{ path: '/max_instances', value: 7, becomes: 4 }] },
    ]);
    await passTime(path);
    await eventually(async () =>
      expect(good(await tenant.admin.get(path)).body.max_instances).toBe(4),
    );
  });

  test('is for good where the document went', async () => {
    const path = service('gone');
    const instance = { service_type: 'cloud_run', max_instances: 4, min_instances: 1 };
    good(await tenant.admin.put(path, instance));
    // What it removed does not come back in a document that is made later.
    const change = { max_instances: 6, min_instances: null };
    good(await tenant.admin.patch(temporarily(path, far()), change));
    good(await tenant.admin.delete(path));
    expect(await open(path)).toEqual([]);
    expect((await tenant.admin.get(path)).status).toBe(404);
    const history = at('/config/history?resource_id=gone');
    const [, temporary] = good(await tenant.admin.get(history)).body.items;
    expect(Date.parse(temporary.until)).toBeLessThanOrEqual(Date.now());
  });

  test('a write of the same value says that it still ends', async () => {
    const path = service('warned');
    good(await tenant.admin.put(path, { service_type: 'cloud_run', max_instances: 4 }));
    const until = far();
    good(await tenant.admin.patch(temporarily(path, until), { max_instances: 6 }));
    const same = good(await tenant.admin.patch(path, { max_instances: 6 }));
    expect(same.headers.get('x-config-warnings')).toBe('/max_instances');
    const tried = good(await tenant.admin.patch(`${path}?dry_run=true`, { max_instances: 6 }));
    const message = `is temporary: at ${until} it becomes 4 again`;
    expect(tried.body.warnings).toEqual([{ path: '/max_instances', message }]);
  });
});

describe('422 for', () => {
  const refusals: readonly (readonly [string, () => Promise<Answer>, string])[] = [
    [
      'a time that has passed',
      () => tenant.admin.patch(temporarily(risk(), '2020-01-01T00:00:00Z'), more()),
      'has passed',
    ],
    [
      'a time years away',
      () => tenant.admin.patch(temporarily(risk(), '2100-01-01T00:00:00Z'), more()),
      'is more than 366 days away',
    ],
    [
      'what changes nothing',
      () => tenant.admin.patch(temporarily(risk(), far()), {}),
      'has nothing to end: the write changes nothing',
    ],
    [
      'more than is an exception',
      () => {
        const many = Object.fromEntries(
          Array.from({ length: 101 }, (_, index) => [`n${index}`, 1]),
        );
        return tenant.admin.patch(temporarily(service(), far()), { custom_thresholds: many });
      },
      'is for at most 100 fields and 16384 bytes of changes',
    ],
    [
      'a new document',
      () => tenant.admin.put(temporarily(service('new'), far()), { service_type: 'cloud_run' }),
      'is for a document that is there, and stays',
    ],
    [
      'a removal',
      () => tenant.admin.delete(temporarily(service(), far())),
      'is for a document that is there, and stays',
    ],
    [
      'a change set of what cannot be temporary',
      () => proposed([{ action: 'put', path: at('/config/bounds'), body: {} }], far()),
      'is for risk limits, agent configurations and service instances',
    ],
    [
      'a change set that is applied later',
      () =>
        proposed([{ action: 'patch', path: risk(), body: more() }], far(), { at: soon(7_200_000) }),
      'is before it is applied',
    ],
  ];
  const more = () => ({ global_settings: { max_cost_impact_auto: 11 } });
  const proposed = (items: readonly object[], until: string, apply: unknown = 'on_approval') =>
    tenant.admin.post(at('/config/changesets'), { title: 'T', reason: 'R', items, until, apply });
  test.each(refusals)('%s', async (_what, send, message) => {
    const answer = await send();
    expect(problems(answer)).toEqual([422, [{ path: '/until', message }]]);
  });

  test('other kinds of documents', async () => {
    const answer = await tenant.admin.put(temporarily(at('/config/bounds'), far()), {});
    expect(answer.status).toBe(422);
  });
});

describe('with a change_policy', () => {
  let path: string;
  const value = async () => good(await tenant.admin.get(path)).body.max_instances;
  beforeAll(async () => {
    path = service('guarded');
    good(await tenant.admin.put(path, { service_type: 'cloud_run', max_instances: 4 }));
    const policy = { config_types: ['service_config'] };
    good(await tenant.admin.put(at('/config/change-policy'), policy));
  });
  afterAll(async () => {
    await strata.database.query(
      'UPDATE strata.revisions SET change_policy = NULL WHERE scope LIKE $1',
      [`%${tenant.id}`],
    );
  });

  test('it begins with an approval, of its end too, and ends without another', async () => {
    const until = far();
    const headers = { 'x-change-reason': 'Migration weekend' };
    const url = `${temporarily(path, until)}&propose=true`;
    const sent = { headers, body: { max_instances: 10 } };
    const { change_set: opened } = good(await tenant.operator.send('PATCH', url, sent)).body;
    const { digest, until: shown } = good(await tenant.admin.get(opened.path)).body;
    expect(shown).toBe(until);
    good(await tenant.admin.post(`${opened.path}/approve`, { digest }));
    expect(await value()).toBe(10);
    expect(await open(path)).toMatchObject([{ until, fields: [{ value: 10, becomes: 4 }] }]);
    await passTime(path);
    await eventually(async () => expect(await value()).toBe(4));
  });

  test('no one ends it early without an approval, and another end voids those there are', async () => {
    const sets = at('/config/changesets');
    const items = [{ action: 'patch', path, body: { max_instances: 2 } }];
    const body = { title: 'T', reason: 'R', items, apply: 'manual', until: far() };
    const opened = good(await tenant.operator.post(`${sets}?submit=true`, body)).body;
    const one = `${sets}/${opened.id}`;
    good(await tenant.admin.post(`${one}/approve`, { digest: opened.digest }));
    const edited = good(await tenant.operator.patch(one, { until: soon(600_000) })).body;
    expect([edited.state, edited.approved_by]).toEqual(['draft', []]);
    expect(edited.digest).not.toBe(opened.digest);
    const { digest } = good(await tenant.operator.post(`${one}/submit`)).body;
    good(await tenant.admin.post(`${one}/approve`, { digest }));
    good(await tenant.operator.post(`${one}/apply`));
    const answer = await tenant.operator.patch(path, { max_instances: 4 });
    expect([answer.status, answer.body.detail.code]).toEqual([403, 'change_approval_required']);
    expect(await open(path)).toMatchObject([{ fields: [{ value: 2, becomes: 4 }] }]);
  });

  test('an approved one whose end has come meanwhile is not applied', async () => {
    const sets = at('/config/changesets');
    const items = [{ action: 'patch', path, body: { max_instances: 3 } }];
    const until = soon(1500);
    const body = { title: 'T', reason: 'R', items, apply: 'manual', until };
    const { id, digest } = good(await tenant.operator.post(`${sets}?submit=true`, body)).body;
    good(await tenant.admin.post(`${sets}/${id}/approve`, { digest }));
    await eventually(() => Promise.resolve(expect(Date.now()).toBeGreaterThan(Date.parse(until))));
    const left = good(await tenant.operator.post(`${sets}/${id}/apply`)).body;
    expect([left.state, left.note]).toEqual(['suspended', '/until has passed']);
  });
});

test('what is safer than a temporary value, and not than what comes after it, takes an approval', async () => {
  const { id, admin } = await createTenant(strata.url, platform, 'Temporary and free');
  const path = `/tenants/${id}/config/risk`;
  const set = (limits: object) => ({ global_settings: limits });
  good(await admin.patch(path, set({ max_cost_impact_auto: 5 })));
  good(await admin.patch(temporarily(path, far()), set({ max_cost_impact_auto: 45 })));
  const free = { tightening: 'free' };
  good(await admin.put(`/tenants/${id}/config/change-policy`, free));
  const later = temporarily(path, soon(7_200_000));
  const kept = [
    await admin.patch(path, set({ max_cost_impact_auto: 40 })),
    await admin.patch(later, set({ max_cost_impact_auto: 40 })),
    await admin.patch(path, { service_overrides: { cloud_run: { max_cost_impact_auto: 40 } } }),
  ];
  const codes = kept.map(({ status, body }) => `${status} ${body.detail?.code}`);
  expect(codes).toEqual(kept.map(() => '403 change_approval_required'));
  // Other limits, and what is safer than both.
  good(await admin.patch(path, set({ max_resource_scaling: 2 })));
  good(await admin.patch(path, set({ max_cost_impact_auto: 4 })));
});

test('an end that a guardrail refuses is said, tried again, and holds up no other', async () => {
  const path = service('refused');
  good(await tenant.admin.put(path, { service_type: 'cloud_run', max_instances: 9 }));
  good(await tenant.admin.patch(temporarily(path, far()), { max_instances: 5 }));
  good(await tenant.admin.put(at('/config/bounds'), { max_instances: { maximum: 6 } }));
  const other = service('not-refused');
  good(await tenant.admin.put(other, { service_type: 'cloud_run', max_instances: 3 }));
  good(await tenant.admin.patch(temporarily(other, far()), { max_instances: 5 }));
  await passTime(path);
  await passTime(other);
  await eventually(async () => {
    const [change] = await open(path);
    expect(change.note).toMatch(/^\/max_instances is 9; the guardrail/);
    expect(await open(other)).toEqual([]);
  });
  expect(good(await tenant.admin.get(path)).body.max_instances).toBe(5);
  await audited(
    platform,
    'config.temporary_change.refused',
    ({ target, payload }) => target === path && String(payload.why).includes('max_instances'),
  );
  await eventually(async () => {
    const { text } = await platform.get('/metrics');
    const late = /^strata_temporary_changes_late_seconds (.+)$/m.exec(text)?.[1];
    // What the tenant's own rules refuse is for the tenant to see to.
    expect(Number(late)).toBe(0);
  });
  good(await tenant.admin.delete(at('/config/bounds')));
  await passTime(path);
  await eventually(async () =>
    expect(good(await tenant.admin.get(path)).body.max_instances).toBe(9),
  );
});

test('what a folder owns ends, and the folder is told that it was taken over', async () => {
  const path = service('folder');
  const headers = { 'x-managed-by': 'git/acme' };
  const body = { service_type: 'cloud_run', max_instances: 4 };
  good(await tenant.admin.send('PUT', path, { headers, body }));
  const taking = { 'x-take-over': 'git/acme' };
  const url = temporarily(path, far());
  good(await tenant.admin.send('PATCH', url, { headers: taking, body: { max_instances: 6 } }));
  await passTime(path);
  await eventually(async () =>
    expect(good(await tenant.admin.get(path)).body.max_instances).toBe(4),
  );
  const again = await tenant.admin.send('PUT', path, { headers, body });
  expect(again.status).toBe(200);
});

test('readers of configuration list them, and others do not', async () => {
  const list = at('/config/temporary-changes');
  expect((await tenant.operator.get(list)).status).toBe(200);
  expect((await platform.get(list)).status).toBe(403);
  good(
    await tenant.admin.patch(temporarily(risk(), far()), {
      global_settings: { max_cost_impact_auto: 3 },
    }),
  );
  const pages = [];
  let cursor = '';
  do {
    const page = good(await tenant.admin.get(`${list}?limit=1${cursor}`)).body;
    pages.push(...page.items);
    cursor = page.next_cursor === null ? '' : `&cursor=${encodeURIComponent(page.next_cursor)}`;
  } while (cursor !== '');
  const whole = good(await tenant.admin.get(list)).body.items;
  expect(whole.length).toBeGreaterThan(1);
  expect(pages).toEqual(whole);
  await requireProvedAudit(platform);
});
