import canonicalize from 'canonicalize';
import { hash } from 'node:crypto';

/** SHA-256 of the canonical JSON (RFC 8785) of a value. */
export const canonicalHash = (value: object, encoding: 'hex' | 'base64url' = 'hex'): string =>
  hash('sha256', canonicalize(value)!, encoding);
