import { LRUCache } from 'lru-cache';
import type { ServiceBroker } from 'moleculer';
import type { Logger } from 'pino';
import { serviceCaller, type Caller } from '../shared/access.ts';
import { createAccessTokens, type Verified } from '../shared/access-tokens.ts';
import { createApiKeys, looksLikeApiKey, parseApiKey } from '../shared/api-keys.ts';
import { andThen, type Near, type Soon } from '../shared/broker/near.ts';
import { callAs, type CallOptions } from '../shared/broker/request.ts';
import type { LiveSettings } from '../shared/broker/live-settings.ts';
import type { ActionName, ParamsOf, ResultOf } from '../shared/contracts/index.ts';
import { codeOf, StrataError } from '../shared/errors.ts';

export interface Credentials { readonly authorization?: string | undefined; readonly apiKey?: string | undefined }
export interface Identity { readonly caller: Caller; /** From before an outage: good enough to read, not to write. */ readonly stale: boolean }

/**
 * Who a request is from, found out within `left` ms; without a promise where this node's memory knows. Undefined where the request
 * brings no credential; throws 401 or 403 where the credential is no good.
 */
export type Authenticate = (credentials: Credentials, requestId: string, left: () => number) => Soon<Identity | undefined>;

export function createAuthenticator(broker: ServiceBroker, near: Near, settings: LiveSettings, log: Logger): Authenticate {
  const gateway = serviceCaller(broker.nodeID);
  // Signatures are checked once; the session behind one is asked for at every request, from this node's memory.
  const verified = new LRUCache<string, Verified>({ max: 20_000 });
  let tokens = createAccessTokens(settings.current);
  let apiKeys = createApiKeys(settings.current);
  let made = settings.current;

  function renew(): void {
    if (made === settings.current) return;
    made = settings.current;
    tokens = createAccessTokens(made);
    apiKeys = createApiKeys(made);
    verified.clear();
  }

  function verify(token: string): Verified {
    // The oldest go first: they expire first, too.
    const known = verified.peek(token);
    if (known) return known.ok && known.claims.exp * 1000 <= Date.now() ? { ok: false, code: 'auth_token_expired' } : known;
    const result = tokens.verify(token);
    if (result.ok) verified.set(token, result);
    return result;
  }

  /** Null where there is no such thing. */
  function ask<A extends ActionName>(name: A, params: ParamsOf<A>, self: CallOptions): Soon<ResultOf<A> | null> {
    const orNull = (error: unknown): null => {
      if (codeOf(error) === 'not_found') return null;
      throw error;
    };
    try {
      return near(name, params, gateway) ?? callAs(broker, name, params, self).catch(orNull);
    } catch (error) {
      return orNull(error);
    }
  }

  // Cached values keep their identity as long as they hold, and so does what follows from two of them.
  const identities = new WeakMap<object, { readonly membership: Membership | null; readonly identity: Identity }>();

  /** Roles in the tenant are those of now; none where the membership has ended. */
  const identify = (holder: Holder, self: CallOptions, how: Partial<Caller>): Soon<Identity> => {
    const { tenant_id: tenantId, user_id: userId } = holder;
    const asked = tenantId === null ? null : ask('tenant-config.members.resolve', { tenant_id: tenantId, user_id: userId }, self);
    return andThen<Membership | null, Identity>(asked, (membership) => {
      const known = identities.get(holder);
      if (known && known.membership === membership) return known.identity;
      if (membership?.tenant_status === 'disabled') throw new StrataError('auth_tenant_disabled');
      const identity: Identity = {
        caller: {
          type: 'user', id: userId, tenant_id: membership ? tenantId : null, roles: membership?.roles ?? [], platform_roles: holder.platform_roles, ...how,
        },
        stale: 'stale' in holder || (membership !== null && 'stale' in membership),
      };
      identities.set(holder, { membership, identity });
      return identity;
    });
  };

  function bySession(token: string, self: CallOptions): Soon<Identity> {
    const result = verify(token);
    if (!result.ok) throw new StrataError(result.code);
    return andThen(ask('auth.sessions.resolve', { session_id: result.claims.sid }, self), (session) => {
      if (session?.status !== 'active') throw new StrataError('auth_session_revoked');
      return identify(session, self, { session_id: session.session_id, authenticated_at: session.authenticated_at });
    });
  }

  const noted = new LRUCache<string, true>({ max: 20_000, ttl: 60_000 });
  function byApiKey(text: string, self: CallOptions): Soon<Identity> {
    const parsed = parseApiKey(text);
    if (!parsed) throw new StrataError('auth_api_key_invalid');
    return andThen(ask('auth.api-key.resolve', { key_id: parsed.id }, self), (key) => {
      if (!key?.usable || !apiKeys.fits(parsed.secret, key.hash) || Date.parse(key.expires_at) <= Date.now()) throw new StrataError('auth_api_key_invalid');
      if (!noted.has(parsed.id)) {
        noted.set(parsed.id, true);
        callAs(broker, 'auth.api-key.used', { key_id: parsed.id }, self).catch((error: unknown) => log.warn({ err: error }, 'the use of an API key was not noted'));
      }
      return identify(key, self, { scopes: key.scopes });
    });
  }

  return ({ authorization, apiKey }, requestId, left) => {
    if (apiKey === undefined && authorization === undefined) return undefined;
    renew();
    const self = { caller: gateway, requestId, timeout: left };
    if (apiKey !== undefined) return byApiKey(apiKey, self);
    const token = /^Bearer +([^\s]+)$/i.exec(authorization!)?.[1];
    if (token === undefined) throw new StrataError('auth_token_invalid', 'Authorization must be: Bearer <token>.');
    return looksLikeApiKey(token) ? byApiKey(token, self) : bySession(token, self);
  };
}

type Membership = ResultOf<'tenant-config.members.resolve'>;
/** What a credential stands for. */
interface Holder { readonly user_id: string; readonly tenant_id: string | null; readonly platform_roles: readonly string[] }
