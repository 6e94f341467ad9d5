/** G5: canaries planted in every place that holds a secret are found in no output and no row. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { restRoutes } from '../../gateway/http/rest.ts';
import { marks } from '../../shared/contracts/marks.ts';
import { NotificationConfig } from '../../shared/contracts/notification-config.ts';
import { markedTexts } from '../../shared/schema/marked.ts';
import { eventually } from '../support/cluster.ts';
import { grown } from '../support/grown.ts';
import { invitationToken } from '../support/mailboxes.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { startReceiver } from '../support/receiver.ts';
import { inSoak } from '../support/soak.ts';
import {
  Client,
  createTenant,
  memberPassword,
  signIn,
  startStrata,
  type Answer,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

const canary = (name: string): string => `canary-${name}-${randomBytes(8).toString('hex')}`;
const secrets = {
  secretKey: canary('secret-key-that-is-long-enough'),
  adminPassword: canary('first-password'),
  webhook: canary('webhook'),
  previous: canary('previous'),
  bearer: canary('bearer'),
  basic: canary('basic'),
  apiKey: canary('api-key'),
  header: canary('header'),
  chat: canary('chat'),
  teams: canary('teams'),
  destination: canary('destination'),
  destinationToken: canary('destination-token'),
  slackApp: canary('slack-app'),
  slackBot: canary('slack-bot'),
  member: canary('member-password'),
  wrongPlace: canary('wrong-place'),
  guess: canary('guess'),
  /** Known once it was mailed. */
  invitation: '',
};
/** Of an endpoint, the origin alone is known outside the configuration. */
const hook = canary('hook');
const dataDir = mkdtempSync(join(tmpdir(), 'strata-canaries-'));
let database: Database;
let strata: Running;
let platform: Client;
let tenant: TenantFixture;
const answers: string[] = [];
const note = <T extends Answer>(answer: T): T => {
  answers.push(`${JSON.stringify([...answer.headers])}\n${answer.text}`);
  return answer;
};

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({
    DATABASE_URL: database.url,
    DATA_DIR: dataDir,
    SECRET_KEY: secrets.secretKey,
    PLATFORM_ADMIN_PASSWORD: secrets.adminPassword,
    LOG_LEVEL: 'trace',
    WEBHOOK_ALLOW_HTTP: 'true',
    WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
    SLACK_API_URL: 'http://127.0.0.1:9/api',
  });
  platform = await signIn(strata.url, 'admin@example.com', secrets.adminPassword);
  tenant = await createTenant(strata.url, platform, 'Canaries');
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
  rmSync(dataDir, { recursive: true });
});

const endpoints = [
  {
    url: 'https://one.example/hook',
    secret: secrets.webhook,
    previous_secret: secrets.previous,
    auth: { type: 'bearer', token: secrets.bearer },
  },
  {
    url: 'https://two.example/hook',
    auth: { type: 'basic', username: 'u', password: secrets.basic },
    headers: { 'X-Extra-Token': secrets.header, 'X-Plain': 'plain' },
  },
  { url: 'https://three.example/hook', auth: { type: 'api_key', api_key: secrets.apiKey } },
];
const config = {
  webhook: { endpoints },
  chat: { google_chat: { webhook_url: `https://chat.example/?key=${secrets.chat}` } },
  teams: { webhook_url: `https://teams.example/?sig=${secrets.teams}` },
  slack: {
    app_token: `xapp-${secrets.slackApp}`,
    bot_token: `xoxb-${secrets.slackBot}`,
    channel: 'C0123456789',
  },
};
const mask = '********';

/** The secrets that a schema marks, by what they are sent to and by their names. */
function secretsIn(schema: unknown, receiver: unknown = '', name = ''): string[] {
  if (typeof schema !== 'object' || schema === null) return [];
  const node = schema as Record<string, unknown>;
  const inside = node[marks.secretsOf] ?? receiver;
  const own = node[marks.secret] === true ? [`${String(inside)} ${name}`] : [];
  return [...own, ...Object.entries(node).flatMap(([key, part]) => secretsIn(part, inside, key))];
}

test('each secret that a notification_config may hold has its canary', () => {
  const planted = markedTexts(NotificationConfig, config)
    .filter(({ isSecret, text }) => isSecret && text.includes('canary-'))
    .map(({ receiver, path }) => `${receiver?.kind ?? ''} ${path.at(-1)}`);
  expect(secretsIn(NotificationConfig).filter((secret) => !planted.includes(secret))).toEqual([]);
});

test('those of event destinations likewise, also where one is sent to and does not answer', async () => {
  const path = `/tenants/${tenant.id}/config/event-destinations`;
  const siem = {
    url: 'http://127.0.0.1:1/events',
    secret: secrets.destination,
    auth: { type: 'bearer', token: secrets.destinationToken },
  };
  const written = note(await tenant.admin.put(path, { siem }));
  expect(written.body.siem).toEqual({
    ...siem,
    secret: mask,
    auth: { type: 'bearer', token: mask },
  });
  note(await tenant.admin.get(path));
  await eventually(async () => {
    const states = note(await tenant.admin.get(`/tenants/${tenant.id}/event-destinations`));
    expect(states.body.items).toMatchObject([{ state: 'failing', target: 'http://127.0.0.1:1' }]);
  });
  note(await tenant.admin.post(`/tenants/${tenant.id}/event-destinations/siem/test`));
});

test('secrets are masked when read, kept when the mask is written back, and sealed at rest', async () => {
  const path = `/tenants/${tenant.id}/config/notifications`;
  const written = note(await tenant.admin.put(path, config));
  expect(written.status).toBe(200);
  expect(written.body.webhook.endpoints[0]).toEqual({
    url: 'https://one.example/hook',
    secret: mask,
    previous_secret: mask,
    auth: { type: 'bearer', token: mask },
  });
  expect(written.body.webhook.endpoints[1].headers).toEqual({
    'X-Extra-Token': mask,
    'X-Plain': 'plain',
  });
  const stored = async () =>
    (
      await database.query<{ notification_config: unknown }>(
        'SELECT notification_config FROM tenant_config.tenants WHERE id = $1',
        [tenant.id],
      )
    )[0]!.notification_config;
  const sealed = await stored();
  const read = note(await tenant.admin.get(path));
  expect((await tenant.admin.put(path, read.body)).status).toBe(200);
  expect(await stored()).toEqual(sealed);

  // The history shows the mask, too, and not even the sealed text.
  const revision = written.headers.get('x-config-revision');
  const list = note(await tenant.admin.get(`/tenants/${tenant.id}/config/history`));
  const entry = note(await tenant.admin.get(`/tenants/${tenant.id}/config/history/${revision}`));
  const shown = written.body.webhook.endpoints;
  expect(entry.body.after.webhook.endpoints).toEqual(shown);
  const listed = list.body.items.find(
    (item: { revision: number }) => item.revision === Number(revision),
  );
  expect(listed.changes).toEqual(entry.body.changes);
  expect(JSON.stringify(listed.changes)).toContain(JSON.stringify(shown));

  const [first] = shown;
  for (const url of [
    'https://attacker.example/hook',
    'https://one.example/other',
    `${first.url}?to=me`,
  ]) {
    const moved = note(
      await tenant.admin.patch(path, { webhook: { endpoints: [{ ...first, url }] } }),
    );
    expect([moved.status, moved.body.errors.map((each: { path: string }) => each.path)]).toEqual([
      422,
      ['secret', 'previous_secret', 'auth/token'].map((field) => `/webhook/endpoints/0/${field}`),
    ]);
  }
});

test('notices are sent with them; receivers that give back what they were sent leave none in the delivery log', async () => {
  const { admin, id } = tenant;
  const seen: string[] = [];
  const echo = await startReceiver((n, response) => {
    const { path, headers, text } = echo.received[n]!;
    const given = JSON.stringify({ path, headers, text });
    seen.push(given);
    response.writeHead(n % 2 ? 500 : 200, { location: path }).end(given);
  });
  const hooks = endpoints.map((endpoint, index) => ({
    ...endpoint,
    url: new URL(`/${hook}/${index}?key=${hook}`, echo.url).href,
    retry_attempts: 1,
    backoff: { initial_seconds: 0 },
  }));
  expect(
    (
      await admin.put(`/tenants/${id}/config/notifications`, {
        ...config,
        webhook: { endpoints: hooks },
      })
    ).status,
  ).toBe(200);
  const before = answers.length;
  for (const channel of ['webhook', 'chat', 'email', 'teams', 'slack'])
    note(await admin.post(`/tenants/${id}/notifications/test`, { channel }));
  const asked = note(
    await tenant.operator.post(`/tenants/${id}/approvals`, {
      action: 'scale',
      risk_level: 'low',
      title: 'Scale up',
    }),
  );
  expect(asked.status).toBe(202);
  await echo.wait(({ body }) => body.data.approval_id === asked.body.id, 3);
  note(
    await admin.post(`/tenants/${id}/approvals/${asked.body.id}/decision`, { decision: 'deny' }),
  );
  await echo.wait(({ body }) => body.type === 'approval.decided', 3);
  const deliveries = note(await admin.get(`/tenants/${id}/notifications/deliveries?limit=200`));
  for (const { id: delivery } of deliveries.body.items)
    note(await admin.get(`/tenants/${id}/notifications/deliveries/${delivery}`));
  note(await admin.get(`/tenants/${id}/approvals`));
  expect(answers.slice(before).join()).not.toContain(hook);
  for (const sent of [hook, secrets.bearer, secrets.apiKey, secrets.header])
    expect(seen.join()).toContain(sent);
  expect(seen.join()).toContain(Buffer.from(`u:${secrets.basic}`).toString('base64'));
  await echo.close();
});

test('no canary in any answer, log line, metric or row', async () => {
  const { admin, id } = tenant;
  const made = await makeSecrets();
  const notifications = `/tenants/${id}/config/notifications`;
  const email = 'new@canaries.example';
  note(await admin.post(`/tenants/${id}/users`, { email, roles: ['viewer'] }));
  const invitation = await invitationToken(email);
  secrets.invitation = invitation;
  note(
    await new Client(strata.url).post('/auth/invitations/accept', {
      token: invitation,
      password: secrets.member,
    }),
  );
  note(
    await admin.patch(notifications, {
      webhook: { endpoints: [{ ...endpoints[0], timeout_seconds: 5 }] },
    }),
  );
  note(await admin.put(`${notifications}?dry_run=true`, config));
  note(await admin.put(notifications, config));
  const history = note(
    await admin.get(`/tenants/${id}/config/history?config_type=notification_config`),
  );
  for (const { revision } of history.body.items) {
    note(await admin.get(`/tenants/${id}/config/history/${revision}`));
    note(await admin.post(`/tenants/${id}/config/rollback?dry_run=true`, { revision }));
  }
  note(await admin.get(`${notifications}/effective`));
  // Secrets where they do not belong: wrong fields, broken JSON, wrong types, the query.
  for (const { contract, rest } of restRoutes) {
    const path = rest.path.replaceAll(/\{([a-z_]+)\}/g, (_all, name: string) =>
      name === 'tenant_id' ? id : 'something',
    );
    // Whoever else asks is refused before the body is read.
    const rightful = contract.access.level === 'platform_admin' ? platform : admin;
    for (const client of inSoak ? [admin, platform] : [rightful]) {
      if (rest.path === '/auth/logout') continue;
      if (rest.method === 'GET') {
        note(await client.get(`${path}?password=${secrets.wrongPlace}`));
        continue;
      }
      note(
        await client.send(rest.method, path, {
          body: { password: secrets.wrongPlace, secret: { token: secrets.wrongPlace } },
        }),
      );
      note(
        await client.send(rest.method, path, { raw: `{"password": "${secrets.wrongPlace}" oops` }),
      );
      note(await client.send(rest.method, path, { body: [secrets.wrongPlace] }));
    }
  }
  note(
    await admin.put(notifications, {
      webhook: { url: `https://user:${secrets.wrongPlace}@one.example/`, secret: 7 },
    }),
  );
  note(
    await new Client(strata.url).post('/auth/login', {
      email: 'admin@example.com',
      password: secrets.guess,
    }),
  );
  note(await new Client(strata.url, secrets.guess).get('/auth/me'));
  note(await new Client(strata.url).get('/auth/me', { 'x-api-key': secrets.guess }));
  note(await new Client(strata.url).post('/auth/refresh', { refresh_token: secrets.guess }));
  note(
    await platform.post('/config/reload', {
      reload_env: true,
      reinit: { configuration_service: true, dynamic_config_service: true },
    }),
  );
  for (const path of [
    '/metrics',
    '/openapi.json',
    '/readyz',
    '/audit/events?limit=200',
    `/tenants/${id}/config/effective?explain=true`,
  ])
    note(await platform.get(path));
  note(await admin.get('/audit/events?limit=200'));

  const tables = await database.query<{ name: string }>(
    `SELECT format('%I.%I', table_schema, table_name) AS name FROM information_schema.tables
     WHERE table_schema NOT IN ('information_schema', 'pg_catalog')`,
  );
  expect(tables.length).toBeGreaterThan(16);
  const rows: string[] = [];
  for (const { name } of tables)
    rows.push(
      ...(await database.query<{ row: string }>(`SELECT t::text AS row FROM ${name} t`)).map(
        ({ row }) => `${name} ${row}`,
      ),
    );

  const places = { answers, output: strata.output().split('\n'), rows };
  for (const [place, texts] of Object.entries(places)) {
    expect(texts.length).toBeGreaterThan(10);
    for (const [name, value] of Object.entries({
      ...secrets,
      basicAsSent: Buffer.from(`u:${secrets.basic}`).toString('base64'),
    })) {
      const found = texts.find((text) => text.includes(value));
      // What someone typed into a URL is theirs; the log must not keep it all the same.
      if (found) throw new Error(`${name} is in ${place}: ${found.slice(0, 500)}`);
    }
  }
  for (const text of [...places.output, ...rows.filter((row) => row.startsWith('notifier.'))])
    if (text.includes(hook)) throw new Error(`the address is in ${text.slice(0, 500)}`);
  // What Strata makes is answered, or mailed, to whom it is for, and is in no row and no log line.
  for (const [name, value] of Object.entries({ ...made, accessToken: platform.token! })) {
    const found = [...places.output, ...rows].find((text) => text.includes(value));
    if (found) throw new Error(`${name} is in ${found.slice(0, 300)}`);
  }
});

/** Secrets that Strata itself makes, each used once where it is good for more than being shown. */
async function makeSecrets(): Promise<Readonly<Record<string, string>>> {
  const { admin, id } = tenant;
  const anyone = new Client(strata.url);
  const email = tenant.emails.tenant_admin;
  const login = await anyone.post('/auth/login', { email, password: memberPassword });
  const key = await admin.post('/auth/api-key', { name: 'canary', scopes: ['config:read'] });
  expect([login.status, key.status]).toEqual([200, 201]);
  await new Client(strata.url, key.body.key).get(`/tenants/${id}/config/risk`);
  await anyone.post('/auth/refresh', { refresh_token: login.body.refresh_token });

  const machine = await admin.post(`/tenants/${id}/service-accounts`, {
    name: 'canary',
    roles: ['viewer'],
  });
  const machineKey = await admin.post(
    `/tenants/${id}/service-accounts/${machine.body.id}/api-keys`,
    { name: 'canary', scopes: ['config:read'] },
  );
  expect([machine.status, machineKey.status]).toEqual([201, 201]);
  await new Client(strata.url, machineKey.body.key).get(`/tenants/${id}/config/effective`);

  const invited = await admin.post(`/tenants/${id}/users`, {
    email: 'canary-invited@mail.example',
    roles: ['viewer'],
  });
  expect(invited.status).toBe(201);
  await anyone.post('/auth/password/forgot', { email });
  await admin.put(`/tenants/${id}/config/notifications`, {
    email: { approval_recipients: ['canary-links@mail.example'] },
  });
  await grown(database, id);
  await admin.post(`/tenants/${id}/approvals`, {
    action: 'scale',
    risk_level: 'low',
    title: 'Links',
  });
  const mailed = async (to: string, pattern: RegExp): Promise<string> => {
    let found: string | undefined;
    await eventually(async () => {
      const folder = join(dataDir, 'mail');
      for (const file of readdirSync(folder)) {
        const mail = await PostalMime.parse(readFileSync(join(folder, file)));
        if (mail.to?.[0]?.address === to) found ??= pattern.exec(mail.text ?? '')?.[1];
      }
      expect(found).toBeDefined();
    });
    return found!;
  };
  const reset = await mailed(email!, /\/reset-password#token=([\w.-]+)/);
  const invitation = await mailed(
    'canary-invited@mail.example',
    /\/accept-invitation#token=([\w.-]+)/,
  );
  const accepted = await anyone.post('/auth/invitations/accept', {
    token: invitation,
    password: memberPassword,
  });
  expect(accepted.status).toBe(200);
  const decision = await mailed('canary-links@mail.example', /Approve: \S+\?token=([\w.-]+)/);
  const shown = await fetch(`${strata.url}/approvals/decision?token=${decision}`);
  const used = await fetch(`${strata.url}/approvals/decision?token=${decision}`, {
    method: 'POST',
  });
  expect([shown.status, used.status]).toEqual([200, 200]);
  return {
    apiKey: key.body.key,
    serviceAccountKey: machineKey.body.key,
    invitation,
    refreshToken: login.body.refresh_token,
    resetToken: reset,
    decisionLink: decision,
  };
}
