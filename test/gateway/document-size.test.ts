/**
 * G7: a stored document stays within its bounds whatever writes lead there, for every kind, and a
 * refusal leaves nothing behind.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { connect } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  adminPassword,
  createTenantWith,
  signIn,
  type Client,
  type TenantWith,
} from '../support/strata.ts';
import { inTurn } from '../support/turns.ts';

let strata: SharedStrata;
let platform: Client;
let tenant: TenantWith<never>;

beforeAll(async () => {
  strata = await sharedStrata();
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenantWith(strata.url, platform, 'Document size');
});
afterAll(async () => {
  for (const { path, by } of kinds) if (by === 'platform') await platform.delete(path);
});

type Members = Record<string, unknown>;
interface Kind {
  readonly name: string;
  /** `T` stands for the tenant. */
  readonly path: string;
  readonly by?: 'platform';
  readonly first: Members;
  /** A patch that adds these members where the kind holds any. */
  readonly adding: (members: Members) => Members;
}

const kinds: readonly Kind[] = [
  {
    name: 'risk limits',
    path: '/tenants/T/config/risk',
    first: {},
    adding: (members) => ({ service_overrides: { cloud_run: members } }),
  },
  {
    name: 'an agent configuration',
    path: '/tenants/T/config/agents/grown',
    first: {},
    adding: (custom) => ({ custom }),
  },
  {
    name: 'a service instance',
    path: '/tenants/T/services/grown',
    first: { service_type: 'cloud_run' },
    adding: (members) => ({ custom_thresholds: members }),
  },
  {
    name: 'a project',
    path: '/tenants/T/projects/grown/config',
    first: {},
    adding: (members) => ({ project_config: members }),
  },
  {
    name: 'notification_config',
    path: '/tenants/T/config/notifications',
    first: {},
    adding: (members) => ({
      email: { template_overrides: { approval_request: { branding: members } } },
    }),
  },
  {
    name: 'a global entry',
    path: '/config/global/grown',
    by: 'platform',
    first: { config_value: {} },
    adding: (members) => ({ config_value: members }),
  },
  {
    name: 'a service type',
    path: '/config/service-types/grown/default',
    by: 'platform',
    first: {},
    adding: (members) => ({ default_settings: members }),
  },
  {
    name: "a service type's scaling limits",
    path: '/config/service-types/grown-limits/default',
    by: 'platform',
    first: {},
    adding: (members) => ({ scaling_limits: members }),
  },
];

const members = (prefix: string, count: number, length: number): Members =>
  Object.fromEntries(
    Array.from({ length: count }, (_each, index) => [`${prefix}${index}`, 'x'.repeat(length)]),
  );

/** How many rows could tell of a write. */
async function traces(): Promise<unknown> {
  const [row] = await strata.database.query(
    `SELECT (SELECT sum(revision) FROM strata.revisions WHERE scope <> 'auth') AS revisions,
            (SELECT count(*) FROM strata.changes WHERE scope <> 'auth') AS changes,
            (SELECT count(*) FROM tenant_config.configuration_history) AS history,
            (SELECT count(*) FROM (SELECT event_id FROM strata.outbox UNION SELECT id FROM audit.events) e) AS events`,
  );
  return row;
}

const parts = [
  ['bytes', (prefix: string) => members(prefix, 2500, 280)],
  ['names', (prefix: string) => members(prefix, 6000, 1)],
] as const;

describe.each(kinds)('$name', (kind) => {
  const { path, by, first, adding } = kind;
  const url = (): string => path.replace('/T/', `/${tenant.id}/`);
  const writer = (): Client => (by === 'platform' ? platform : tenant.admin);
  test.each(inTurn(parts, kinds.indexOf(kind), 1))(
    'does not grow past its %s',
    async (...[, part]) => {
      expect((await writer().put(url(), first)).status).toBeLessThan(300);
      const grown = await writer().patch(url(), adding(part('a')));
      expect([grown.status, grown.body.detail]).toEqual([200, undefined]);
      const before = await traces();
      for (const query of ['', '?dry_run=true']) {
        const refused = await writer().patch(url() + query, adding(part('b')));
        expect([refused.status, refused.body.detail.code]).toEqual([413, 'payload_too_large']);
      }
      expect(await traces()).toEqual(before);
      const read = await writer().get(url());
      expect(read.headers.get('x-config-revision')).toBe(grown.headers.get('x-config-revision'));
      // Not `toEqual`, which would print both documents.
      expect(isDeepStrictEqual(read.body, grown.body)).toBe(true);
    },
  );
});

test('whoever sends far too much reads why, and what is sent without end is hung up on', async () => {
  const path = `/tenants/${tenant.id}/config/agents/values`;
  for (const mebibytes of [2, 8, 32]) {
    const raw = 'x'.repeat(mebibytes * 1024 * 1024);
    const refused = await tenant.admin.send('PUT', path, { raw });
    expect([mebibytes, refused.status, refused.body.detail.code]).toEqual([
      mebibytes,
      413,
      'payload_too_large',
    ]);
  }
  const { hostname, port } = new URL(tenant.admin.url);
  const socket = connect(Number(port), hostname);
  const head = `PUT ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${tenant.admin.token}\r\nContent-Type: application/json\r\n`;
  socket.write(`${head}Content-Length: 9000000\r\n\r\n{`);
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  expect(Buffer.concat(chunks).toString()).toMatch(/^HTTP\/1\.1 413 [^]*payload_too_large/);
});

test('an agent configuration does not grow past its values', async () => {
  const path = `/tenants/${tenant.id}/config/agents/values`;
  const part = (name: string) => ({ custom: { [name]: Array<number>(30_000).fill(1) } });
  expect((await tenant.admin.put(path, part('a'))).status).toBe(201);
  const refused = await tenant.admin.patch(path, part('b'));
  expect([refused.status, refused.body.detail.code]).toEqual([413, 'payload_too_large']);
});

test('a notification_config that becomes an empty one is a change', async () => {
  const path = `/tenants/${tenant.id}/config/notifications`;
  await tenant.admin.put(path, null);
  const written = await tenant.admin.put(path, {});
  const revision = written.headers.get('x-config-revision');
  const entry = await tenant.admin.get(`/tenants/${tenant.id}/config/history/${revision}`);
  expect(entry.body.changes).toEqual([{ path: '', after: {} }]);
});
