import canonicalize from 'canonicalize';
import { createHash } from 'node:crypto';

/** SHA-256 of the canonical JSON (RFC 8785) of a value. */
export const canonicalHash = (value: object, encoding: 'hex' | 'base64url' = 'hex'): string =>
  createHash('sha256').update(canonicalize(value)!).digest(encoding);
