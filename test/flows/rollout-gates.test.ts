/** Rollouts that continue by themselves: real gates that answer, or do not, and what becomes of it. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createHmac } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { eventually } from '../support/cluster.ts';
import {
  begun,
  cluster,
  everybody,
  first,
  gateAt,
  good,
  letMinutePass,
  lookSoon,
  other,
  planned,
  platform,
  rollout,
  says,
  secret,
  startGated,
  stopGated,
  until,
  valueOf,
  webhook,
  type Started,
} from '../support/gated-rollouts.ts';
import { inSoak, soakTest } from '../support/soak.ts';
import { addMember, Client } from '../support/strata.ts';

/** Prometheus, as far as a gate asks it. */
let figure = '1';
const prometheus = (_n: number, response: ServerResponse): void => {
  const result = figure === '' ? [] : [{ metric: {}, value: [0, figure] }];
  response
    .writeHead(200, { 'content-type': 'application/json' })
    .end(JSON.stringify({ status: 'success', data: { resultType: 'vector', result } }));
};

let prometheusServer: Awaited<ReturnType<typeof startPrometheus>>;
async function startPrometheus() {
  const { createServer } = await import('node:http');
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      asked.push(`${request.url} ${Buffer.concat(chunks).toString()}`);
      prometheus(0, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  return { url: `http://127.0.0.1:${port}/prom`, asked, server };
}

beforeAll(async () => {
  prometheusServer = await startPrometheus();
  await startGated(
    {
      PROMETHEUS_URL: prometheusServer.url,
      PLATFORM_ADMIN_EMAILS: 'admin@example.com,rita@example.com',
    },
    { once: true },
  );
});
afterAll(async () => {
  await stopGated();
  prometheusServer?.server.close();
});

test('goes through its stages while gates pass, and is asked for by a signed request', async () => {
  const gate = await gateAt(says('wait', 'pass'));
  const last = { ...everybody, gate: [] };
  const { id, key } = await begun([first(webhook(gate)), last]);
  const done = await until(id, ({ state }) => state === 'completed');
  expect(await valueOf(other, key)).toBe(2);
  expect(done.answers.map(({ result }: { result: string }) => result)).toEqual(['pass', 'wait']);
  expect(done.answers[0].detail).toBe('asked 2 times');
  expect(JSON.stringify(done)).not.toContain(secret);
  expect(done.stages[0].gate[0].secret).toBe('********');

  const [asked] = gate.received;
  expect(asked!.body).toEqual({
    type: 'rollout.gate',
    rollout: expect.objectContaining({ id, stage: 0, stages: 2 }),
  });
  const {
    'webhook-id': name,
    'webhook-timestamp': at,
    'webhook-signature': signed,
  } = asked!.headers;
  const hmac = createHmac('sha256', secret).update(`${String(name)}.${String(at)}.${asked!.text}`);
  expect(signed).toBe(`v1,${hmac.digest('base64')}`);
  // In the history, at each stage once.
  const history = await cluster.database.query<{ state: string; stage: number | null }>(
    `SELECT after->>'state' AS state, (after->>'stage')::int AS stage
     FROM global_config.configuration_history WHERE resource_id = $1 ORDER BY revision`,
    [id],
  );
  expect(history.map(({ state, stage }) => [state, stage])).toEqual([
    ['planned', null],
    ['running', 0],
    ['running', 1],
    ['completed', 1],
  ]);
  const shown = good(await platform.get(`/config/history?resource_id=${id}`));
  expect(shown.text).not.toContain(secret);
  const rows = await cluster.database.query<{ document: unknown }>(
    'SELECT document FROM global_config.rollouts WHERE id = $1',
    [id],
  );
  expect(JSON.stringify(rows)).not.toContain(secret);
});

describe('does not continue', () => {
  /** What a whole answer means, test/rules/rollout-gates.test.ts says. */
  const answers: Readonly<Record<string, (n: number, response: ServerResponse) => void>> = {
    'hanging up': (_n, response) => response.destroy(),
    elsewhere: (_n, response) =>
      response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end('{"result":"pass"}'),
    // They are waited for as long as a gate may take.
    ...(inSoak && {
      'half an answer': (_n, response) => {
        response.writeHead(200, { 'content-length': '100' }).write('{"result":"pass"}');
      },
      late: (_n, response) => {
        setTimeout(() => response.writeHead(200).end('{"result":"pass"}'), 12_000).unref();
      },
    }),
  };
  test('where the gate answers with none', async () => {
    const more = { on_fail: 'revert', max_hold_minutes: 1 };
    const rollouts: (readonly [string, Started])[] = [];
    for (const [name, answer] of Object.entries(answers)) {
      const gate = await gateAt(answer);
      rollouts.push([name, await planned([first(webhook(gate)), everybody], more)]);
    }
    // Close together, so that those that answer nothing are waited for in one look.
    for (const [, { id }] of rollouts)
      good(await platform.post(`/config/rollouts/${id}/advance`, { stage: null }));
    for (const [name, { id, key }] of rollouts) {
      const asked = await until(id, (found) => found.answers.length > 0);
      expect([name, asked.state, asked.stage]).toEqual([name, 'running', 0]);
      expect([name, asked.answers[0].result]).toEqual([name, 'wait']);
      expect(await valueOf(cluster.tenant, key)).toBe(2);
      expect(await valueOf(other, key)).toBe(1);
      // Somebody may, and says why.
      const advance = await platform.post(`/config/rollouts/${id}/advance`, { stage: 0 });
      expect([advance.status, advance.body.detail.message]).toEqual([
        409,
        expect.stringContaining('gate 1 (webhook)'),
      ]);
    }
    for (const [, { id }] of rollouts) await letMinutePass(id);
    for (const [name, { id, key }] of rollouts) {
      const ended = await until(id, ({ state }) => state !== 'running');
      expect([name, ended.state, ended.stage]).toEqual([name, 'reverted', 0]);
      expect(ended.note).toMatch(/^Waited for more than 1 minutes: gate 1 \(webhook\)/);
      expect(Date.parse(ended.updated_at)).toBeGreaterThanOrEqual(
        Date.parse(ended.stage_at) + 60_000,
      );
      expect(await valueOf(cluster.tenant, key)).toBe(1);
    }
  });

  test('where it fails once, though it would pass then', async () => {
    const gate = await gateAt(says('fail', 'pass'));
    const { id, key } = await begun([{ ...first(webhook(gate)), bake_minutes: 60 }, everybody]);
    const held = await until(id, ({ state }) => state !== 'running');
    expect([held.state, held.stage]).toEqual(['held', 0]);
    expect(held.note).toMatch(/^Failed: gate 1 \(webhook\) of stage 1\. asked 1 times/);
    await lookSoon(id);
    // One that begins later and has been looked at twice: so would this one have been.
    const { id: later } = await begun([first(), { ...everybody, gate: [] }]);
    await until(later, ({ state }) => state === 'completed');
    expect(await rollout(id)).toMatchObject({ state: 'held', revision: held.revision });
    expect(gate.received).toHaveLength(1);
    expect(await valueOf(other, key)).toBe(1);
    good(await platform.post(`/config/rollouts/${id}/revert`, { reason: 'It burned' }));
  });

  test('while a freeze of the platform holds, until somebody resumes it', async () => {
    const days = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'];
    const quiet = { during: [{ days, start: '00:00', end: '00:00', timezone: 'UTC' }] };
    good(await platform.put('/config/freezes', { quiet }));
    const { id, key } = await begun([first(), everybody]);
    try {
      const held = await until(id, ({ state }) => state !== 'running');
      expect([held.state, held.stage]).toEqual(['held', 0]);
      expect(held.note).toBe('It may not advance: The freeze quiet holds.');
      expect(await valueOf(other, key)).toBe(1);
    } finally {
      good(await platform.delete('/config/freezes'));
    }
    good(await platform.post(`/config/rollouts/${id}/resume`, { reason: 'It is over' }));
    await until(id, ({ stage }) => stage === 1);
    good(await platform.post(`/config/rollouts/${id}/revert`, { reason: 'Enough' }));
  });

  test('where whoever let it go forward has no right any more', async () => {
    const member = { email: 'rita@example.com', roles: ['viewer'] };
    const { client: rita } = await addMember(cluster.tenant.admin, cluster.tenant.id, member);
    let result = 'wait';
    const gate = await gateAt((_n, response) => says(result)(0, response));
    const { id, key } = await begun([first(webhook(gate)), everybody], {}, rita);
    const { body: me } = good(await rita.get('/auth/me'));
    good(await platform.patch(`/auth/users/${me.user?.id ?? me.id}`, { status: 'disabled' }));
    result = 'pass';
    const held = await until(id, ({ state }) => state !== 'running');
    expect([held.state, held.stage]).toEqual(['held', 0]);
    expect(held.note).toMatch(/may no longer write/);
    expect(await valueOf(other, key)).toBe(1);
    // Whoever resumes it answers for it from then on.
    good(await platform.post(`/config/rollouts/${id}/resume`, { reason: 'I take it over' }));
    await until(id, ({ stage }) => stage === 1);
    good(await platform.post(`/config/rollouts/${id}/revert`, { reason: 'Enough' }));
  });
});

test('is begun by a key of an administrator, and by no service account', async () => {
  const keyOf = async (by: Client, path: string, scopes: readonly string[]): Promise<Client> => {
    const { body } = good(await by.post(path, { name: 'ci', scopes }));
    return new Client(platform.url, body.api_key);
  };
  const { admin, id: tenantId } = cluster.tenant;
  const accounts = `/tenants/${tenantId}/service-accounts`;
  const account = good(await admin.post(accounts, { name: 'ci', roles: ['tenant_admin'] })).body;
  const machine = await keyOf(admin, `${accounts}/${account.id}/api-keys`, ['config:write']);
  const reader = await keyOf(platform, '/auth/api-key', ['platform:read']);
  const writer = await keyOf(platform, '/auth/api-key', ['platform:read', 'platform:write']);
  const stages = [first(), { ...everybody, gate: [] }];
  for (const [by, code] of [
    [machine, 'insufficient_role'],
    [reader, 'insufficient_scope'],
  ] as const) {
    const { answer } = await planned(stages, {}, by);
    expect([answer.status, answer.body.detail.code]).toEqual([403, code]);
  }
  // The runner continues in the name of the person whose key it is, as long as that is good.
  const { id } = await begun(stages, {}, writer);
  const ended = await until(id, ({ state }) => state !== 'running');
  expect([ended.state, ended.note]).toEqual(['completed', null]);
  const leaked = good(
    await platform.post('/auth/api-key', { name: 'leaked', scopes: ['platform:write'] }),
  ).body;
  let result = 'wait';
  const gate = await gateAt((_n, response) => says(result)(0, response));
  const gated = [first(webhook(gate)), { ...everybody, gate: [] }];
  const late = await begun(gated, {}, new Client(platform.url, leaked.api_key));
  good(await platform.delete(`/auth/api-keys/${leaked.id}`));
  result = 'pass';
  const held = await until(late.id, ({ state }) => state !== 'running');
  expect([held.state, held.stage]).toEqual(['held', 0]);
  expect(held.note).toMatch(/may no longer write/);
  expect(await valueOf(other, late.key)).toBe(1);
  good(await platform.post(`/config/rollouts/${late.id}/revert`, { reason: 'Enough' }));
});

test('compares the tenants that have it with the others', async () => {
  const of = (tolerance_percent: number) => ({
    type: 'figures',
    figure: 'failed',
    tolerance_percent,
    min_sample: 3,
  });
  const strict = await begun([first(of(10)), everybody], { on_fail: 'revert' });
  const lenient = await begun([first(of(100)), everybody]);
  const run = async (tenant: { id: string; admin: Client }, outcome: string): Promise<void> => {
    const path = `/tenants/${tenant.id}/automations`;
    const body = { action: 'scale', risk_level: 'low', ttl_seconds: 600 };
    const started = good(await tenant.admin.post(path, body)).body;
    good(await tenant.admin.post(`${path}/${started.id}/finish`, { outcome }));
  };
  const waiting = await until(strict.id, ({ answers }) => answers.length > 0);
  expect(waiting.answers[0]).toMatchObject({
    result: 'wait',
    detail: expect.stringMatching(/fewer than 3/),
  });
  for (const outcome of ['failed', 'succeeded', 'failed']) await run(cluster.tenant, outcome);
  expect((await rollout(strict.id)).state).toBe('running');
  for (const outcome of ['succeeded', 'succeeded', 'succeeded']) await run(other, outcome);
  const ended = await until(strict.id, ({ state }) => state !== 'running');
  expect([ended.state, ended.note]).toEqual([
    'reverted',
    expect.stringContaining('2 of 3 failed, beside 0 of 3'),
  ]);
  await until(lenient.id, ({ stage }) => stage === 1);
  good(await platform.post(`/config/rollouts/${lenient.id}/revert`, { reason: 'Enough' }));
});

soakTest(
  'compares the writes that are refused to them',
  async () => {
    const gate = { type: 'figures', figure: 'refused', tolerance_percent: 10, min_sample: 3 };
    const { id } = await begun([first(gate), everybody], { on_fail: 'revert' });
    const write = async (tenant: { id: string; admin: Client }, rules: object): Promise<number> =>
      (await tenant.admin.put(`/tenants/${tenant.id}/config/bounds`, { gated: rules })).status;
    let written = 0;
    const ended = await eventually(async () => {
      written += 1;
      expect(await write(cluster.tenant, { minimum: 5, maximum: 3 })).toBe(422);
      expect(await write(other, { minimum: written })).toBeLessThan(202);
      await lookSoon(id);
      const now = await rollout(id);
      expect(now.state).not.toBe('running');
      return now;
    }, 120_000);
    expect([ended.state, ended.note]).toEqual([
      'reverted',
      expect.stringMatching(/(\d+) of \1 refused, beside 0 of \d+/),
    ]);
  },
  180_000,
);

test('asks Prometheus, of which no data are no answer', async () => {
  figure = '';
  const gate = { type: 'prometheus', query: 'sum(errors)', at_most: 2 };
  const { id } = await begun([first(gate), everybody]);
  const waiting = await until(id, ({ answers }) => answers.length > 0);
  expect([waiting.state, waiting.answers[0].result]).toEqual(['running', 'wait']);
  figure = '1.5';
  const passed = await until(id, ({ stage }) => stage === 1);
  const answer = passed.answers.find(({ result }: { result: string }) => result === 'pass');
  expect(answer).toMatchObject({ stage: 0, gate: 0, detail: '1.5' });
  expect(prometheusServer.asked[0]).toMatch(/^\/prom\/api\/v1\/query query=sum%28errors%29&/);
  good(await platform.post(`/config/rollouts/${id}/revert`, { reason: 'Enough' }));
});

test('is superseded where others wrote its documents before it began', async () => {
  const { id, key } = await planned([everybody]);
  good(await platform.put(`/config/global/${key}`, { config_value: 7, is_public: true }));
  const ended = await until(id, ({ state }) => state !== 'planned');
  expect([ended.state, ended.note]).toEqual(['superseded', expect.stringContaining(key)]);
  expect((await platform.post(`/config/rollouts/${id}/advance`, { stage: null })).status).toBe(409);
  expect(await valueOf(other, key)).toBe(7);
});

test.each([
  ['an address of the inside', { type: 'webhook', url: 'http://10.0.0.1/', secret }],
  [
    'a mask instead of a secret',
    { type: 'webhook', url: 'http://127.0.0.1:1/', secret: '********' },
  ],
  ['a query without a limit', { type: 'prometheus', query: 'up' }],
  [
    'figures without others',
    { type: 'figures', figure: 'failed', tolerance_percent: 1, min_sample: 1 },
  ],
])('%s is refused', async (_name, gate) => {
  const { answer } = await planned([{ ...everybody, gate: [gate] }]);
  expect([answer.status, answer.body.errors?.[0]?.path]).toEqual([
    422,
    expect.stringMatching(/^(\/body)?\/stages\/0\/gate\/0|^\/0\/gate/),
  ]);
});
