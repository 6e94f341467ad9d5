export default {
  testEnvironment: 'node',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.test.ts'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '\\.ts$': '<rootDir>/test/support/strip-types.cjs' },
  testSequencer: '<rootDir>/test/support/sequencer.cjs',
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/global-teardown.ts',
  // Many files start clusters whose time limits are real: with a third at a time, two cores are
  // late for some of them.
  maxWorkers: 2,
  // Nobody waits for it but where a test hangs, so it has room for a machine that is many times
  // slower. Tests have none of their own.
  testTimeout: 600_000,
};
