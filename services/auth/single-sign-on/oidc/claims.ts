/**
 * What is trusted of an identity provider's claims (OpenID Connect Core 1.0, 5.1): only what
 * PostgreSQL and a mail server can take.
 */
import { ClientError, type IDToken, type UserInfoResponse } from 'openid-client';
import { Email } from '../../../../shared/contracts/fields.ts';
import { synchronizedNow } from '../../../../shared/process/synchronized-clock.ts';
import { problemsOf } from '../../../../shared/schema/validate.ts';
import type { SsoClaims } from '../rules/sso-account.ts';

/** OpenID Connect Core 1.0, 2: at most 255 ASCII characters. */
const maxSubjectLength = 255;
const maxNameLength = 200;

/** PostgreSQL keeps neither NUL nor lone surrogates. */
const isStorable = (text: unknown): text is string =>
  typeof text === 'string' && text !== '' && !text.includes('\0') && text.isWellFormed();

const isEmail = (text: unknown): text is string => problemsOf(Email, text).length === 0;

/** Some providers send booleans as text. */
const isTrue = (value: unknown): boolean => value === true || value === 'true';

/** Of `auth_time`, in seconds since 1970; never later than now, whatever the provider's clock says. */
const timeOf = (seconds: unknown): Date | null =>
  typeof seconds === 'number' && seconds >= 0
    ? new Date(Math.min(seconds * 1000, synchronizedNow()))
    : null;

/**
 * Who signed in: issuer and subject as the signed token says them, the rest from `profile`, which
 * is the token too or the userinfo answer. An address or a name that is none counts as absent.
 * Throws for a subject that cannot be stored.
 */
export function claimsOf(token: IDToken, profile: IDToken | UserInfoResponse): SsoClaims {
  if (!isStorable(token.sub) || token.sub.length > maxSubjectLength)
    throw new ClientError('the subject is not one');
  return {
    issuer: token.iss,
    subject: token.sub,
    email: isEmail(profile.email) ? profile.email : null,
    email_verified: isTrue(profile.email_verified),
    name: isStorable(profile.name) ? profile.name.slice(0, maxNameLength) : null,
    authenticated_at: timeOf(token.auth_time),
  };
}
