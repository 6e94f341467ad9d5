/** What `as_of` says in embedded mode; with a database beside: gateway/platform-history.test.ts. */
import { expect, test } from '@jest/globals';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { comparePast } from '../support/past-oracle.ts';
import { adminPassword, createTenant, signIn, startStrata } from '../support/strata.ts';

test('as_of is the same in embedded mode', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'strata-past-'));
  chmodSync(dataDir, 0o755);
  const embedded = await startStrata({ DATA_DIR: dataDir });
  try {
    const admin = await signIn(embedded.url, 'admin@example.com', adminPassword);
    const { id: tenantId, admin: ofTenant } = await createTenant(embedded.url, admin, 'Embedded');
    const writers = { tenantId, platform: [admin], tenant: [ofTenant] };
    expect(await comparePast(writers, { writes: 6, seed: 12 })).toBe(6);
  } finally {
    await embedded.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
});
