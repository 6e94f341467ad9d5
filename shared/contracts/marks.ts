/**
 * Keywords that say what a text in a schema is for. What masks, seals or checks such texts finds
 * them by these (`shared/schema/marked.ts`), so that a new field needs no second place.
 */
import { Type } from 'typebox';

export const marks = {
  /** On a text: it is stored sealed and shown masked. */
  secret: 'x-secret',
  /** On an object: members whose names match this pattern, whatever the case, are secrets. */
  secretNames: 'x-secret-names',
  /** On a text: Strata sends to this address. */
  calledAddress: 'x-called-address',
  /**
   * On an object: the secrets in it are sent to its own address and to no other. The value names
   * the kind of receiver, which stored secrets are bound to.
   */
  secretsOf: 'x-secrets-of',
} as const;

export const Secret = (description: string, options: Readonly<Record<string, unknown>> = {}) =>
  Type.String({ minLength: 1, maxLength: 4096, ...options, description, [marks.secret]: true });
