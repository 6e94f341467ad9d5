const ofEach = {
  // A clone's own, so that `--onlyFailures` never means what failed in another of the same path.
  cacheDirectory: '<rootDir>/node_modules/.cache/jest',
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  testMatch: ['**/*.test.ts'],
  transform: { '\\.ts$': '<rootDir>/test/support/strip-types.cjs' },
};
/** Of these folders no test needs a server, so that one alone takes seconds. */
const withoutServers = ['rules', 'repository', 'mutants'];
/** Minutes each, of `npm run test:soak`: run where they are named. */
const soak = process.argv.some((word) => word.includes('test/soak')) ? ['soak'] : [];
const withServers = ['services', 'gateway', 'flows', 'faults', 'browser', ...soak];
const rootsOf = (folders) => folders.map((folder) => `<rootDir>/test/${folder}`);

export default {
  projects: [
    { ...ofEach, displayName: 'without servers', roots: rootsOf(withoutServers) },
    {
      ...ofEach,
      displayName: 'with servers',
      roots: rootsOf(withServers),
      globalSetup: '<rootDir>/test/support/global-setup.ts',
      globalTeardown: '<rootDir>/test/support/global-teardown.ts',
    },
  ],
  testSequencer: '<rootDir>/test/support/sequencer.cjs',
  // Many files wait for real time limits: two at a time leave two cores idle for a quarter of the run.
  maxWorkers: 3,
  // A worker that ran a hundred files takes longer than jest's half second to end, on a busy machine:
  // jest would say that a test leaks.
  workerGracefulExitTimeout: 20_000,
  // Nobody waits for it but where a test hangs, so it has room for a machine that is many times
  // slower. Tests have none of their own.
  testTimeout: 600_000,
};
