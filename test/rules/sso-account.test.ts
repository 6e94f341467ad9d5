/** Which account somebody may enter whom an identity provider vouches for: one row a case. */
import { expect, test } from '@jest/globals';
import {
  domainOf,
  validateSsoAccount,
  provesAddress,
  type SsoClaims,
  type SsoVerdict,
} from '../../services/auth/single-sign-on/rules/sso-account.ts';

const rules = {
  tenant_id: 't',
  domains: [
    { domain: 'acme.example', verified: true },
    { domain: 'claimed.example', verified: false },
  ],
  jit_enabled: true,
};
const claims: SsoClaims = {
  issuer: 'https://idp.example',
  subject: 's',
  email: 'ada@acme.example',
  email_verified: true,
  name: null,
  authenticated_at: null,
};
const ada = { id: 'ada', status: 'active', email_verified: true } as const;
const bob = { ...ada, id: 'bob' };
const unproved = { ...ada, email_verified: false };
const disabled = { ...ada, status: 'disabled' } as const;
type User = Parameters<typeof validateSsoAccount>[2]['linked'];

interface Row {
  readonly claims?: Partial<SsoClaims>;
  readonly rules?: Partial<typeof rules> | { tenant_id: null };
  readonly linked?: User;
  readonly linking?: User;
  readonly addressed?: User;
  readonly gives: string;
}
const rows: Record<string, Row> = {
  'linked before': { linked: ada, gives: 'known ada' },
  'linked before, whatever the address is now': {
    linked: ada,
    addressed: bob,
    claims: { email: 'x@elsewhere.example', email_verified: false },
    gives: 'known ada',
  },
  'linked before, no address told': { linked: ada, claims: { email: null }, gives: 'known ada' },
  'linked before, disabled': { linked: disabled, gives: 'auth_sso_account_not_provisioned' },
  'linked with the account that asks': { linked: ada, linking: ada, gives: 'known ada' },
  'linked with another than asks': { linked: ada, linking: bob, gives: 'conflict' },
  'verified by the provider': { addressed: ada, gives: 'link ada' },
  'verified by the provider, disabled': {
    addressed: disabled,
    gives: 'auth_sso_account_not_provisioned',
  },
  'verified by the provider, the first proof': { addressed: unproved, gives: 'link ada' },
  'not verified by the provider': {
    addressed: ada,
    claims: { email_verified: false },
    gives: 'auth_sso_link_required',
  },
  'domain not verified': {
    addressed: ada,
    claims: { email: 'ada@claimed.example' },
    gives: 'auth_sso_link_required',
  },
  'foreign domain': {
    addressed: ada,
    claims: { email: 'ada@elsewhere.example' },
    gives: 'auth_sso_domain_not_allowed',
  },
  subdomain: {
    addressed: ada,
    claims: { email: 'ada@sub.acme.example' },
    gives: 'auth_sso_domain_not_allowed',
  },
  'no address': { claims: { email: null }, gives: 'auth_sso_domain_not_allowed' },
  'asked for, whatever the addresses say': {
    linking: bob,
    addressed: ada,
    claims: { email_verified: false },
    gives: 'link bob',
  },
  'asked for, foreign domain': {
    linking: bob,
    claims: { email: 'bob@elsewhere.example' },
    gives: 'auth_sso_domain_not_allowed',
  },
  'no one yet': { gives: 'provision' },
  'no one yet, provisioning off': {
    rules: { jit_enabled: false },
    gives: 'auth_sso_account_not_provisioned',
  },
  'no one yet, no tenant': {
    rules: { tenant_id: null },
    gives: 'auth_sso_account_not_provisioned',
  },
  'no one yet, address not verified': {
    claims: { email_verified: false },
    gives: 'auth_sso_account_not_provisioned',
  },
  'no one yet, domain not verified': {
    claims: { email: 'new@claimed.example' },
    gives: 'auth_sso_account_not_provisioned',
  },
};

/** As the rows write it: a code, or the kind with the account where there is one. */
function outcomeOf(verdict: SsoVerdict<NonNullable<User>>): string {
  if (verdict.kind === 'refuse') return verdict.code;
  if (verdict.kind === 'provision') return verdict.kind;
  return `${verdict.kind} ${verdict.user.id}`;
}

test.each(Object.entries(rows))('%s', (...[, row]) => {
  const evaluated = validateSsoAccount(
    { ...claims, ...row.claims },
    { ...rules, ...row.rules },
    {
      linked: row.linked ?? null,
      linking: row.linking ?? null,
      addressed: row.addressed ?? null,
    },
  );
  expect(outcomeOf(evaluated)).toBe(row.gives);
});

test.each<[string, Partial<SsoClaims>, boolean]>([
  ['its own address, verified at a verified domain', { email: 'Ada@ACME.example' }, true],
  ['another address of the domain', { email: 'bob@acme.example' }, false],
  ['its own address, not verified', { email_verified: false }, false],
  ['no address', { email: null }, false],
])('a sign-in proves the address of the account: %s', (...[, received, proves]) => {
  const account = { email: 'ada@acme.example' };
  expect(provesAddress({ ...claims, ...received }, rules, account)).toBe(proves);
  const unverified = { domains: [{ domain: 'acme.example', verified: false }] };
  expect(provesAddress({ ...claims, ...received }, unverified, account)).toBe(false);
});

test('domains are compared without case, in ASCII', () => {
  expect(
    ['a@ACME.Example', 'a@b@acme.example', 'a@bücher.example', 'nothing'].map(domainOf),
  ).toEqual(['acme.example', 'acme.example', 'xn--bcher-kva.example', 'nothing']);
});
