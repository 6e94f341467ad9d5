/**
 * The command line's way to call Strata's actions: over HTTPS, by the routes that their contracts
 * give them.
 */
import { Misused } from '../command.ts';
import { tenantsNamed } from '../pages.ts';
import { Failed, type Session, type TenantName, type Typed } from '../session.ts';
import { tenantId } from '../typed.ts';
import type { Contract } from '../../shared/contracts/contract.ts';
import {
  contractOf,
  type ActionName,
  type ParamsOf,
  type ResultOf,
} from '../../shared/contracts/index.ts';
import type { Credentials } from './credentials.ts';
import { whileAlive } from './liveness.ts';
import type { SignIn } from './sign-ins.ts';

export interface HttpSession extends Session {
  readonly credentials: Credentials;
  readonly tenant: () => Promise<string>;
  /** Calls without a credential, or with the one given. */
  readonly callWith: <A extends ActionName>(
    token: string | undefined,
    action: A,
    params: Typed<ParamsOf<A>>,
  ) => Promise<ResultOf<A>>;
  /** Calls as who is signed in, also where a key is told. Throws Failed where nobody is. */
  readonly callSignedIn: Session['call'];
}

interface Surroundings {
  readonly signal: AbortSignal;
  /** Told of what is odd and stops nothing. */
  readonly warn: (text: string) => void;
  readonly timeoutMs?: number;
}

const usualTimeoutMs = 30_000;
/** An access token that ends sooner is renewed first. */
const renewedBeforeMs = 30_000;

export function httpSession(
  credentials: Credentials,
  { signal, warn, timeoutMs = usualTimeoutMs }: Surroundings,
): HttpSession {
  async function callWith<A extends ActionName>(
    token: string | undefined,
    action: A,
    typed: Typed<ParamsOf<A>>,
  ): Promise<ResultOf<A>> {
    const contract: Contract = contractOf(action)!;
    const request = requestOf(action, contract, typed);
    const least = contract.minTimeoutMs;
    const params = typed as Record<string, unknown>;
    const needed = (typeof least === 'function' ? least(params) : least) ?? 0;
    const answer = await send(credentials.url(), request, {
      token,
      signal: AbortSignal.any([signal, AbortSignal.timeout(Math.max(timeoutMs, needed + 5000))]),
    });
    if (answer.headers.get('x-config-stale') === 'true')
      warn('What is shown is the last known: its owner could not be asked.');
    return resultOf(contract, answer) as ResultOf<A>;
  }

  async function renewed(url: string, used: string | undefined): Promise<string> {
    return credentials.signIns.exclusively(signal, async () => {
      const signIn = credentials.signIns.of(url);
      if (signIn?.kind !== 'session') throw notSignedIn(url);
      // Another process may have renewed it in the meantime.
      if (signIn.access_token !== used && isFresh(signIn)) return signIn.access_token;
      const body = { refresh_token: signIn.refresh_token };
      const pair = await callWith(undefined, 'auth.refresh', { body });
      const next = sessionOf(pair);
      credentials.signIns.keep(url, next);
      return next.access_token;
    });
  }

  async function call<A extends ActionName>(
    action: A,
    params: Typed<ParamsOf<A>>,
  ): Promise<ResultOf<A>> {
    const key = credentials.apiKey();
    return key === undefined ? callSignedIn(action, params) : callWith(key, action, params);
  }

  async function callSignedIn<A extends ActionName>(
    action: A,
    params: Typed<ParamsOf<A>>,
  ): Promise<ResultOf<A>> {
    const url = credentials.url();
    const signIn = credentials.signIns.of(url);
    if (!signIn) throw notSignedIn(url);
    if (signIn.kind === 'key') return callWith(signIn.api_key, action, params);
    const token = isFresh(signIn) ? signIn.access_token : await renewed(url, undefined);
    try {
      return await callWith(token, action, params);
    } catch (error) {
      // By another clock than ours it has ended.
      const isOver = error instanceof Failed && error.code === 'auth_token_expired';
      if (!isOver) throw error;
      return callWith(await renewed(url, token), action, params);
    }
  }

  /** Administrators of the platform may name every tenant; everyone else those of their own. */
  async function tenants(word = ''): Promise<TenantName[]> {
    const { user, tenant, memberships } = await call('auth.me', {});
    const own = [
      ...(tenant ? [tenant] : []),
      ...memberships.map(({ tenant_id: id, name }) => ({ id, name })),
    ];
    const all = user?.platform_roles.includes('platform_admin')
      ? [...own, ...(await tenantsNamed({ call }, word || undefined))]
      : own;
    const fitting = all.filter(({ name }) => name.toLowerCase().includes(word.toLowerCase()));
    return [...new Map(fitting.map((each) => [each.id, each])).values()];
  }

  const session: HttpSession = {
    credentials,
    call,
    callWith,
    callSignedIn,
    tenants,
    async tenant() {
      if (credentials.tenant !== undefined) return tenantId(session, credentials.tenant);
      const { tenant } = await call('auth.me', {});
      if (tenant) return tenant.id;
      throw new Failed('no_tenant', 'which tenant? Give --tenant <name or id>, or STRATA_TENANT');
    },
  };
  return session;
}

const notSignedIn = (url: string): Failed =>
  new Failed(
    'not_signed_in',
    `no one is signed in at ${url}: strata login, or give STRATA_API_KEY or --api-key-file`,
  );

const isFresh = ({ expires_at: at }: SignIn & { kind: 'session' }): boolean =>
  at - renewedBeforeMs > Date.now();

/** What is kept of a pair of tokens. */
export const sessionOf = (
  pair: ResultOf<'auth.refresh'>,
): SignIn & { readonly kind: 'session' } => ({
  kind: 'session',
  access_token: pair.access_token,
  expires_at: Date.now() + pair.expires_in * 1000,
  refresh_token: pair.refresh_token,
});

interface Request {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** Throws Misused. */
function requestOf(action: string, { rest, response }: Contract, typed: object): Request {
  if (!rest || response === 'stream' || response === 'page')
    throw new Misused(`${action} has no answer over HTTPS`);
  const params = new Map<string, unknown>(Object.entries(typed));
  const take = (name: string): unknown => {
    const value = params.get(name);
    params.delete(name);
    return value;
  };
  const path = rest.path.replaceAll(/\{(\w+)\}/g, (_match, name: string) =>
    segment(name, take(name)),
  );
  const query = new URLSearchParams();
  for (const name of rest.query) {
    const value = take(name);
    if (value !== undefined) query.set(name, String(value));
  }
  const headers: Record<string, string> = {};
  for (const [header, name] of Object.entries(rest.headers)) {
    const value = take(name);
    if (value !== undefined) headers[header] = headerText(name, String(value));
  }
  const body = take('body');
  const [unknown] = params.keys();
  if (unknown !== undefined) throw new Misused(`${action} has no parameter ${unknown}`);
  const asked = query.size === 0 ? path : `${path}?${query.toString()}`;
  return { method: rest.method, path: asked, headers, body };
}

/** A part of a path. Points alone would lead to another route (WHATWG URL, 4.5). */
function segment(name: string, value: unknown): string {
  const text = value === undefined ? '' : String(value);
  if (['', '.', '..'].includes(text)) throw new Misused(`"${text}" can't be the ${name}`);
  return encodeURIComponent(text);
}

/** Headers hold Latin-1; the gateway reads UTF-8 there. */
function headerText(name: string, text: string): string {
  if (/\p{Cc}/u.test(text)) throw new Misused(`the ${name} has to be one line`);
  return Buffer.from(text, 'utf8').toString('latin1');
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
}

/** Throws Failed where the answer is no success. */
async function send(
  url: string,
  { method, path, headers, body }: Request,
  { token, signal }: { token: string | undefined; signal: AbortSignal },
): Promise<Answer> {
  let response: Response;
  let text: string;
  try {
    const asking = {
      method,
      headers: {
        accept: 'application/json',
        ...headers,
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      // A credential goes nowhere else.
      redirect: 'error',
    } as const;
    response = await whileAlive(url, signal, (aborts) =>
      fetch(url + path, { ...asking, signal: aborts }),
    );
    text = await response.text();
  } catch (error) {
    throw unreachable(error, url);
  }
  const answered = jsonOf(text);
  // A sign-in page of a proxy is 200, too, and says nothing of what was asked for.
  if (response.ok && (answered !== undefined || response.status === 204))
    return { status: response.status, headers: response.headers, body: answered };
  throw failureOf(response, answered);
}

function jsonOf(text: string): unknown {
  try {
    return text === '' ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

function unreachable(error: unknown, url: string): Failed {
  const { name, message, cause } = error as Error;
  if (name === 'TimeoutError') return new Failed('timeout', `${url} did not answer in time`);
  const why = cause instanceof Error ? cause.message || String(cause) : message;
  return new Failed('unreachable', `${url} is not reached: ${why}; check --url or STRATA_URL`);
}

interface Envelope {
  readonly detail?: { readonly code?: unknown; readonly message?: unknown };
  readonly errors?: readonly { readonly path: string; readonly message: string }[];
  readonly request_id?: string;
}

function failureOf({ status, headers, url }: Response, body: unknown): Failed {
  const { detail, errors, request_id: requestId } = (body ?? {}) as Envelope;
  if (typeof detail?.code !== 'string' || typeof detail.message !== 'string')
    return new Failed(`http_${status}`, `${new URL(url).origin} did not answer as Strata does`);
  const wait = headers.get('retry-after');
  const later = wait === null ? '' : ` Try again after ${wait} s.`;
  return new Failed(detail.code, `${detail.message}${later}`, {
    problems: errors ?? [],
    ...(requestId !== undefined && { requestId }),
  });
}

/** What the action answered, of what the gateway made of it. */
function resultOf({ response }: Contract, { status, headers, body }: Answer): unknown {
  const written = body as { dry_run?: true } | undefined;
  if (response === 'resource') return { document: body, ...authorOf(headers) };
  if (response !== 'write' || written?.dry_run || status === 202) return body ?? null;
  if (status === 204) return { outcome: 'deleted', document: null, revision: revisionOf(headers) };
  const warnings = headers.get('x-config-warnings');
  return {
    outcome: status === 201 ? 'created' : 'updated',
    document: body,
    ...authorOf(headers),
    ...(warnings !== null && { warnings: warnings.split(', ') }),
  };
}

const revisionOf = (headers: Headers): number => Number(headers.get('x-config-revision'));

function authorOf(headers: Headers) {
  const at = headers.get('last-modified');
  const name = headers.get('x-updated-by-name');
  return {
    revision: revisionOf(headers),
    updated_by: headers.get('x-updated-by'),
    ...(name !== null && { updated_by_name: decodeURIComponent(name) }),
    ...(at !== null && { updated_at: new Date(at).toISOString() }),
  };
}
