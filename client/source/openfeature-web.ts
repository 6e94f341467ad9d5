/**
 * A provider for the web SDK of OpenFeature (https://openfeature.dev), where the context is that of
 * the page: its configuration is kept live, and flags are read from it at once.
 */
import {
  OpenFeatureEventEmitter,
  ProviderEvents,
  type EvaluationContext,
  type JsonValue,
  type Provider,
} from '@openfeature/web-sdk';
import { contextOf, follow, nameOf, notReady, open, resolve, type Resolution } from './flags.ts';
import type { Config, ConnectOptions, Context } from './types.ts';

export class StrataProvider implements Provider {
  readonly metadata = { name: 'strata' } as const;
  readonly runsOn = 'client';
  readonly events = new OpenFeatureEventEmitter();
  readonly #options: ConnectOptions;
  readonly #closing = new AbortController();
  /** Of the page's context; undefined before the first, and where its values could not be had. */
  #name: string | undefined;
  /**
   * What flags are read from; undefined before the first, and where that of a new context could not
   * be had.
   */
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
    if (nameOf(context) === this.#name) return undefined;
    return this.#connect(context);
  }

  async onClose(): Promise<void> {
    this.#closing.abort();
    this.#forget();
  }

  resolveBooleanEvaluation(key: string) {
    return this.#resolve<boolean>(key, 'boolean');
  }

  resolveStringEvaluation(key: string) {
    return this.#resolve<string>(key, 'string');
  }

  resolveNumberEvaluation(key: string) {
    return this.#resolve<number>(key, 'number');
  }

  resolveObjectEvaluation<T extends JsonValue>(key: string): Resolution<T> {
    return this.#resolve<T>(key, 'object');
  }

  #resolve<T>(key: string, type: Parameters<typeof resolve>[3]): Resolution<T> {
    if (!this.#open) throw notReady();
    return resolve(this.#open.config, key, this.#open.isNamed, type);
  }

  async #connect(context: Context | undefined): Promise<void> {
    this.#contexts += 1;
    const turn = this.#contexts;
    this.#name = nameOf(context);
    const options = {
      ...this.#options,
      context: { ...this.#options.context, ...context },
      signal: this.#closing.signal,
    };
    const config = await open(options).catch((error: Error) => error);
    // A later context has overtaken this one.
    const isOutdated = turn !== this.#contexts || this.#closing.signal.aborted;
    if (config instanceof Error) {
      // The values of another context are none of this one.
      if (!isOutdated) {
        this.#forget();
        this.#name = undefined;
      }
      throw config;
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
