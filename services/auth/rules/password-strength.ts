/** Which new passwords are good enough (NIST SP 800-63B, 3.1.1.2: a length and a list of common ones, no rules of composition). */
import type { ErrorCode } from '../../../shared/contracts/error-codes.ts';
import { StrataError } from '../../../shared/errors.ts';
import { isGuessable } from './guessable.ts';

const minLength = 12;
const maxLength = 256;

/** Compatibility forms are one password, however a keyboard composes them (Unicode NFKC). */
export const normalisePassword = (password: string): string => password.normalize('NFKC');

const problemMessages = {
  auth_password_too_short: `needs ${minLength} to ${maxLength} characters`,
  auth_password_breached: 'is a common password',
} as const satisfies Partial<Record<ErrorCode, string>>;

/** What is wrong with a new password; undefined where it is good. Its length counts code points once normalised. */
export function passwordProblem(password: string): keyof typeof problemMessages | undefined {
  const length = [...normalisePassword(password)].length;
  if (length < minLength || length > maxLength) return 'auth_password_too_short';
  return isGuessable(password) ? 'auth_password_breached' : undefined;
}

/** Throws 422 with `path`, where the password is in the body. */
export function requireStrongPassword(password: string, path: string): void {
  const code = passwordProblem(password);
  if (code === undefined) return;
  throw new StrataError(code, undefined, { errors: [{ path, message: problemMessages[code] }] });
}
