/** A tenant's configuration, live. Nothing is sent, read or timed before `connect`. */
import { decide, runAutomation, startAutomation } from './automations.ts';
import { whenAborted } from './clock.ts';
import { Gateway } from './gateway.ts';
import { openLastKnownGood } from './last-known-good.ts';
import { LiveConfig } from './live-config.ts';
import { readersOf, typesOf } from './snapshot.ts';
import { inSnakeCase, randomName } from './spelling.ts';
import type {
  AutomationRequest,
  Config,
  ConnectOptions,
  Context,
  Events,
  KeyValueStorage,
  Schema,
  TypeName,
  ValuesOf,
} from './types.ts';

export { StrataError, type FieldError } from './failure.ts';
export type * from './types.ts';

/** What configurations of one `connect` share. */
interface Shared {
  readonly gateway: Gateway;
  readonly types: ReadonlyMap<string, TypeName>;
  readonly maxStalenessMs: number;
  readonly startupMs: number;
  readonly warn: (message: string) => void;
}

/**
 * Resolves once there are values. Rejects where the gateway says no, or where nothing has answered
 * in time and no file has values.
 */
export async function connect<const S extends Schema | undefined = undefined>(
  options: ConnectOptions<S>,
): Promise<Config<ValuesOf<S>>> {
  const { tenant, token, context = {}, lastKnownGood, startup } = options;
  const shared: Shared = {
    gateway: new Gateway(checked(options), tenant, token),
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
  const { gateway, types, maxStalenessMs, startupMs, warn } = shared;
  const listeners = { change: new Set(), state: new Set() } as {
    readonly [E in keyof Events]: Set<(event: Events[E]) => void>;
  };
  const emit = <E extends keyof Events>(event: E, payload: Events[E]): void => {
    for (const listener of listeners[event]) {
      try {
        listener(payload);
      } catch (error) {
        warn(`A listener of ${event} threw: ${String(error)}`);
      }
    }
  };
  const query = queryOf(context);
  const address = `${gateway.base}/config/effective?${query}`;
  const keeper = kept === undefined ? undefined : await openLastKnownGood(kept, address, warn);
  const live = new LiveConfig({
    gateway,
    query,
    maxStalenessMs,
    clientId: randomName(),
    lastKnownGood: keeper,
    onChange: (event) => emit('change', event),
    onState: (state) => emit('state', state),
  });
  const forget = parent && whenAborted(parent, () => void live.close());
  if (forget) live.signal.addEventListener('abort', forget);
  await live.start(startupMs);

  const readers = readersOf<V>(live, types, warn);
  const limit = (key: string, safeEnd?: unknown): unknown => {
    const value = (readers.get as (key: string) => unknown)(key);
    const isTruth = typeof value === 'boolean' || types.get(key) === 'boolean';
    const safe = safeEnd ?? (isTruth ? false : 0);
    if (live.state.stale || value === undefined) return safe;
    if (typeof value === 'boolean' || typeof value === 'number') return value;
    warn(`The value of ${key} is neither a number nor true or false.`);
    return safe;
  };
  const start = (request: AutomationRequest) =>
    startAutomation(gateway, context, request, live.signal);
  const config: Config<V> = {
    ...readers,
    context: Object.freeze({ ...context }),
    limit: limit as Config<V>['limit'],
    get values() {
      return live.snapshot.values;
    },
    get revision() {
      return live.state.revision;
    },
    get state() {
      return live.state;
    },
    on(event, listener) {
      listeners[event].add(listener);
      return () => void listeners[event].delete(listener);
    },
    atLeast(asked, { timeoutMs = 10_000 } = {}) {
      const { tenant = 0, platform = 0 } = typeof asked === 'number' ? { tenant: asked } : asked;
      return live.atLeast({ tenant, platform }, timeoutMs);
    },
    async at(asOf) {
      const then = await live.at(asOf instanceof Date ? asOf.toISOString() : String(asOf));
      const state = { stale: false, ageMs: 0, from: 'poll' } as const;
      const { values, revision } = then;
      return { values, revision, ...readersOf<V>({ snapshot: then, state }, types, warn) };
    },
    with: (other, { lastKnownGood } = {}) =>
      open(shared, { ...context, ...other }, lastKnownGood, live.signal),
    decide: (question) => decide(gateway, context, question, live.signal),
    automation: Object.assign(start, {
      run: (request, work, options) => runAutomation(start, request, work, options),
    } satisfies Pick<Config['automation'], 'run'>),
    close: () => live.close(),
  };
  return Object.freeze(config);
}

/** A context as parameters, the same for the same. */
function queryOf({ agentType, serviceId, serviceType }: Context): string {
  const named = inSnakeCase({ agentType, serviceId, serviceType });
  return String(new URLSearchParams(named as Record<string, string>));
}

/** The address without a slash at its end. Throws where what is given can't be meant. */
function checked({ url, tenant, token }: ConnectOptions<Schema | undefined>): string {
  if (!/^https?:$/.test(new URL(url).protocol))
    throw new TypeError('url is neither https nor http');
  if (!tenant) throw new TypeError('tenant is missing');
  if (!token) throw new TypeError('token is missing');
  return url.replace(/\/+$/, '');
}

function positive(name: string, value: number): number {
  if (value > 0) return value;
  throw new RangeError(`${name} is not greater than 0`);
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
