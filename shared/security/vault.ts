/**
 * Secrets at rest: AES-256-GCM under keys derived from SECRET_KEY. A sealed secret is text: a
 * prefix, the key's id (8 hex digits), nonce, tag and ciphertext, the last three in base64url.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { createKeyRing, type SecretKeys } from './derived-keys.ts';

/**
 * Stands for a secret wherever it would be shown, and keeps the stored one where it is written
 * back.
 */
export const mask = '********';

const prefix = 'strata.sealed.v1.';
const algorithm = 'aes-256-gcm';
/** NIST SP 800-38D: a nonce of 96 bits. */
const nonceBytes = 12;
/** Named, since Node takes a tag that was cut to 4 bytes for a whole one otherwise. */
const tagOptions = { authTagLength: 16 };

export type Vault = ReturnType<typeof createVault>;

export const isSealed = (value: unknown): value is string =>
  typeof value === 'string' && value.startsWith(prefix);

/**
 * `label` names the use. What was sealed under SECRET_KEY_PREVIOUS still opens. Throws without
 * SECRET_KEY.
 */
export function createVault(secretKeys: SecretKeys, label: string) {
  const keys = createKeyRing(secretKeys, { label, neededTo: 'keep secrets' });
  return {
    /** `context` says what the secret belongs to; it opens nowhere else. */
    seal(plain: string, context: string): string {
      const nonce = randomBytes(nonceBytes);
      const { id, bytes: key } = keys.current;
      const cipher = createCipheriv(algorithm, key, nonce, tagOptions).setAAD(Buffer.from(context));
      const ciphertext = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()]);
      const parts = [nonce, cipher.getAuthTag(), ciphertext];
      return prefix + [id, ...parts.map((part) => part.toString('base64url'))].join('.');
    },

    /** Throws where no key fits or the text was altered. */
    open(sealed: string, context: string): string {
      const [id = '', ...parts] = sealed.slice(prefix.length).split('.');
      const key = keys.all.find((each) => each.id === id);
      if (!key || !isSealed(sealed))
        throw new Error(
          'A stored secret was sealed with a key that is neither SECRET_KEY nor SECRET_KEY_PREVIOUS.',
        );
      const plain = decrypted(parts, key.bytes, context);
      if (plain === null)
        throw new Error('A stored secret does not open: it was altered or belongs elsewhere.');
      return plain;
    },
  };
}

/** Null where key, context or text do not belong together. */
function decrypted(
  [nonce = '', tag = '', ciphertext = '']: readonly string[],
  key: Buffer,
  context: string,
): string | null {
  try {
    const decipher = createDecipheriv(algorithm, key, Buffer.from(nonce, 'base64url'), tagOptions)
      .setAAD(Buffer.from(context))
      .setAuthTag(Buffer.from(tag, 'base64url'));
    const plain = [decipher.update(Buffer.from(ciphertext, 'base64url')), decipher.final()];
    return Buffer.concat(plain).toString('utf8');
  } catch {
    return null;
  }
}
