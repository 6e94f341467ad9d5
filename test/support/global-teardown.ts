import { rmSync } from 'node:fs';

/**
 * Stops what the workers of the run shared, and its PostgreSQL, if it is ours; removes its temporary
 * files.
 */
export default async function teardown(): Promise<void> {
  const { testFolder, testStrata, testPostgres } = globalThis as {
    testFolder?: string;
    testStrata?: { stop: () => Promise<void> };
    testPostgres?: { stop: () => Promise<void> };
  };
  await testStrata?.stop();
  await testPostgres?.stop();
  // A server that a test has left may end and write meanwhile.
  const patiently = { recursive: true, force: true, maxRetries: 20, retryDelay: 100 };
  if (testFolder !== undefined) rmSync(testFolder, patiently);
}
