/** Invitations: their tokens, how long they last, and what accepting one asks of the person. */
import { hash, randomBytes } from 'node:crypto';
import { invalid } from '../../../../shared/errors.ts';

/** How long a mailed link is good for. */
export const invitationDays = 7;

/** 256 random bits; only their hash is stored. */
export const newInvitationToken = (): string => randomBytes(32).toString('base64url');

export const invitationHash = (token: string): string => hash('sha256', token, 'hex');

/** What the account of an invited person can be entered with, once its address is proved. */
export interface WaysIn {
  readonly hasPassword: boolean;
  /** A passkey, or a link to an identity provider. */
  readonly hasStronger: boolean;
  /** An identity provider knows the address. */
  readonly isVouchedFor: boolean;
}

/**
 * Throws 422 where the person gives a password that would replace one or stand beside something
 * stronger, or none where nothing else would let them in: a link that was mailed a week ago must not
 * change what somebody signs in with.
 */
export function requireFittingPassword(
  password: string | undefined,
  { hasPassword, hasStronger, isVouchedFor }: WaysIn,
): void {
  const refuse = (message: string) => invalid([{ path: '/password', message }]);
  if (password !== undefined && hasPassword)
    throw refuse('this account has a password: leave it out, and sign in with it');
  if (password !== undefined && hasStronger)
    throw refuse('this account has a passkey or a provider: leave it out, and sign in with that');
  if (password === undefined && !hasPassword && !hasStronger && !isVouchedFor)
    throw refuse('is required: nothing signs in to this account yet');
}
