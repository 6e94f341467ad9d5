/** Keys for one use each, derived from SECRET_KEY, so that what leaks of one use opens no other. */
import { hash, hkdfSync } from 'node:crypto';

/** SECRET_KEY, and the previous one while keys are being rotated. */
export interface SecretKeys {
  readonly secret_key: string | null;
  readonly secret_key_previous: string | null;
}

/** HKDF-SHA256 (RFC 5869), 32 bytes; `label` names the use. */
export const deriveKey = (secretKey: string, label: string): Buffer =>
  Buffer.from(hkdfSync('sha256', secretKey, 'strata', label, 32));

export interface DerivedKey {
  /** Goes with what the key made and says which key fits; tells nothing about the key. */
  readonly id: string;
  readonly bytes: Buffer;
}
export interface KeyRing {
  /** Makes what is new. */
  readonly current: DerivedKey;
  /** Also that of SECRET_KEY_PREVIOUS, which still fits what it made. */
  readonly all: readonly DerivedKey[];
}

/**
 * The keys for one use; an id is the first hex digits of the key's SHA-256, 8 by default. Throws
 * without SECRET_KEY, saying what it is needed to do.
 */
export function createKeyRing(
  { secret_key: secretKey, secret_key_previous: previousKey }: SecretKeys,
  { label, neededTo, idLength = 8 }: { label: string; neededTo: string; idLength?: number },
): KeyRing {
  if (secretKey === null) throw new Error(`SECRET_KEY is needed to ${neededTo}`);
  const derived = (secret: string): DerivedKey => {
    const bytes = deriveKey(secret, label);
    const id = hash('sha256', bytes, 'hex').slice(0, idLength);
    return { id, bytes };
  };
  const current = derived(secretKey);
  const all = previousKey === null ? [current] : [current, derived(previousKey)];
  return { current, all };
}
