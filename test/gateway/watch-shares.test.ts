/** G7: no tenant takes all watch streams of a gateway. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { watch, type WatchStream } from '../support/event-stream.ts';
import { eventually } from '../support/eventually.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  adminPassword,
  createTenant,
  signIn,
  startStrata,
  type Client,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

let database: Database;
let strata: Running;
let first: TenantFixture;
let second: TenantFixture;
let platform: Client;

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({
    DATABASE_URL: database.url,
    WATCH_MAX_STREAMS: '6',
    WATCH_MAX_STREAMS_PER_CALLER: '2',
  });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  first = await createTenant(strata.url, platform, 'First');
  second = await createTenant(strata.url, platform, 'Second');
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

test('a tenant that opens all it can leaves half of them to others', async () => {
  const open: WatchStream[] = [];
  const ask = async ({ id }: TenantFixture, by: Client) => {
    const stream = await watch(by, `/tenants/${id}/config/watch`);
    if (stream.status === 200) open.push(stream);
    return stream;
  };
  const statuses: number[] = [];
  for (const by of [first.admin, first.admin, first.admin, first.operator])
    statuses.push((await ask(first, by)).status);
  expect(statuses).toEqual([200, 200, 429, 200]);
  const refused = await ask(first, first.operator);
  expect([refused.status, refused.body?.detail]).toEqual([
    429,
    expect.objectContaining({
      code: 'rate_limited',
      message: expect.stringContaining('The tenant has 3 streams open'),
    }),
  ]);
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);

  for (const by of [second.admin, second.admin, second.operator])
    expect((await ask(second, by)).status).toBe(200);
  // Now the gateway itself is full.
  const full = await watch(platform, '/config/watch');
  expect(full.status).toBe(503);
  const { request_id: id, detail } = full.body!;
  const logged = `"request_id":"${id}","code":"service_unavailable","reason":"${detail.message}"`;
  await eventually(async () => expect(strata.output()).toContain(logged));
  for (const stream of open) stream.leave();
});

test('people of one tenant who watch their sessions leave half of the streams to others', async () => {
  const open: WatchStream[] = [];
  const ask = async (by: Client): Promise<WatchStream> => {
    const stream = await watch(by, '/auth/watch');
    if (stream.status === 200) open.push(stream);
    return stream;
  };
  for (const by of [first.admin, first.admin, first.operator])
    expect((await ask(by)).status).toBe(200);
  const refused = await ask(first.operator);
  expect([refused.status, refused.body?.detail]).toEqual([
    429,
    expect.objectContaining({ message: expect.stringContaining('WATCH_MAX_STREAMS_PER_TENANT') }),
  ]);
  for (const by of [second.admin, second.admin, second.operator])
    expect((await ask(by)).status).toBe(200);
  for (const stream of open) stream.leave();
});
