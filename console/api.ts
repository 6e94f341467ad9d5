/**
 * Requests to the gateway. The access token is added here, and a session that has to be renewed is
 * renewed without the screens' help.
 */
import { signal } from '@preact/signals';
import type { ManagedField } from '../shared/contracts/managed-fields.ts';
import type { ErrorData, Problem as FieldProblem, ProposedChangeSet } from '../shared/errors.ts';

export type { ManagedField, ProposedChangeSet };

/** Where the gateway is: a proxy may have put a prefix in front of it. */
export const root = new URL(import.meta.url).pathname.split('/console/a/')[0]!;

interface Envelope extends Pick<ErrorData, 'errors' | 'change_set' | 'managed_fields'> {
  readonly detail?: { readonly code: string; readonly message: string };
  readonly request_id?: string | undefined;
}

/** A refusal, or no answer at all (`offline`). */
export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  /** For whoever looks into the log. */
  readonly requestId: string | undefined;
  readonly fields: readonly FieldProblem[];
  /** With `change_approval_required`. */
  readonly changeSet: ProposedChangeSet | undefined;
  /** With `field_managed`. */
  readonly managed: readonly ManagedField[];
  constructor(status: number, code: string, message: string, body: Omit<Envelope, 'detail'> = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.requestId = body.request_id;
    this.fields = body.errors ?? [];
    this.changeSet = body.change_set;
    this.managed = body.managed_fields ?? [];
  }
}

export const problemOf = (error: unknown): Problem => {
  if (error instanceof Problem) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new Problem(0, 'unexpected', message);
};

export interface Answer<T> {
  readonly status: number;
  readonly body: T;
  readonly headers: Headers;
}

export interface Sending {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  /** Nothing of the answer is shown, so it does not say whether what is shown is old. */
  readonly isAside?: boolean;
}

/** Whether the gateway was reached by the last request. */
export const isOffline = signal(false);
/** Whether something that is shown is the last known good value, since a part is away. */
export const isStale = signal(false);
/** How many answers said so. */
export const staleAnswers = signal(0);
/** The addresses whose last answer said so. */
const stale = new Set<string>();

export const saysStale = (headers: Headers): boolean => headers.get('x-config-stale') === 'true';

export function noteAge(address: string, isOld: boolean): void {
  if (isOld) {
    stale.add(address);
    staleAnswers.value += 1;
  } else stale.delete(address);
  isStale.value = stale.size > 0;
}

/** For what is shown no more, and so not read again. */
export function forgetStale(): void {
  stale.clear();
  isStale.value = false;
}

/** REQUEST_TIMEOUT_MS lets a gateway take two minutes at most. */
const longestAnswerMs = 130_000;

/** A request as it is, without a session. Throws a `Problem` where the answer is no success. */
export async function send<T>(
  method: string,
  path: string,
  { body, headers = {}, signal: aborted, isAside = false }: Sending = {},
): Promise<Answer<T>> {
  const timeout = AbortSignal.timeout(longestAnswerMs);
  const { response, text } = await answered(root + path, timeout, {
    method,
    headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal: aborted ? AbortSignal.any([aborted, timeout]) : timeout,
    cache: 'no-store',
  });
  const parsed = bodyOf(response.headers.get('content-type') ?? '', text);
  if (!response.ok) throw refusalOf(response, parsed as Envelope | undefined);
  if (method === 'GET' && !isAside) noteAge(path, saysStale(response.headers));
  return { status: response.status, body: parsed as T, headers: response.headers };
}

async function answered(url: string, timeout: AbortSignal, options: RequestInit) {
  try {
    const response = await reach(url, options);
    return { response, text: await response.text() };
  } catch (error) {
    if (error !== timeout.reason) throw error;
    const says =
      'Strata did not answer in time. What was asked for may have been done: look first.';
    throw new Problem(0, 'timeout', says);
  }
}

/** JSON, or a table as it is; undefined for what else a proxy may say. */
function bodyOf(type: string, text: string): unknown {
  if (type.startsWith('application/json') && text !== '') return JSON.parse(text);
  return type.startsWith('text/csv') ? text : undefined;
}

/**
 * A stream that does not come says nothing of other requests: proxies may let these alone through.
 */
async function reach(
  url: string,
  { isStream = false, ...options }: RequestInit & { readonly isStream?: boolean },
): Promise<Response> {
  let response: Response | undefined;
  try {
    response = await fetch(url, options);
  } catch (error) {
    if (options.signal?.aborted) throw error;
  }
  const isReached = response !== undefined && !isOfProxy(response);
  if (isReached || !isStream) isOffline.value = !isReached;
  if (response !== undefined && isReached) return response;
  throw new Problem(
    0,
    'offline',
    'Strata cannot be reached. Nothing was changed, as far as this page knows.',
  );
}

/** A proxy that reaches no gateway says so itself; every answer of Strata's names its request. */
const isOfProxy = ({ status, headers }: Response): boolean =>
  status >= 502 && status <= 504 && !headers.has('x-request-id');

function refusalOf({ status, headers }: Response, body: Envelope = {}): Problem {
  const { detail, request_id = headers.get('x-request-id') ?? undefined } = body;
  const message = detail?.message ?? `The answer was ${status}.`;
  return new Problem(status, detail?.code ?? 'unexpected', message, { ...body, request_id });
}

/** What the session gives to every request; `session.ts` fills it in. */
interface Credentials {
  readonly token: () => string | undefined;
  /** Tries to get a new token; false where the session has ended. */
  readonly renew: () => Promise<boolean>;
  /** When no tab reads in another tenant. */
  readonly atHome: () => Promise<void>;
}
let credentials: Credentials = {
  token: () => undefined,
  renew: async () => false,
  atHome: async () => undefined,
};
export const useCredentials = (given: Credentials): void => {
  credentials = given;
};

type HeadersOfRequest = Readonly<Record<string, string>>;

/**
 * With the session's token, and once more with a new one where the first is not taken any more, or
 * where another tab had the session in another tenant for a moment.
 */
async function inSession<T>(work: (headers: HeadersOfRequest) => Promise<T>): Promise<T> {
  const authorized = (): Promise<T> => {
    const token = credentials.token();
    return work(token === undefined ? {} : { authorization: `Bearer ${token}` });
  };
  try {
    return await authorized();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.code === 'tenant_mismatch') {
      await credentials.atHome();
      return authorized();
    }
    if (error.status !== 401 || !(await credentials.renew())) throw error;
    return authorized();
  }
}

/** A request in the session. */
export const call = <T>(method: string, path: string, sending: Sending = {}): Promise<Answer<T>> =>
  inSession((headers) =>
    send<T>(method, path, { ...sending, headers: { ...sending.headers, ...headers } }),
  );

/** A stream in the session, as it comes. */
export const openStream = (
  path: string,
  wanted: HeadersOfRequest,
  aborted: AbortSignal,
): Promise<ReadableStream<BufferSource>> =>
  inSession(async (headers) => {
    const options = {
      headers: { ...wanted, ...headers },
      signal: aborted,
      cache: 'no-store',
      isStream: true,
    } as const;
    const response = await reach(root + path, options);
    if (!response.ok || !response.body) {
      const text = await response.text();
      throw refusalOf(response, JSON.parse(text) as Envelope);
    }
    return response.body as ReadableStream<BufferSource>;
  });

export const get = async <T>(path: string, aborted?: AbortSignal): Promise<T> => {
  const { body } = await call<T>('GET', path, aborted ? { signal: aborted } : {});
  return body;
};

/** Of a list that comes page by page. */
export interface Page<T> {
  readonly items: readonly T[];
  readonly next_cursor: string | null;
}

/** A list with all of its pages; of those that people pick from at most 2,000 items. */
export async function getAll<T>(
  path: string,
  aborted?: AbortSignal,
  most = 2000,
): Promise<readonly T[]> {
  const items: T[] = [];
  let cursor: string | null = null;
  do {
    const query: string = withQuery(path, { limit: '200', cursor: cursor ?? undefined });
    const page: Page<T> = await get<Page<T>>(query, aborted);
    items.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor !== null && items.length < most);
  return items;
}

/** A path, which may have parameters already, with those that have a value. */
export function withQuery(
  path: string,
  parameters: Readonly<Record<string, string | undefined>>,
): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters))
    if (value !== undefined && value !== '') query.set(name, value);
  const text = query.toString();
  if (text === '') return path;
  return `${path}${path.includes('?') ? '&' : '?'}${text}`;
}
