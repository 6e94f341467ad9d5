import { LRUCache } from 'lru-cache';
import type { ServiceBroker } from 'moleculer';
import type { IncomingHttpHeaders } from 'node:http';
import type { Logger } from 'pino';
import { serviceCaller, type Caller } from '../shared/access.ts';
import { createAccessTokens } from '../shared/security/access-tokens.ts';
import { createApiKeys, looksLikeApiKey, parseApiKey } from '../shared/security/api-keys.ts';
import type { LocalCache } from '../shared/cluster/local-cache.ts';
import { callAs, type CallOptions } from '../shared/cluster/request.ts';
import type { LiveSettings } from '../shared/live-settings.ts';
import type { CachedEntry } from '../shared/cluster/coherence/entry.ts';
import type { ActionName, ParamsOf, ResultOf } from '../shared/contracts/index.ts';
import { codeOf, StrataError } from '../shared/errors.ts';
import type { Settings } from '../shared/settings.ts';

export interface Identity {
  readonly caller: Caller;
  /** From before an outage: good enough to read, not to write. */ readonly stale: boolean;
}

/** Who a request is from. */
export interface Authenticator {
  /** As found out before, where everything that it followed from still stands in this node's memory at `now`. Undefined else. */
  readonly known: (headers: IncomingHttpHeaders, now: number) => Identity | undefined;
  /** Found out within `left` ms. Undefined where the request brings no credential; throws 401 or 403 where the credential is no good. */
  readonly find: (
    headers: IncomingHttpHeaders,
    requestId: string,
    left: () => number,
  ) => Promise<Identity | undefined>;
}

/** Null where there is no such thing; `held` where this node's memory knows it. */
interface Answer<T> {
  readonly value: T | null;
  readonly held?: CachedEntry<unknown>;
}
/** Whom a credential stands for, until when (milliseconds since 1970), and what of the caller is the credential's own. */
interface Holder {
  readonly holder: {
    readonly user_id: string;
    readonly tenant_id: string | null;
    readonly platform_roles: readonly string[];
  };
  readonly held: CachedEntry<unknown> | undefined;
  readonly until: number;
  readonly how: Partial<Caller>;
}
interface Remembered {
  readonly credential: string;
  readonly identity: Identity;
  readonly until: number;
  readonly from: readonly CachedEntry<unknown>[];
}

/** The use of an API key is noted once in this time. */
const notedMs = 60_000;

/** What follows from settings. A request keeps to those that it began under, so that nothing of old keys is remembered under new ones. */
function under(settings: Settings) {
  return {
    settings,
    tokens: createAccessTokens(settings),
    apiKeys: createApiKeys(settings),
    /** By the credential's end. The oldest go first: they expire first, too. */
    remembered: new LRUCache<string, Remembered>({ max: 20_000 }),
  };
}
type Under = ReturnType<typeof under>;

export function createAuthenticator(
  broker: ServiceBroker,
  localCache: LocalCache,
  settings: LiveSettings,
  log: Logger,
): Authenticator {
  const gateway = serviceCaller(broker.nodeID);
  const noted = new LRUCache<string, true>({ max: 20_000, ttl: notedMs });
  let latest = under(settings.current);
  const current = (): Under =>
    latest.settings === settings.current ? latest : (latest = under(settings.current));

  async function ask<A extends ActionName>(
    name: A,
    params: ParamsOf<A>,
    self: CallOptions,
  ): Promise<Answer<ResultOf<A>>> {
    const held = localCache(name, params, gateway);
    if (held) return { value: held.value, held };
    try {
      return { value: await callAs(broker, name, params, self) };
    } catch (error) {
      if (codeOf(error) === 'not_found') return { value: null };
      throw error;
    }
  }

  async function bySession(token: string, { tokens }: Under, self: CallOptions): Promise<Holder> {
    const result = tokens.verify(token);
    if (!result.ok) throw new StrataError(result.code);
    const { value: session, held } = await ask(
      'auth.sessions.resolve',
      { session_id: result.claims.sid },
      self,
    );
    if (session?.status !== 'active') throw new StrataError('auth_session_revoked');
    const { session_id, authenticated_at } = session;
    return {
      holder: session,
      held,
      until: result.claims.exp * 1000,
      how: { session_id, authenticated_at },
    };
  }

  async function byApiKey(text: string, { apiKeys }: Under, self: CallOptions): Promise<Holder> {
    const parsed = parseApiKey(text);
    if (!parsed) throw new StrataError('auth_api_key_invalid');
    const { value: key, held } = await ask('auth.api-key.resolve', { key_id: parsed.id }, self);
    const expires = Date.parse(key?.expires_at ?? '');
    if (!key?.usable || !apiKeys.fits(parsed.secret, key.hash) || expires <= Date.now())
      throw new StrataError('auth_api_key_invalid');
    if (!noted.has(parsed.id)) {
      noted.set(parsed.id, true);
      callAs(broker, 'auth.api-key.used', { key_id: parsed.id }, self).catch((error: unknown) =>
        log.warn({ err: error }, 'the use of an API key was not noted'),
      );
    }
    return {
      holder: key,
      held,
      until: Math.min(expires, Date.now() + notedMs),
      how: { scopes: key.scopes },
    };
  }

  /** Roles in the tenant are those of now; none where the membership has ended. */
  async function identify(
    credential: string,
    { holder, held, until, how }: Holder,
    { remembered }: Under,
    self: CallOptions,
  ): Promise<Identity> {
    const { tenant_id: tenantId, user_id: userId, platform_roles: platformRoles } = holder;
    const membership =
      tenantId === null
        ? undefined
        : await ask(
            'tenant-config.members.resolve',
            { tenant_id: tenantId, user_id: userId },
            self,
          );
    const { value: member = null } = membership ?? {};
    if (member?.tenant_status === 'disabled') throw new StrataError('auth_tenant_disabled');
    const identity: Identity = {
      caller: {
        type: 'user',
        id: userId,
        tenant_id: member ? tenantId : null,
        roles: member?.roles ?? [],
        platform_roles: platformRoles,
        ...how,
      },
      stale: 'stale' in holder || (member !== null && 'stale' in member),
    };
    const from = membership ? [held, membership.held] : [held];
    if (from.every((each) => each !== undefined))
      remembered.set(endOf(credential), { credential, identity, until, from });
    return identity;
  }

  return {
    known(headers, now) {
      const credential = credentialOf(headers);
      const known =
        credential === undefined ? undefined : current().remembered.peek(endOf(credential));
      if (!known || known.credential !== credential || known.until <= Date.now()) return undefined;
      for (const held of known.from) {
        if (!held.isFresh(now)) return undefined;
        held.recordHit(now);
      }
      return known.identity;
    },
    async find(headers, requestId, left) {
      const credential = credentialOf(headers);
      if (credential === undefined) return undefined;
      const its = current();
      const self = { caller: gateway, requestId, timeout: left };
      const { authorization, 'x-api-key': apiKey } = headers;
      const token =
        apiKey === undefined ? /^Bearer +([^\s]+)$/i.exec(authorization!)?.[1] : String(apiKey);
      if (token === undefined)
        throw new StrataError('auth_token_invalid', 'Authorization must be: Bearer <token>.');
      const byKey = apiKey !== undefined || looksLikeApiKey(token);
      return identify(
        credential,
        await (byKey ? byApiKey(token, its, self) : bySession(token, its, self)),
        its,
        self,
      );
    },
  };
}

/** The signature of an access token. To hash all of a token takes ten times as long as to compare it. */
const endOf = (credential: string): string => credential.slice(-43);

/** What identities are remembered by: as sent, and a key in a header of its own apart from what Authorization could hold. */
const credentialOf = ({
  authorization,
  'x-api-key': apiKey,
}: IncomingHttpHeaders): string | undefined =>
  apiKey === undefined ? authorization : `\0${String(apiKey)}`;
