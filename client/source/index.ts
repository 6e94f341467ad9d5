/** A tenant's configuration, live. Nothing is sent, read or timed before `connect`. */
import { decide, randomName, startAutomation } from './automations.ts';
import { Gateway } from './gateway.ts';
import { LiveConfig } from './live-config.ts';
import { typesOf, valueOf, viewOf, type Reading } from './snapshot.ts';
import type {
  Config,
  ConnectOptions,
  Context,
  Events,
  KeyValueStorage,
  Schema,
  TypeName,
  ValuesOf,
  View,
} from './types.ts';

export { StrataError } from './failure.ts';
export type * from './types.ts';

/** What configurations of one `connect` share. */
interface Shared {
  readonly gateway: Gateway;
  readonly url: string;
  readonly tenant: string;
  readonly types: ReadonlyMap<string, TypeName>;
  readonly maxStalenessMs: number;
  readonly startupMs: number;
  readonly warn: (message: string) => void;
}

/** Resolves once there are values. Rejects where the gateway says no, or where nothing has answered in time and no file has values. */
export async function connect<const S extends Schema | undefined = undefined>(
  options: ConnectOptions<S>,
): Promise<Config<ValuesOf<S>>> {
  const { tenant, token, context = {}, lastKnownGood, startup } = options;
  const url = checked(options);
  const shared: Shared = {
    gateway: new Gateway(url, tenant, token),
    url,
    tenant,
    types: typesOf(options.schema),
    maxStalenessMs: positive('maxStalenessMs', options.maxStalenessMs ?? 15_000),
    startupMs: positive('startup.timeoutMs', startup?.timeoutMs ?? 30_000),
    warn: once(options.warn ?? ((message) => console.warn(`strata: ${message}`))),
  };
  return open(shared, context, lastKnownGood, options.signal);
}

async function open<V>(
  shared: Shared,
  context: Context,
  kept: string | KeyValueStorage | undefined,
  parent: AbortSignal | undefined,
): Promise<Config<V>> {
  const { gateway, url, tenant, types, maxStalenessMs, startupMs, warn } = shared;
  const listeners = { change: new Set(), state: new Set() } as {
    readonly [E in keyof Events]: Set<(event: Events[E]) => void>;
  };
  const tell = <E extends keyof Events>(event: E, told: Events[E]): void => {
    for (const listener of listeners[event]) {
      try {
        listener(told);
      } catch (error) {
        warn(`A listener of ${event} threw: ${String(error)}`);
      }
    }
  };
  const identity = { url, tenant, context };
  const keeper = kept === undefined ? undefined : await lastKnownGood(kept, identity, warn);
  const live = new LiveConfig({
    gateway,
    context,
    maxStalenessMs,
    clientId: randomName(),
    lastKnownGood: keeper,
    onChange: (event) => tell('change', event),
    onState: (state) => tell('state', state),
  });
  const end = (): void => void live.close();
  parent?.addEventListener('abort', end);
  live.signal.addEventListener('abort', () => parent?.removeEventListener('abort', end));
  if (parent?.aborted) end();
  await live.start(startupMs);

  const reading: Reading = {
    snapshot: () => live.snapshot,
    freshness: () => live.state,
    types,
    warn,
  };
  const limit = (key: string, safeEnd?: unknown): unknown => {
    const value = valueOf(reading, key);
    const isTruth = typeof value === 'boolean' || types.get(key) === 'boolean';
    const safe = safeEnd ?? (isTruth ? false : 0);
    if (live.state.stale || value === undefined) return safe;
    if (typeof value === 'boolean' || typeof value === 'number') return value;
    warn(`The value of ${key} is no limit: neither a number nor true or false.`);
    return safe;
  };
  const own: Omit<Config<V>, keyof View<V>> = {
    context: Object.freeze({ ...context }),
    get state() {
      return live.state;
    },
    limit: limit as Config<V>['limit'],
    on(event, listener) {
      listeners[event].add(listener);
      return () => void listeners[event].delete(listener);
    },
    atLeast(revision, { timeoutMs = 10_000 } = {}) {
      const { tenant: asked = 0, platform = 0 } =
        typeof revision === 'number' ? { tenant: revision } : revision;
      return live.atLeast({ tenant: asked, platform }, timeoutMs);
    },
    async at(asOf) {
      const then = await live.at(asOf instanceof Date ? asOf.toISOString() : String(asOf));
      const freshness = { stale: false, ageMs: 0, from: 'poll' } as const;
      return viewOf({ snapshot: () => then, freshness: () => freshness, types, warn });
    },
    with: (other, { lastKnownGood } = {}) =>
      open(shared, { ...context, ...other }, lastKnownGood, live.signal),
    decide: (question) => decide(gateway, context, question, live.signal),
    automation: (request) => startAutomation(gateway, context, request, live.signal),
    close: () => live.close(),
  };
  return Object.freeze(
    Object.defineProperties(viewOf<V>(reading), {
      ...Object.getOwnPropertyDescriptors(own),
      revision: { get: () => live.state.revision, enumerable: true },
    }),
  ) as Config<V>;
}

/** Whoever keeps nothing does not load what keeps it. */
async function lastKnownGood(...given: Parameters<KeepsValues>): ReturnType<KeepsValues> {
  const { openLastKnownGood } = await import('./last-known-good.ts');
  return openLastKnownGood(...given);
}
type KeepsValues = typeof import('./last-known-good.ts').openLastKnownGood;

/** The address without a slash at its end. Throws where what is given can't be meant. */
function checked({ url, tenant, token }: ConnectOptions<Schema | undefined>): string {
  const { protocol } = new URL(url);
  if (protocol !== 'https:' && protocol !== 'http:')
    throw new TypeError(`url: ${protocol} is neither https: nor http:`);
  if (typeof tenant !== 'string' || tenant === '') throw new TypeError('tenant: the id is missing');
  const isGiven = (typeof token === 'string' && token !== '') || typeof token === 'function';
  if (!isGiven) throw new TypeError('token: give an API key, an access token or a function');
  return url.replace(/\/+$/, '');
}

function positive(name: string, value: number): number {
  if (value > 0) return value;
  throw new RangeError(`${name}: ${value} is not greater than 0`);
}

const mostWarnings = 100;

/** Says the same only once. */
function once(warn: (message: string) => void): (message: string) => void {
  const said = new Set<string>();
  return (message) => {
    if (said.has(message) || said.size >= mostWarnings) return;
    said.add(message);
    warn(message);
  };
}
