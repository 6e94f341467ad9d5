/**
 * What stands for exactly one action: whoever executes it makes the digest of what it is about to
 * do, and it is that of what was allowed, or nothing may be done. `test/rules/action-digest.json`
 * has vectors.
 */
import canonicalize from 'canonicalize';
import { hash } from 'node:crypto';
import type { Intent } from '../../../shared/contracts/decide.ts';
import type { Problem } from '../../../shared/errors.ts';
import { pointerTo } from '../../../shared/schema/json-pointer.ts';

/** How risky an action is, and what it takes back, is about it: it is the same action. */
type SaidOfIt = Omit<Intent, 'risk_level' | 'takes_back'>;

/** Every field by its name, so that a new one of an intent cannot be forgotten. */
export type ExactAction = {
  readonly [Name in keyof SaidOfIt]-?: NonNullable<SaidOfIt[Name]> | null;
} & {
  readonly tenant: string;
  readonly action: string;
  readonly resource: unknown;
  readonly parameters: unknown;
};

const version = 'strata-action-v1\n';

/** SHA-256 over the version and RFC 8785 of the action, in hexadecimal digits. */
export const digestOf = (action: ExactAction): string =>
  hash('sha256', version + canonicalize(action)!, 'hex');

/** In bytes of JSON. */
const largestPart = 32 * 1024;
/** People are shown all of it, and the audit and history of approvals keep it. */
const secretName =
  /pass(?:w|phrase)|pwd|secret|token|credential|(?:api|private)[-_ ]?key|authorization|cookie/i;

/** What must not be shown, or is too large to be shown. */
export const partProblems = (parts: Readonly<Record<string, unknown>>): Problem[] =>
  Object.entries(parts).flatMap(([name, value]) => {
    if (value === undefined) return [];
    if (Buffer.byteLength(JSON.stringify(value)) > largestPart)
      return [{ path: `/${name}`, message: 'is larger than 32 KiB of JSON' }];
    return secretNames(value, [name]).map((path) => ({
      path: pointerTo(path),
      message: 'looks like a secret by its name, and everybody who approves would be shown it',
    }));
  });

function secretNames(value: unknown, path: readonly string[]): string[][] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => {
    const here = [...path, name];
    const isSecret = !Array.isArray(value) && secretName.test(name);
    return isSecret ? [here] : secretNames(inner, here);
  });
}
