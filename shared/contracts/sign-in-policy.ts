/**
 * How somebody signed in, and how they must have: a tenant says so for its members, the platform
 * for its administrators.
 */
import { Type, type Static } from 'typebox';

/** `sso` is any identity provider. */
export const SignInMethod = Type.Enum(['password', 'passkey', 'sso']);
export type SignInMethod = Static<typeof SignInMethod>;

export const signInPolicies = ['any', 'passkey_or_sso'] as const;
export const SignInPolicy = Type.Enum(signInPolicies, {
  title: 'SignInPolicy',
  description:
    'How people must sign in. `passkey_or_sso`: a session by password alone may only register a passkey',
});
export type SignInPolicy = Static<typeof SignInPolicy>;

/**
 * Which ways of signing in satisfy `passkey_or_sso`. A record, so that whoever adds a way has to
 * judge it.
 */
const isStrong: Readonly<Record<SignInMethod, boolean>> = {
  password: false,
  passkey: true,
  sso: true,
};

/**
 * Whether a session that began this way has to be replaced by a stronger one, by any of the
 * policies that hold for it.
 */
export const needsStrongerSignIn = (
  method: SignInMethod,
  policies: readonly (SignInPolicy | undefined)[],
): boolean => !isStrong[method] && policies.includes('passkey_or_sso');
