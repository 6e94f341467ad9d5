/** Which node hears whose Slack, where several look at the same time and one dies. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import type { DataSource } from 'typeorm';
import { notifierSchema } from '../../services/notifier/schema.ts';
import { claimSlack, releaseSlack } from '../../services/notifier/stores/slack-leases.ts';
import { openDatabase } from '../../shared/database/open.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';

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
