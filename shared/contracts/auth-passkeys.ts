/** Passkeys. Options and credentials are the JSON forms of W3C Web Authentication Level 3, which browsers make and parse themselves. */
import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/server';
import { Type, type TSchema } from 'typebox';
import { claimedAddress, TokenResponse } from './auth.ts';
import { action, Page, page, type Access } from './contract.ts';
import { Nullable, strict, Timestamp, Uuid } from './fields.ts';

/** What browsers make grows with them: fields beyond the ones named here are let through and not looked at. */
const fromBrowser = { additionalProperties: true } as const;
const base64url = (maxLength: number) => Type.String({ pattern: '^[A-Za-z0-9_-]+$', maxLength });
/** At most 1023 bytes (Web Authentication Level 3, 4, "Credential ID"), in base64url. */
const CredentialId = base64url(1364);
const Challenge = base64url(100);
const Transport = Type.String({ minLength: 1, maxLength: 32 });
const Name = Type.String({ minLength: 1, maxLength: 100, description: 'What its owner calls it' });
const Verified = Type.Literal('required');

/** A PublicKeyCredential: the schema says what is looked at, the library's type the rest. */
const credential = <T>(response: TSchema) =>
  Type.Unsafe<T>(
    Type.Object(
      {
        id: CredentialId,
        rawId: CredentialId,
        type: Type.Literal('public-key'),
        response,
        authenticatorAttachment: Type.Optional(Nullable(Type.String({ maxLength: 32 }))),
        clientExtensionResults: Type.Object({}, fromBrowser),
      },
      { ...fromBrowser, description: 'The PublicKeyCredential as its toJSON() gives it' },
    ),
  );

const Attestation = credential<RegistrationResponseJSON>(
  Type.Object(
    {
      clientDataJSON: base64url(10_000),
      attestationObject: base64url(100_000),
      transports: Type.Optional(Type.Array(Transport, { maxItems: 16 })),
    },
    fromBrowser,
  ),
);
const Assertion = credential<AuthenticationResponseJSON>(
  Type.Object(
    {
      clientDataJSON: base64url(10_000),
      authenticatorData: base64url(10_000),
      signature: base64url(10_000),
      userHandle: base64url(100),
    },
    fromBrowser,
  ),
);

const CreationOptions = Type.Unsafe<PublicKeyCredentialCreationOptionsJSON>(
  Type.Object(
    {
      challenge: Challenge,
      rp: Type.Object({ id: Type.String(), name: Type.String() }, strict),
      user: Type.Object(
        { id: Type.String(), name: Type.String(), displayName: Type.String() },
        strict,
      ),
      pubKeyCredParams: Type.Array(
        Type.Object({ alg: Type.Integer(), type: Type.Literal('public-key') }, strict),
      ),
      timeout: Type.Integer(),
      attestation: Type.Literal('none'),
      excludeCredentials: Type.Array(
        Type.Object(
          { id: CredentialId, type: Type.Literal('public-key'), transports: Type.Array(Transport) },
          strict,
        ),
      ),
      authenticatorSelection: Type.Object(
        {
          residentKey: Verified,
          requireResidentKey: Type.Literal(true),
          userVerification: Verified,
        },
        strict,
      ),
      extensions: Type.Object({ credProps: Type.Literal(true) }, strict),
      hints: Type.Array(Type.String()),
    },
    { ...strict, description: 'For PublicKeyCredential.parseCreationOptionsFromJSON()' },
  ),
);
const RequestOptions = Type.Unsafe<PublicKeyCredentialRequestOptionsJSON>(
  Type.Object(
    {
      challenge: Challenge,
      rpId: Type.String(),
      timeout: Type.Integer(),
      userVerification: Verified,
      allowCredentials: Type.Array(Type.Never(), {
        description: 'Always empty: the authenticator knows whose passkeys it has',
      }),
      extensions: Type.Object({}, strict),
    },
    { ...strict, description: 'For PublicKeyCredential.parseRequestOptionsFromJSON()' },
  ),
);
/** A ceremony that has begun. */
const Ceremony = <T extends TSchema>(publicKey: T) =>
  Type.Object(
    {
      challenge_id: Uuid,
      publicKey,
      expires_in: Type.Integer({ description: 'Seconds in which the challenge can be used, once' }),
    },
    strict,
  );

export const Passkey = Type.Object(
  {
    id: Uuid,
    name: Nullable(Name),
    aaguid: Type.String({
      description: 'Model of the authenticator; zeros where it does not tell',
    }),
    transports: Type.Array(Transport),
    backup_eligible: Type.Boolean({ description: 'May be synchronized between devices' }),
    backed_up: Type.Boolean(),
    created_at: Timestamp,
    last_used_at: Nullable(Timestamp),
  },
  strict,
);

const open: Access = { level: 'public' };
const signedIn: Access = { level: 'authenticated' };
const recently: Access = { level: 'authenticated', recent: true };
/** The way out for whoever is kept from everything else by a policy on how to sign in. */
const registering: Access = { ...recently, withAnySignIn: true };
export const passkeyContracts = {
  'auth.webauthn.login.options': action({
    summary: 'Begin to sign in with a passkey',
    rest: 'POST /auth/webauthn/login/options',
    access: open,
    networkLimited: 'calls',
    body: Type.Object(
      {
        email: Type.Optional(
          Type.String({
            ...claimedAddress,
            description: 'Then only a passkey of this account completes the sign-in',
          }),
        ),
      },
      strict,
    ),
    result: Ceremony(RequestOptions),
  }),
  'auth.webauthn.login.verify': action({
    summary: 'Sign in with a passkey',
    rest: 'POST /auth/webauthn/login/verify',
    access: open,
    body: Type.Object(
      { challenge_id: Uuid, credential: Assertion, tenant_id: Type.Optional(Uuid) },
      strict,
    ),
    result: TokenResponse,
    response: 'token',
    failures: { database: 'auth_webauthn_db_error', unexpected: 'auth_webauthn_internal_error' },
  }),
  'auth.webauthn.register.options': action({
    summary: "Begin to add a passkey to one's own account",
    rest: 'POST /auth/webauthn/register/options',
    access: registering,
    networkLimited: 'calls',
    keyScope: null,
    body: Type.Object({}, strict),
    result: Ceremony(CreationOptions),
  }),
  'auth.webauthn.register.verify': action({
    summary: "Add a passkey to one's own account",
    rest: 'POST /auth/webauthn/register/verify',
    access: registering,
    keyScope: null,
    body: Type.Object(
      { challenge_id: Uuid, credential: Attestation, name: Type.Optional(Name) },
      strict,
    ),
    result: Passkey,
    response: 'created',
  }),
  'auth.webauthn.credentials.list': action({
    summary: "One's own passkeys",
    rest: 'GET /auth/webauthn/credentials',
    access: signedIn,
    keyScope: 'auth:self',
    query: page,
    result: Page(Passkey),
    response: 'list',
  }),
  'auth.webauthn.credentials.remove': action({
    summary: "Remove a passkey of one's own",
    rest: 'DELETE /auth/webauthn/credentials/{id}',
    access: recently,
    keyScope: null,
    path: { id: Uuid },
    result: Type.Null(),
    response: 'nothing',
  }),
} as const;
