/**
 * The token exchange (RFC 8693, 2): a workload's token for one of a service account. Whoever asks is
 * nobody until the last step.
 *
 * | Step     | Refuses                                                        | With             |
 * |----------|----------------------------------------------------------------|------------------|
 * | request  | another grant, another type of token                           | OAuth codes      |
 * | read     | what cannot be a good token now, whoever signed it             | refused          |
 * | account  | a token that names no account of this Strata                   | target invalid   |
 * | issuer   | an issuer that no rule of the account names, or not allowed    | refused          |
 * | verify   | what the issuer has not signed; the first call to anybody      | refused          |
 * | rules    | what no rule trusts, and scopes that none gives                | refused, scope   |
 * | active   | an account that is disabled or gone                            | refused          |
 * | use once | a `jti` that was used before, on any node                      | refused          |
 */
import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { Counter } from 'prom-client';
import type { Handlers, Request } from '../../../../shared/contract-runtime/request.ts';
import {
  accessTokenType,
  jwtTokenType,
  tokenExchange,
  type TrustRule,
  type WorkloadIssuer,
} from '../../../../shared/contracts/auth-workload.ts';
import type { KeyScope } from '../../../../shared/contracts/roles.ts';
import type { AccountAddress } from '../../../../shared/contracts/service-accounts.ts';
import type { ParamsOf } from '../../../../shared/contracts/index.ts';
import { codeOf, ifFound, invalid, StrataError } from '../../../../shared/errors.ts';
import { synchronizedNow } from '../../../../shared/process/synchronized-clock.ts';
import { createWorkloadTokens } from '../../../../shared/security/workload-tokens.ts';
import type { AuthParts } from '../../parts.ts';
import { recordEvent } from '../../stores/audit-events.ts';
import { isFirstUse } from '../../stores/taken-once.ts';
import { clockTolerance, readSubjectToken, type SubjectToken } from '../rules/subject-token.ts';
import { accountIn, nameOf, soleAudience, trusts } from '../rules/trust-rules.ts';
import { findIssuers, findTrust } from '../stores/trust.ts';

type Asked = ParamsOf<'auth.token.exchange'>['body'];

const refused = (): StrataError => new StrataError('auth_workload_token_refused');

function requireKnownRequest(asked: Asked): void {
  if (asked.grant_type !== tokenExchange) throw new StrataError('auth_grant_type_unsupported');
  const types = [
    ['subject_token_type', asked.subject_token_type, jwtTokenType],
    ['requested_token_type', asked.requested_token_type ?? accessTokenType, accessTokenType],
  ] as const;
  for (const [name, given, known] of types)
    if (given !== known) throw invalid([{ path: `/${name}`, message: `must be ${known}` }]);
}

/** The scopes that were asked for. Those of the rule where none were. Throws where it has not all. */
function scopesOf(rules: readonly TrustRule[], scope: string | undefined) {
  const wanted = scope?.split(' ').filter((each) => each !== '') ?? [];
  const gives = ({ scopes }: TrustRule): boolean =>
    wanted.every((each) => scopes.includes(each as KeyScope));
  const rule = rules.find(gives);
  if (!rule) throw new StrataError('auth_workload_scope_invalid');
  return { rule, scopes: wanted.length === 0 ? rule.scopes : ([...new Set(wanted)] as KeyScope[]) };
}

async function requireActive(account: AccountAddress, { call }: Request): Promise<void> {
  const found = await ifFound(call('tenant-config.service-accounts.resolve', account));
  if (found?.status !== 'active' || found.tenant_status !== 'active') throw refused();
}

/** Stands for the token: what its issuer calls it. */
function useOf(issuer: string, jti: string): string {
  const digest = hash('sha256', JSON.stringify(['workload', issuer, jti]), 'hex');
  return digest.slice(0, 32).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/** How often a refusal of one account is written down, in milliseconds: the others are counted. */
const notedMs = 60_000;

export function exchangeActions({ db, settings, metrics, issuerKeys, deferredEvents }: AuthParts) {
  const results = new Counter({
    name: 'strata_workload_exchanges_total',
    help: 'Tokens of workloads that this node was asked to exchange, by result',
    labelNames: ['result'],
    registers: [metrics],
  });
  for (const result of ['issued', 'refused', 'failed']) results.inc({ result }, 0);
  const noted = new LRUCache<string, true>({ max: 10_000, ttl: notedMs });

  /** The rules that trust the token, which its issuer has signed. */
  async function trustedBy(
    text: string,
    { claims }: SubjectToken,
    account: AccountAddress,
  ): Promise<{ rules: readonly TrustRule[]; issuer: WorkloadIssuer }> {
    const { rules } = await findTrust(db.manager, account);
    const naming = rules.filter(({ issuer }) => issuer === claims.iss);
    if (naming.length === 0) throw refused();
    const { issuers } = await findIssuers(db.manager);
    const issuer = issuers.find((each) => each.issuer === claims.iss);
    const audience = soleAudience(claims);
    if (!issuer || audience === undefined) throw refused();
    const isSigned = await issuerKeys.verifies(text, issuer, audience);
    if (!isSigned) throw refused();
    const trusting = naming.filter((rule) => trusts(rule, claims));
    if (trusting.length === 0) throw new UntrustedToken(claims);
    return { rules: trusting, issuer };
  }

  async function exchange(asked: Asked, request: Request) {
    requireKnownRequest(asked);
    const base = nameOf(settings().base_url);
    const now = synchronizedNow() / 1000;
    const token = readSubjectToken(asked.subject_token, now);
    if (!token) throw refused();
    const { claims } = token;
    const account = accountIn(base, asked.audience ?? soleAudience(claims) ?? '');
    if (!account) throw new StrataError('auth_workload_target_invalid');
    const { rules, issuer } = await noting(account, request, () =>
      trustedBy(asked.subject_token, token, account),
    );
    await requireActive(account, request);
    const { rule, scopes } = scopesOf(rules, asked.scope);
    const { jti } = claims;
    const isFirst = await db.transaction(async (manager) => {
      const id = typeof jti === 'string' ? useOf(issuer.issuer, jti) : undefined;
      const left = claims.exp - now + 2 * clockTolerance;
      if (id !== undefined && !(await isFirstUse(manager, id, left))) return false;
      const event = {
        action: 'auth.workload_signed_in',
        tenant_id: account.tenant_id,
        target: account.account_id,
        payload: { rule_id: rule.id, issuer: issuer.issuer, subject: claims.sub ?? null, scopes },
        actor: { type: 'service', id: account.account_id },
      } as const;
      await recordEvent(manager, event, request);
      return true;
    });
    if (!isFirst) throw refused();
    const { account_id: sub, tenant_id: tid } = account;
    const accessToken = createWorkloadTokens(settings()).issue(
      { sub, tid, rule: rule.id, issuer: issuer.id, scopes },
      rule.max_ttl,
    );
    return {
      access_token: accessToken,
      issued_token_type: accessTokenType,
      token_type: 'Bearer' as const,
      expires_in: rule.max_ttl,
      scope: scopes.join(' '),
    } as const;
  }

  /**
   * The account's administrators learn of a token that is real and that no rule trusts: mostly a
   * rule is wrong. Once a minute at most, since anybody may send such tokens.
   */
  async function noting<T>(
    { tenant_id, account_id }: AccountAddress,
    request: Request,
    work: () => Promise<T>,
  ): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof UntrustedToken)) throw error;
      if (!noted.has(account_id)) {
        noted.set(account_id, true);
        const event = {
          action: 'auth.workload_refused',
          tenant_id,
          target: account_id,
          payload: error.shown,
          actor: { type: 'system', id: 'auth' },
        } as const;
        deferredEvents.record(event, request);
      }
      throw refused();
    }
  }

  return {
    async 'auth.token.exchange'({ body }, request) {
      try {
        const answer = await exchange(body, request);
        results.inc({ result: 'issued' });
        return answer;
      } catch (error) {
        const isFailure = ['auth_workload_issuer_error', 'internal_error'].includes(codeOf(error));
        results.inc({ result: isFailure ? 'failed' : 'refused' });
        if (isFailure) request.log.warn({ err: error }, 'a token could not be exchanged');
        throw error;
      }
    },
  } satisfies Handlers;
}

/** Of each claim, for the audit. */
const longestShown = 300;

/** The issuer has signed it, and no rule trusts it. */
class UntrustedToken extends Error {
  readonly shown: object;
  constructor({ iss, sub, aud }: SubjectToken['claims']) {
    super('no rule trusts the token');
    // No `String`, which throws for an object that says how it becomes a text.
    const textOf = (value: unknown): string =>
      typeof value === 'string' ? value : `${JSON.stringify(value)}`;
    // Half of a character that the cut is in could not be stored, nor the event.
    const short = (value: unknown): string => textOf(value).slice(0, longestShown).toWellFormed();
    this.shown = { issuer: short(iss), subject: short(sub), audience: short(aud) };
  }
}
