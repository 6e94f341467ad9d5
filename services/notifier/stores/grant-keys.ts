/**
 * The keys that grants are signed with. The private ones are sealed under SECRET_KEY.
 *
 * | A key                                   | does                                                    |
 * |-----------------------------------------|---------------------------------------------------------|
 * | is made, when the newest is 30 days old | is published, and signs nothing: others cache what is published |
 * | is 10 minutes old, or the only one      | signs                                                   |
 * | has a successor that signs              | is published, so that what it signed is verified        |
 * | is 32 days old                          | is removed; the longest grant lasts a day               |
 * | was sealed under neither SECRET_KEY nor SECRET_KEY_PREVIOUS | is neither published nor accepted   |
 */
import {
  createLocalJWKSet,
  exportJWK,
  generateKeyPair,
  importJWK,
  type CryptoKey,
  type JWK,
} from 'jose';
import { randomUUID } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { sweepAfterDays } from '../../../shared/database/sweeper.ts';
import { createVault } from '../../../shared/security/vault.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { algorithm, type SigningKey } from '../rules/grant.ts';

const signsForDays = 30;
const keptDays = signsForDays + 2;
/** Longer than this node and verifiers (`max-age`) keep what was published. */
const publishedAheadMinutes = 10;
const freshMs = 60_000;

/** As it is published (RFC 8037). */
export type PublicKey = ResultOf<'notifier.grants.keys'>['keys'][number];

interface Row {
  readonly kid: string;
  readonly sealed: string;
  readonly x: string;
  /** Whether it is young enough to sign. */
  readonly is_current: boolean;
  /** Whether whoever caches keys has it by now. */
  readonly is_known: boolean;
}

interface Keys {
  readonly signing: SigningKey;
  readonly published: readonly PublicKey[];
  readonly find: ReturnType<typeof createLocalJWKSet>;
}

export class GrantKeys {
  readonly #db: DataSource;
  readonly #settings: () => Settings;
  #known: { readonly keys: Promise<Keys>; readonly until: number; readonly by: string } | undefined;

  constructor(db: DataSource, settings: () => Settings) {
    this.#db = db;
    this.#settings = settings;
  }

  /** Read once a minute, and where SECRET_KEY changed. */
  now(): Promise<Keys> {
    const { secret_key: secret, secret_key_previous: previous } = this.#settings();
    const by = JSON.stringify([secret, previous]);
    if (this.#known && this.#known.by === by && performance.now() < this.#known.until)
      return this.#known.keys;
    const keys = this.#read();
    const known = { keys, until: performance.now() + freshMs, by };
    this.#known = known;
    keys.catch(() => {
      if (this.#known === known) this.#known = undefined;
    });
    return keys;
  }

  async #read(): Promise<Keys> {
    const rows = await this.#openable(this.#db.manager);
    if (rows.some(({ is_current: isCurrent }) => isCurrent)) return keysOf(rows);
    // Nodes that need one meet here, and make one.
    return this.#db.transaction(async (manager) => {
      await manager.query('LOCK TABLE notifier.grant_keys IN SHARE ROW EXCLUSIVE MODE');
      const found = await this.#openable(manager);
      if (found.some(({ is_current: isCurrent }) => isCurrent)) return keysOf(found);
      await this.#make(manager);
      return keysOf(await this.#openable(manager));
    });
  }

  async #make(manager: EntityManager): Promise<void> {
    const { privateKey } = await generateKeyPair(algorithm, { extractable: true });
    const { d, x } = await exportJWK(privateKey);
    const kid = randomUUID();
    await manager.query(
      'INSERT INTO notifier.grant_keys (kid, x, sealed, created_at) VALUES ($1, $2, $3, now())',
      [kid, x, this.#vault.seal(d!, kid)],
    );
  }

  /** The newest first, with their private keys open. */
  async #openable(manager: EntityManager): Promise<Opened[]> {
    const rows = await manager.query<Row[]>(
      `SELECT kid, sealed, x, created_at > now() - make_interval(days => $1) AS is_current,
         created_at <= now() - make_interval(mins => $3) AS is_known
       FROM notifier.grant_keys WHERE created_at > now() - make_interval(days => $2)
       ORDER BY created_at DESC, kid`,
      [signsForDays, keptDays, publishedAheadMinutes],
    );
    const opened = await Promise.all(rows.map((row) => this.#open(row)));
    return opened.filter((each) => each !== undefined);
  }

  async #open(row: Row): Promise<Opened | undefined> {
    const { kid, x } = row;
    let d: string;
    try {
      d = this.#vault.open(row.sealed, kid);
    } catch {
      return undefined;
    }
    const jwk: JWK = { kty: 'OKP', crv: 'Ed25519', x, d };
    return { ...row, privateKey: (await importJWK(jwk, algorithm)) as CryptoKey };
  }

  get #vault() {
    return createVault(this.#settings(), 'grant key');
  }
}

type Opened = Row & { readonly privateKey: CryptoKey };

function keysOf(rows: readonly Opened[]): Keys {
  const known = rows.filter(({ is_known: isKnown }) => isKnown);
  // One that was just made signs only where there is no other.
  const [signing] = known.length > 0 ? known : rows;
  const published = rows.map(({ kid, x }): PublicKey => ({
    kty: 'OKP',
    crv: 'Ed25519',
    x,
    kid,
    use: 'sig',
    alg: algorithm,
  }));
  return { signing: signing!, published, find: createLocalJWKSet({ keys: [...published] }) };
}

export const removeOldGrantKeys = sweepAfterDays(
  () => keptDays,
  `WITH removed AS (
     DELETE FROM notifier.grant_keys WHERE kid IN (
       SELECT kid FROM notifier.grant_keys
       WHERE created_at < now() - make_interval(days => $1) LIMIT $2 FOR UPDATE SKIP LOCKED
     ) RETURNING kid
   )
   SELECT count(*)::int AS grant_keys FROM removed`,
);
