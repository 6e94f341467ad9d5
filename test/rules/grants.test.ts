/** Grants: vectors that other libraries verify, what they say, and what they redeem. */
import { expect, test } from '@jest/globals';
import { createLocalJWKSet, jwtVerify, type JSONWebKeySet } from 'jose';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { refusalOf } from '../../services/notifier/actions/redeeming.ts';
import { digestOf, type ExactAction } from '../../services/notifier/rules/action-digest.ts';
import {
  claimsOf,
  grantType,
  verified,
  type GrantClaims,
} from '../../services/notifier/rules/grant.ts';
import type { AutomationRow } from '../../services/notifier/schema.ts';
import fc, { runs, times } from '../support/properties.ts';

interface Vectors {
  readonly jwks: JSONWebKeySet;
  readonly vectors: readonly {
    readonly name: string;
    readonly claims: GrantClaims;
    readonly grant: string;
  }[];
}
const file = join(import.meta.dirname, 'grants.json');
const { jwks, vectors } = JSON.parse(readFileSync(file, 'utf8')) as Vectors;
const keys = createLocalJWKSet(jwks);
const [{ claims, grant }] = vectors as [Vectors['vectors'][number]];

const action: ExactAction = {
  tenant: claims.tenant,
  action: 'scale',
  agent_type: null,
  service_id: 'checkout',
  service_type: null,
  resource: { name: 'checkout-api' },
  parameters: { min_instances: 4, regions: ['eu', 'us'] },
  cost_impact: 12.5,
  resource_scaling: 2,
  is_rollback: false,
};
const row = {
  id: claims.automation,
  tenant_id: claims.tenant,
  state: 'running',
  ttl_seconds: 300,
  expires_at: new Date('2025-11-24T16:05:00.900Z'),
  requested_by: { type: 'service', id: claims.sub.slice('service:'.length) },
  decided: { decision: 'allow', reasons: [], revision: claims.revision },
  action_digest: digestOf(action),
  audience: null,
  redeemed_at: null,
} as unknown as AutomationRow;
const inTime = new Date('2025-11-24T16:04:59.900Z');
const granted = claimsOf(row, null, claims.iss)!;
const exactly = { digest: digestOf(action), grant: granted };

test.each(vectors.map((vector) => [vector.name, vector] as const))(
  'jose verifies %s',
  async (_name, vector) => {
    const { payload, protectedHeader } = await jwtVerify(vector.grant, keys, {
      algorithms: ['EdDSA'],
      typ: 'strata-grant+jws',
      issuer: vector.claims.iss,
      audience: vector.claims.aud,
      currentDate: new Date((vector.claims.exp - 1) * 1000),
    });
    expect(payload).toEqual(vector.claims);
    expect(protectedHeader.kid).toBe(jwks.keys[0]!.kid);
    expect(await verified(vector.grant, grantType, vector.claims.iss, keys)).toEqual(payload);
  },
);

test('openssl verifies each with the published key, and none that was altered', () => {
  const folder = mkdtempSync(join(tmpdir(), 'strata-grants-'));
  const at = (name: string): string => join(folder, name);
  // SubjectPublicKeyInfo of Ed25519 (RFC 8410), which ends with the key.
  const prefix = Buffer.from('302a300506032b6570032100', 'hex');
  const key = Buffer.from(jwks.keys[0]!.x as string, 'base64url');
  writeFileSync(at('key'), Buffer.concat([prefix, key]));
  const verify = (text: string, signature: Buffer): number | null => {
    writeFileSync(at('text'), text);
    writeFileSync(at('signature'), signature);
    const how = ['pkeyutl', '-verify', '-pubin', '-keyform', 'DER', '-inkey', at('key')];
    const what = ['-rawin', '-in', at('text'), '-sigfile', at('signature')];
    const { status, error } = spawnSync('openssl', [...how, ...what]);
    expect(error).toBeUndefined();
    return status;
  };
  try {
    for (const vector of vectors) {
      const text = vector.grant.slice(0, vector.grant.lastIndexOf('.'));
      const signature = Buffer.from(vector.grant.slice(text.length + 1), 'base64url');
      const [, payload] = text.split('.') as [string, string];
      expect(JSON.parse(Buffer.from(payload, 'base64url').toString())).toEqual(vector.claims);
      expect(verify(text, signature)).toBe(0);
      expect(verify(`${text}A`, signature)).toBe(1);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('what was altered, is of another type or of another issuer is no grant', async () => {
  const [header, payload, signature] = grant.split('.') as [string, string, string];
  const other = Buffer.from(JSON.stringify({ ...claims, action_digest: '0'.repeat(64) }));
  const unsigned = Buffer.from(JSON.stringify({ alg: 'none', typ: grantType }));
  const forged = [
    [header, other.toString('base64url'), signature],
    [unsigned.toString('base64url'), payload, ''],
    [header, payload, Buffer.alloc(64).toString('base64url')],
    [header, payload, vectors[1]!.grant.split('.')[2]],
    ['', '', ''],
  ].map((parts) => parts.join('.'));
  for (const text of forged)
    expect(await verified(text, grantType, claims.iss, keys)).toBe(undefined);
  expect(await verified(grant, 'at+jwt', claims.iss, keys)).toBe(undefined);
  expect(await verified(grant, grantType, 'https://elsewhere.example', keys)).toBe(undefined);
});

test('says who wants what, by whose word, and for how long', () => {
  const approval = {
    id: 'a',
    policy: { required: 1, allow_self: false, machines: false },
    approved_by: [
      { type: 'user', id: 'u', at: '2025-11-24T15:59:30.000Z', email: 'u@acme.example' },
    ],
  };
  const said = claimsOf({ ...row, audience: 'runners' }, approval as never, claims.iss)!;
  expect(said).toEqual({
    ...claims,
    aud: 'runners',
    action_digest: digestOf(action),
    exp: 1764000300,
    approval: {
      id: 'a',
      approved_by: [{ type: 'user', id: 'u', at: '2025-11-24T15:59:30.000Z' }],
      policy: approval.policy,
    },
  });
});

test('there is none for what waits, has ended, or was redeemed', () => {
  const others: Partial<AutomationRow>[] = [
    { state: 'waiting_slot' },
    { state: 'finished', expires_at: null },
    { redeemed_at: new Date() },
    { action_digest: null },
  ];
  for (const other of others)
    expect(claimsOf({ ...row, ...other }, null, claims.iss)).toBe(undefined);
});

test('is good until its slot ends', () => {
  expect(granted.exp * 1000).toBeLessThanOrEqual(row.expires_at!.getTime());
  const only = { digest: undefined, grant: granted };
  expect(refusalOf(row, false, only, inTime)).toBe(undefined);
  // A heartbeat has renewed the slot, and with it the grant.
  const renewed = { ...row, expires_at: new Date('2025-11-24T17:00:00Z') };
  expect(refusalOf(renewed, false, only, inTime)).toBe(undefined);
  expect(refusalOf(renewed, false, only, new Date(granted.exp * 1000))).toBe('automation_over');
});

test('mutated actions redeem nothing', () => {
  const fields = Object.keys(action) as (keyof ExactAction)[];
  const isSame = (value: ExactAction) => digestOf(value) === digestOf(action);
  const mutation = fc
    .tuple(fc.constantFrom(...fields), fc.jsonValue())
    .map(([field, value]) => ({ ...action, [field]: value }) as ExactAction);
  let mutated = 0;
  fc.assert(
    fc.property(mutation, fc.boolean(), (other, hasGrant) => {
      if (isSame(other)) return;
      mutated += 1;
      const brought = { digest: digestOf(other), grant: hasGrant ? granted : undefined };
      expect(refusalOf(row, false, brought, inTime)).toBe('digest_mismatch');
    }),
    runs(1050),
  );
  expect(mutated).toBeGreaterThanOrEqual(1000 * times);
  expect(refusalOf(row, false, exactly, inTime)).toBe(undefined);
});
