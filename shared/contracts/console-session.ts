/**
 * The console's session. Its refresh token lives in a cookie that no script can read; the page is
 * answered everything else of a `TokenResponse` and keeps the access token in its memory. The
 * gateway answers these itself; no other route takes a cookie.
 */
import { Type } from 'typebox';
import { invitationContracts } from './auth-invitations.ts';
import { passkeyContracts } from './auth-passkeys.ts';
import { ssoContracts } from './auth-sso.ts';
import { authContracts, TokenResponse } from './auth.ts';
import { action, type Access } from './contract.ts';
import { described, Nullable, StrictObject, TitledObject, Uuid } from './fields.ts';

const { refresh_token: _inTheCookie, ...shown } = TokenResponse.properties;
const ConsoleTokens = TitledObject(
  'ConsoleTokens',
  'A session of the console; its refresh token is in a cookie',
  shown,
);

const accept = invitationContracts['auth.invitations.accept'];
const SignInRequired = accept.result.anyOf[1];

const open: Access = { level: 'public' };
const session = '/console/session';

export const consoleSessionContracts = {
  'gateway.console.sign-in': action({
    summary:
      'Sign in to the console with what the routes of a password, a passkey, a provider or an invitation take',
    rest: `POST ${session}`,
    access: open,
    leadsTo: 'own_sign_in',
    body: Type.Union([
      authContracts['auth.login'].params.properties.body,
      passkeyContracts['auth.webauthn.login.verify'].params.properties.body,
      ssoContracts['auth.login.sso'].params.properties.body,
      accept.params.properties.body,
    ]),
    result: Type.Union([ConsoleTokens, SignInRequired]),
    response: 'token',
  }),
  'gateway.console.refresh': action({
    summary:
      "Resume the session of the console's cookie, in another tenant if one is named; empty without a cookie",
    rest: `POST ${session}/refresh`,
    access: open,
    leadsTo: 'own_sign_in',
    body: StrictObject({ tenant_id: Type.Optional(described(Uuid, 'The tenant to switch to')) }),
    result: Nullable(ConsoleTokens),
    response: 'token_or_nothing',
  }),
  'gateway.console.sign-out': action({
    summary: "End the session of the console's cookie",
    rest: `DELETE ${session}`,
    access: open,
    leadsTo: 'removal',
  }),
} as const;
