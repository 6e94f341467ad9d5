import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { deriveKey } from './secrets.ts';

interface Keys {
  readonly secret_key: string | null;
  readonly secret_key_previous: string | null;
}
export interface ParsedApiKey {
  readonly id: string;
  readonly secret: string;
}

const form = /^strata_([0-9a-f]{32})_([0-9a-f]{64})([0-9a-f]{8})$/;
const label = 'api key';

const checksum = (id: string, secret: string): string =>
  crc32(`${id}_${secret}`).toString(16).padStart(8, '0');
const plain = (id: string): string => id.replaceAll('-', '');

/** What shows in lists and says which key it is: `strata_` and the id without dashes. */
export const apiKeyPrefix = (id: string): string => `strata_${plain(id)}`;
export const looksLikeApiKey = (text: string): boolean => text.startsWith('strata_');

/** 256 random bits under the id of their row, and a checksum that catches typing errors. */
export function newApiKey(id: string): { key: string; secret: string } {
  const secret = randomBytes(32).toString('hex');
  return { key: `${apiKeyPrefix(id)}_${secret}${checksum(plain(id), secret)}`, secret };
}

/** Null where it cannot be a key of ours: nothing is looked up for it. */
export function parseApiKey(text: string): ParsedApiKey | null {
  const [, id, secret, sum] = form.exec(text) ?? [];
  if (!id || !secret || sum !== checksum(id, secret)) return null;
  return { id: id.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'), secret };
}

/** Hashes are HMAC-SHA-256 under a key derived from SECRET_KEY, as hex: all that is stored of a secret. */
export function createApiKeys({ secret_key: current, secret_key_previous: previous }: Keys) {
  const ring = [current, previous]
    .filter((key) => key !== null)
    .map((key) => deriveKey(key, label));
  const under = (key: Buffer, secret: string): Buffer =>
    createHmac('sha256', key).update(secret).digest();
  return {
    hash: (secret: string): string => under(ring[0]!, secret).toString('hex'),
    /** Keys hashed under SECRET_KEY_PREVIOUS still fit. */
    fits: (secret: string, stored: string): boolean =>
      ring.some((key) => timingSafeEqual(under(key, secret), Buffer.from(stored, 'hex'))),
  };
}
