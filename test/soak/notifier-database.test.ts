/**
 * Notices on their way while the database goes away: they arrive, and what was sent once is not
 * sent again by the same node.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '../support/cluster.ts';
import { createDatabase, startPostgres, type Database, type Server } from '../support/postgres.ts';
import { startReceiver, type Received, type Receiver } from '../support/receiver.ts';
import {
  adminPassword,
  createTenant,
  signIn,
  startStrata,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

const count = 8;
let postgres: Server;
let database: Database;
let strata: Running;
let tenant: TenantFixture;
let receiver: Receiver;
let unanswered: ServerResponse[] = [];

beforeAll(async () => {
  postgres = await startPostgres();
  database = await createDatabase(postgres.url);
  receiver = await startReceiver((_n, response) => {
    unanswered.push(response);
  });
  strata = await startStrata({
    DATABASE_URL: database.url,
    REQUEST_TIMEOUT_MS: '3000',
    APPROVAL_WEBHOOK_TIMEOUT_CAP_SECONDS: '600',
    WEBHOOK_ALLOW_HTTP: 'true',
    WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
  });
  tenant = await createTenant(
    strata.url,
    await signIn(strata.url, 'admin@example.com', adminPassword),
    'Database away',
  );
  expect(
    (
      await tenant.admin.put(`/tenants/${tenant.id}/config/notifications`, {
        // They are held for as long as the tests take, on a busy machine, too.
        webhook: { url: receiver.url, secret: 's3cr3t', timeout_seconds: 600 },
      })
    ).status,
  ).toBe(200);
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await receiver?.close();
  await postgres?.stop();
});

/** Notices that have reached their receiver and are not answered yet. */
async function onTheirWay(): Promise<Received[]> {
  unanswered = [];
  const before = receiver.received.length;
  for (let n = 0; n < count; n += 1) {
    const key = randomUUID();
    await eventually(async () => {
      const made = await tenant.admin.post(`/tenants/${tenant.id}/approvals`, {
        action: 'scale',
        risk_level: 'low',
        title: 'Scale up',
        idempotency_key: key,
      });
      expect([made.status, made.text]).toEqual([202, expect.any(String)]);
    });
  }
  await receiver.wait(() => true, before + count);
  return receiver.received.slice(before);
}
const answerAll = (): void => {
  for (const response of unanswered.splice(0)) response.writeHead(204).end();
};
/** How often each of them has arrived, once all are recorded as delivered. */
async function arrivals(notices: readonly Received[]): Promise<number[]> {
  const ids = notices.map(({ headers }) => headers['webhook-id'] as string);
  await eventually(async () => {
    answerAll();
    const rows = await database.query<{ state: string; attempts: number }>(
      `SELECT state, attempts FROM notifier.deliveries WHERE 'ntf_' || replace(id::text, '-', '') = ANY($1)`,
      [ids],
    );
    expect(rows).toEqual(ids.map(() => ({ state: 'delivered', attempts: 1 })));
  }, 90_000);
  return ids.map(
    (id) => receiver.received.filter(({ headers }) => headers['webhook-id'] === id).length,
  );
}

test('the database crashes while they are on their way, and comes back', async () => {
  const notices = await onTheirWay();
  const back = postgres.restart('SIGQUIT');
  answerAll();
  await back;
  // The crash may take back what was recorded in its last moments: then it is sent again, once.
  for (const times of await arrivals(notices)) expect([1, 2]).toContain(times);
});

test('the database stalls for longer than their claims last', async () => {
  const notices = await onTheirWay();
  const thaw = await postgres.freeze();
  answerAll();
  await delay(12_000);
  thaw();
  expect(await arrivals(notices)).toEqual(notices.map(() => 1));
});

test('their claims end, and the node that still sends them claims them again', async () => {
  const notices = await onTheirWay();
  const claims = () =>
    database.query<{ claimed: number; on_their_way: number }>(
      `SELECT count(*) FILTER (WHERE lease_until > now())::int AS claimed, count(*)::int AS on_their_way FROM notifier.deliveries WHERE state = 'pending'`,
    );
  // Several times, since either the renewal or the next claim may be first, and the claim is under
  // test.
  for (let n = 0; n < 5; n += 1) {
    await database.query(
      `UPDATE notifier.deliveries SET lease_until = now() - interval '1 second' WHERE state = 'pending'`,
    );
    await eventually(async () =>
      expect(await claims()).toEqual([{ claimed: count, on_their_way: count }]),
    );
  }
  // A second send would be there by now.
  await delay(500);
  expect(await arrivals(notices)).toEqual(notices.map(() => 1));
});
