/** Secrets at rest: AES-256-GCM under keys derived from SECRET_KEY (HKDF-SHA256, RFC 5869, one label per use). */
import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';

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
export function createVault(keys: { secret_key: string | null; secret_key_previous: string | null }, label: string): Vault {
  if (keys.secret_key === null) throw new Error('SECRET_KEY is needed to keep secrets');
  const ring = new Map([keys.secret_key_previous, keys.secret_key].filter((key) => key !== null).map((secret) => {
    const key = deriveKey(secret, label);
    return [createHash('sha256').update(key).digest('hex').slice(0, 8), key] as const;
  }));
  const [current, key] = [...ring].at(-1)!;
  return {
    seal(plain, context) {
      const nonce = randomBytes(12);
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(context));
      const text = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()]);
      return `${prefix}${[current, nonce.toString('base64url'), cipher.getAuthTag().toString('base64url'), text.toString('base64url')].join('.')}`;
    },
    open(sealed, context) {
      const [id = '', nonce = '', tag = '', text = ''] = sealed.slice(prefix.length).split('.');
      const fitting = ring.get(id);
      if (!isSealed(sealed) || !fitting) throw new Error('A stored secret was sealed with a key that is neither SECRET_KEY nor SECRET_KEY_PREVIOUS.');
      try {
        const decipher = createDecipheriv('aes-256-gcm', fitting, Buffer.from(nonce, 'base64url')).setAAD(Buffer.from(context)).setAuthTag(Buffer.from(tag, 'base64url'));
        return Buffer.concat([decipher.update(Buffer.from(text, 'base64url')), decipher.final()]).toString('utf8');
      } catch {
        throw new Error('A stored secret does not open: it was altered or belongs elsewhere.');
      }
    },
  };
}

export const isSealed = (value: unknown): value is string => typeof value === 'string' && value.startsWith(prefix);

/** The same value with `change` applied to every string in it. */
export function mapStrings<T>(value: T, change: (text: string) => string): T {
  if (typeof value === 'string') return change(value) as T;
  if (Array.isArray(value)) return value.map((item) => mapStrings(item, change)) as T;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, mapStrings(member, change)])) as T;
}

/** Sealed strings replaced by the mask, wherever they are. */
export const concealSecrets = <T>(value: T): T => mapStrings(value, (text) => isSealed(text) ? mask : text);
