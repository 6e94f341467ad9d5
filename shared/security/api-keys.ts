/**
 * The text of API keys and what is stored of them. A key is `strata_`, the id of its row (32 hex
 * digits), `_`, 256 random bits (64 hex digits) and a CRC-32 of both (8 hex digits): a typing error
 * is noticed, and scanners for leaked secrets can recognise one.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { deriveKey, type SecretKeys } from './derived-keys.ts';

const start = 'strata_';
const form = /^strata_([0-9a-f]{32})_([0-9a-f]{64})([0-9a-f]{8})$/;

const withoutDashes = (uuid: string): string => uuid.replaceAll('-', '');
const withDashes = (hex: string): string =>
  hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
const checksum = (hexId: string, secret: string): string =>
  crc32(`${hexId}_${secret}`).toString(16).padStart(8, '0');

/** What shows in lists and says which key it is. */
export const apiKeyPrefix = (id: string): string => start + withoutDashes(id);
export const looksLikeApiKey = (text: string): boolean => text.startsWith(start);

export function newApiKey(id: string): { key: string; secret: string } {
  const secret = randomBytes(32).toString('hex');
  const sum = checksum(withoutDashes(id), secret);
  return { key: `${apiKeyPrefix(id)}_${secret}${sum}`, secret };
}

/** Null for what cannot be a key of ours: nothing needs to be looked up for it. */
export function parseApiKey(text: string) {
  const [, hexId, secret, sum] = form.exec(text) ?? [];
  if (!hexId || !secret || sum !== checksum(hexId, secret)) return null;
  return { id: withDashes(hexId), secret };
}

/**
 * Hashes are HMAC-SHA-256 under a key derived from SECRET_KEY, as hex. A slow hash would protect
 * nothing: a secret is random and too long to guess.
 */
export function createApiKeys({ secret_key: current, secret_key_previous: previous }: SecretKeys) {
  const keys = [current, previous]
    .filter((key) => key !== null)
    .map((key) => deriveKey(key, 'api key'));
  const hashUnder = (key: Buffer, secret: string): Buffer =>
    createHmac('sha256', key).update(secret).digest();
  return {
    hash: (secret: string): string => hashUnder(keys[0]!, secret).toString('hex'),
    /** Keys hashed under SECRET_KEY_PREVIOUS still fit. */
    fits: (secret: string, stored: string): boolean => {
      const storedHash = Buffer.from(stored, 'hex');
      return keys.some((key) => timingSafeEqual(hashUnder(key, secret), storedHash));
    },
  };
}
