/** Which node hears whose Slack, where several look at the same time and one dies. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Errors } from 'moleculer';
import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import type { DataSource } from 'typeorm';
import { notifierSchema } from '../../services/notifier/schema.ts';
import { claimSlack, releaseSlack } from '../../services/notifier/stores/slack-leases.ts';
import { startSlackSockets } from '../../services/notifier/worker/slack-sockets.ts';
import { findTenantsWithSlack } from '../../services/tenant-config/stores/tenants.ts';
import { openDatabase } from '../../shared/database/open.ts';
import { StrataError } from '../../shared/errors.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/eventually.ts';
import { FakeSlack, slackTokens } from '../support/fake-slack.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { secretKey } from '../support/strata.ts';

let database: Database;
let db: DataSource;
beforeAll(async () => {
  database = await strataDatabase();
  const options = { url: database.url, poolSize: 4, timeoutMs: 10_000, ssl: false };
  db = await openDatabase(options, notifierSchema);
});
afterAll(async () => {
  await db?.destroy();
  await database?.drop();
});

const [one, other] = [randomUUID(), randomUUID()];
const tenants = (count: number): string[] => Array.from({ length: count }, () => randomUUID());
const letPass = (seconds: number): Promise<unknown> =>
  database.query(
    'UPDATE notifier.slack_leases SET held_until = held_until - make_interval(secs => $1)',
    [seconds],
  );
/** Physical versions of the rows, and who has locked them. */
const versions = (): Promise<unknown[]> =>
  database.query(
    'SELECT tenant_id, xmin, xmax, ctid FROM notifier.slack_leases ORDER BY tenant_id',
  );

test('each tenant is heard by one node, and by another once that one does not renew', async () => {
  const ids = tenants(50);
  const [first, second] = await Promise.all([claimSlack(db, one, ids), claimSlack(db, other, ids)]);
  expect([...first, ...second].toSorted()).toEqual(ids.toSorted());
  await letPass(29);
  expect((await claimSlack(db, one, ids)).toSorted()).toEqual(first.toSorted());
  await letPass(2);
  // What the first has renewed stays with it.
  expect((await claimSlack(db, other, ids)).toSorted()).toEqual(second.toSorted());
  await letPass(31);
  expect((await claimSlack(db, other, ids)).toSorted()).toEqual(ids.toSorted());
  await releaseSlack(db, other);
  expect((await claimSlack(db, one, ids)).toSorted()).toEqual(ids.toSorted());
});

test('a look at leases that need no renewal writes nothing', async () => {
  const ids = tenants(3);
  await claimSlack(db, one, ids);
  const before = await versions();
  for (const holder of [one, other]) await claimSlack(db, holder, ids);
  expect(await versions()).toEqual(before);
});

test('tenants with Slack are found without a look at all others', async () => {
  await database.query(
    `INSERT INTO tenant_config.tenants (id, name, status, created_at, updated_at, notification_config,
       notification_revision, notification_updated_by, notification_updated_at)
     SELECT gen_random_uuid(), 'T' || n, 'active', now(), now(),
       json_build_object(CASE n WHEN 1 THEN 'slack' ELSE 'webhook' END, '{}'::json), 7, 'u', now()
     FROM generate_series(1, 2000) AS n`,
  );
  await database.query('ANALYZE tenant_config.tenants');
  await db.transaction(async (manager) => {
    const found = await findTenantsWithSlack(manager);
    expect(found).toEqual([{ tenant_id: expect.any(String), revision: 7 }]);
    const [read] = await manager.query<unknown[]>(
      `SELECT seq_tup_read::int FROM pg_stat_xact_user_tables WHERE relid = 'tenant_config.tenants'::regclass`,
    );
    expect(read).toEqual({ seq_tup_read: 0 });
  });
});

test('what another node refuses is told to whoever clicked', async () => {
  const slack = await new FakeSlack().start();
  slack.people.set('UADA', { id: 'UADA', email: 'ada@acme.example' });
  const tenant_id = randomUUID();
  const message = 'The database does not answer. Try again.';
  // As an error comes over the bus.
  const refusal = new Errors.Regenerator().restore(
    { ...new StrataError('service_unavailable', message), message },
    {},
  );
  const answers: Record<string, () => unknown> = {
    'tenant-config.notifications.with-slack': () => [{ tenant_id, revision: 1 }],
    'tenant-config.notifications.open': () => ({
      config: { slack: { app_token: slackTokens.app, bot_token: slackTokens.bot } },
      revision: 1,
    }),
    'notifier.slack.decide'() {
      throw refusal;
    },
  };
  const settings = loadSettings({ SECRET_KEY: secretKey, SLACK_API_URL: slack.url }, { roles: [] });
  const sockets = startSlackSockets({
    db,
    settings: () => settings,
    log: pino({ enabled: false }),
    call: (async (action: string) => answers[action]!()) as never,
  });
  try {
    await eventually(async () => expect(slack.sockets.size).toBe(1));
    const post = { channel: 'C0', ts: '1.1', text: '', blocks: '[]' };
    await slack.click('UADA', post, 'strata_approve', randomUUID());
    await eventually(async () =>
      expect(slack.whispers).toEqual([{ user: 'UADA', text: `Nothing was decided: ${message}` }]),
    );
  } finally {
    await sockets.stop();
    await slack.stop();
  }
});
