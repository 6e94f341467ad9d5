/** What callers of the client give and get. Types only. */
import type { AutomationDecision, AutomationState, KnownValues } from './known-values.ts';

export type { AutomationState, KnownValues };

/** What a configuration is for. Each names a layer; without any, the tenant's own settings hold. */
export interface Context {
  readonly agentType?: string | undefined;
  readonly serviceId?: string | undefined;
  readonly serviceType?: string | undefined;
}

/**
 * How far a tenant's and the platform's configuration have come. Both only grow, unless a database
 * is restored.
 */
export interface Revision {
  readonly tenant: number;
  readonly platform: number;
}

/**
 * Where values were last observed: a stream that is open, a read, or the file of an earlier run.
 */
export type Origin = 'stream' | 'poll' | 'file';

/**
 * `live` while a stream is open, `polling` where the gateway answers and gives no stream, `offline`
 * while it does not answer.
 */
export type Status = 'connecting' | 'live' | 'polling' | 'offline' | 'closed';

export type TypeName = 'number' | 'integer' | 'boolean' | 'string' | 'object' | 'array';
type Typed = TypeName | { readonly type: TypeName };
/**
 * What type the value of a key has, by its name or in the form of JSON Schema. A value of another
 * type counts as absent.
 */
export type KeyTypes = Readonly<Record<string, Typed>>;
/** The same as one JSON Schema of an object. */
export interface ObjectSchema {
  readonly type: 'object';
  readonly properties: KeyTypes;
}
export type Schema = KeyTypes | ObjectSchema;

interface TypesByName {
  number: number;
  integer: number;
  boolean: boolean;
  string: string;
  object: Readonly<Record<string, unknown>>;
  array: readonly unknown[];
}
type NameIn<T> = T extends { readonly type: infer Name } ? Name : T;
type ValueOf<T> = NameIn<T> extends keyof TypesByName ? TypesByName[NameIn<T>] : unknown;
type KeyTypesOf<S> = S extends ObjectSchema ? S['properties'] : S;
/** The values by key that a schema promises, beside those that are always known. */
export type ValuesOf<S> = [S] extends [Schema]
  ? { [K in keyof KeyTypesOf<S>]: ValueOf<KeyTypesOf<S>[K]> } & Omit<
      KnownValues,
      keyof KeyTypesOf<S>
    >
  : KnownValues;

/** A key that has no type yet: one with a type must be asked for as that. */
type Untyped<K extends string, V> = K extends keyof V ? never : K;

export interface Get<V> {
  /** The value now, undefined where there is none. Never waits. Values are frozen. */
  <K extends keyof V & string>(key: K): V[K] | undefined;
  /** The value now, `fallback` where there is none. `null`, 0, false and '' are values. */
  <K extends keyof V & string>(key: K, fallback: V[K]): V[K];
  <T = unknown, K extends string = string>(key: K & Untyped<K, V>): T | undefined;
  <T, K extends string = string>(key: K & Untyped<K, V>, fallback: T): T;
}

export interface Shadowed {
  readonly layer: string;
  readonly value: unknown;
  readonly path: string;
}

/** Why a key has its value. */
export interface Explanation {
  readonly value: unknown;
  /** Which of the six layers decided, or `bounds`. */
  readonly layer: string;
  /** The cache key of the deciding document; `env` for the environment. */
  readonly source: string;
  /** JSON Pointer (RFC 6901) of the value inside the source. */
  readonly path: string;
  /** Of the deciding document; null where it has none. */
  readonly revision: number | null;
  readonly updatedBy: string | null;
  readonly updatedAt: string | null;
  /** Values of the layers below, highest first. */
  readonly shadowed: readonly Shadowed[];
  /** The bound that acted on the value, and what the layers alone would say. */
  readonly enforced?: unknown;
  /** Bounds that only warn, and that the value is outside of. */
  readonly warned?: unknown;
}

export interface Details<T = unknown> {
  readonly value: T;
  readonly layer: string | null;
  readonly source: string | null;
  readonly revision: number | null;
  readonly updatedBy: string | null;
  readonly updatedAt: string | null;
  /** Older than `maxStalenessMs`. */
  readonly stale: boolean;
  /** Milliseconds since it was last known that this value holds. */
  readonly ageMs: number;
  /** `fallback` where the key has no value. */
  readonly from: Origin | 'fallback';
}

/** A configuration at one moment. */
export interface View<V = KnownValues> {
  readonly values: Readonly<Record<string, unknown>>;
  readonly revision: Revision;
  readonly get: Get<V>;
  readonly details: <T = unknown>(key: string, fallback?: T) => Details<T | undefined>;
  readonly explain: (key: string) => Explanation | undefined;
}

export interface Change {
  readonly key: string;
  /** Undefined where the key was absent. */
  readonly before: unknown;
  /** Undefined where the key is absent. */
  readonly after: unknown;
}
export interface ChangeEvent {
  readonly revision: Revision;
  readonly changes: readonly Change[];
}

export interface State {
  readonly status: Status;
  readonly from: Origin;
  readonly revision: Revision;
  readonly ageMs: number;
  readonly stale: boolean;
  /** Why it is not live; undefined while it is. */
  readonly error: Error | undefined;
}
export interface Events {
  /** Values became others. Told once for each change, and never of values that are equal. */
  readonly change: ChangeEvent;
  /** The status became another, or the values became stale or fresh. */
  readonly state: State;
}

/** What automation says of its intent. */
export interface Intent extends Context {
  readonly action: string;
  readonly riskLevel: string;
  readonly costImpact?: number | undefined;
  readonly resourceScaling?: number | undefined;
  readonly isRollback?: boolean | undefined;
}
export interface Question extends Intent {
  /** A time, UTC ISO 8601; now by default. */
  readonly at?: string | undefined;
}
export interface Reason {
  readonly rule: string;
  readonly limit: unknown;
  readonly asked: unknown;
  readonly layer: string;
  readonly source: string;
  readonly revision: number | null;
}
export interface Decision {
  readonly decision: AutomationDecision;
  readonly reasons: readonly Reason[];
  readonly retryAt?: string | undefined;
  readonly revision: Revision;
  readonly stale?: true;
}

/** What is done to what, exactly: people who approve see it, and what is redeemed is this. */
export interface ExactAction {
  readonly resource?: string | Readonly<Record<string, unknown>> | undefined;
  readonly parameters?: Readonly<Record<string, unknown>> | undefined;
}
export interface AutomationRequest extends Intent, ExactAction {
  /** Whom its grants are for; the gateway by default. */
  readonly audience?: string | undefined;
  readonly title?: string | undefined;
  readonly description?: string | undefined;
  readonly ttlSeconds?: number | undefined;
  /**
   * The same key with the same request gives the same automation; a new one for each call by
   * default.
   */
  readonly idempotencyKey?: string | undefined;
}
/** An automation that holds a slot, or waits for one. It says by itself that it still runs. */
export interface Automation extends Omit<Decision, 'stale'> {
  readonly id: string;
  /** What the gateway last said. */
  readonly state: AutomationState;
  readonly approvalId?: string | undefined;
  readonly expiresAt: string | null;
  /** Aborted once the slot is lost, or may be: what runs must stop. */
  readonly signal: AbortSignal;
  /**
   * Resolves with true once it runs, with false once it never will. Rejects after `timeoutMs`,
   * where that is given.
   */
  readonly started: (options?: { readonly timeoutMs?: number }) => Promise<boolean>;
  /**
   * Asks, right before acting, for what may be done now, which is answered once. Rejects with
   * `grant_used`, or with `automation_over` where it was stopped: then nothing may be done.
   */
  readonly redeem: (executor?: string) => Promise<ExactAction>;
  /**
   * Gives the slot back. `outcome` says how it ended, such as `succeeded`. Without `actualCost` budgets
   * count its whole `costImpact`.
   */
  readonly finish: (
    outcome: string,
    cost?: { readonly actualCost?: number | undefined },
  ) => Promise<void>;
}

/** What the work of `automation.run` is given. */
export interface Granted extends ExactAction {
  /** Aborted once the slot is lost, or may be: the work must stop. */
  readonly signal: AbortSignal;
  /** Says what it cost, for budgets, which count its whole `costImpact` else. */
  readonly cost: (actualCost: number) => void;
}
export interface RunOptions {
  /** How long it waits for approval and a slot before it is withdrawn. For ever by default. */
  readonly timeoutMs?: number | undefined;
  /** What executes it, for the audit. */
  readonly executor?: string | undefined;
}
export interface Automate {
  /** Decides, and takes one of the tenant's slots. */
  (request: AutomationRequest): Promise<Automation>;
  /**
   * The same, and waits for approval and a slot, redeems the action, calls `work` with it, and gives
   * the slot back with how that ended. Rejects with `not_started` where it never runs, with
   * `slot_lost` where `work` outlived its slot, and with what `work` throws.
   */
  readonly run: <T>(
    request: AutomationRequest,
    work: (granted: Granted) => T | Promise<T>,
    options?: RunOptions,
  ) => Promise<T>;
}

/** Such as `localStorage`. */
export interface KeyValueStorage {
  readonly getItem: (key: string) => string | null | Promise<string | null>;
  readonly setItem: (key: string, value: string) => void | Promise<void>;
}

export interface ConnectOptions<S = undefined> {
  /** Of a gateway, or of what stands in front of several. */
  readonly url: string;
  readonly tenant: string;
  /**
   * An API key or an access token. A function is asked at first, and again whenever its last word
   * is refused.
   */
  readonly token: string | (() => string | Promise<string>);
  readonly context?: Context | undefined;
  readonly schema?: S | undefined;
  /**
   * The path of a file (in Node), or a storage, that keeps the values for a start while no gateway
   * answers.
   */
  readonly lastKnownGood?: string | KeyValueStorage | undefined;
  /** From this age on `limit` gives the safe end, and `stale` is true. 15,000 by default. */
  readonly maxStalenessMs?: number | undefined;
  readonly startup?:
    | {
        /** How long `connect` tries to get values before it rejects. 30,000 by default. */
        readonly timeoutMs?: number | undefined;
      }
    | undefined;
  /** Ends the client as `close` does, also while it connects. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Told of what is wrong and does not stop the client, once for each; `console.warn` by default.
   */
  readonly warn?: ((message: string) => void) | undefined;
}

export interface Config<V = KnownValues> extends View<V> {
  readonly context: Context;
  readonly state: State;
  /**
   * A limit that gates what is done: the value while it is fresh, else its safe end, 0 or false.
   * Where true is the safe end, as of `require_approval_for_high_risk`, or another number, say so
   * in `safeEnd`.
   */
  readonly limit: {
    <K extends keyof V & string>(key: K, safeEnd?: V[K]): Extract<V[K], number | boolean>;
    <T extends number | boolean = number, K extends string = string>(
      key: K & Untyped<K, V>,
      safeEnd?: T,
    ): T;
  };
  /** Calls `listener` from now on. Returns what ends that. */
  readonly on: <E extends keyof Events>(
    event: E,
    listener: (event: Events[E]) => void,
  ) => () => void;
  /**
   * Waits until the values are of this revision or of a newer one: a write that was answered is
   * then seen. A number is a tenant's.
   */
  readonly atLeast: (
    revision: number | { readonly tenant?: number; readonly platform?: number },
    options?: { readonly timeoutMs?: number },
  ) => Promise<Revision>;
  /** The configuration as it was, at a time or at a revision of the tenant. */
  readonly at: (asOf: string | number | Date) => Promise<View<V>>;
  /** Another live configuration, of this context with `context` over it. It ends with this one. */
  readonly with: (
    context: Context,
    options?: { readonly lastKnownGood?: string | KeyValueStorage },
  ) => Promise<Config<V>>;
  /** Whether automation may act. Rejects where no gateway answers: no answer is no permission. */
  readonly decide: (question: Question) => Promise<Decision>;
  readonly automation: Automate;
  /** Ends streams, timers, heartbeats and what `with` gave. Values stay, and grow old. */
  readonly close: () => Promise<void>;
}
