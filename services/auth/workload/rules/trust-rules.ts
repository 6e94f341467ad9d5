/** What a trust rule may say, and whether a token fits it. */
import { isDeepStrictEqual } from 'node:util';
import type { KeyScope, TenantRole } from '../../../../shared/contracts/roles.ts';
import {
  longestTokenSeconds,
  type NewTrustRule,
  type TrustRule,
} from '../../../../shared/contracts/auth-workload.ts';
import type { AccountAddress } from '../../../../shared/contracts/service-accounts.ts';
import type { Problem } from '../../../../shared/errors.ts';
import { pointerToken } from '../../../../shared/schema/json-pointer.ts';
import { uuid } from '../../../../shared/schema/uuid.ts';
import { documentProblems } from '../../rules/narrowing.ts';

/** BASE_URL, as audiences name this Strata. */
export const nameOf = (baseUrl: string): string => baseUrl.replace(/\/$/, '');

/** How a service account is named outside of Strata, as the audience of a token. */
export const addressOf = (base: string, { tenant_id, account_id }: AccountAddress): string =>
  `${base}/tenants/${tenant_id}/service-accounts/${account_id}`;

/** The account that an audience names; undefined where it names none of this Strata. */
export function accountIn(base: string, audience: string): AccountAddress | undefined {
  if (!audience.startsWith(`${base}/`)) return undefined;
  const [, tenant_id, account_id] =
    new RegExp(`^/tenants/(${uuid})/service-accounts/(${uuid})$`).exec(
      audience.slice(base.length),
    ) ?? [];
  return tenant_id === undefined || account_id === undefined
    ? undefined
    : { tenant_id, account_id };
}

/**
 * Issuers that sign for strangers, who may take a name that was given up: a rule pins one of these
 * ids, which are never given again.
 */
const sharedIssuers: ReadonlyMap<string, readonly string[]> = new Map([
  ['token.actions.githubusercontent.com', ['repository_id', 'repository_owner_id']],
  ['gitlab.com', ['project_id', 'namespace_id']],
]);

/** After such a character a name has ended, so that `acme/shop*` does not trust `acme/shop-evil`. */
const endsAtSeparator = /[^\p{L}\p{N}]\*$/u;

function patternProblem(pattern: string): string | undefined {
  const star = pattern.indexOf('*');
  if (star === -1) return undefined;
  if (star < pattern.length - 1) return 'may have * at its end alone';
  return endsAtSeparator.test(pattern)
    ? undefined
    : 'must end at a separator before *, such as acme/*, or other names begin alike';
}

export interface Allowed {
  /** Origin of this Strata. */
  readonly base: string;
  readonly account: AccountAddress & { readonly roles: readonly TenantRole[] };
  readonly issuers: ReadonlySet<string>;
}

/** What is wrong with rules, by JSON Pointer into the body. */
export const problemsOfRules = (rules: readonly NewTrustRule[], allowed: Allowed): Problem[] =>
  rules.flatMap((rule, index) => {
    const at = `/rules/${index}`;
    const isTwice = rules.slice(0, index).some((each) => isDeepStrictEqual(each, rule));
    const twice = isTwice ? [{ path: at, message: 'is there twice' }] : [];
    return [
      ...twice,
      ...problemsOf(rule, allowed).map(({ path, message }) => ({ path: at + path, message })),
    ];
  });

function* problemsIn(rule: NewTrustRule, { base, account, issuers }: Allowed): Iterable<Problem> {
  if (!issuers.has(rule.issuer))
    yield { path: '/issuer', message: 'is no issuer that the platform allows' };
  const own = addressOf(base, account);
  if (rule.audience !== undefined && rule.audience !== base && rule.audience !== own)
    yield { path: '/audience', message: `must be ${own} or ${base}` };
  if (!rule.roles.every((role) => account.roles.includes(role)))
    yield { path: '/roles', message: 'must be among the roles of the account' };
  const claims = Object.entries(rule.claims ?? {});
  if (rule.subject === undefined && claims.length === 0)
    yield { path: '', message: 'must have a subject or claims, or it trusts all of the issuer' };
  for (const [path, pattern] of [
    ...(rule.subject === undefined ? [] : [['/subject', rule.subject] as const]),
    ...claims.map(([name, value]) => [`/claims/${pointerToken(name)}`, value] as const),
  ]) {
    const message = patternProblem(pattern);
    if (message !== undefined) yield { path, message };
  }
  for (const [name] of claims)
    if (ownClaims.has(name))
      yield { path: `/claims/${pointerToken(name)}`, message: 'is no claim for a rule' };
  yield* pinProblem(rule);
  yield* documentProblems(rule.narrowed_to, account.tenant_id);
}
const problemsOf = (rule: NewTrustRule, allowed: Allowed): Problem[] => [
  ...problemsIn(rule, allowed),
];

/** Those that have a field of their own, or that are judged for every token. */
const ownClaims: ReadonlySet<string> = new Set(['iss', 'aud', 'sub', 'exp', 'nbf', 'iat', 'jti']);

function* pinProblem({ issuer, claims = {} }: NewTrustRule): Iterable<Problem> {
  const pins = sharedIssuers.get(URL.parse(issuer)?.hostname ?? '');
  if (pins === undefined) return;
  const given = pins.filter((name) => claims[name] !== undefined);
  for (const name of given)
    if (!/^[0-9]{1,20}$/.test(claims[name]!))
      yield { path: `/claims/${name}`, message: 'must be the whole id, in digits' };
  if (given.length === 0)
    yield {
      path: '/claims',
      message: `must have ${pins.join(' or ')}: names of this issuer can be taken by others`,
    };
}

const defaultScopes: KeyScope[] = ['config:read'];

/** The rules as they are stored. One that was there stays the same, with its id. */
export function storedRules(
  wanted: readonly NewTrustRule[],
  before: readonly TrustRule[],
  made: { readonly audience: string; readonly by: string; readonly at: Date; newId(): string },
): TrustRule[] {
  const left = [...before];
  return wanted.map((rule) => {
    const whole = {
      ...rule,
      audience: rule.audience ?? made.audience,
      scopes: rule.scopes ?? defaultScopes,
      max_ttl: rule.max_ttl ?? longestTokenSeconds,
    };
    const same = left.findIndex(({ id: _id, made_by: _by, created_at: _at, ...each }) =>
      isDeepStrictEqual(each, whole),
    );
    const [kept] = same === -1 ? [] : left.splice(same, 1);
    return (
      kept ?? { ...whole, id: made.newId(), made_by: made.by, created_at: made.at.toISOString() }
    );
  });
}

const matches = (pattern: string, text: string): boolean =>
  pattern.endsWith('*') ? text.startsWith(pattern.slice(0, -1)) : text === pattern;

/** Ids come as numbers from some issuers. Nothing else than one plain value is compared. */
function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  const isPlain = Number.isSafeInteger(value) || typeof value === 'boolean';
  return isPlain ? String(value) : undefined;
}

export type Claims = Readonly<Record<string, unknown>>;

/** Whether a token with these claims is one that the rule trusts, once its signature is verified. */
export function trusts(rule: TrustRule, claims: Claims): boolean {
  const wanted = Object.entries(rule.claims ?? {});
  if (rule.subject !== undefined) wanted.push(['sub', rule.subject]);
  return (
    claims.iss === rule.issuer &&
    soleAudience(claims) === rule.audience &&
    wanted.every(([name, pattern]) => {
      const text = Object.hasOwn(claims, name) ? textOf(claims[name]) : undefined;
      return text !== undefined && matches(pattern, text);
    })
  );
}

/** A token that is for others as well could be sent on by any of them. */
export function soleAudience({ aud }: Claims): string | undefined {
  const [only, ...others] = [aud].flat();
  return typeof only === 'string' && others.length === 0 ? only : undefined;
}
