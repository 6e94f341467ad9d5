/**
 * Who a request is from: its credential (an access token, an API key or a workload's token) is
 * verified, and the session, key or trust, and the membership behind it, are looked up. All of them
 * are cached reads, so a caller who is known costs no call and no promise.
 */
import { LRUCache } from 'lru-cache';
import type { ServiceBroker } from 'moleculer';
import type { IncomingHttpHeaders } from 'node:http';
import type { Logger } from 'pino';
import { isOpenTo, serviceCaller, type Caller } from '../../shared/access.ts';
import type { CachedEntry } from '../../shared/coherence/entry.ts';
import { cachedAnswer, type LocalCache } from '../../shared/contract-runtime/local-cache.ts';
import { callAs, type CallOptions } from '../../shared/contract-runtime/request.ts';
import type { ErrorCode } from '../../shared/contracts/error-codes.ts';
import type { Contract } from '../../shared/contracts/contract.ts';
import {
  contractTable,
  type ActionName,
  type ParamsOf,
  type ResultOf,
} from '../../shared/contracts/index.ts';
import { needsStrongerSignIn, type SignInPolicy } from '../../shared/contracts/sign-in-policy.ts';
import { visitRoles } from '../../shared/contracts/visits.ts';
import { codeOf, isOutage, StrataError } from '../../shared/errors.ts';
import { upTo } from '../../shared/concurrency/growing-cache.ts';
import { synchronizedNow } from '../../shared/process/synchronized-clock.ts';
import type { LiveSettings } from '../../shared/settings/live-settings.ts';
import { createAccessTokens } from '../../shared/security/access-tokens.ts';
import { createApiKeys, looksLikeApiKey, parseApiKey } from '../../shared/security/api-keys.ts';
import {
  createWorkloadTokens,
  looksLikeWorkloadToken,
} from '../../shared/security/workload-tokens.ts';
import type { Settings } from '../../shared/settings/settings.ts';

export interface Identity {
  readonly caller: Caller;
  /** Known from before an outage: good enough to read, not to write. */
  readonly stale: boolean;
}

export interface Authenticator {
  /**
   * The identity that was found for this credential before, where every entry that it followed from
   * is still fresh in this node's memory at `now` (performance.now()); undefined else. Never stale:
   * what is stale has no fresh entry.
   */
  readonly known: (headers: IncomingHttpHeaders, now: number) => Identity | undefined;
  /**
   * Finds the identity, with calls over the bus where this node's memory does not do, within
   * `timeLeft` milliseconds. Undefined where the request brings no credential. Throws 401 or 403
   * where the credential is invalid, and what a call throws during an outage.
   */
  readonly find: (
    headers: IncomingHttpHeaders,
    requestId: string,
    timeLeft: () => number,
  ) => Promise<Identity | undefined>;
}

interface Resolved<T> {
  /** Null where there is no such thing. */
  readonly value: T | null;
  /** Given where this node's memory answered. */
  readonly entry?: CachedEntry<unknown> | undefined;
}

/** A credential that was found good. */
interface Verified {
  /** Whose it is, and for which tenant. */
  readonly holder: Pick<Caller, 'type' | 'id' | 'tenant_id' | 'platform_roles'>;
  /** Known from before an outage. */
  readonly stale: boolean;
  /** The platform's, for a session of one of its administrators. */
  readonly platformPolicy?: SignInPolicy;
  /** What it followed from; undefined for what was not in memory. */
  readonly entries: readonly (CachedEntry<unknown> | undefined)[];
  /** Milliseconds since 1970; it is verified again after that. */
  readonly expiresAt: number;
  /** What the caller has from this credential and not from their account. */
  readonly own: Partial<Caller>;
  /** Of the account's roles only these. */
  readonly rolesWithin?: Caller['roles'];
  /** The refusal where the service account that it is for has ended. */
  readonly ended: ErrorCode;
}

/** What somebody is in the tenant of their credential; a visitor also has until when. */
interface MemberFacts {
  readonly tenant_status: 'active' | 'disabled';
  readonly roles: Caller['roles'];
  /** Absent for a service account, which does not sign in. */
  readonly sign_in_policy?: SignInPolicy;
  readonly visit?: NonNullable<Caller['visit']>;
}

/** A standing, and what it followed from. */
interface Found {
  readonly value: MemberFacts | null;
  readonly entries: readonly (CachedEntry<unknown> | undefined)[];
}

interface KnownIdentity {
  readonly credential: string;
  readonly identity: Identity;
  readonly expiresAt: number;
  /** All that the identity followed from. */
  readonly entries: readonly CachedEntry<unknown>[];
}

/**
 * What is made of the settings' keys. A request keeps to the key material that it began under, so
 * that nothing that was verified with old keys is remembered under new ones.
 */
type KeyMaterial = ReturnType<typeof createKeyMaterial>;

const createKeyMaterial = (settings: Settings) => ({
  settings,
  tokens: createAccessTokens(settings),
  apiKeys: createApiKeys(settings),
  workloads: createWorkloadTokens(settings),
  /** By the end of the credential. The oldest go first: they expire first, too. */
  identities: new LRUCache<string, KnownIdentity>(upTo(20_000)),
});

/** The use of an API key is noted once in this time. */
const noteUseMs = 60_000;

/** What the gateway asks on its own behalf to find out who calls. */
type Resolve = <A extends ActionName>(
  name: A,
  params: ParamsOf<A>,
  call: CallOptions,
) => Promise<Resolved<ResultOf<A>>>;

/** Answers from this node's memory where that does, else by a call. */
function createResolve(broker: ServiceBroker, localCache: LocalCache): Resolve {
  const gateway = serviceCaller(broker.nodeID);
  return async (name, params, call) => {
    const contract: Contract = contractTable[name];
    const entry = localCache.find(contract, { ...params });
    try {
      const known = cachedAnswer(contract, { ...params }, gateway, entry, performance.now());
      if (known !== undefined) return { value: known as ResultOf<typeof name>, entry };
      return { value: await callAs(broker, name, params, call) };
    } catch (error) {
      // Where memory said so, the entry says it again next time; one that is not fresh answers
      // nothing.
      if (codeOf(error) === 'not_found') return { value: null, entry };
      throw error;
    }
  };
}

async function verifyAccessToken(
  resolve: Resolve,
  token: string,
  { tokens }: KeyMaterial,
  sayOtherIssuer: (issuer: string) => void,
  call: CallOptions,
): Promise<Verified> {
  const result = tokens.verify(token);
  if (!result.ok) {
    if (result.issuer !== undefined) sayOtherIssuer(result.issuer);
    throw new StrataError(result.code);
  }
  const params = { session_id: result.claims.sid };
  const { value: session, entry } = await resolve('auth.sessions.resolve', params, call);
  if (session?.status !== 'active') throw new StrataError('auth_session_revoked');
  return {
    holder: {
      type: 'user',
      id: session.user_id,
      tenant_id: session.tenant_id,
      platform_roles: session.platform_roles,
    },
    stale: isStale(session),
    entries: [entry],
    ended: 'auth_session_revoked',
    expiresAt: result.claims.exp * 1000,
    platformPolicy: session.sign_in_policy,
    own: {
      session_id: session.session_id,
      authenticated_at: session.authenticated_at,
      signed_in_with: session.method,
      ...(session.confined_to !== undefined && { confined_to: session.confined_to }),
    },
  };
}

async function verifyApiKey(
  resolve: Resolve,
  text: string,
  { apiKeys }: KeyMaterial,
  noteUse: (keyId: string, call: CallOptions) => void,
  call: CallOptions,
): Promise<Verified> {
  const parsed = parseApiKey(text);
  if (!parsed) throw new StrataError('auth_api_key_invalid');
  const params = { key_id: parsed.id };
  const { value: key, entry } = await resolve('auth.api-key.resolve', params, call);
  if (!key?.usable || !apiKeys.fits(parsed.secret, key.hash))
    throw refusalBy(isStale(key), new StrataError('auth_api_key_invalid'));
  const expiresAt = Date.parse(key.expires_at);
  if (expiresAt <= synchronizedNow()) throw new StrataError('auth_api_key_invalid');
  noteUse(parsed.id, call);
  return {
    holder: { ...key.owner, tenant_id: key.tenant_id, platform_roles: key.platform_roles },
    stale: isStale(key),
    entries: [entry],
    ended: 'auth_api_key_invalid',
    // Verified again when its next use has to be noted.
    expiresAt: Math.min(expiresAt, synchronizedNow() + noteUseMs),
    own: {
      scopes: key.scopes,
      ...(key.narrowed_to !== undefined && { narrowed_to: key.narrowed_to }),
      api_key: { id: parsed.id, name: key.name, made_by: key.made_by },
      ...(key.confined_to !== undefined && { confined_to: key.confined_to }),
    },
  };
}

/** It ends with its rule, and with the issuer that the rule names. */
async function verifyWorkloadToken(
  resolve: Resolve,
  token: string,
  { workloads }: KeyMaterial,
  call: CallOptions,
): Promise<Verified> {
  const result = workloads.verify(token);
  if (!result.ok) throw new StrataError(result.code);
  const { sub: accountId, tid: tenantId, rule: ruleId, issuer, scopes, exp } = result.claims;
  const trust = await resolve('auth.trust.resolve', { account_id: accountId }, call);
  const issuers = await resolve('auth.workload-issuers.resolve', {}, call);
  const rule = trust.value?.find(({ id }) => id === ruleId);
  const stale = isStale(trust.value) || isStale(issuers.value);
  if (!rule || !issuers.value?.includes(issuer))
    throw refusalBy(
      stale,
      new StrataError('auth_token_invalid', 'The trust in this workload was revoked.'),
    );
  return {
    holder: { type: 'service_account', id: accountId, tenant_id: tenantId, platform_roles: [] },
    stale,
    entries: [trust.entry, issuers.entry],
    expiresAt: exp * 1000,
    ended: 'auth_token_invalid',
    rolesWithin: rule.roles,
    own: {
      scopes,
      ...(rule.narrowed_to !== undefined && { narrowed_to: rule.narrowed_to }),
      api_key: { id: rule.id, name: rule.label, made_by: rule.made_by },
    },
  };
}

/**
 * Roles in the tenant are those of now; none where the membership has ended or the tenant is
 * disabled. Throws where a service account has.
 */
async function standingOf(
  resolve: Resolve,
  verified: Pick<Verified, 'holder' | 'ended' | 'own'>,
  call: CallOptions,
): Promise<Found | undefined> {
  const { type, id, tenant_id: tenantId } = verified.holder;
  if (tenantId === null) return undefined;
  if (type === 'user') {
    const member = { tenant_id: tenantId, user_id: id };
    const { value, entry } = await resolve('tenant-config.members.resolve', member, call).catch(
      async (error: unknown) => {
        // In an outage no one knows that they are no member, which is no reason to end a visit.
        const visit = isOutage(error) && (await visitOf(resolve, verified, member, call)).value;
        if (!visit) throw error;
        return { value: visit, entry: undefined };
      },
    );
    if (value !== null) return { value, entries: [entry] };
    const visiting = await visitOf(resolve, verified, member, call);
    return { value: visiting.value, entries: [entry, ...visiting.entries] };
  }
  const params = { tenant_id: tenantId, account_id: id };
  const account = await resolve('tenant-config.service-accounts.resolve', params, call);
  if (account.value?.status !== 'active')
    throw refusalBy(isStale(account.value), new StrataError(verified.ended));
  return { value: account.value, entries: [account.entry] };
}

/**
 * What a platform administrator is in a tenant that they look into: a reader, in the session that
 * began the visit and by no key, until it ends.
 */
async function visitOf(
  resolve: Resolve,
  { holder, own }: Pick<Verified, 'holder' | 'own'>,
  visitor: { readonly tenant_id: string; readonly user_id: string },
  call: CallOptions,
): Promise<Found> {
  const mayVisit = own.session_id !== undefined && holder.platform_roles.includes('platform_admin');
  if (!mayVisit) return { value: null, entries: [] };
  const { value: visit, entry } = await resolve('tenant-config.visits.resolve', visitor, call);
  if (!visit || !isOpenTo(own.session_id, visit)) return { value: null, entries: [entry] };
  const { id, until, tenant_status, sign_in_policy } = visit;
  const value: MemberFacts = {
    tenant_status,
    sign_in_policy,
    roles: visitRoles,
    visit: { id, until },
    ...(isStale(visit) && { stale: true }),
  };
  return { value, entries: [entry] };
}

export function createAuthenticator(
  broker: ServiceBroker,
  localCache: LocalCache,
  settings: LiveSettings,
  log: Logger,
): Authenticator {
  const gateway = serviceCaller(broker.nodeID);
  const resolve = createResolve(broker, localCache);
  const usesNoted = new LRUCache<string, true>({ ...upTo(20_000), ttl: noteUseMs });
  const issuersSaid = new LRUCache<string, true>({ max: 100 });
  let latest = createKeyMaterial(settings.current);

  /** Made again when a reload has replaced the settings. */
  function keyMaterial(): KeyMaterial {
    if (latest.settings !== settings.current) latest = createKeyMaterial(settings.current);
    return latest;
  }

  /**
   * Only who holds SECRET_KEY makes such tokens: nodes with another BASE_URL, or this one before
   * its BASE_URL was changed.
   */
  function sayOtherIssuer(issuer: string): void {
    if (issuersSaid.has(issuer)) return;
    issuersSaid.set(issuer, true);
    const { base_url: own } = settings.current;
    log.warn(
      `Access tokens of ${issuer} are refused, since BASE_URL is ${own} on this node. Set BASE_URL to one address on all nodes.`,
    );
  }

  /** Nobody waits for it, and a use that could not be noted keeps nobody out. */
  function noteUse(keyId: string, call: CallOptions): void {
    if (usesNoted.has(keyId)) return;
    usesNoted.set(keyId, true);
    callAs(broker, 'auth.api-key.used', { key_id: keyId }, call).catch((error: unknown) =>
      log.warn({ err: error }, 'the use of an API key was not noted'),
    );
  }

  async function identify(
    credential: string,
    verified: Verified,
    { identities }: KeyMaterial,
    call: CallOptions,
  ): Promise<Identity> {
    const { holder, stale, platformPolicy, own, rolesWithin } = verified;
    const memberFacts = await standingOf(resolve, verified, call);
    const entries = [...verified.entries, ...(memberFacts?.entries ?? [])];
    const inTenant = memberFacts?.value ?? null;
    const visit = inTenant?.visit;
    const isDisabled = inTenant?.tenant_status === 'disabled';
    const roles = (inTenant?.roles ?? []).filter((role) => rolesWithin?.includes(role) ?? true);
    const { signed_in_with: method } = own;
    const policies = [platformPolicy, inTenant?.sign_in_policy];
    const isWeak = method !== undefined && needsStrongerSignIn(method, policies);
    const identity: Identity = {
      caller: {
        ...holder,
        tenant_id: inTenant ? holder.tenant_id : null,
        // Whoever looks into a tenant does nothing else meanwhile.
        ...(visit && { visit, platform_roles: [] }),
        roles: isDisabled ? [] : roles,
        ...(isDisabled && { tenant_disabled: true }),
        ...(isWeak && { stronger_sign_in_required: true }),
        ...own,
      },
      stale: stale || isStale(inTenant),
    };
    const expiresAt = Math.min(verified.expiresAt, visit ? Date.parse(visit.until) : Infinity);
    const present = entries.filter((each) => each !== undefined);
    if (present.length === entries.length)
      identities.set(tailOf(credential), { credential, identity, expiresAt, entries: present });
    return identity;
  }

  return {
    known(headers, now) {
      const credential = credentialOf(headers);
      if (credential === undefined) return undefined;
      const known = keyMaterial().identities.peek(tailOf(credential));
      if (!known || known.credential !== credential || known.expiresAt <= synchronizedNow())
        return undefined;
      for (const entry of known.entries) {
        if (!entry.isFresh(now)) return undefined;
        entry.recordHit();
      }
      return known.identity;
    },

    async find(headers, requestId, timeLeft) {
      const credential = credentialOf(headers);
      if (credential === undefined) return undefined;
      const keys = keyMaterial();
      const call: CallOptions = { caller: gateway, requestId, timeout: timeLeft };
      const { text, isApiKey } = secretOf(headers);
      const verify = (): Promise<Verified> => {
        if (isApiKey) return verifyApiKey(resolve, text, keys, noteUse, call);
        if (looksLikeWorkloadToken(text)) return verifyWorkloadToken(resolve, text, keys, call);
        return verifyAccessToken(resolve, text, keys, sayOtherIssuer, call);
      };
      return identify(credential, await verify(), keys, call);
    },
  };
}

/** By what may be old no one is refused for good: they may have the right by now. */
export const refusalBy = (stale: boolean, refusal: unknown): unknown =>
  stale
    ? new StrataError('service_unavailable', 'Your rights cannot be checked now. Try again.', {
        cause: refusal,
      })
    : refusal;

/** The cache marks fallbacks for an owner that is away. */
const isStale = (value: object | null): boolean => value !== null && 'stale' in value;

/**
 * Cache key of a credential. The NUL prefix keeps an X-API-Key from colliding with an Authorization
 * header.
 */
export function credentialOf(headers: IncomingHttpHeaders): string | undefined {
  const apiKey = headers['x-api-key'];
  return apiKey === undefined ? headers.authorization : `\0${String(apiKey)}`;
}

/**
 * The last 43 characters, which in an access token are its signature. Looking up by them alone and
 * comparing the rest once is ten times as fast as hashing all of a token.
 */
const tailOf = (credential: string): string => credential.slice(-43);

/**
 * The id of the API key that a request brings; undefined where it brings none, or one that is none.
 */
export function apiKeyIdOf(headers: IncomingHttpHeaders): string | undefined {
  if (headers['x-api-key'] === undefined && !/^Bearer +[^\s]+$/i.test(headers.authorization ?? ''))
    return undefined;
  const { text, isApiKey } = secretOf(headers);
  return isApiKey ? parseApiKey(text)?.id : undefined;
}

/**
 * The access token or API key of a request that brings one. API keys may come as Bearer tokens,
 * too.
 */
function secretOf({ authorization, 'x-api-key': apiKey }: IncomingHttpHeaders) {
  if (apiKey !== undefined) return { text: String(apiKey), isApiKey: true };
  const token = /^Bearer +([^\s]+)$/i.exec(authorization!)?.[1];
  if (token === undefined)
    throw new StrataError('auth_token_invalid', 'Authorization must be: Bearer <token>.');
  return { text: token, isApiKey: looksLikeApiKey(token) };
}
