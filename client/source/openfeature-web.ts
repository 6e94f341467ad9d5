/**
 * A provider for the web SDK of OpenFeature (https://openfeature.dev), where the context is that of the page: its configuration is
 * kept live, and flags are read from it at once.
 */
import {
  OpenFeatureEventEmitter,
  ProviderEvents,
  type EvaluationContext,
  type JsonValue,
  type Provider,
} from '@openfeature/web-sdk';
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

const nameOf = (context: Context | undefined): string =>
  JSON.stringify([context?.agentType, context?.serviceId, context?.serviceType]);

export class StrataProvider implements Provider {
  readonly metadata = { name: 'strata' } as const;
  readonly runsOn = 'client';
  readonly events = new OpenFeatureEventEmitter();
  readonly #options: ConnectOptions;
  readonly #closing = new AbortController();
  /** What the page is about; undefined where it names nothing that Strata knows. */
  #context: Context | undefined;
  /** What flags are read from; undefined before the first, and where that of a new context could not be had. */
  #open:
    | { readonly config: Config; readonly isNamed: boolean; readonly unfollow: () => void }
    | undefined;
  /** How often the context was another one. */
  #contexts = 0;

  constructor(options: ConnectOptions) {
    this.#options = options;
  }

  async initialize(context?: EvaluationContext): Promise<void> {
    await this.#connect(contextOf(context));
  }

  /** The values of before are given until those of the new context are there. */
  onContextChange(_before: EvaluationContext, after: EvaluationContext): Promise<void> | void {
    const context = contextOf(after);
    if (nameOf(context) === nameOf(this.#context)) return undefined;
    return this.#connect(context);
  }

  async onClose(): Promise<void> {
    this.#closing.abort();
    this.#forget();
  }

  resolveBooleanEvaluation(key: string) {
    return this.#resolve(key, isBoolean);
  }

  resolveStringEvaluation(key: string) {
    return this.#resolve(key, isString);
  }

  resolveNumberEvaluation(key: string) {
    return this.#resolve(key, isNumber);
  }

  resolveObjectEvaluation<T extends JsonValue>(key: string): Resolution<T> {
    return this.#resolve(key, isStructure<T>);
  }

  #resolve<T>(key: string, fits: (value: unknown) => value is T): Resolution<T> {
    if (!this.#open) throw notReady();
    return resolve(this.#open.config, key, this.#open.isNamed, fits);
  }

  async #connect(context: Context | undefined): Promise<void> {
    this.#contexts += 1;
    const turn = this.#contexts;
    this.#context = context;
    const options = {
      ...this.#options,
      context: { ...this.#options.context, ...context },
      signal: this.#closing.signal,
    };
    const config = await connect(options).catch((error: Error) => error);
    // A later context has overtaken this one.
    const isOutdated = turn !== this.#contexts || this.#closing.signal.aborted;
    if (config instanceof Error) {
      // The values of another context are none of this one.
      if (!isOutdated) this.#forget();
      throw isFinal(config) ? fatal(config.message) : config;
    }
    if (isOutdated) {
      await config.close();
      return;
    }
    this.#forget();
    const unfollow = follow(config, {
      onStale: () => this.events.emit(ProviderEvents.Stale),
      onFresh: () => this.events.emit(ProviderEvents.Ready),
      onChanged: (flagsChanged) =>
        this.events.emit(ProviderEvents.ConfigurationChanged, { flagsChanged }),
    });
    this.#open = { config, isNamed: context !== undefined, unfollow };
  }

  #forget(): void {
    this.#open?.unfollow();
    void this.#open?.config.close();
    this.#open = undefined;
  }
}
