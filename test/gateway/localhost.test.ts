/** HOST may be a name that stands for several addresses. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { lookup } from 'node:dns/promises';
import { createDatabase, type Database } from '../support/postgres.ts';
import { Client, startStrata, type Running } from '../support/strata.ts';

let database: Database;
let strata: Running;

beforeAll(async () => {
  database = await createDatabase();
  strata = await startStrata({ DATABASE_URL: database.url, HOST: 'localhost' });
});
afterAll(async () => {
  await strata?.stop();
  await database?.drop();
});

test('with HOST=localhost, every address of localhost answers', async () => {
  const { port } = new URL(strata.url);
  const addresses = await lookup('localhost', { all: true });
  for (const { address, family } of addresses) {
    const host = family === 6 ? `[${address}]` : address;
    const answer = await new Client(`http://${host}:${port}`).get('/healthz');
    expect([address, answer.status]).toEqual([address, 200]);
  }
});
