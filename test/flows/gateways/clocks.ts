/** Gateways whose clocks are an hour from the database's decide, and know people, by the latter. */
import { expect, test } from '@jest/globals';
import jwt from 'jsonwebtoken';
import { createAccessTokens, type AccessClaims } from '../../../shared/security/access-tokens.ts';
import { baseUrl } from '../../support/cluster.ts';
import { fakeClockLibrary } from '../../support/postgres.ts';
import {
  Client,
  createTenantWith,
  memberPassword,
  secretKey,
  signIn,
} from '../../support/strata.ts';
import { cluster } from './cluster.ts';

const inMinutes = (minutes: number): string =>
  new Date(Date.now() + minutes * 60_000).toISOString().slice(0, 'YYYY-MM-DDTHH:MM'.length);
const during = (from: number, until: number): object => ({
  during: [{ from: inMinutes(from), until: inMinutes(until), timezone: 'UTC' }],
});

const library = fakeClockLibrary();

test.each([
  ['ahead', '+1h'],
  ['behind', '-1h'],
])('a gateway whose clock is an hour %s', async (where, FAKETIME) => {
  const { platform } = cluster;
  const { id, admin, emails } = await createTenantWith(platform.url, platform, `Hour ${where}`);
  await admin.put(`/tenants/${id}/config/freezes`, { now: during(-30, 30), soon: during(40, 80) });
  const gateway = await cluster.start(`gateway-${where}`, ['gateway'], {
    LD_PRELOAD: library,
    FAKETIME,
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  });
  const justSignedIn = await signIn(gateway.url, emails.tenant_admin!, memberPassword);

  const accounts = `/tenants/${id}/service-accounts`;
  const { sub, sid, tid, roles } = jwt.decode(justSignedIn.token!) as AccessClaims;
  const settings = { secret_key: secretKey, secret_key_previous: null, base_url: baseUrl };
  const tokens = createAccessTokens({ ...settings, access_token_ttl_seconds: 900 });
  const statusWith = async (...life: number[]): Promise<number> => {
    const token = tokens.issue({ sub, sid, tid, roles }, ...life);
    return (await new Client(gateway.url, token).get(accounts)).status;
  };
  const intent = { action: 'scale', risk_level: 'low' };
  const decided = await justSignedIn.post(`/tenants/${id}/decide`, intent);
  const made = await justSignedIn.post('/auth/api-key', { name: 'n', scopes: ['config:read'] });
  expect({
    decided: [decided.body.decision, decided.body.reasons?.[0]?.name],
    made: made.status,
    byToken: await statusWith(),
    byExpiredToken: await statusWith(-60),
  }).toEqual({ decided: ['deny', 'now'], made: 201, byToken: 200, byExpiredToken: 401 });
  await gateway.stop();
});
