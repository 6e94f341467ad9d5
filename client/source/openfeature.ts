/**
 * A provider for the server SDK of OpenFeature (https://openfeature.dev): flags are keys, the
 * variant is the layer that decided.
 */
import {
  GeneralError,
  OpenFeatureEventEmitter,
  ProviderEvents,
  type EvaluationContext,
  type JsonValue,
  type Provider,
} from '@openfeature/server-sdk';
import { contextOf, follow, nameOf, notReady, open, resolve, type Resolution } from './flags.ts';
import type { Config, ConnectOptions, Context } from './types.ts';

/** Configurations of contexts of evaluations that are kept live. */
const mostContexts = 50;
/** How long an evaluation waits for the first values of its context, which continue to be asked for. */
const firstValuesMs = 2000;

export class StrataProvider implements Provider {
  readonly metadata = { name: 'strata' } as const;
  readonly runsOn = 'server';
  readonly events = new OpenFeatureEventEmitter();
  readonly #options: ConnectOptions;
  readonly #closing = new AbortController();
  #config: Config | undefined;
  /** By context; the one that was used last is at the end. */
  readonly #others = new Map<string, Promise<Config>>();

  constructor(options: ConnectOptions) {
    this.#options = options;
  }

  async initialize(): Promise<void> {
    const config = await open({ ...this.#options, signal: this.#closing.signal });
    this.#config = config;
    follow(config, {
      onStale: () => this.events.emit(ProviderEvents.Stale),
      onFresh: () => this.events.emit(ProviderEvents.Ready),
      onChanged: (flagsChanged) =>
        this.events.emit(ProviderEvents.ConfigurationChanged, { flagsChanged }),
    });
  }

  async onClose(): Promise<void> {
    this.#closing.abort();
    this.#others.clear();
    await this.#config?.close();
  }

  resolveBooleanEvaluation(key: string, _fallback: boolean, context: EvaluationContext) {
    return this.#resolve<boolean>(key, context, 'boolean');
  }

  resolveStringEvaluation(key: string, _fallback: string, context: EvaluationContext) {
    return this.#resolve<string>(key, context, 'string');
  }

  resolveNumberEvaluation(key: string, _fallback: number, context: EvaluationContext) {
    return this.#resolve<number>(key, context, 'number');
  }

  resolveObjectEvaluation<T extends JsonValue>(
    key: string,
    _fallback: T,
    context: EvaluationContext,
  ): Promise<Resolution<T>> {
    return this.#resolve<T>(key, context, 'object');
  }

  async #resolve<T>(
    key: string,
    context: EvaluationContext,
    type: Parameters<typeof resolve>[3],
  ): Promise<Resolution<T>> {
    const asked = contextOf(context);
    return resolve(await this.#configOf(asked), key, asked !== undefined, type);
  }

  /**
   * The base where an evaluation names nothing, else a configuration of its own, which stays live
   * while it is used.
   */
  async #configOf(context: Context | undefined): Promise<Config> {
    if (!this.#config) throw notReady();
    if (!context) return this.#config;
    const name = nameOf(context);
    const opened = this.#others.get(name) ?? this.#begin(this.#config, context);
    this.#others.delete(name);
    this.#others.set(name, opened);
    for (const [oldest, config] of this.#others) {
      if (this.#others.size <= mostContexts) break;
      this.#others.delete(oldest);
      void config.then(
        (unused) => unused.close(),
        () => {},
      );
    }
    try {
      return await inTime(opened);
    } catch (error) {
      throw new GeneralError(error instanceof Error ? error.message : String(error));
    }
  }

  /** Where it fails the next evaluation begins it again. */
  #begin(config: Config, context: Context): Promise<Config> {
    const name = nameOf(context);
    const opened = config.with(context);
    opened.catch(() => {
      if (this.#others.get(name) === opened) this.#others.delete(name);
    });
    return opened;
  }
}

function inTime<T>(work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout>;
  const late = new Promise<never>((_resolve, reject) => {
    const error = new Error(`There are no values within ${firstValuesMs} ms.`);
    timer = setTimeout(() => reject(error), firstValuesMs);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}
