/**
 * A Moleculer broker that calls Strata's actions over NATS with an API key, and keeps what it reads
 * for a moment.
 *
 * Gateways answer such a broker as they answer over REST, by the key's scopes. They don't tell it
 * of changes, so what it keeps is bounded by age alone: a second by default. While no gateway
 * answers, the last known result is given, marked with `stale: true`.
 */
import type { BrokerOptions, CallingOptions, Middleware } from 'moleculer';
import { now, sinceMs, type Instant } from './clock.ts';
import { deepFreeze } from './json.ts';
import { services } from './known-values.ts';

export interface BusOptions {
  /** Such as `nats://nats:4222`, or `tls://…`; several with commas between. */
  readonly natsUrl: string;
  /** With the scope `config:read`. A function is asked at each call. */
  readonly apiKey: string | (() => string);
  /** The node id, for which NATS gives this service its subjects. */
  readonly nodeId: string;
  /** NATS_NAMESPACE of the cluster; `strata` by default. */
  readonly namespace?: string;
  readonly natsUser?: string;
  readonly natsPassword?: string;
  readonly natsToken?: string;
  /**
   * The file of the authority that signed the certificate of NATS, where it is none that Node
   * knows.
   */
  readonly natsTlsCa?: string;
  /**
   * How long effective configurations are given again without a call. 1,000 by default; 0 keeps
   * nothing.
   */
  readonly maxAgeMs?: number;
  /** 10,000 by default. */
  readonly requestTimeoutMs?: number;
}

type Params = Record<string, unknown>;
type Call = (action: string, params?: Params, options?: CallingOptions) => Promise<unknown>;

const kept = ['config-resolver.resolve', 'config-resolver.configurations'];
const mostKept = 1000;

/** What `new ServiceBroker(…)` takes. */
export function strataBroker(options: BusOptions): BrokerOptions {
  const { nodeId, namespace = 'strata', requestTimeoutMs = 10_000 } = options;
  const call = (next: Call): Call => withCredential(nearCache(next, options), options.apiKey);
  const middleware: object = { name: 'Strata', call };
  return {
    nodeID: nodeId,
    namespace,
    requestTimeout: requestTimeoutMs,
    transporter: { type: 'NATS', options: natsOptions(options) },
    middlewares: [middleware as Middleware],
  };
}

function natsOptions({ natsUrl, natsUser, natsPassword, natsToken, natsTlsCa }: BusOptions) {
  const [first = ''] = natsUrl.split(',');
  const { username, password, protocol } = new URL(first);
  const user = natsUser ?? decodeURIComponent(username);
  const pass = natsPassword ?? decodeURIComponent(password);
  const isEncrypted = protocol === 'tls:' || natsTlsCa !== undefined;
  return {
    // Not as `url`: Moleculer takes user and password from it, and overwrites these with nothing
    // where it has none.
    servers: natsUrl.split(','),
    ...(user === '' ? {} : { user, pass }),
    ...(natsToken === undefined ? {} : { token: natsToken }),
    // The client takes tls:// for nats://, and connects in clear, unless it is told.
    ...(isEncrypted ? { tls: natsTlsCa === undefined ? {} : { caFile: natsTlsCa } } : {}),
    reconnectTimeWait: 250,
    timeout: 2000,
    maxReconnectAttempts: -1,
    waitOnFirstConnect: true,
    pingInterval: 5000,
    maxPingOut: 2,
  };
}

const withCredential =
  (next: Call, apiKey: BusOptions['apiKey']): Call =>
  (action, params, options) => {
    const [service = ''] = action.split('.');
    if (!services.includes(service)) return next(action, params, options);
    const credential = typeof apiKey === 'function' ? apiKey() : apiKey;
    return next(action, params, { ...options, meta: { ...options?.meta, credential } });
  };

interface Entry {
  readonly result: Promise<unknown>;
  readonly askedAt: Instant;
}

interface Known {
  readonly result: object;
  readonly askedAt: Instant;
}

function nearCache(next: Call, { maxAgeMs = 1000 }: BusOptions): Call {
  /** The entry that was used last is at the end. */
  const entries = new Map<string, Entry>();
  /** The last results that were good. */
  const lastKnown = new Map<string, Known>();
  const keep = <T>(map: Map<string, T>, key: string, value: T): void => {
    map.delete(key);
    map.set(key, value);
    const [oldest] = map.keys();
    if (map.size > mostKept && oldest !== undefined) map.delete(oldest);
  };

  async function ask(key: string, askedAt: Instant, ...call: Parameters<Call>): Promise<unknown> {
    try {
      const result = deepFreeze(await next(...call));
      if (typeof result === 'object' && result !== null) learn(key, { result, askedAt });
      return result;
    } catch (error) {
      const known = lastKnown.get(key);
      if (known && isOutage(error)) return deepFreeze({ ...known.result, stale: true });
      throw error;
    }
  }

  /** Answers come in another order, and one that a gateway doubts may be older than any. */
  function learn(key: string, { result, askedAt }: Known): void {
    const before = lastKnown.get(key);
    const isDoubtful = 'stale' in result && result.stale === true;
    const isOlder = before && (isDoubtful || before.askedAt.monotonic > askedAt.monotonic);
    keep(lastKnown, key, isOlder ? before : { result, askedAt });
  }

  return (action, params = {}, options = {}) => {
    // Whoever asks for a revision, or for one of the past, does not ask for what is kept.
    const { min_revision: least, as_of: past } = params;
    const isKept = kept.includes(action) && least === undefined && past === undefined;
    if (!isKept || maxAgeMs <= 0) return next(action, params, options);
    const members = Object.entries(params).filter(([, value]) => value !== undefined);
    // Without a tenant in it, a call is about that of the credential.
    const by: unknown = params.tenant_id === undefined && options.meta?.credential;
    const key = JSON.stringify([action, members.sort(([a], [b]) => (a < b ? -1 : 1)), by]);
    const entry = entries.get(key);
    if (entry && sinceMs(entry.askedAt) < maxAgeMs) {
      keep(entries, key, entry);
      return entry.result;
    }
    const askedAt = now();
    const result = ask(key, askedAt, action, params, options);
    const made = { result, askedAt };
    keep(entries, key, made);
    result.catch(() => {
      if (entries.get(key) === made) entries.delete(key);
    });
    return result;
  };
}

/** Nobody answered, or whoever did could not. A refusal is none. */
function isOutage(error: unknown): boolean {
  const { code, type } = error as { code?: unknown; type?: unknown };
  const isAway = type === 'SERVICE_NOT_FOUND' || type === 'SERVICE_NOT_AVAILABLE';
  return isAway || (typeof code === 'number' && code >= 500);
}
