/** Secrets at rest: AES-256-GCM under keys derived from SECRET_KEY (HKDF-SHA256, RFC 5869, one label per use). */
import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';
import { invalid, type Problem } from '../errors.ts';
import { pointerTo } from '../schema/json-pointer.ts';

export const mask = '********';
const prefix = 'strata.sealed.v1.';

/** A key for one use. */
export const deriveKey = (secretKey: string, label: string): Buffer =>
  Buffer.from(hkdfSync('sha256', secretKey, 'strata', label, 32));

export interface Vault {
  /** `context` says what the secret belongs to; it opens nowhere else. */
  readonly seal: (plain: string, context: string) => string;
  /** Throws where no key fits or the text was altered. */
  readonly open: (sealed: string, context: string) => string;
}

/** Text form: prefix, key id (8 hex), nonce, tag and ciphertext, the last three base64url. SECRET_KEY_PREVIOUS still opens. */
export function createVault(
  keys: { secret_key: string | null; secret_key_previous: string | null },
  label: string,
): Vault {
  if (keys.secret_key === null) throw new Error('SECRET_KEY is needed to keep secrets');
  const ring = new Map(
    [keys.secret_key_previous, keys.secret_key]
      .filter((key) => key !== null)
      .map((secret) => {
        const key = deriveKey(secret, label);
        return [createHash('sha256').update(key).digest('hex').slice(0, 8), key] as const;
      }),
  );
  const [current, key] = [...ring].at(-1)!;
  // Node takes a tag cut to 4 bytes for a whole one unless the length is named.
  const whole = { authTagLength: 16 };
  return {
    seal(plain, context) {
      const nonce = randomBytes(12);
      const cipher = createCipheriv('aes-256-gcm', key, nonce, whole).setAAD(Buffer.from(context));
      const text = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()]);
      return (
        prefix +
        [
          current,
          ...[nonce, cipher.getAuthTag(), text].map((part) => part.toString('base64url')),
        ].join('.')
      );
    },
    open(sealed, context) {
      const [id = '', ...parts] = sealed.slice(prefix.length).split('.');
      const fitting = ring.get(id);
      if (!isSealed(sealed) || !fitting)
        throw new Error(
          'A stored secret was sealed with a key that is neither SECRET_KEY nor SECRET_KEY_PREVIOUS.',
        );
      try {
        const [nonce, tag, text] = parts.map((part) => Buffer.from(part, 'base64url')) as [
          Buffer,
          Buffer,
          Buffer,
        ];
        const decipher = createDecipheriv('aes-256-gcm', fitting, nonce, whole)
          .setAAD(Buffer.from(context))
          .setAuthTag(tag);
        return Buffer.concat([decipher.update(text), decipher.final()]).toString('utf8');
      } catch {
        throw new Error('A stored secret does not open: it was altered or belongs elsewhere.');
      }
    },
  };
}

export const isSealed = (value: unknown): value is string =>
  typeof value === 'string' && value.startsWith(prefix);

/** A part of a document that holds secrets, and where they are sent. */
export interface SecretHolder {
  /** Secrets never move between kinds. */
  readonly kind: string;
  readonly path: readonly string[];
  /** Null where the document names no address outside the secrets. */
  readonly url: string | null;
  /** Paths within the holder. */
  readonly secrets: readonly (readonly string[])[];
}
type HoldersOf<T> = (document: T) => readonly SecretHolder[];
interface Place {
  readonly holder: SecretHolder;
  readonly secret: readonly string[];
}
type Json = Record<string, unknown>;

const at = (value: unknown, path: readonly string[]): unknown =>
  path.reduce<unknown>(
    (found, name) =>
      typeof found === 'object' && found !== null && Object.hasOwn(found, name)
        ? (found as Json)[name]
        : undefined,
    value,
  );

function replaceSecrets<T>(
  document: T,
  holdersOf: HoldersOf<T>,
  change: (value: string, place: Place) => string,
): T {
  const next = structuredClone(document);
  for (const holder of holdersOf(next)) {
    for (const secret of holder.secrets) {
      const path = [...holder.path, ...secret];
      const value = at(next, path);
      if (typeof value === 'string')
        (at(next, path.slice(0, -1)) as Json)[path.at(-1)!] = change(value, { holder, secret });
    }
  }
  return next;
}

/** What a sealed secret is bound to. Without the position, so that a list may be reordered. */
const binding = (context: string, { holder, secret }: Place): string =>
  [context, holder.kind, ...secret].join(' ');

/**
 * As it is stored: every secret sealed. Where the mask is written back, what is stored stays; where nothing is, the mask is
 * refused (422). Whoever may not read a secret must not have it sent to a place of theirs: it stays only with its origin.
 */
export function sealSecrets<T>(
  document: T,
  holdersOf: HoldersOf<T>,
  vault: Vault,
  context: string,
  stored: T | null,
): T {
  const before =
    stored === null
      ? new Map<string, SecretHolder>()
      : counterparts(holdersOf(document), holdersOf(stored));
  const problems: Problem[] = [];
  const sealed = replaceSecrets(document, holdersOf, (value, place) => {
    if (value !== mask) return vault.seal(value, binding(context, place));
    const { holder, secret } = place;
    const same = before.get(holder.path.join('/'));
    const kept = same && at(stored, [...same.path, ...secret]);
    if (isSealed(kept)) return kept;
    problems.push({
      path: pointerTo([...holder.path, ...secret]),
      message: 'is the mask, but nothing is stored for this address: give the secret itself',
    });
    return value;
  });
  if (problems.length > 0) throw invalid(problems);
  return sealed;
}

export const openSecrets = <T>(
  document: T,
  holdersOf: HoldersOf<T>,
  vault: Vault,
  context: string,
): T =>
  replaceSecrets(document, holdersOf, (value, place) => vault.open(value, binding(context, place)));

export const maskSecrets = <T>(document: T, holdersOf: HoldersOf<T>): T =>
  replaceSecrets(document, holdersOf, () => mask);

/** New holder's path → the stored holder it continues: same url and place, else same url, else same origin and place. Each once. */
function counterparts(
  next: readonly SecretHolder[],
  stored: readonly SecretHolder[],
): Map<string, SecretHolder> {
  const place = (holder: SecretHolder, all: readonly SecretHolder[]) =>
    all.filter(({ kind }) => kind === holder.kind).indexOf(holder);
  const samePlace = (a: SecretHolder, b: SecretHolder) => place(a, next) === place(b, stored);
  const rounds = [
    (a: SecretHolder, b: SecretHolder) => a.url === b.url && samePlace(a, b),
    (a: SecretHolder, b: SecretHolder) => a.url === b.url,
    (a: SecretHolder, b: SecretHolder) =>
      originOf(a) !== null && originOf(a) === originOf(b) && samePlace(a, b),
  ];
  const found = new Map<string, SecretHolder>();
  const free = new Set(stored);
  for (const fits of rounds) {
    for (const holder of next) {
      if (found.has(holder.path.join('/'))) continue;
      const match = [...free].find((other) => other.kind === holder.kind && fits(holder, other));
      if (!match) continue;
      free.delete(match);
      found.set(holder.path.join('/'), match);
    }
  }
  return found;
}
/** Opaque origins, all written `null`, equal nothing. */
const originOf = ({ url }: SecretHolder): string | null => {
  const origin = url === null ? undefined : URL.parse(url)?.origin;
  return origin === undefined || origin === 'null' ? null : origin;
};

/** The same value with `change` applied to every string in it. */
export function mapStrings<T>(value: T, change: (text: string) => string): T {
  if (typeof value === 'string') return change(value) as T;
  if (Array.isArray(value)) return value.map((item) => mapStrings(item, change)) as T;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, mapStrings(member, change)]),
  ) as T;
}

/** Sealed strings replaced by the mask, wherever they are. */
export const concealSecrets = <T>(value: T): T =>
  mapStrings(value, (text) => (isSealed(text) ? mask : text));
