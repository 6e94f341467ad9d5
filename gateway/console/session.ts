/**
 * The console's session. What signs in and refreshes is `auth`'s; the gateway keeps the refresh
 * token that comes back in a cookie, and answers the rest. The cookie is good for these routes
 * alone, so no other request can be made in somebody's name by a foreign page.
 */
import type { ServiceBroker } from 'moleculer';
import type { IncomingHttpHeaders } from 'node:http';
import type { Caller } from '../../shared/access.ts';
import { callAs, type CallOptions } from '../../shared/contract-runtime/request.ts';
import type { ParamsOf, ResultOf } from '../../shared/contracts/index.ts';
import { codeOf, statusOf, StrataError } from '../../shared/errors.ts';
import { callOf, type OwnHandlers, type OwnRequest } from '../http/own-handlers.ts';

type Tokens = ResultOf<'auth.login'>;
type ShownTokens = Exclude<ResultOf<'gateway.console.refresh'>, null>;
type SignInBody = ParamsOf<'gateway.console.sign-in'>['body'];

export function consoleSessionHandlers(broker: ServiceBroker): OwnHandlers {
  /** By what the body has: each way of signing in has fields of its own. */
  function signIn(
    body: SignInBody,
    call: CallOptions,
  ): Promise<Tokens | ResultOf<'auth.invitations.accept'>> {
    if ('credential' in body) return callAs(broker, 'auth.webauthn.login.verify', { body }, call);
    if ('code' in body) return callAs(broker, 'auth.login.sso', { body }, call);
    if ('token' in body) return callAs(broker, 'auth.invitations.accept', { body }, call);
    return callAs(broker, 'auth.login', { body }, call);
  }

  /** Exchanges the cookie's token, and drops the cookie where it is no longer valid. */
  async function renew(refreshToken: string, request: OwnRequest): Promise<Tokens> {
    const body = { refresh_token: refreshToken };
    try {
      const tokens = await callAs(broker, 'auth.refresh', { body }, callOf(request));
      // Before anything else can fail: the token that was exchanged is good for seconds only.
      keep(tokens, request);
      return tokens;
    } catch (error) {
      if (statusOf(codeOf(error)) === 401) drop(request);
      throw error;
    }
  }

  return {
    async 'gateway.console.sign-in'({ body }, request) {
      refuseOtherPages(request.headers);
      const result = await signIn(body as SignInBody, callOf(request));
      if ('sign_in_required' in result) return result;
      keep(result, request);
      return shownOf(result);
    },

    async 'gateway.console.refresh'({ body }, request) {
      requireOwnPage(request.headers);
      const refreshToken = refreshTokenOf(request.headers);
      if (refreshToken === undefined) return null;
      const tokens = await renew(refreshToken, request);
      const { tenant_id: tenantId } = body as { readonly tenant_id?: string };
      if (tenantId === undefined || tenantId === tokens.tenant?.id) return shownOf(tokens);
      const call = { ...callOf(request), caller: callerOf(tokens) };
      const moved = await callAs(
        broker,
        'auth.switch-tenant',
        { body: { tenant_id: tenantId } },
        call,
      );
      keep(moved, request);
      return shownOf(moved);
    },

    /** A session that has ended already is no error: whoever signs out is signed out. */
    async 'gateway.console.sign-out'(_params, request) {
      refuseOtherPages(request.headers);
      const refreshToken = refreshTokenOf(request.headers);
      if (refreshToken === undefined) return null;
      try {
        const tokens = await renew(refreshToken, request);
        const call = { ...callOf(request), caller: callerOf(tokens) };
        await callAs(broker, 'auth.logout', { body: {} }, call);
      } catch (error) {
        if (statusOf(codeOf(error)) !== 401) throw error;
      }
      drop(request);
      return null;
    },
  };
}

/** Who has just proved to hold the session. */
const callerOf = ({ user, tenant, session_id: sessionId }: Tokens): Caller => ({
  type: 'user',
  id: user.id,
  tenant_id: tenant?.id ?? null,
  roles: tenant?.roles ?? [],
  platform_roles: user.platform_roles,
  session_id: sessionId,
});

/** Without the refresh token, which no script is to see. */
const shownOf = ({ refresh_token: _inTheCookie, ...shown }: Tokens): ShownTokens => shown;

/**
 * A page of another port of this host is of the same site, so that `SameSite=Strict` does not keep
 * the cookie from its requests. Sec-Fetch-Site tells it apart, and no script can set it.
 */
function requireOwnPage({ 'sec-fetch-site': site }: IncomingHttpHeaders): void {
  if (site !== 'same-origin') throw new StrataError('auth_cross_site_request');
}

/** For what needs no cookie: a client that is no browser may ask. */
function refuseOtherPages(headers: IncomingHttpHeaders): void {
  if (headers['sec-fetch-site'] !== undefined) requireOwnPage(headers);
}

/**
 * Browsers give a cookie to every port of its host, so the name says the port where it is none of
 * the usual ones: two Stratas on one host would sign each other's people out.
 */
function cookieNameOf({ host = '' }: IncomingHttpHeaders): string {
  const port = /:(\d{1,5})$/.exec(host)?.[1];
  const isUsual = port === undefined || port === '443' || port === '80';
  return isUsual ? '__Host-strata' : `__Host-strata-${port}`;
}

/** Undefined also for what cannot be a refresh token. */
function refreshTokenOf(headers: IncomingHttpHeaders): string | undefined {
  const prefix = `${cookieNameOf(headers)}=`;
  const pairs = headers.cookie?.split(';').map((pair) => pair.trim()) ?? [];
  const token = pairs.find((pair) => pair.startsWith(prefix))?.slice(prefix.length);
  return token !== undefined && /^[\w.~-]{1,500}$/.test(token) ? token : undefined;
}

function keep({ refresh_token: token, refresh_expires_in: seconds }: Tokens, to: OwnRequest): void {
  setCookie(token, seconds, to);
}

const drop = (request: OwnRequest): void => setCookie('', 0, request);

function setCookie(value: string, maxAge: number, { headers, setHeader }: OwnRequest): void {
  setHeader(
    'set-cookie',
    `${cookieNameOf(headers)}=${value}; Path=/; Max-Age=${maxAge}; HttpOnly; Secure; SameSite=Strict`,
  );
}
