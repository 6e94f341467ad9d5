/**
 * Decisions that are recorded, found again, explained and made again under a proposal. REPLAY_ROUNDS
 * says how many changes of the configuration a replay goes over, REPLAY_INTENTS how many decisions
 * follow each.
 */
import { afterAll, beforeEach, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { eventually } from '../../support/cluster.ts';
import { grown } from '../../support/grown.ts';
import { holdLock } from '../../support/held-lock.ts';
import {
  addMember,
  createTenantWith,
  type Answer,
  type Client,
  type TenantWith,
} from '../../support/strata.ts';
import { randomFrom } from '../../support/values-of-schema.ts';
import { database, platform, strata } from './strata.ts';

describe('decisions', () => {
  const rounds = Number(process.env.REPLAY_ROUNDS ?? 30);
  const intentsOfRound = Number(process.env.REPLAY_INTENTS ?? 4);

  let tenant: TenantWith<'operator'>;

  afterAll(() => platform.delete('/config/bounds'));
  beforeEach(async () => {
    tenant = await newTenant();
  });

  async function newTenant(): Promise<TenantWith<'operator'>> {
    const made = await createTenantWith(strata.url, platform, `Decisions ${randomUUID()}`, [
      'operator',
    ]);
    await made.admin.put(`/tenants/${made.id}/services/web`, { service_type: 'cloud_run' });
    await made.admin.put(`/tenants/${made.id}/config/agents/scaler`, {});
    await grown(database, made.id);
    return made;
  }

  type Counted = Record<'rule' | 'decision' | 'count', string | number>;
  type Changed = Record<'before' | 'after', { readonly decision: string }>;
  type Listed = { readonly decision_id: string };
  const url = (rest: string): string => `/tenants/${tenant.id}${rest}`;
  const plain = { action: 'scale', risk_level: 'low' };
  const decide = (body: object = {}): Promise<Answer> =>
    tenant.admin.post(url('/decide'), { ...plain, ...body });
  const list = async (query = ''): Promise<Listed[]> =>
    (await tenant.operator.get(url(`/decisions${query}`))).body.items;
  const setRisk = (limits: object): Promise<Answer> =>
    tenant.admin.patch(url('/config/risk'), { global_settings: limits });
  const idsOf = (items: readonly { decision_id: string }[]): string[] =>
    items.map(({ decision_id: id }) => id).toSorted();
  const unrecorded = async (): Promise<number> => {
    const { text } = await new (tenant.admin.constructor as typeof Client)(strata.url).get(
      '/metrics',
    );
    return Number(/^strata_decisions_unrecorded_total (\d+)/m.exec(text)?.[1]);
  };

  describe('recording', () => {
    test('with record it is committed before it is answered', async () => {
      const lock = await holdLock(database, 'LOCK TABLE notifier.decisions IN EXCLUSIVE MODE');
      let isAnswered = false;
      const asked = decide({ record: true, cost_impact: 20, service_id: 'web' }).then((answer) => {
        isAnswered = true;
        return answer;
      });
      await lock.untilWaiting(1);
      expect(isAnswered).toBe(false);
      await lock.release();
      const { body } = await asked;
      const [found, ...others] = await list();
      expect(others).toEqual([]);
      const { budgets: _budgets, ...answered } = body;
      expect(found).toMatchObject({
        ...answered,
        intent: { ...plain, cost_impact: 20, service_id: 'web' },
        is_rollback_proven: false,
      });
    });

    test('record_decisions says which are recorded of those that do not say so', async () => {
      await decide();
      await setRisk({ record_decisions: 'denied' });
      await decide();
      const denied = await decide({ cost_impact: 1000 });
      await setRisk({ record_decisions: 'all' });
      const all = [await decide(), await decide({ agent_type: 'scaler' })];
      const expected = idsOf([denied, ...all].map(({ body }) => body));
      await eventually(async () => expect(idsOf(await list())).toEqual(expected));
      expect(await unrecorded()).toBe(0);
      await setRisk({ record_decisions: 'none' });
      await decide();
      expect((await setRisk({ record_decisions: 'some' })).status).toBe(422);
    });

    test('more than a tenant may record is refused where it must be, and else counted', async () => {
      const before = await unrecorded();
      await database.query(
        `INSERT INTO strata.shares (what, holder, taken, until)
       VALUES ('decision', $1, 200000, now() + interval '1 hour')`,
        [`tenant ${tenant.id}`],
      );
      expect((await decide({ record: true })).status).toBe(429);
      await setRisk({ record_decisions: 'all' });
      expect((await decide()).status).toBe(200);
      await eventually(async () => expect(await unrecorded()).toBe(before + 1));
      expect(await list()).toEqual([]);
    });

    test('what cannot be recorded is counted, and decides all the same', async () => {
      const before = await unrecorded();
      await setRisk({ record_decisions: 'all' });
      await database.query('ALTER TABLE notifier.decisions RENAME TO decisions_away');
      expect((await decide()).status).toBe(200);
      expect((await decide({ record: true })).status).toBe(500);
      await eventually(async () => expect(await unrecorded()).toBe(before + 1));
      await database.query('ALTER TABLE notifier.decisions_away RENAME TO decisions');
      const { body } = await decide();
      await eventually(async () => expect(idsOf(await list())).toEqual([body.decision_id]));
    });
  });

  describe('reading', () => {
    test('filters, pages, counts, and names as OPA does', async () => {
      const cheap = (await decide({ record: true, service_id: 'web', cost_impact: 1 })).body;
      const dear = (await decide({ record: true, service_id: 'web', cost_impact: 20 })).body;
      const most = (await decide({ record: true, cost_impact: 1000 })).body;
      const found = async (query: string): Promise<string[]> => idsOf(await list(query));
      expect(await found('?rule=max_cost_impact_auto')).toEqual([dear.decision_id]);
      expect(await found('?rule=none')).toEqual([cheap.decision_id]);
      expect(await found('?decision=deny')).toEqual([most.decision_id]);
      expect(await found('?service_id=web')).toEqual(idsOf([cheap, dear]));
      expect(await found('?from=2999-01-01T00:00:00Z')).toEqual([]);
      expect(await found('?until=2999-01-01T00:00:00Z')).toHaveLength(3);
      const first = await tenant.operator.get(url('/decisions?limit=2'));
      const rest = await list(`?limit=2&cursor=${first.body.next_cursor}`);
      expect(idsOf([...first.body.items, ...rest])).toEqual(idsOf([cheap, dear, most]));

      const lines = await tenant.operator.get(url('/decisions?format=opa&rule=none'), {
        accept: 'application/x-ndjson',
      });
      expect(JSON.parse(lines.text)).toEqual({
        decision_id: cheap.decision_id,
        timestamp: expect.any(String),
        path: 'strata/decide',
        input: {
          ...plain,
          tenant_id: tenant.id,
          at: expect.any(String),
          service_id: 'web',
          cost_impact: 1,
        },
        result: { decision: 'allow', reasons: [] },
        bundles: {
          tenant: { revision: String(cheap.revision.tenant) },
          platform: { revision: String(cheap.revision.platform) },
        },
      });

      const { body } = await tenant.operator.get(url('/decisions/counts?by=hour'));
      const counts = body.items.map((each: Counted) => [each.rule, each.decision, each.count]);
      expect(counts.toSorted()).toEqual([
        ['max_cost_impact_approval', 'deny', 1],
        ['max_cost_impact_auto', 'approval_required', 1],
        ['none', 'allow', 1],
      ]);
      const earliest = await tenant.operator.get(
        url('/decisions/counts?until=0001-01-02T00:00:00Z'),
      );
      expect(earliest.body).toEqual({
        from: '0001-01-01T00:00:00.000Z',
        until: '0001-01-02T00:00:00.000Z',
        items: [],
      });
      const viewer = { email: `${randomUUID()}@viewer.example`, roles: ['viewer'] };
      const { client } = await addMember(tenant.admin, tenant.id, viewer);
      expect((await client.get(url('/decisions'))).status).toBe(403);
    });

    test('explains one by the limits as they were for it', async () => {
      await setRisk({ max_cost_impact_auto: 2 });
      const { body } = await decide({ record: true, cost_impact: 3 });
      await setRisk({ max_cost_impact_auto: 30 });
      const read = await tenant.operator.get(url(`/decisions/${body.decision_id}`));
      expect(read.body.explain.max_cost_impact_auto).toMatchObject({
        value: 2,
        layer: 'tenant_risk',
        updated_by_name: tenant.emails.tenant_admin,
      });
      expect(read.body.reasons).toEqual(body.reasons);
      expect((await tenant.operator.get(url(`/decisions/${randomUUID()}`))).status).toBe(404);
      const other = await newTenant();
      const elsewhere = `/tenants/${other.id}/decisions/${body.decision_id}`;
      expect((await other.operator.get(elsewhere)).status).toBe(404);
    });
  });

  const replay = (of: TenantWith<'operator'>, body: object): Promise<Answer> =>
    of.operator.post(`/tenants/${of.id}/decide/replay`, { from: '2020-01-01T00:00:00Z', ...body });

  /** Automations of the replay: those that need an approval wait. */
  const mostStarts = 40;

  /** To the end, with the items of all answers. */
  async function replayWhole(of: TenantWith<'operator'>, body: object): Promise<Answer['body']> {
    const items: unknown[] = [];
    let cursor: string | undefined;
    for (;;) {
      const found = await replay(of, { ...body, limit: 200, ...(cursor && { cursor }) });
      expect([found.status, found.text]).toEqual([200, found.text]);
      items.push(...found.body.items);
      if (found.body.complete) return { ...found.body, items };
      cursor = found.body.cursor;
    }
  }

  /** A proposal, as items of one write each. */
  const proposal = (of: TenantWith<'operator'>) => [
    {
      action: 'put',
      path: `/tenants/${of.id}/config/bounds`,
      body: { max_cost_impact_auto: { maximum: 4 }, max_resource_scaling: { maximum: 2.5 } },
    },
    {
      action: 'put',
      path: `/tenants/${of.id}/config/freezes`,
      body: {
        weekend: {
          during: [{ days: ['sat', 'sun'], start: '00:00', end: '00:00', timezone: 'UTC' }],
        },
      },
    },
    {
      action: 'put',
      path: `/tenants/${of.id}/config/budgets`,
      body: { all: { ...monthly, amount: '60' } },
    },
  ];
  // What automations start alone: others decide by a balance that may be a second old.
  const monthly = {
    amount: '150',
    currency: 'EUR',
    per: 'month',
    match: { actions: ['deploy'] },
  };

  describe('a replay', () => {
    test(
      'of a proposal is what applying it before would have decided, and nothing else differs',
      async () => {
        const random = randomFrom(34);
        const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)]!;
        const [one, other] = [tenant, await newTenant()];
        const both = [one, other];
        const all = (write: (of: TenantWith<'operator'>) => Promise<Answer>): Promise<Answer[]> =>
          Promise.all(both.map(write));
        const patch = (path: string, body: object) =>
          all((of) => of.admin.patch(`/tenants/${of.id}${path}`, body));
        await patch('/config/risk', {
          global_settings: { record_decisions: 'all', max_concurrent_automations: 1000 },
        });
        await one.admin.put(`/tenants/${one.id}/config/budgets`, {
          all: monthly,
        });
        for (const { path, body } of proposal(other)) await other.admin.put(path, body);
        const changes = [
          () =>
            patch('/config/risk', { global_settings: { max_cost_impact_auto: pick([1, 3, 4]) } }),
          () =>
            patch('/config/risk', {
              global_settings: { max_cost_impact_approval: pick([20, 50]) },
            }),
          () =>
            patch('/config/risk', {
              global_settings: { business_hours_only: pick([true, false]) },
            }),
          () =>
            patch('/config/risk', {
              service_overrides: { cloud_run: { max_resource_scaling: pick([1, 2]) } },
            }),
          () =>
            patch('/config/agents/scaler', {
              business_hours: {
                days: pick([
                  ['mon', 'tue', 'wed'],
                  ['sat', 'sun'],
                ]),
                start: '00:00',
                end: '00:00',
                timezone: 'UTC',
              },
            }),
          () => patch('/services/web', { automation_enabled: pick([true, true, false]) }),
          async () => [
            await platform.put('/config/bounds', {
              max_resource_scaling: { maximum: pick([2, 5]) },
            }),
          ],
        ];
        const expected: [string, string][] = [];
        for (let round = 0; round < rounds; round += 1) {
          for (const { status, text } of await pick(changes)()) {
            expect([status < 300, text]).toEqual([true, text]);
          }
          const intents = Array.from({ length: intentsOfRound }, () => ({
            ...plain,
            risk_level: pick(['low', 'high']),
            cost_impact: Math.round(random() * 240) / 10,
            ...(random() < 0.5 && { resource_scaling: 1 + Math.round(random() * 4) }),
            ...(random() < 0.5 && { service_id: 'web' }),
            ...(random() < 0.3 && { agent_type: 'scaler' }),
            ...(random() < 0.2 && { takes_back: { revision: 1 } }),
          }));
          for (const intent of intents) {
            const at = new Date(Date.now() + Math.floor(random() * 7) * 86_400_000).toISOString();
            const answers = await all((of) =>
              of.admin.post(`/tenants/${of.id}/decide`, { ...intent, at }),
            );
            expected.push(answers.map(({ body }) => body.decision) as [string, string]);
          }
          if (round >= mostStarts) continue;
          const made = await all((of) =>
            of.operator.post(`/tenants/${of.id}/automations`, { ...intents[0], action: 'deploy' }),
          );
          expected.push(made.map(({ body }) => body.decision) as [string, string]);
          await Promise.all(
            made.map(({ body }, index) => {
              const finish = `/tenants/${both[index]!.id}/automations/${body.id}/finish`;
              return body.state === 'running'
                ? both[index]!.operator.post(finish, { outcome: 'done', actual_cost: 7.5 })
                : undefined;
            }),
          );
        }
        const question = { proposed: { items: proposal(one) } };
        await eventually(async () =>
          expect((await replayWhole(one, question)).total).toBe(expected.length),
        );
        const body = await replayWhole(one, question);
        const changed: Record<string, number> = {};
        for (const [was, is] of expected.filter(([was, is]) => was !== is))
          changed[`${was}→${is}`] = (changed[`${was}→${is}`] ?? 0) + 1;
        expect(body).toMatchObject({
          total: expected.length,
          changed,
          unknown: {},
          baseline_differs: 0,
          complete: true,
          cursor: null,
        });
        const differing = expected.filter(([was, is]) => was !== is);
        expect(differing.length).toBeGreaterThan(10);
        const shown = body.items.map((each: Changed) => [
          each.before.decision,
          each.after.decision,
        ]);
        if (body.items_left_out === 0) expect(shown.toSorted()).toEqual(differing.toSorted());
        // The configuration as it is changes nothing of what was decided by it last.
        const now = await replayWhole(one, { proposed: { as_of: new Date().toISOString() } });
        expect(now).toMatchObject({ total: expected.length, baseline_differs: 0 });
      },
      60_000 + rounds * intentsOfRound * 50,
    );

    test('of a change set is that of its items, and one of other tenants is refused', async () => {
      await decide({ record: true, cost_impact: 8 });
      const item = {
        action: 'patch',
        path: url('/config/risk'),
        body: { global_settings: { max_cost_impact_auto: 5 } },
      };
      const set = await tenant.admin.post(url('/config/changesets'), {
        title: 'Less',
        reason: 'Less by itself',
        items: [item],
      });
      const expected = { total: 1, changed: { 'allow→approval_required': 1 }, baseline_differs: 0 };
      for (const proposed of [{ items: [item] }, { changeset_id: set.body.id }])
        expect((await replay(tenant, { proposed })).body).toMatchObject(expected);
      const other = await newTenant();
      for (const proposed of [{ items: [item] }, { changeset_id: set.body.id }])
        expect((await replay(other, { proposed })).status).toBeGreaterThanOrEqual(400);
    });

    test('of writes is for keys that read the configuration, which a refusal tells of', async () => {
      const keyWith = async (scopes: readonly string[]): Promise<Client> => {
        const made = await tenant.admin.post('/auth/api-key', { name: 'replay', scopes });
        return new (tenant.admin.constructor as typeof Client)(strata.url, made.body.api_key);
      };
      const replayBy = async (scopes: readonly string[], proposed: object): Promise<Answer> =>
        (await keyWith(scopes)).post(url('/decide/replay'), {
          from: '2020-01-01T00:00:00Z',
          proposed,
        });
      const items = [
        { action: 'put', path: url('/services/web'), body: { service_type: 'other' } },
      ];
      const blind = await replayBy(['automations:read'], { items });
      expect([blind.status, blind.body.detail.code]).toEqual([403, 'insufficient_scope']);
      expect(blind.text).not.toContain('cloud_run');
      const seeing = await replayBy(['automations:read', 'config:read'], { items });
      expect(seeing.body.errors[0].message).toBe('is fixed once created: cloud_run');
      const as_of = new Date().toISOString();
      expect((await replayBy(['automations:read'], { as_of })).status).toBe(200);
    });

    test('of a document of the platform holds also where a rollout had a candidate of it', async () => {
      const path = '/config/global/business_hours';
      const put = (config_value: object) => [
        { action: 'put', path, body: { config_value, is_public: true } },
      ];
      const workdays = ['mon', 'tue', 'wed', 'thu', 'fri'];
      // As the environment says, so that what other tenants have decided stays.
      const usual = put({ days: workdays, start: '09:00', end: '17:00', timezone: 'UTC' });
      const always = put({
        days: [...workdays, 'sat', 'sun'],
        start: '00:00',
        end: '00:00',
        timezone: 'UTC',
      });
      const planned = async (items: readonly object[]) => {
        const { status, body, text } = await platform.post('/config/plan', { items });
        expect([status, text]).toEqual([200, text]);
        return body;
      };
      const saturday = '2026-01-10T12:00:00Z';
      try {
        await setRisk({ business_hours_only: true });
        const mondays = { days: ['mon'], start: '00:00', end: '00:00', timezone: 'UTC' };
        await platform.put(path, put(mondays)[0]!.body);
        const manual = { bake_minutes: 0, gate: [{ type: 'manual' }] };
        const { body: rollout } = await platform.post('/config/rollouts', {
          title: 'Each day',
          reason: 'Also on Saturdays',
          items: always,
          digest: (await planned(always)).digest,
          stages: [
            { tenants: [tenant.id], ...manual },
            { percent: 100, ...manual },
          ],
        });
        const rolloutPath = `/config/rollouts/${rollout.id}`;
        await platform.post(`${rolloutPath}/advance`, { stage: null });
        const { body } = await decide({ record: true, at: saturday });
        expect(body.decision).toBe('allow');
        await platform.post(`${rolloutPath}/revert`, { reason: 'Nobody is there' });
        // An impact has a second, which a busy machine may need for the decisions of other tests.
        await database.query('DELETE FROM notifier.decisions WHERE tenant_id <> $1', [tenant.id]);
        await database.query(
          `UPDATE notifier.automations SET created_at = created_at - interval '31 days'
           WHERE tenant_id <> $1`,
          [tenant.id],
        );
        await eventually(async () => {
          const { changed, complete } = (await planned(usual)).impact.decisions;
          expect({ changed, complete }).toEqual({ changed: { 'allow→deny': 1 }, complete: true });
        });
      } finally {
        await platform.delete(path);
      }
    });

    test('looks at each decision, however many there are', async () => {
      const { body } = await decide({ record: true, cost_impact: 8 });
      await database.query(
        `INSERT INTO notifier.decisions
       SELECT gen_random_uuid(), tenant_id, decided_at + n * interval '1 millisecond', at, intent, decided,
         decision, rule, service_id, tenant_revision, platform_revision, is_rollback_proven, stale
       FROM notifier.decisions, generate_series(1, 2400) AS n WHERE decision_id = $1`,
        [body.decision_id],
      );
      const until = '2999-01-01T00:00:00Z';
      const proposed = { as_of: new Date().toISOString() };
      expect((await replay(tenant, { until, proposed })).body).toMatchObject({
        total: 2401,
        same: 2401,
        complete: true,
      });
    });

    test('says where in the request a proposal is wrong', async () => {
      const risk = `/tenants/${tenant.id}/config/risk`;
      const items = [
        { action: 'put', path: risk, body: { global_settings: { max_cost_impact_auto: 'much' } } },
      ];
      const { status, body } = await replay(tenant, { proposed: { items } });
      const path = '/proposed/items/0/body/global_settings/max_cost_impact_auto';
      expect([status, body.errors]).toEqual([422, [expect.objectContaining({ path })]]);
      expect(body.detail.message).toBe(`Some fields are not valid: ${path}.`);
    });

    test('counts what it cannot decide again', async () => {
      await decide({ record: true });
      await database.query(
        `INSERT INTO notifier.decisions
       SELECT gen_random_uuid(), tenant_id, decided_at, at, intent, decided,
         decision, rule, service_id, 0, platform_revision, is_rollback_proven, stale
       FROM notifier.decisions WHERE tenant_id = $1`,
        [tenant.id],
      );
      await database.query(
        `INSERT INTO notifier.decisions
       SELECT gen_random_uuid(), tenant_id, decided_at, at, intent, decided,
         'deny', rule, service_id, tenant_revision, platform_revision, is_rollback_proven, stale
       FROM notifier.decisions WHERE tenant_id = $1 AND tenant_revision > 0`,
        [tenant.id],
      );
      const { body } = await replay(tenant, { proposed: { as_of: new Date().toISOString() } });
      expect(body).toMatchObject({ total: 2, unknown: { before_history: 1 }, baseline_differs: 1 });
    });
  });
});
