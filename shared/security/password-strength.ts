/**
 * Which new passwords are good enough (NIST SP 800-63B, 3.1.1.2: a length, a list of common ones
 * and of words from their context, no rules of composition).
 */
import type { ErrorCode } from '../contracts/error-codes.ts';
import { StrataError } from '../errors.ts';
import { folded, isGuessable } from './guessable.ts';

const minLength = 12;
const maxLength = 256;

/** Whose password it is: what guessers know of a person is no part of a password. */
export interface PasswordOwner {
  readonly address: string;
  readonly displayName?: string | null;
  /** Of the tenants that the person is, or becomes, a member of. */
  readonly tenantNames?: readonly string[];
}

export interface PasswordProblem {
  readonly code: ErrorCode;
  readonly message: string;
}

/** Compatibility forms are one password, however a keyboard composes them (Unicode NFKC). */
export const normalisePassword = (password: string): string => password.normalize('NFKC');

/**
 * What is wrong with a new password; undefined where it is good. Its length counts code points once
 * normalised.
 */
export function passwordProblem(
  password: string,
  owner: PasswordOwner,
): PasswordProblem | undefined {
  const length = [...normalisePassword(password)].length;
  if (length < minLength || length > maxLength) {
    const message = `needs ${minLength} to ${maxLength} characters`;
    return { code: 'auth_password_too_short', message };
  }
  if (isGuessable(password))
    return { code: 'auth_password_breached', message: 'is a common password' };
  if (isPersonal(password, owner)) {
    const message = 'contains the name or address of its owner, or the name of their tenant';
    return { code: 'auth_password_breached', message };
  }
  return undefined;
}

/** Throws 422 with `path`, where the password is in the body. */
export function requireStrongPassword(password: string, path: string, owner: PasswordOwner): void {
  const problem = passwordProblem(password, owner);
  if (problem === undefined) return;
  const { code, message } = problem;
  const text = code === 'auth_password_breached' ? `The password ${message}.` : undefined;
  throw new StrataError(code, text, { errors: [{ path, message }] });
}

/** Shorter words are in passwords by chance. */
const minWordLength = 4;
/** Mailboxes that are named after what somebody does say nothing of a person. */
const roleMailboxes: ReadonlySet<string> = new Set(
  'admin administrator contact hello help info mail member office operator owner platform root sales security support team test user viewer'.split(
    ' ',
  ),
);

/** Letters and digits alone: a name is the same with dots, dashes or spaces between its parts. */
const compact = (text: string): string => folded(text).replaceAll(/[^\p{L}\p{N}]+/gu, '');

const partsOf = (text: string): string[] => folded(text).split(/[^\p{L}\p{N}]+/u);

function isPersonal(
  password: string,
  { address, displayName, tenantNames = [] }: PasswordOwner,
): boolean {
  const [mailbox = ''] = address.split('@');
  const name = displayName ?? '';
  const words = [address, mailbox, name, ...partsOf(mailbox), ...partsOf(name), ...tenantNames];
  const written = compact(password);
  return words
    .map(compact)
    .filter((word) => word.length >= minWordLength && !roleMailboxes.has(word))
    .some((word) => written.includes(word));
}
