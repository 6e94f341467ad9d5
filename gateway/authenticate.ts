import { LRUCache } from 'lru-cache';
import type { ServiceBroker } from 'moleculer';
import type { Logger } from 'pino';
import { serviceCaller, type Caller } from '../shared/access.ts';
import { createAccessTokens, type Verified } from '../shared/access-tokens.ts';
import { createApiKeys, looksLikeApiKey, parseApiKey } from '../shared/api-keys.ts';
import { callAs, type CallOptions } from '../shared/broker/request.ts';
import type { LiveSettings } from '../shared/broker/live-settings.ts';
import { codeOf, StrataError } from '../shared/errors.ts';

export interface Credentials { readonly authorization?: string | undefined; readonly apiKey?: string | undefined }
export interface Identity { readonly caller: Caller; /** From before an outage: good enough to read, not to write. */ readonly stale: boolean }

/** Who a request is from, found out within `left` ms. Undefined where it brings no credential; throws 401 or 403 where the credential is no good. */
export function createAuthenticator(broker: ServiceBroker, settings: LiveSettings, log: Logger) {
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
    const known = verified.get(token);
    if (known) return known.ok && known.claims.exp * 1000 <= Date.now() ? { ok: false, code: 'auth_token_expired' } : known;
    const result = tokens.verify(token);
    if (result.ok) verified.set(token, result);
    return result;
  }

  const notFound = (error: unknown): boolean => codeOf(error) === 'not_found';

  /** Roles in the tenant, as they are now; none where the membership has ended. */
  async function memberOf(tenantId: string | null, userId: string, self: CallOptions) {
    const member = tenantId === null ? null
      : await callAs(broker, 'tenant-config.members.resolve', { tenant_id: tenantId, user_id: userId }, self).catch((error: unknown) => {
        if (notFound(error)) return null;
        throw error;
      });
    if (member?.tenant_status === 'disabled') throw new StrataError('auth_tenant_disabled');
    return { tenant_id: member ? tenantId : null, roles: member?.roles ?? [], stale: member !== null && 'stale' in member };
  }

  async function bySession(token: string, self: CallOptions): Promise<Identity> {
    const result = verify(token);
    if (!result.ok) throw new StrataError(result.code);
    const session = await callAs(broker, 'auth.sessions.resolve', { session_id: result.claims.sid }, self).catch((error: unknown) => {
      throw notFound(error) ? new StrataError('auth_session_revoked') : error;
    });
    if (session.status !== 'active') throw new StrataError('auth_session_revoked');
    const { stale, ...member } = await memberOf(session.tenant_id, session.user_id, self);
    return {
      caller: {
        type: 'user', id: session.user_id, ...member, platform_roles: session.platform_roles, session_id: session.session_id,
        authenticated_at: session.authenticated_at,
      },
      stale: stale || 'stale' in session,
    };
  }

  const noted = new LRUCache<string, true>({ max: 20_000, ttl: 60_000 });
  async function byApiKey(text: string, self: CallOptions): Promise<Identity> {
    const parsed = parseApiKey(text);
    if (!parsed) throw new StrataError('auth_api_key_invalid');
    const key = await callAs(broker, 'auth.api-key.resolve', { key_id: parsed.id }, self).catch((error: unknown) => {
      throw notFound(error) ? new StrataError('auth_api_key_invalid') : error;
    });
    if (!apiKeys.fits(parsed.secret, key.hash) || !key.usable || Date.parse(key.expires_at) <= Date.now()) throw new StrataError('auth_api_key_invalid');
    const { stale, ...member } = await memberOf(key.tenant_id, key.user_id, self);
    if (!noted.has(parsed.id)) {
      noted.set(parsed.id, true);
      callAs(broker, 'auth.api-key.used', { key_id: parsed.id }, self).catch((error: unknown) => log.warn({ err: error }, 'the use of an API key was not noted'));
    }
    return {
      caller: { type: 'user', id: key.user_id, ...member, platform_roles: key.platform_roles, scopes: key.scopes },
      stale: stale || 'stale' in key,
    };
  }

  return async ({ authorization, apiKey }: Credentials, requestId: string, left: () => number): Promise<Identity | undefined> => {
    renew();
    const self = { caller: serviceCaller(broker.nodeID), requestId, timeout: left };
    if (apiKey !== undefined) return byApiKey(apiKey, self);
    if (authorization === undefined) return undefined;
    const token = /^Bearer +([^\s]+)$/i.exec(authorization)?.[1];
    if (token === undefined) throw new StrataError('auth_token_invalid', 'Authorization must be: Bearer <token>.');
    return looksLikeApiKey(token) ? byApiKey(token, self) : bySession(token, self);
  };
}
