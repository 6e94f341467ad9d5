/** A provider for the server SDK of OpenFeature (https://openfeature.dev): flags are keys, the variant is the layer that decided. */
import {
  GeneralError,
  OpenFeatureEventEmitter,
  ProviderEvents,
  type EvaluationContext,
  type JsonValue,
  type Provider,
} from '@openfeature/server-sdk';
import { isFinal } from './failure.ts';
import {
  contextOf,
  fatal,
  follow,
  isBoolean,
  isNumber,
  isString,
  isStructure,
  notReady,
  resolve,
  type Resolution,
} from './flags.ts';
import { connect } from './index.ts';
import type { Config, ConnectOptions, Context } from './types.ts';

/** Configurations of contexts of evaluations that are kept live. */
const mostContexts = 50;

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
    const config = await connect({ ...this.#options, signal: this.#closing.signal }).catch(
      (error: Error) => {
        throw isFinal(error) ? fatal(error.message) : error;
      },
    );
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
    return this.#resolve(key, context, isBoolean);
  }

  resolveStringEvaluation(key: string, _fallback: string, context: EvaluationContext) {
    return this.#resolve(key, context, isString);
  }

  resolveNumberEvaluation(key: string, _fallback: number, context: EvaluationContext) {
    return this.#resolve(key, context, isNumber);
  }

  resolveObjectEvaluation<T extends JsonValue>(
    key: string,
    _fallback: T,
    context: EvaluationContext,
  ): Promise<Resolution<T>> {
    return this.#resolve(key, context, isStructure<T>);
  }

  async #resolve<T>(
    key: string,
    context: EvaluationContext,
    fits: (value: unknown) => value is T,
  ): Promise<Resolution<T>> {
    const asked = contextOf(context);
    return resolve(await this.#configOf(asked), key, asked !== undefined, fits);
  }

  /** The base where an evaluation names nothing, else a configuration of its own, which stays live while it is used. */
  async #configOf(context: Context | undefined): Promise<Config> {
    if (!this.#config) throw notReady();
    if (!context) return this.#config;
    const name = JSON.stringify([context.agentType, context.serviceId, context.serviceType]);
    const opened = this.#others.get(name) ?? this.#config.with(context);
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
      return await opened;
    } catch (error) {
      if (this.#others.get(name) === opened) this.#others.delete(name);
      throw new GeneralError(error instanceof Error ? error.message : String(error));
    }
  }
}
