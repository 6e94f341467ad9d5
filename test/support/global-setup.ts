import { startPostgres } from './postgres.ts';

/** One PostgreSQL for the run, or the one that TEST_DATABASE_URL names. Workers inherit the address. */
export default async function setup(): Promise<void> {
  if (process.env.TEST_DATABASE_URL) return;
  const server = await startPostgres();
  process.env.TEST_DATABASE_URL = server.url;
  (globalThis as { testPostgres?: typeof server }).testPostgres = server;
}
