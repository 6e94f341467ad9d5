import { LRUCache } from 'lru-cache';
import type { ServiceBroker } from 'moleculer';
import { serviceCaller, type Caller } from '../shared/access.ts';
import { createAccessTokens, type Verified } from '../shared/access-tokens.ts';
import { callAs } from '../shared/broker/request.ts';
import type { LiveSettings } from '../shared/broker/live-settings.ts';
import { codeOf, StrataError } from '../shared/errors.ts';

export interface Credentials { readonly authorization?: string | undefined; readonly apiKey?: string | undefined }
export interface Identity { readonly caller: Caller; /** From before an outage: good enough to read, not to write. */ readonly stale: boolean }

/** Who a request is from. Undefined where it brings no credential; throws 401 or 403 where the credential is no good. */
export function createAuthenticator(broker: ServiceBroker, settings: LiveSettings) {
  // Signatures are checked once; the session behind one is asked for at every request, from this node's memory.
  const verified = new LRUCache<string, Verified>({ max: 20_000 });
  let tokens = createAccessTokens(settings.current);
  let made = settings.current;

  function verify(token: string): Verified {
    if (made !== settings.current) {
      made = settings.current;
      tokens = createAccessTokens(made);
      verified.clear();
    }
    const known = verified.get(token);
    if (known) return known.ok && known.claims.exp * 1000 <= Date.now() ? { ok: false, code: 'auth_token_expired' } : known;
    const result = tokens.verify(token);
    if (result.ok) verified.set(token, result);
    return result;
  }

  return async ({ authorization, apiKey }: Credentials, requestId: string): Promise<Identity | undefined> => {
    if (apiKey !== undefined) throw new StrataError('auth_api_key_invalid');
    if (authorization === undefined) return undefined;
    const token = /^Bearer +([^\s]+)$/i.exec(authorization)?.[1];
    if (token === undefined) throw new StrataError('auth_token_invalid', 'Authorization must be: Bearer <token>.');
    const result = verify(token);
    if (!result.ok) throw new StrataError(result.code);
    const self = { caller: serviceCaller(broker.nodeID), requestId };
    const session = await callAs(broker, 'auth.sessions.resolve', { session_id: result.claims.sid }, self).catch((error: unknown) => {
      throw codeOf(error) === 'not_found' ? new StrataError('auth_session_revoked') : error;
    });
    if (session.status !== 'active') throw new StrataError('auth_session_revoked');
    const member = session.tenant_id === null ? null
      : await callAs(broker, 'tenant-config.members.resolve', { tenant_id: session.tenant_id, user_id: session.user_id }, self).catch((error: unknown) => {
        if (codeOf(error) === 'not_found') return null;
        throw error;
      });
    if (member?.tenant_status === 'disabled') throw new StrataError('auth_tenant_disabled');
    return {
      caller: {
        type: 'user', id: session.user_id, tenant_id: member ? session.tenant_id : null, roles: member?.roles ?? [],
        platform_roles: session.platform_roles, session_id: session.session_id, authenticated_at: session.authenticated_at,
      },
      stale: 'stale' in session || (member !== null && 'stale' in member),
    };
  };
}

