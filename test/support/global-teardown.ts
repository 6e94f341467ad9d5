export default async function teardown(): Promise<void> {
  await (globalThis as { testPostgres?: { stop: () => Promise<void> } }).testPostgres?.stop();
}
