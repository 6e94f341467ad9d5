/**
 * The environments that effective values were merged with in the last minutes: a client that comes
 * back may know values of any of them.
 */
import type { Settings } from '../../../shared/settings/settings.ts';
import { environmentDefaults, environmentFingerprint } from './layers.ts';

/** As long as the feed keeps what clients may come back to. */
const keptMs = 15 * 60_000;

export interface Replaced {
  readonly settings: Settings;
  /** By the clock of this process. */
  readonly keptUntil: number;
  /**
   * By the database's clock, in milliseconds since 1970, and perhaps somewhat later than it was;
   * undefined until that is known.
   */
  replacedAt?: number;
}

const contentOf = (settings: Settings): string =>
  environmentFingerprint(environmentDefaults(settings));

export class Environments {
  readonly #now: () => number;
  #current: Settings;
  #replaced: Replaced[] = [];

  constructor(current: Settings, now: () => number = () => performance.now()) {
    this.#current = current;
    this.#now = now;
  }

  /** Returns those before it of which it is not known yet when they were replaced. */
  note(current: Settings): Replaced[] {
    if (contentOf(current) !== contentOf(this.#current))
      this.#replaced.push({ settings: this.#current, keptUntil: this.#now() + keptMs });
    this.#current = current;
    this.#replaced = this.#replaced.filter(({ keptUntil }) => keptUntil > this.#now());
    return this.#replaced.filter(({ replacedAt }) => replacedAt === undefined);
  }

  /**
   * The one of now, and those that were replaced after that moment by the database's clock; each
   * content once.
   */
  since(moment: number): Settings[] {
    const before = this.#replaced.filter(({ replacedAt = Infinity }) => replacedAt >= moment);
    const all = [this.#current, ...before.map(({ settings }) => settings)];
    const byContent = new Map(all.map((each) => [contentOf(each), each]));
    return [...byContent.values()];
  }
}
