/** Approvals from the request to the decision, with real receivers. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { readdirSync, readFileSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { createDatabase, type Database } from '../support/postgres.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import {
  adminPassword,
  createTenant,
  signIn,
  startStrata,
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
  database = await createDatabase();
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
  await strata?.stop();
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
  const answer = await tenant.admin.post(path(), body);
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
  const decided = await tenant.operator.post(path(`/${made.id}/decision`), {
    decision: 'approve',
    comment: 'go',
  });
  expect(decided.body).toMatchObject({
    state: 'approved',
    decision: { decision: 'approve', comment: 'go', via: 'api' },
  });
  const [told] = await receiver.wait(
    (one) => of(made.id)(one) && one.body.type === 'approval.decided',
  );
  expect(told!.body.data).toMatchObject({
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
    other.admin.post(`/tenants/${other.id}/approvals`, { ...asked, idempotency_key: key });
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

test('of 16 decisions at once one counts', async () => {
  const { id } = await request();
  const answers = await Promise.all(
    Array.from({ length: 16 }, (_, n) =>
      tenant.admin.post(path(`/${id}/decision`), { decision: n % 2 ? 'approve' : 'deny' }),
    ),
  );
  expect(answers.map(({ status }) => status).filter((status) => status === 200)).toHaveLength(1);
});

test('a link in a mail shows first and decides once', async () => {
  await configure({
    approver_groups: groups,
    email: { approval_recipients: ['boss@example.com'] },
  });
  const { id } = await request();
  const mails = () =>
    readdirSync(join(dataDir, 'mail')).map((file) => readFileSync(join(dataDir, 'mail', file)));
  const mail = await until(
    async () => mails().find((eml) => eml.includes('boss@example.com')),
    (found) => found !== undefined,
  );
  const { text } = await PostalMime.parse(mail!);
  const [, link] = /Approve: (\S+)/.exec(text!)!;
  const url = strata.url + link!.slice(link!.indexOf('/approvals/'));
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
  expect((await fetch(url, { method: 'POST' })).status).toBe(409);
  expect((await fetch(url.slice(0, -1) + (url.endsWith('A') ? 'B' : 'A'))).status).toBe(404);
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
