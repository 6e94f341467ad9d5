/** Stops the PostgreSQL of the run, if it is ours. */
export default async function teardown(): Promise<void> {
  await (globalThis as { testPostgres?: { stop: () => Promise<void> } }).testPostgres?.stop();
}
