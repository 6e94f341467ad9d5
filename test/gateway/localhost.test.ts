/** HOST may be a name that stands for several addresses. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createDatabase, type Database } from '../support/postgres.ts';
import { Client, startStrata, type Running } from '../support/strata.ts';

/** What `localhost` stands for here, whatever the machine says. Not every Linux has `::1`, and no macOS has the other. */
const addresses = ['127.0.0.1', process.platform === 'darwin' ? '::1' : '127.0.0.2'];
const inUrl = (address: string): string => (address.includes(':') ? `[${address}]` : address);
const preload = `
  import dns from 'node:dns/promises';
  import { syncBuiltinESMExports } from 'node:module';
  const { lookup } = dns;
  const found = ${JSON.stringify(addresses)}.map((address) => ({ address }));
  dns.lookup = async (host, options) => (host === 'localhost' ? found : lookup(host, options));
  syncBuiltinESMExports();`;

let database: Database;
let strata: Running;

beforeAll(async () => {
  database = await createDatabase();
  strata = await startStrata({
    DATABASE_URL: database.url,
    HOST: 'localhost',
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(preload)}`,
  });
});
afterAll(async () => {
  await strata?.stop();
  await database?.drop();
});

const portOf = (): number => Number(new URL(strata.url).port);

test('with HOST=localhost, every address of localhost answers', async () => {
  for (const address of addresses) {
    const answer = await new Client(`http://${inUrl(address)}:${portOf()}`).get('/healthz');
    expect([address, answer.status]).toEqual([address, 200]);
  }
});

test('over http nobody is told to come by https alone', async () => {
  const { headers } = await new Client(strata.url).get('/healthz');
  expect(headers.has('strict-transport-security')).toBe(false);
});
