/**
 * The values of an earlier run, for a start while no gateway answers.
 *
 * | Danger                                  | What then                                                      |
 * |-----------------------------------------|----------------------------------------------------------------|
 * | the process dies while it saves         | a file is written beside and renamed: the old one or the new   |
 * | the text was cut off or altered         | its SHA-256 does not fit: ignored with a warning               |
 * | it is of another url, tenant or context | ignored with a warning                                         |
 * | a newer client has written it           | its format is unknown: ignored with a warning                  |
 * | others may write the file               | ignored with a warning                                         |
 * | the clock was set back since            | its age is not known: it is stale                              |
 */
import type { Snapshot } from './snapshot.ts';
import type { Context, KeyValueStorage } from './types.ts';

const format = 1;

/** What the values are of. */
export interface Identity {
  readonly url: string;
  readonly tenant: string;
  readonly context: Context;
}
export interface Kept<T = Snapshot> {
  readonly snapshot: T;
  /** When it was last known that these values hold, by the wall's clock. */
  readonly savedAt: number;
}

export class LastKnownGood {
  readonly #storage: KeyValueStorage;
  readonly #identity: string;
  readonly #warn: (message: string) => void;
  #saving: Promise<void> | undefined;
  /** What is to be saved after what is being saved. */
  #next: Kept | undefined;

  constructor(storage: KeyValueStorage, identity: Identity, warn: (message: string) => void) {
    this.#storage = storage;
    this.#identity = textOf(identity);
    this.#warn = warn;
  }

  /** What was kept, as `read` makes it of JSON. Undefined where there is nothing that may be used. */
  async load<T>(read: (record: Record<string, unknown>) => T): Promise<Kept<T> | undefined> {
    try {
      const text = await this.#storage.getItem(this.#key());
      if (text === null) return undefined;
      const record = await this.#read(text);
      return { snapshot: read(record), savedAt: Date.parse(String(record.saved_at)) };
    } catch (error) {
      this.#warn(`The last known good values are not used: ${(error as Error).message}`);
      return undefined;
    }
  }

  /** Resolves once this, or something newer, is saved or has failed to be. */
  save(kept: Kept): Promise<void> {
    this.#next = kept;
    this.#saving ??= this.#saveAll().finally(() => {
      this.#saving = undefined;
    });
    return this.#saving;
  }

  async #saveAll(): Promise<void> {
    try {
      while (this.#next) {
        const kept = this.#next;
        this.#next = undefined;
        await this.#storage.setItem(this.#key(), await this.#write(kept));
      }
    } catch (error) {
      this.#warn(`The last known good values are not saved: ${(error as Error).message}`);
    }
  }

  /** In a storage that others share. */
  #key(): string {
    return `strata:${this.#identity}`;
  }

  async #write({ snapshot, savedAt }: Kept): Promise<string> {
    const identity = JSON.parse(this.#identity) as Identity;
    const record = { format, ...identity, saved_at: new Date(savedAt).toISOString(), ...snapshot };
    const sha256 = await sha256Of(JSON.stringify(record));
    return JSON.stringify({ ...record, sha256 });
  }

  async #read(text: string): Promise<Record<string, unknown>> {
    const { sha256, ...record } = parsed(text);
    if (typeof record.format === 'number' && record.format > format)
      throw new Error(`a newer client has written them (format ${record.format})`);
    if (sha256 !== (await sha256Of(JSON.stringify(record)))) throw new Error('they are damaged');
    const { url, tenant, context } = record;
    if (textOf({ url, tenant, context } as Identity) !== this.#identity)
      throw new Error('they are of another url, tenant or context');
    return record;
  }
}

function parsed(text: string): Record<string, unknown> {
  try {
    const record: unknown = JSON.parse(text);
    if (typeof record === 'object' && record !== null) return { ...record };
  } catch {
    // Cut off, say.
  }
  throw new Error('they are damaged');
}

/** The same text for the same identity. */
function textOf({ url, tenant, context }: Identity): string {
  const { agentType = null, serviceId = null, serviceType = null } = context ?? {};
  return JSON.stringify({ url, tenant, context: { agentType, serviceId, serviceType } });
}

async function sha256Of(text: string): Promise<string> {
  // Browsers have it on pages that came over https or from the machine itself.
  const { subtle } = globalThis.crypto;
  if (!subtle) throw new Error('this page was not loaded over https');
  const digest = await subtle.digest('SHA-256', new TextEncoder().encode(text));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Files are for Node alone, and a browser never loads what reads them. */
export async function openLastKnownGood(
  given: string | KeyValueStorage,
  identity: Identity,
  warn: (message: string) => void,
): Promise<LastKnownGood> {
  if (typeof given !== 'string') return new LastKnownGood(given, identity, warn);
  const { fileStorage } = await import('./file-storage.ts');
  return new LastKnownGood(fileStorage(given), identity, warn);
}
