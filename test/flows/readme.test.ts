/** The README's tour, as a reader would paste it. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { freePort } from '../support/servers.ts';
import { startStrata, type Running } from '../support/strata.ts';

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
let database: Database;
let strata: Running;

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({
    DATABASE_URL: database.url,
    PLATFORM_ADMIN_PASSWORD: 'correct-horse-battery',
    WEBHOOK_ALLOW_HTTP: 'true',
    WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
  });
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

test('the tour runs as pasted', async () => {
  const tour = /## Tour[\s\S]*?```sh\n([\s\S]*?)```/.exec(readme)![1]!;
  expect(tour).toContain('export STRATA=http://127.0.0.1:8080');
  expect(readme).toContain(
    'PLATFORM_ADMIN_PASSWORD=correct-horse-battery WEBHOOK_ALLOW_HTTP=true WEBHOOK_ALLOWED_NETWORKS=127.0.0.0/8 npm start',
  );
  const pasted = tour
    .replace('http://127.0.0.1:8080', strata.url)
    .replaceAll('9099', String(await freePort()));
  const output = execFileSync('bash', ['-euo', 'pipefail', '-c', pasted], {
    encoding: 'utf8',
    timeout: 300_000,
  });
  expect(output).toContain("layer: 'tenant_risk'");
  expect(output).toContain("asked: { layer: 'tenant_risk', value: true }");
  expect(output).toContain('"dry_run":true');
  expect(output).toContain('{"decision":"deny","reasons":[{"rule":"max_cost_impact_approval"');
  expect(output).toContain('{"decision":"allow"');
  expect(output).toMatch(/"approved_by":\[\{"type":"user","by":"[^"]+","name":"ada@acme.example"/);
  expect(output).toMatch(/^running$/m);
  expect(output).toMatch(/^finished$/m);
  expect(output).toMatch(/^budget_exceeded\nEdDSA\nrunner-1\ngrant_used\n1\.25\n1\.75$/m);
  expect(output).toMatch(/^freeze$/m);
  expect(output).toContain('approval.requested Scale checkout to 6 pending signature holds');
  expect(output).toContain('approval.decided Scale checkout to 6 approved signature holds');
  expect(output).toContain('config.risk.rolled_back');
  expect(output).toContain('"valid":true');
  expect(output).not.toContain('"status":"error"');
});

test('every file that the README points to is there', () => {
  for (const [, target] of readme.matchAll(/\]\((?!http)([^)#]+)\)/g))
    expect(() => readFileSync(new URL(`../../${target}`, import.meta.url))).not.toThrow('ENOENT');
});
