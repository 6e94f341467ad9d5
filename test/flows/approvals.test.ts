/** Approvals from the request to the decision, with real receivers. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { readdirSync, readFileSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { openBrowser } from '../support/browser.ts';
import { eventually } from '../support/cluster.ts';
import { watch, type StreamEvent } from '../support/event-stream.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import {
  addMember,
  adminPassword,
  createTenant,
  signIn,
  startStrata,
  type Answer,
  type Client,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

const secret = `whsec_${Buffer.from('a secret of the tenant, 32 bytes').toString('base64')}`;
const ask = {
  action: 'scale_min_instances',
  risk_level: 'high',
  title: 'Scale checkout to 6',
} as const;
let database: Database;
let strata: Running;
let platform: Client;
let tenant: TenantFixture;
let receiver: Receiver;
const dataDir = mkdtempSync(join(tmpdir(), 'strata-approvals-'));

beforeAll(async () => {
  database = await strataDatabase();
  receiver = await startReceiver();
  strata = await startStrata({
    DATABASE_URL: database.url,
    DATA_DIR: dataDir,
    WEBHOOK_ALLOW_HTTP: 'true',
    WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
    APPROVALS_MAX_PENDING: '10',
  });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Approvals');
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await receiver?.close();
  await database?.drop();
});

const configure = async (config: unknown): Promise<void> => {
  const saved = await tenant.admin.put(`/tenants/${tenant.id}/config/notifications`, config);
  expect([saved.status, saved.body]).toEqual([
    expect.any(Number),
    expect.objectContaining({ approver_groups: expect.anything() }),
  ]);
};
const groups = {
  risk_levels: { high: ['sre', 'leads', 'sre'], low: ['sre'] },
  action_overrides: { drop_database: ['dba'] },
};
const path = (rest = ''): string => `/tenants/${tenant.id}/approvals${rest}`;
const request = async (body: object = ask) => {
  const answer = await tenant.operator.post(path(), body);
  expect([answer.status, answer.text]).toEqual([202, expect.any(String)]);
  return answer.body;
};
const of =
  (id: string) =>
  ({ body }: { body: { data: { approval_id?: string } } }): boolean =>
    body.data.approval_id === id;
async function until<T>(read: () => Promise<T>, fits: (value: T) => boolean): Promise<T> {
  for (;;) {
    const value = await read();
    if (fits(value)) return value;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

test('a request arrives signed, a decision tells who was told, and the log shows every attempt', async () => {
  await configure({
    webhook: { url: receiver.url, secret },
    approver_groups: groups,
    email: { default_recipients: ['oncall@example.com'] },
  });
  const made = await request({
    ...ask,
    resource: 'run/checkout',
    cost_impact: 12.5,
    metadata: { ticket: 'OPS-1' },
  });
  expect(made).toMatchObject({
    state: 'pending',
    hop: 0,
    max_hops: 2,
    chain: ['sre', 'leads'],
    current_group: 'sre',
    decision: null,
    cost_impact: 12.5,
  });

  const [asked] = await receiver.wait(of(made.id));
  expect(asked!.body).toMatchObject({
    type: 'approval.requested',
    data: {
      title: ask.title,
      chain: ['sre', 'leads'],
      hop: 0,
      max_hops: 2,
      current_group: 'sre',
      metadata: { ticket: 'OPS-1' },
    },
  });
  expect(asked!.headers['webhook-id']).toBe(asked!.body.id);
  new Webhook(secret).verify(asked!.text, asked!.headers as Record<string, string>);
  expect(asked!.headers['x-service-signature']).toMatch(/^t=\d+,v1=[0-9a-f]{64}$/);

  await until(
    () =>
      tenant.admin.get(
        `/tenants/${tenant.id}/notifications/deliveries?approval_id=${made.id}&state=delivered`,
      ),
    ({ body }) => body.items.length === 2,
  );
  const decided = await tenant.admin.post(path(`/${made.id}/decision`), {
    decision: 'approve',
    comment: 'go',
  });
  expect(decided.body).toMatchObject({
    state: 'approved',
    decision: { decision: 'approve', comment: 'go', via: 'api' },
  });
  const [received] = await receiver.wait(
    (one) => of(made.id)(one) && one.body.type === 'approval.decided',
  );
  expect(received!.body.data).toMatchObject({
    state: 'approved',
    decision: { decision: 'approve', comment: 'go' },
  });

  expect(
    (await tenant.admin.post(path(`/${made.id}/decision`), { decision: 'deny' })).body.detail.code,
  ).toBe('conflict');
  const list = await tenant.admin.get(
    `/tenants/${tenant.id}/notifications/deliveries?approval_id=${made.id}&channel=webhook`,
  );
  expect(list.body.items.map((item: { type: string }) => item.type)).toEqual([
    'approval.decided',
    'approval.requested',
  ]);
  const detail = await tenant.admin.get(
    `/tenants/${tenant.id}/notifications/deliveries/${list.body.items[1].id}`,
  );
  expect(detail.body).toMatchObject({
    state: 'delivered',
    attempts: 1,
    webhook_id: asked!.body.id,
    log: [{ status: 204, error: null }],
  });
  expect(detail.text).not.toContain('canary-in-url');
});

/** From the mail to this address, to this process. */
async function approveLinkTo(address: string): Promise<string> {
  // One that is still written has a dot before its name.
  const mails = () =>
    readdirSync(join(dataDir, 'mail'))
      .filter((file) => !file.startsWith('.'))
      .map((file) => readFileSync(join(dataDir, 'mail', file)));
  const mail = await until(
    async () => mails().find((eml) => eml.includes(address) && eml.includes('Approve: ')),
    (found) => found !== undefined,
  );
  const { text } = await PostalMime.parse(mail!);
  const [, link] = /Approve: (\S+)/.exec(text!)!;
  return strata.url + link!.slice(link!.indexOf('/approvals/'));
}

test('a webhook is part of the trace of whoever asked', async () => {
  await configure({ webhook: { url: receiver.url }, approver_groups: groups });
  const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
  const asks = (headers: Record<string, string>) => tenant.operator.post(path(), ask, headers);
  const traced = await asks({ traceparent: `00-${traceId}-00f067aa0ba902b7-01` });
  const [first] = await receiver.wait(of(traced.body.id));
  expect(first!.headers.traceparent).toMatch(
    new RegExp(`^00-${traceId}-(?!0{16})[0-9a-f]{16}-01$`),
  );
  const alone = await asks({});
  const [second] = await receiver.wait(of(alone.body.id));
  expect(second!.headers.traceparent).toBeUndefined();
});

test('the same idempotency_key gives the same approval, another request with it is refused', async () => {
  const body = { ...ask, idempotency_key: 'run-1' };
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => tenant.admin.post(path(), body)),
  );
  expect(new Set(answers.map(({ body: { id } }) => id)).size).toBe(1);
  expect((await tenant.admin.post(path(), { ...body, title: 'Another' })).status).toBe(409);
});

test('what is asked is bounded: the size of one, and how many of a tenant are pending', async () => {
  const asked = { action: 'scale', risk_level: 'low', title: 'Bounded' };
  const large = { text: 'ä'.repeat(17_000) };
  const refused = await tenant.admin.post(path(''), { ...asked, metadata: large, resource: large });
  expect([refused.status, refused.body.errors.map((each: { path: string }) => each.path)]).toEqual([
    422,
    ['/resource', '/metadata'],
  ]);

  const other = await createTenant(strata.url, platform, 'Many pending');
  const ask = (key: string) =>
    other.operator.post(`/tenants/${other.id}/approvals`, { ...asked, idempotency_key: key });
  for (let n = 1; n <= 10; n += 1) expect((await ask(String(n))).status).toBe(202);
  const tooMany = await ask('11');
  expect([tooMany.status, tooMany.body.detail.code, tooMany.headers.get('retry-after')]).toEqual([
    429,
    'rate_limited',
    '60',
  ]);
  const repeated = await ask('1');
  expect(repeated.status).toBe(202);
  await other.admin.post(`/tenants/${other.id}/approvals/${repeated.body.id}/decision`, {
    decision: 'deny',
  });
  expect((await ask('11')).status).toBe(202);
});

describe('by the limits that hold for what an approval is about', () => {
  let limited: TenantFixture;
  const post = (fields: object) =>
    limited.operator.post(`/tenants/${limited.id}/approvals`, { ...ask, ...fields });
  const config = (name: string) => `/tenants/${limited.id}/config/${name}`;
  const refusal = ({ status, body }: Answer) => [status, body.errors];
  const above = (cost: number, limit: number) => [
    422,
    [
      {
        path: '/cost_impact',
        message: expect.stringContaining(
          `is ${cost}, above max_cost_impact_approval, which is ${limit}`,
        ),
      },
    ],
  ];
  beforeAll(async () => {
    limited = await createTenant(strata.url, platform, 'Limited');
    const { admin, id } = limited;
    await admin.put(`/tenants/${id}/services/web`, { service_type: 'cloud_run' });
    await admin.put(config('agents/scaler'), {});
    await admin.patch(config('risk'), {
      service_overrides: { cloud_run: { max_cost_impact_approval: 20 } },
    });
  });

  test('a cost above the limit is refused when asked, with rule and limit', async () => {
    expect((await post({ cost_impact: 50 })).status).toBe(202);
    expect(refusal(await post({ cost_impact: 50.5 }))).toEqual(above(50.5, 50));
    const web = { service_id: 'web', agent_type: 'scaler' };
    expect(refusal(await post({ ...web, cost_impact: 21 }))).toEqual(above(21, 20));
    expect((await post({ ...web, cost_impact: 20 })).body).toMatchObject(web);

    await limited.admin.put(config('bounds'), { max_cost_impact_approval: { maximum: 10 } });
    expect(refusal(await post({ cost_impact: 11 }))).toEqual(above(11, 10));
    expect((await post({ cost_impact: 10 })).status).toBe(202);
    await limited.admin.delete(config('bounds'));
    expect((await post({ cost_impact: 11 })).status).toBe(202);
  });

  test('a name that names nothing is refused', async () => {
    for (const context of [
      { service_id: 'chekout' },
      { agent_type: 'scalr' },
      { service_type: 'cloud_walk' },
    ]) {
      const { status, body } = await post(context);
      expect([status, body.detail.code]).toEqual([404, 'not_found']);
    }
  });

  test('it waits as long as the effective time-out says, with bounds', async () => {
    await limited.admin.put(config('bounds'), { approval_timeout_minutes: { const: 600 } });
    const { body } = await post({});
    expect(Date.parse(body.expires_at) - Date.parse(body.created_at)).toBe(600 * 60_000);
    await limited.admin.delete(config('bounds'));
  });
});

test('of 16 decisions at once one counts', async () => {
  const { id } = await request();
  const answers = await Promise.all(
    Array.from({ length: 16 }, (_, n) =>
      tenant.admin.post(path(`/${id}/decision`), { decision: n % 2 ? 'approve' : 'deny' }),
    ),
  );
  expect(answers.map(({ status }) => status).filter((status) => status === 200)).toHaveLength(1);
});

test('what was sealed under a key that is gone is still decided, withdrawn or expires', async () => {
  await configure({ approver_groups: groups, webhook: { url: receiver.url } });
  const started = await tenant.operator.post(`/tenants/${tenant.id}/automations`, ask);
  const { approval_id: withdrawn, id: automation } = started.body;
  const [decided, expired] = [await request(), await request()];
  const ids = [withdrawn, decided.id, expired.id];
  for (const id of ids) await receiver.wait(of(id));
  await database.query(
    `UPDATE notifier.approvals SET frozen = regexp_replace(frozen, '[^.]+$', 'AAAA') WHERE id = ANY($1)`,
    [ids],
  );
  const denied = await tenant.admin.post(path(`/${decided.id}/decision`), { decision: 'deny' });
  const finished = await tenant.operator.post(
    `/tenants/${tenant.id}/automations/${automation}/finish`,
    { outcome: 'cancelled' },
  );
  await database.query(
    `UPDATE notifier.approvals SET escalates_at = now(), expires_at = now() WHERE id = $1`,
    [expired.id],
  );
  expect([denied.status, finished.status]).toEqual([200, 200]);
  await eventually(async () => {
    const answers = await Promise.all(ids.map((id) => tenant.admin.get(path(`/${id}`))));
    const states = answers.map(({ body }) => body.state);
    expect(states).toEqual(['withdrawn', 'denied', 'expired']);
  });
});

test('a link in a mail shows first and decides once', async () => {
  await configure({
    approver_groups: groups,
    email: { approval_recipients: ['boss@example.com'] },
  });
  const { id } = await request();
  const url = await approveLinkTo('boss@example.com');
  for (const accept of ['text/html', 'application/json']) {
    expect((await fetch(url, { headers: { accept } })).status).toBe(200);
    expect((await tenant.admin.get(path(`/${id}`))).body.state).toBe('pending');
  }
  const page = await (await fetch(url, { headers: { accept: 'text/html' } })).text();
  expect(page).toContain('<form method="post">');
  const decided = await fetch(url, {
    method: 'POST',
    headers: { accept: 'text/html', 'content-type': 'application/x-www-form-urlencoded' },
  });
  expect([decided.status, await decided.text()]).toEqual([
    200,
    expect.stringContaining('It is approved.'),
  ]);
  expect((await tenant.admin.get(path(`/${id}`))).body).toMatchObject({
    state: 'approved',
    decision: { via: 'link', by: 'boss@example.com' },
  });
  const twice = await fetch(url, { method: 'POST', headers: { accept: 'text/html' } });
  expect([twice.status, await twice.text()]).toEqual([
    409,
    expect.stringMatching(/It was approved by boss@example\.com\.[^]*<a href="">Look at it again/),
  ]);
  expect((await fetch(url.slice(0, -1) + (url.endsWith('A') ? 'B' : 'A'))).status).toBe(404);
});

test('the page of a link shows what is asked by whom, in every width and light, under its policy', async () => {
  await configure({
    approver_groups: groups,
    email: { approval_recipients: ['page@example.com'] },
    approval_policy: { required: { high: 2 } },
  });
  const reader = { email: 'page@example.com', roles: ['tenant_admin'] };
  await addMember(tenant.admin, tenant.id, reader);
  const { id } = await request({
    ...ask,
    title: 'Scale <b>checkout</b> & "more"',
    description: '</p><script>document.title = "run"</script>\nLoad has doubled.',
    resource: { cluster: '<img src=x onerror=alert(1)>', name: 'n'.repeat(300) },
    cost_impact: 12.5,
    service_type: 'cloud_run',
  });
  const first = await tenant.admin.post(path(`/${id}/decision`), { decision: 'approve' });
  expect(first.body.state).toBe('pending');
  const url = await approveLinkTo('page@example.com');
  const browser = await openBrowser();
  try {
    const page = await browser.newPage();
    const complaints: string[] = [];
    page.on('console', (message) => complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(error.message));
    const backgrounds = new Set<string>();
    for (const colorScheme of ['light', 'dark'] as const) {
      for (const width of [320, 1440]) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 800 });
        const answer = await page.goto(url);
        expect(answer!.headers()['content-security-policy']).toMatch(
          /^default-src 'none'; style-src 'sha256-[\w+/]{43}='; form-action 'self';/,
        );
        const said = await page.innerText('main');
        for (const each of [
          'Approvals',
          'Scale <b>checkout</b> & "more"',
          '"cluster": "<img src=x onerror=alert(1)>"',
          '12.5',
          'cloud_run',
          tenant.emails.operator!,
          `1 of 2\n${tenant.emails.tenant_admin}`,
          '</p><script>document.title = "run"</script>',
        ])
          expect(said).toContain(each);
        expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(
          true,
        );
        backgrounds.add(await page.evaluate('getComputedStyle(document.body).backgroundColor'));
      }
    }
    expect(backgrounds.size).toBe(2);
    await page.click('button');
    expect(await page.innerText('main')).toContain('It is approved.');
    // The browser looks for an icon by itself.
    expect(complaints.filter((text) => !text.includes('404'))).toEqual([]);
  } finally {
    await browser.close();
  }
});

describe('whoever waits for it', () => {
  beforeAll(() => configure({ approver_groups: groups }));
  const ack = (id: string) => tenant.admin.post(path(`/${id}/ack`));
  const approve = (id: string) =>
    tenant.admin.post(path(`/${id}/decision`), { decision: 'approve' });

  test('is answered when it changes, and continues from what it knows', async () => {
    const made = await request();
    const waited = tenant.operator.get(path(`/${made.id}?wait=30`));
    await new Promise((resolve) => setTimeout(resolve, 300));
    await ack(made.id);
    const { body: acknowledged } = await waited;
    expect(acknowledged.acknowledged).not.toBeNull();
    expect(acknowledged.revision).toBeGreaterThan(made.revision);
    const behind = await tenant.operator.get(path(`/${made.id}?wait=30&revision=${made.revision}`));
    expect(behind.body).toEqual(acknowledged);

    const known = path(`/${made.id}?revision=${acknowledged.revision}`);
    const began = Date.now();
    const same = await tenant.operator.get(`${known}&wait=1`);
    expect(same.body).toEqual(acknowledged);
    expect(Date.now() - began).toBeGreaterThan(900);
    const decided = tenant.operator.get(`${known}&wait=30`);
    await approve(made.id);
    expect((await decided).body.state).toBe('approved');
    expect((await tenant.operator.get(path(`/${made.id}?wait=30`))).body.state).toBe('approved');
    expect((await tenant.operator.get(path(`/${made.id}?wait=61`))).status).toBe(422);
  });

  test('is told by the stream, and continues after what it has', async () => {
    const stream = await watch(tenant.operator, path('/watch'));
    const ready = await stream.until(({ event }) => event === 'ready');
    const { id } = await request();
    const isOf = (state: string) => (each: StreamEvent) =>
      each.event === 'approval.changed' &&
      each.data.approval_id === id &&
      each.data.state === state;
    const asked = await stream.until(isOf('pending'));
    expect(asked.id).toBe(asked.data.revision);
    await approve(id);
    const decided = await stream.until(isOf('approved'));
    expect(decided.id).toBeGreaterThan(asked.id!);
    stream.leave();

    // Of what it has missed it is told the latest. What a stream that is still there was told is
    // kept for it, one by one.
    await eventually(async () =>
      expect((await platform.get('/metrics')).text).toMatch(/^strata_watch_streams 0$/m),
    );
    const again = await watch(tenant.admin, path('/watch'), ready.id);
    await again.until(isOf('approved'));
    expect(again.events.filter(({ data }) => data.approval_id === id)).toHaveLength(1);
    again.leave();
    const ahead = await watch(tenant.admin, path('/watch'), decided.id! + 1000);
    await ahead.until(({ event }) => event === 'reset');
    ahead.leave();
    expect((await watch(tenant.viewer, path('/watch'))).status).toBe(403);
  });

  test('hears nothing any more once it has lost the right', async () => {
    const { client, user_id: userId } = await addMember(tenant.admin, tenant.id, {
      email: 'leaves@approvals.example',
      roles: ['operator'],
    });
    const stream = await watch(client, path('/watch'));
    await stream.until(({ event }) => event === 'ready');
    await tenant.admin.patch(`/tenants/${tenant.id}/users/${userId}`, { roles: ['viewer'] });
    const closed = await stream.until(({ event }) => event === 'closed');
    expect(closed.data).toMatchObject({ code: 'insufficient_role' });
    await stream.ended;
  });
});

test('a test notice says what happened', async () => {
  const broken = await startReceiver((_n, response) => {
    response.writeHead(500).end('no');
  });
  await configure({
    webhook: { endpoints: [{ url: receiver.url, secret }, { url: broken.url }] },
    approver_groups: groups,
  });
  const { body } = await tenant.admin.post(`/tenants/${tenant.id}/notifications/test`, {
    channel: 'webhook',
  });
  expect(body.results).toMatchObject([
    { delivered: true, status: 204 },
    { delivered: false, status: 500, answer: 'no' },
  ]);
  expect(
    (await tenant.admin.post(`/tenants/${tenant.id}/notifications/test`, { channel: 'chat' }))
      .status,
  ).toBe(422);
  await broken.close();
});
