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
import { objectIn } from './json.ts';
import { snapshotOf, type Snapshot } from './snapshot.ts';
import type { KeyValueStorage } from './types.ts';

const format = 1;

export interface Kept {
  readonly snapshot: Snapshot;
  /** When it was last known that these values hold, by the wall's clock. */
  readonly savedAt: number;
}

type Warn = (message: string) => void;

export class LastKnownGood {
  readonly #storage: KeyValueStorage;
  /** The address that the values are read from, which names url, tenant and context. */
  readonly #address: string;
  readonly #warn: Warn;
  #saving: Promise<void> | undefined;
  /** What is to be saved after what is being saved. */
  #next: Kept | undefined;

  constructor(storage: KeyValueStorage, address: string, warn: Warn) {
    this.#storage = storage;
    this.#address = address;
    this.#warn = warn;
  }

  /** Undefined where there is nothing that may be used. */
  async load(): Promise<Kept | undefined> {
    try {
      const text = await this.#storage.getItem(this.#key());
      return text === null ? undefined : await this.#read(text);
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
    return `strata:${this.#address}`;
  }

  async #write({ snapshot, savedAt }: Kept): Promise<string> {
    const saved_at = new Date(savedAt).toISOString();
    const record = { format, address: this.#address, saved_at, ...snapshot };
    return JSON.stringify({ ...record, sha256: await sha256Of(record) });
  }

  async #read(text: string): Promise<Kept> {
    const { sha256, ...record } = objectIn(text) ?? {};
    if (Number(record.format) > format)
      throw new Error(`a newer client has written them (format ${record.format})`);
    if (sha256 !== (await sha256Of(record))) throw new Error('they are damaged');
    if (record.address !== this.#address)
      throw new Error('they are of another url, tenant or context');
    const savedAt = Date.parse(String(record.saved_at));
    return { snapshot: snapshotOf(record, record.etag), savedAt };
  }
}

async function sha256Of(record: object): Promise<string> {
  // Browsers have it on pages that came over https or from the machine itself.
  const { subtle } = globalThis.crypto;
  if (!subtle) throw new Error('this page was not loaded over https');
  const bytes = new TextEncoder().encode(JSON.stringify(record));
  const digest = new Uint8Array(await subtle.digest('SHA-256', bytes));
  return btoa(String.fromCharCode(...digest));
}

/** Files are for Node alone, and a browser never loads what reads them. */
export async function openLastKnownGood(
  given: string | KeyValueStorage,
  address: string,
  warn: Warn,
): Promise<LastKnownGood> {
  const isFile = typeof given === 'string';
  const storage = isFile ? (await import('./file-storage.ts')).fileStorage(given) : given;
  return new LastKnownGood(storage, address, warn);
}
