/** Stops what the workers of the run shared, and its PostgreSQL, if it is ours. */
export default async function teardown(): Promise<void> {
  const { testStrata, testPostgres } = globalThis as {
    testStrata?: { stop: () => Promise<void> };
    testPostgres?: { stop: () => Promise<void> };
  };
  await testStrata?.stop();
  await testPostgres?.stop();
}
