/** Budgets from the first charge to the last: what is spent, held, given back, and refused. */
import { beforeEach, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { eventually } from '../../support/cluster.ts';
import { grown } from '../../support/grown.ts';
import { holdLock } from '../../support/held-lock.ts';
import { startReceiver } from '../../support/receiver.ts';
import { createTenantWith, Client, type Answer, type TenantWith } from '../../support/strata.ts';
import { database, platform, startAgain, strata } from './strata.ts';

describe('budgets', () => {
  let tenant: TenantWith<'operator'>;

  /** What is spent is counted in a tenant, so each test has its own. */
  beforeEach(async () => {
    tenant = await createTenantWith(strata.url, platform, `Budgets ${randomUUID()}`, ['operator']);
    await tenant.admin.patch(`/tenants/${tenant.id}/config/risk`, {
      global_settings: {
        max_concurrent_automations: 1000,
        max_cost_impact_auto: 1e6,
        max_cost_impact_approval: 1e6,
      },
    });
    await grown(database, tenant.id);
  });

  const path = (rest = ''): string => `/tenants/${tenant.id}/automations${rest}`;
  const monthly = { amount: '100.00', currency: 'EUR', per: 'month' };
  const setBudgets = async (budgets: object, by: Client = tenant.admin): Promise<void> => {
    const url = by === platform ? '/config/budgets' : `/tenants/${tenant.id}/config/budgets`;
    const { status, text } = await by.put(url, budgets);
    expect([status, text]).toEqual([expect.any(Number), text]);
    expect(status).toBeLessThan(300);
  };
  const post = (body: object): Promise<Answer> =>
    tenant.admin.post(path(), { action: 'scale', risk_level: 'low', ...body });
  async function start(cost: number | undefined, body: object = {}) {
    const answer = await post({ ...(cost !== undefined && { cost_impact: cost }), ...body });
    expect([answer.status, answer.text]).toEqual([201, expect.any(String)]);
    return answer.body;
  }
  const finish = (id: string, cost?: number) =>
    tenant.admin.post(path(`/${id}/finish`), {
      outcome: 'done',
      ...(cost !== undefined && { actual_cost: cost }),
    });
  const get = async (id: string) => (await tenant.admin.get(path(`/${id}`))).body;
  async function usage(query = '') {
    const answer = await tenant.operator.get(`/tenants/${tenant.id}/budgets/usage${query}`);
    expect(answer.status).toBe(200);
    return answer.body.items as Record<string, string>[];
  }
  /** Of the first budget: spent, held, remaining. */
  async function balance(query = ''): Promise<string[]> {
    const [first] = await usage(query);
    return [first!.spent!, first!.held!, first!.remaining!];
  }
  const letTimePass = (id: string) =>
    database.query(
      `UPDATE notifier.automations SET expires_at = now() - interval '1 second' WHERE id = $1`,
      [id],
    );

  describe('a budget of costs', () => {
    test('holds what runs may cost, gives back what it did not, and counts what it did beyond', async () => {
      await setBudgets({ all: monthly });
      const first = await start(60.1);
      expect(first.state).toBe('running');
      expect(await balance()).toEqual(['0', '60.1', '39.9']);
      const second = await start(39.91);
      expect(second).toMatchObject({ state: 'denied', decision: 'deny' });
      expect(second.reasons[0]).toMatchObject({
        rule: 'budget_exceeded',
        name: 'all',
        asked: '39.91',
        limit: '100.00',
        spent: '0',
        held: '60.1',
        layer: 'budgets',
        source: `budgets_${tenant.id}`,
        resets_at: expect.stringMatching(/-01T00:00:00\.000Z$/),
      });
      expect((await start(39.9)).state).toBe('running');
      const ended = await finish(first.id, 10.05);
      expect([ended.status, ended.body.actual_cost]).toEqual([200, 10.05]);
      expect(await balance()).toEqual(['10.05', '39.9', '50.05']);
      const third = await start(50.05);
      expect(third.state).toBe('running');
      await finish(third.id, 70);
      expect(await balance()).toEqual(['80.05', '39.9', '-19.95']);
      expect((await start(0)).state).toBe('denied');
    });

    test('counts what something cost that was to cost nothing', async () => {
      await setBudgets({ all: monthly });
      const free = await start(0);
      await finish(free.id, 70.25);
      expect(await balance()).toEqual(['70.25', '0', '29.75']);
      expect((await start(30)).state).toBe('denied');
      // Of one that only warns also what said no cost.
      await setBudgets({ all: { ...monthly, mode: 'warn' } });
      await finish((await start(undefined)).id, 1);
      expect(await balance()).toEqual(['71.25', '0', '28.75']);
    });

    test('is not given back by silence: an end without a cost, and an expiry', async () => {
      await setBudgets({ all: monthly });
      const first = await start(30);
      await finish(first.id);
      const second = await start(40, { ttl_seconds: 60 });
      await letTimePass(second.id);
      await eventually(async () => expect((await get(second.id)).state).toBe('expired'));
      expect(await balance()).toEqual(['70', '0', '30']);
      expect((await finish(second.id, 1)).status).toBe(409);
      expect(await balance()).toEqual(['70', '0', '30']);
    });

    test('is settled once: a repeated end changes nothing, and one of another cost is refused', async () => {
      await setBudgets({ all: monthly });
      const { id } = await start(30);
      await finish(id, 5);
      expect((await finish(id, 5)).status).toBe(200);
      expect((await finish(id, 6)).status).toBe(409);
      expect(await balance()).toEqual(['5', '0', '95']);
    });

    test('wants a cost: a missing figure is not free', async () => {
      await setBudgets({ all: monthly });
      const { status, body } = await post({});
      expect([status, body.detail.code, body.errors[0].path]).toEqual([
        422,
        'cost_impact_required',
        '/cost_impact',
      ]);
      await setBudgets({ all: { ...monthly, match: { actions: ['deploy'] } } });
      expect((await start(undefined)).state).toBe('running');
    });

    test('charges an idempotency key once', async () => {
      await setBudgets({ all: monthly });
      const key = { idempotency_key: 'once' };
      const answers = await Promise.all(Array.from({ length: 8 }, () => start(30, key)));
      expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
      expect(await balance()).toEqual(['0', '30', '70']);
    });

    test('keeps what was spent when its amount, its period or its zone changes', async () => {
      await setBudgets({ all: monthly });
      await start(60);
      await setBudgets({ all: { ...monthly, amount: '80', per: 'day', timezone: 'Asia/Kolkata' } });
      expect(await balance()).toEqual(['0', '60', '20']);
    });

    test('a hold belongs to the period in which it was made', async () => {
      await setBudgets({ all: { ...monthly, per: 'day' } });
      const { id } = await start(60);
      await database.query(
        `UPDATE notifier.ledger SET bucket = bucket - interval '1 day' WHERE tenant_id = $1`,
        [tenant.id],
      );
      await database.query(
        `UPDATE notifier.automations SET holds = (
         SELECT json_agg(json_build_object('budget', h->>'budget', 'amount', h->>'amount',
           'bucket', (h->>'bucket')::timestamptz - interval '1 day'))
         FROM json_array_elements(holds) h) WHERE id = $1`,
        [id],
      );
      expect(await balance()).toEqual(['0', '0', '100']);
      await finish(id, 10);
      expect(await balance()).toEqual(['0', '0', '100']);
      const yesterday = new Date(Date.now() - 86_400_000).toISOString();
      expect(await balance(`?at=${yesterday}`)).toEqual(['10', '0', '90']);
    });

    test('is shown by day, by the clocks of its zone, with what started on it', async () => {
      await setBudgets({ all: { ...monthly, timezone: 'Pacific/Kiritimati' } });
      const { id } = await start(30);
      const other = await start(0);
      const days = (query: string) =>
        tenant.operator.get(`/tenants/${tenant.id}/budgets/days?by=tenant&${query}`);
      const spending = async () => {
        const { body } = await days('name=all&days=2');
        return body.items as { from: string; until: string; spent: string; held: string }[];
      };
      const [, today] = await spending();
      // Its clocks are 14 hours before UTC.
      expect([new Date(today!.from).getUTCHours(), today!.spent, today!.held]).toEqual([
        10,
        '0',
        '30',
      ]);
      const moveTo = (bucket: string) =>
        database.query(
          `UPDATE notifier.ledger SET bucket = $2::timestamptz - interval '5 minutes' * $3
         WHERE tenant_id = $1`,
          [tenant.id, today!.from, bucket],
        );
      await moveTo('0');
      expect((await spending()).map(({ held }) => held)).toEqual(['0', '30']);
      await moveTo('1');
      expect((await spending()).map(({ held }) => held)).toEqual(['30', '0']);
      expect((await days('name=other')).status).toBe(404);
      const list = async (query: string) => {
        const answer = await tenant.operator.get(path(`?${query}`));
        expect([answer.status, answer.text]).toEqual([200, expect.any(String)]);
        return answer.body.items.map((each: { id: string }) => each.id);
      };
      expect(await list(`started_from=${today!.from}&started_until=${today!.until}`)).toEqual([
        other.id,
        id,
      ]);
      expect(await list(`started_until=${today!.from}`)).toEqual([]);
      expect(await list(`started_from=${today!.until}`)).toEqual([]);
      // Its approval escalated 20 times, a week apart.
      await database.query(
        `UPDATE notifier.automations SET created_at = created_at - interval '147 days' WHERE id = $1`,
        [id],
      );
      expect(await list(`started_from=${today!.from}`)).toEqual([other.id, id]);
    });

    test('of the platform holds in each tenant by itself, and a tenant does not loosen it', async () => {
      await setBudgets({ most: { ...monthly, amount: '50' } }, platform);
      try {
        await setBudgets({ most: { ...monthly, amount: '1000' } });
        expect((await start(50)).state).toBe('running');
        expect((await start(1)).reasons[0]).toMatchObject({
          name: 'most',
          source: 'budgets_platform',
        });
        expect((await usage()).map(({ by, held }) => [by, held])).toEqual([
          ['platform', '50'],
          ['tenant', '50'],
        ]);
        tenant = await createTenantWith(strata.url, platform, `Budgets ${randomUUID()}`, [
          'operator',
        ]);
        expect((await start(10)).state).toBe('running');
      } finally {
        await platform.delete('/config/budgets');
      }
    });

    test('that only warns refuses nothing and says so, and people are warned once a period', async () => {
      await setBudgets({ all: { ...monthly, mode: 'warn', warn_at: 0.8 } });
      const inBounds = await start(79);
      expect(inBounds.warnings).toBeUndefined();
      const over = await start(79);
      expect([over.state, over.warnings[0].path]).toEqual(['running', '/cost_impact']);
      await start(1);
      await eventually(async () => {
        const events = await tenant.admin.get(
          `/audit/events?action=budget.warned&tenant_id=${tenant.id}`,
        );
        expect(events.body.items.map((each: { target: string }) => each.target)).toEqual(['all']);
      });
      await tenant.admin.patch(`/tenants/${tenant.id}/config/risk`, {
        global_settings: { max_concurrent_automations: 3 },
      });
      // What has no slot is told of the budget as well.
      const refused = await start(1);
      expect([refused.reasons[0].rule, refused.warnings?.[0].path]).toEqual([
        'too_many_automations',
        '/cost_impact',
      ]);
    });
  });

  describe('a decision', () => {
    const decide = (body: object) =>
      tenant.operator.post(`/tenants/${tenant.id}/decide`, {
        action: 'scale',
        risk_level: 'low',
        ...body,
      });

    test('shows what budgets have left, and charges nothing', async () => {
      await setBudgets({
        all: { ...monthly, per: 'day' },
        other: { ...monthly, match: { actions: ['x'] } },
      });
      await start(60);
      const allowed = await decide({ cost_impact: 40 });
      expect([allowed.body.decision, allowed.body.budgets]).toEqual([
        'allow',
        [
          {
            by: 'tenant',
            name: 'all',
            spent: '0',
            held: '60',
            remaining: '40',
            resets_at: expect.any(String),
            as_of: expect.any(String),
          },
        ],
      ]);
      expect(await balance()).toEqual(['0', '60', '40']);
      const denied = await decide({ cost_impact: 41 });
      expect([denied.body.decision, denied.body.reasons[0].rule]).toEqual([
        'deny',
        'budget_exceeded',
      ]);
      const tomorrow = new Date(Date.now() + 86_400_000).toISOString();
      expect((await decide({ cost_impact: 41, at: tomorrow })).body.decision).toBe('allow');
      const missing = await decide({});
      expect([missing.status, missing.body.detail.code]).toEqual([422, 'cost_impact_required']);
    });
  });

  describe('a budget of actions', () => {
    test('counts each start, and a rollback only where it says so', async () => {
      const rate = { amount: '2', counts: 'actions', per: 'hour', window: 'rolling' };
      await setBudgets({ rate: { ...rate, rollbacks: 'free' } });
      const first = await start(undefined);
      await finish(first.id);
      await start(undefined);
      const refused = await start(undefined);
      expect(refused.reasons[0]).toMatchObject({ rule: 'rate_exceeded', spent: '2', asked: '1' });
      const back = await start(undefined, { takes_back: { automation_id: first.id } });
      expect(back.state).toBe('running');
      expect((await start(undefined, { is_rollback: true })).state).toBe('denied');
    });
  });

  describe('an approval', () => {
    const decideOn = (id: string) =>
      tenant.operator.post(`/tenants/${tenant.id}/approvals/${id}/decision`, {
        decision: 'approve',
      });
    const risky = { risk_level: 'high' };

    test('is asked for by a budget that says so, and then lets it be exceeded', async () => {
      await setBudgets({ all: { ...monthly, over: 'approval_required' } });
      await start(90);
      const asked = await start(20);
      expect([asked.state, asked.decision, asked.reasons[0].rule]).toEqual([
        'waiting_approval',
        'approval_required',
        'budget_exceeded',
      ]);
      expect(await balance()).toEqual(['0', '90', '10']);
      const shown = await tenant.operator.get(
        `/tenants/${tenant.id}/approvals/${asked.approval_id}`,
      );
      expect(shown.body.resource.exceeds).toEqual([
        {
          budget: 'all',
          limit: '100.00',
          spent: '0',
          held: '90',
          asked: '20',
          resets_at: expect.any(String),
        },
      ]);
      expect([shown.body.cost_currency, shown.body.asked_because]).toEqual([
        'EUR',
        ['It costs 20 EUR; of budget all, 100.00 EUR, 0 EUR are spent and 90 EUR are held.'],
      ]);
      await decideOn(asked.approval_id);
      await eventually(async () => expect((await get(asked.id)).state).toBe('running'));
      expect(await balance()).toEqual(['0', '110', '-10']);
      await finish(asked.id, 15);
      expect(await balance()).toEqual(['15', '90', '-5']);
    });

    test('lets no budget be exceeded that was filled while people were asked', async () => {
      await setBudgets({ all: { ...monthly, over: 'approval_required' } });
      const first = await start(60, risky);
      const second = await start(60, risky);
      for (const { approval_id: id } of [first, second]) await decideOn(id);
      await eventually(async () => {
        const states = [(await get(first.id)).state, (await get(second.id)).state];
        expect(states.toSorted()).toEqual(['denied', 'running']);
      });
      expect(await balance()).toEqual(['0', '60', '40']);
      // Told of it, people may.
      const third = await start(60, risky);
      expect(third.reasons.map(({ rule }: { rule: string }) => rule)).toContain('budget_exceeded');
      await decideOn(third.approval_id);
      await eventually(async () => expect((await get(third.id)).state).toBe('running'));
    });

    test('lets no budget be exceeded in a period after the one that people were told of', async () => {
      await setBudgets({ all: { ...monthly, over: 'approval_required' } });
      await start(90);
      const asked = await start(20);
      // As if that had been yesterday, and what runs had filled the period of today.
      await database.query(
        `UPDATE notifier.automations
         SET decided = jsonb_set(decided::jsonb, '{reasons,0,resets_at}', to_jsonb(now() - interval '1 hour'))
         WHERE id = $1`,
        [asked.id],
      );
      await decideOn(asked.approval_id);
      await eventually(async () => expect((await get(asked.id)).state).toBe('denied'));
      expect(await balance()).toEqual(['0', '90', '10']);
    });

    test('says each budget that it lets be exceeded, also one that was filled while it was made', async () => {
      const match = { actions: ['scale'] };
      const asks = { over: 'approval_required' };
      await setBudgets({
        costs: { ...monthly, ...asks, amount: '1', match },
        rate: { amount: '1', counts: 'actions', per: 'month', ...asks },
      });
      // What is to be asked is found out between two looks at the budgets.
      const members = await holdLock(
        database,
        'LOCK TABLE tenant_config.members IN ACCESS EXCLUSIVE MODE',
      );
      const asking = start(2);
      await members.untilWaiting(1);
      await start(1, { action: 'other' });
      await members.release();
      const { approval_id: id, reasons } = await asking;
      const { body } = await tenant.admin.get(`/tenants/${tenant.id}/approvals/${id}`);
      const said = body.resource.exceeds.map(({ budget }: { budget: string }) => budget);
      expect(said).toEqual(['costs', 'rate']);
      expect(reasons.map(({ name }: { name: string }) => name)).toEqual(said);
    });

    test('holds nothing while it waits, is refused at once when over, and is judged again when granted', async () => {
      await setBudgets({ all: monthly });
      const waiting = await start(60, risky);
      expect(waiting.state).toBe('waiting_approval');
      expect(await balance()).toEqual(['0', '0', '100']);
      const other = await start(60);
      expect(other.state).toBe('running');
      expect((await start(60, risky)).state).toBe('denied');
      await decideOn(waiting.approval_id);
      await eventually(async () => expect((await get(waiting.id)).state).toBe('denied'));
      expect((await get(waiting.id)).reasons[0].rule).toBe('budget_exceeded');
      expect(await balance()).toEqual(['0', '60', '40']);
    });

    test('says by which balances it is refused once granted, and not by those of when it was asked for', async () => {
      const soft = { ...monthly, amount: '50', over: 'approval_required' };
      await setBudgets({ all: monthly, soft });
      const asked = await start(60);
      expect(asked.state).toBe('waiting_approval');
      await start(45);
      await decideOn(asked.approval_id);
      await eventually(async () => expect((await get(asked.id)).state).toBe('denied'));
      const { reasons } = await get(asked.id);
      expect(reasons.map(({ name, held }: { name: string; held: string }) => [name, held])).toEqual(
        [
          ['all', '45'],
          ['soft', '45'],
        ],
      );
    });
  });

  test('what limits deny stays denied for their reason, whatever budgets say', async () => {
    await setBudgets({ all: { ...monthly, amount: '1', over: 'approval_required' } });
    const refused = await start(2, { resource_scaling: 1000 });
    expect([refused.state, refused.decision]).toEqual(['denied', 'deny']);
    expect(refused.reasons.map(({ rule }: { rule: string }) => rule)).toEqual([
      'max_resource_scaling',
      'budget_exceeded',
    ]);
  });

  test('starts that meet at the lock are judged one after the other', async () => {
    await setBudgets({ all: monthly });
    await finish((await start(0)).id);
    const lock = await holdLock(
      database,
      'SELECT tenant_id FROM notifier.automation_tenants WHERE tenant_id = $1 FOR UPDATE',
      [tenant.id],
    );
    const asked = Promise.all(Array.from({ length: 8 }, () => start(30)));
    await lock.untilWaiting(8);
    await lock.release();
    const states = (await asked).map(({ state }) => state).sort();
    expect(states).toEqual([...Array(5).fill('denied'), ...Array(3).fill('running')]);
    expect(await balance()).toEqual(['0', '90', '10']);
  });

  test('what a plan of the platform, and a dry run of a tenant, would mean for what runs and waits', async () => {
    const { id, admin } = tenant;
    await admin.put(`/tenants/${id}/projects/shop/config`, { environment: 'production' });
    const web = { service_type: 'cloud_run', project_id: 'shop' };
    await admin.put(`/tenants/${id}/services/web`, web);
    await setBudgets({ all: monthly }, platform);
    await start(30, { service_id: 'web' });
    await tenant.admin.patch(`/tenants/${id}/config/risk`, {
      global_settings: { max_cost_impact_auto: 10 },
    });
    const asked = await start(40);
    expect(asked.state).toBe('waiting_approval');

    const match = { environments: ['production'] };
    const day = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'];
    const always = {
      during: [{ days: day, start: '00:00', end: '00:00', timezone: 'UTC' }],
      match,
    };
    const plan = (amount: string) =>
      platform.post('/config/plan', {
        items: [
          { action: 'patch', path: '/config/budgets', body: { all: { amount: '999' } } },
          { action: 'patch', path: '/config/budgets', body: { all: { amount } } },
          { action: 'put', path: '/config/freezes', body: { stop: always } },
        ],
      });
    const own = (items: { tenant_id: string }[]) => items.filter((item) => item.tenant_id === id);
    const frozen = { limit: 'freeze', name: 'stop', effect: 'frozen', running: 1, waiting: 0 };
    const lowered = await plan('30');
    expect(lowered.body.over_time).toMatchObject({ complete: true, at: expect.any(String) });
    expect(own(lowered.body.over_time.items)).toMatchObject([
      {
        limit: 'budget',
        name: 'all',
        effect: 'exhausted',
        spent: '0',
        held: '30',
        remaining: '0',
        waiting: 1,
        tenant_name: expect.stringContaining('Budgets'),
      },
      { ...frozen, until: null },
    ]);
    expect(lowered.body.over_time.tenants).toMatchObject({ exhausted: 1, frozen: 1, refuses: 0 });
    expect(own((await plan('69')).body.over_time.items)[0]).toMatchObject({
      effect: 'refuses',
      remaining: '39',
      waiting: 1,
    });
    expect(own((await plan('70')).body.over_time.items)).toMatchObject([frozen]);

    const trial = `/tenants/${id}/config/budgets?dry_run=true&impact=true`;
    const tried = await admin.put(trial, { own: { ...monthly, amount: '20' } });
    expect(tried.body).toMatchObject({
      dry_run: true,
      over_time: {
        tenants: { exhausted: 0, refuses: 1 },
        items: [{ tenant_id: id, name: 'own', effect: 'refuses', spent: '0', waiting: 1 }],
      },
    });
    const freezes = `/tenants/${id}/config/freezes?dry_run=true&impact=true`;
    const { body } = await admin.put(freezes, {
      stop: { ...always, match: { actions: ['none'] } },
    });
    expect(body.over_time.items).toEqual([]);
    const key = await admin.post('/auth/api-key', { name: 'k', scopes: ['config:write'] });
    const refused = await new Client(strata.url, key.body.api_key).put(freezes, {});
    expect([refused.status, refused.body.detail.code]).toEqual([403, 'insufficient_scope']);
    await platform.delete('/config/budgets');
  });

  describe('a warning', () => {
    test('is not used up by what is refused', async () => {
      await setBudgets({ all: { ...monthly, warn_at: 0.8 } });
      const warned = async () => {
        const [row] = await database.query<{ count: number }>(
          'SELECT count(*)::int AS count FROM notifier.budget_warnings WHERE tenant_id = $1',
          [tenant.id],
        );
        return row!.count;
      };
      expect((await start(1000)).state).toBe('denied');
      expect((await start(90, { risk_level: 'high' })).state).toBe('waiting_approval');
      expect(await warned()).toBe(0);
      const { id } = await start(79);
      expect(await warned()).toBe(0);
      // What it cost in the end is said with the next that is judged.
      await finish(id, 85);
      expect((await start(1000)).state).toBe('denied');
      const rows = await database.query<{ notice: { spent: string; asked: string } }>(
        'SELECT notice FROM notifier.budget_warnings WHERE tenant_id = $1',
        [tenant.id],
      );
      expect(rows).toMatchObject([{ notice: { spent: '85', asked: '0' } }]);
      // As it is while thousands are told of it.
      const telling = await holdLock(database, 'SELECT FROM notifier.budget_warnings FOR UPDATE');
      await start(1);
      await telling.release();
    });

    test('is that of shorter periods, once the budget has them', async () => {
      const warning = { ...monthly, warn_at: 0.8 };
      await setBudgets({ all: { ...warning, window: 'rolling' } });
      await start(80);
      await setBudgets({ all: { ...warning, per: 'hour' } });
      await start(1);
      const rows = await database.query<{ until: Date }>(
        'SELECT until FROM notifier.budget_warnings WHERE tenant_id = $1',
        [tenant.id],
      );
      expect(rows[0]!.until.getTime() - Date.now()).toBeLessThan(3_600_000);
    });

    test('is told once in a period, also where the node that judged it was killed before it was told', async () => {
      const receiver = await startReceiver();
      try {
        const { id } = tenant;
        const webhook = { url: `${receiver.url}/h` };
        const saved = await tenant.admin.put(`/tenants/${id}/config/notifications`, { webhook });
        expect([saved.status, saved.text]).toEqual([200, expect.any(String)]);
        await setBudgets({ all: { ...monthly, warn_at: 0.8 } });
        const queue = await holdLock(database, 'LOCK TABLE notifier.deliveries IN EXCLUSIVE MODE');
        await start(79);
        await start(2);
        await start(3);
        await strata.stop('SIGKILL');
        await queue.release();
        expect(receiver.received).toEqual([]);

        await startAgain();
        const [notified] = await receiver.wait(() => true);
        expect(notified!.body).toMatchObject({
          type: 'budget.warned',
          data: {
            tenant_id: id,
            by: 'tenant',
            name: 'all',
            amount: '100.00',
            currency: 'EUR',
            warn_at: 0.8,
            spent: '0',
            held: '79',
            asked: '2',
          },
        });
        await eventually(async () => {
          const deliveries = await database.query<object>(
            'SELECT type, approval_id, state FROM notifier.deliveries WHERE tenant_id = $1',
            [id],
          );
          expect(deliveries).toEqual([
            { type: 'budget.warned', approval_id: null, state: 'delivered' },
          ]);
        });
        // Its next period may warn again, and nobody has warned in this one.
        const rows = await database.query<{ notice: unknown }>(
          'SELECT notice FROM notifier.budget_warnings WHERE tenant_id = $1',
          [id],
        );
        expect(rows).toEqual([{ notice: null }]);
      } finally {
        await receiver.close();
      }
    });
  });
});
