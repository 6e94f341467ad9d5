import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/server';
import { Type, type TSchema } from 'typebox';
import { TokenResponse } from './auth.ts';
import { action, Page, page, type Access } from './contract.ts';
import { strict, Timestamp, Uuid } from './fields.ts';

// What browsers make grows with them, so their fields beyond these are let through and not looked at.
const fromBrowser = { additionalProperties: true } as const;
const base64url = (maxLength: number) => Type.String({ pattern: '^[A-Za-z0-9_-]+$', maxLength });
/** At most 1023 bytes (Web Authentication, 5.1). */
const CredentialId = base64url(1364);
const Challenge = base64url(100);
const Transport = Type.String({ minLength: 1, maxLength: 32 });
const Name = Type.String({ minLength: 1, maxLength: 100, description: 'What its owner calls it' });
const Verified = Type.Literal('required');

const credential = <T>(response: TSchema) =>
  Type.Unsafe<T>(
    Type.Object(
      {
        id: CredentialId,
        rawId: CredentialId,
        type: Type.Literal('public-key'),
        response,
        authenticatorAttachment: Type.Optional(
          Type.Union([Type.String({ maxLength: 32 }), Type.Null()]),
        ),
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
const begun = <T extends TSchema>(publicKey: T) =>
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
    name: Type.Union([Name, Type.Null()]),
    aaguid: Type.String({
      description: 'Model of the authenticator; zeros where it does not tell',
    }),
    transports: Type.Array(Transport),
    backup_eligible: Type.Boolean({ description: 'May be synchronized between devices' }),
    backed_up: Type.Boolean(),
    created_at: Timestamp,
    last_used_at: Type.Union([Timestamp, Type.Null()]),
  },
  strict,
);

const open: Access = { level: 'public' };
const signedIn: Access = { level: 'authenticated' };
const recently: Access = { level: 'authenticated', recent: true };
export const passkeyContracts = {
  'auth.webauthn.login.options': action({
    summary: 'Begin to sign in with a passkey',
    rest: 'POST /auth/webauthn/login/options',
    access: open,
    body: Type.Object(
      {
        email: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 254,
            description: 'Then only a passkey of this account completes the sign-in',
          }),
        ),
      },
      strict,
    ),
    result: begun(RequestOptions),
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
    access: recently,
    body: Type.Object({}, strict),
    result: begun(CreationOptions),
  }),
  'auth.webauthn.register.verify': action({
    summary: "Add a passkey to one's own account",
    rest: 'POST /auth/webauthn/register/verify',
    access: recently,
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
    access: signedIn,
    path: { id: Uuid },
    result: Type.Null(),
    response: 'nothing',
  }),
} as const;
