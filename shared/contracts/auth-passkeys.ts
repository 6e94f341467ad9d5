/**
 * Passkeys. Options and credentials are the JSON forms of W3C Web Authentication Level 3, which
 * browsers make and parse themselves.
 */
import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/server';
import { Type, type TSchema } from 'typebox';
import { claimedAddress, TokenResponse } from './auth.ts';
import { action, type Access } from './contract.ts';
import { listing } from './envelopes.ts';
import {
  CreatedAt,
  described,
  DescribedObject,
  Nullable,
  Optional,
  StrictObject,
  Timestamp,
  TitledObject,
  Uuid,
} from './fields.ts';

/**
 * What browsers make grows with them: fields beyond the ones named here are let through and not
 * looked at.
 */
const fromBrowser = { additionalProperties: true } as const;
const base64url = (maxLength: number) => Type.String({ pattern: '^[A-Za-z0-9_-]+$', maxLength });
/** At most 1023 bytes (Web Authentication Level 3, 4, "Credential ID"), in base64url. */
const CredentialId = described(
  base64url(1364),
  "The passkey's own id, in base64url",
  'KEDetxZcUfinhVi6Za5nZQ',
);
const Challenge = described(base64url(100), 'What the authenticator signs, in base64url');
const Transport = Type.String({
  minLength: 1,
  maxLength: 32,
  description: 'How the authenticator is reached, such as internal or usb',
  examples: ['internal'],
});
const ClientData = described(
  base64url(10_000),
  'clientDataJSON of the browser, in base64url',
  'eyJ0eXBlIjoid2ViYXV0aG4uZ2V0In0',
);
const PublicKeyType = Type.Literal('public-key', { description: 'The only type there is' });
const Name = Type.String({ minLength: 1, maxLength: 100, description: 'What its owner calls it' });
const Verified = Type.Literal('required', { description: 'The person has to be verified' });

/** A PublicKeyCredential: the schema says what is looked at, the library's type the rest. */
const credential = <T>(response: TSchema) =>
  Type.Unsafe<T>(
    Type.Object(
      {
        id: CredentialId,
        rawId: CredentialId,
        type: PublicKeyType,
        response,
        authenticatorAttachment: Type.Optional(
          Nullable(
            Type.String({ maxLength: 32, description: 'Part of the device, or apart from it' }),
          ),
        ),
        clientExtensionResults: Type.Object(
          {},
          { ...fromBrowser, description: 'What extensions answered' },
        ),
      },
      { ...fromBrowser, description: 'The PublicKeyCredential as its toJSON() gives it' },
    ),
  );

const Attestation = credential<RegistrationResponseJSON>(
  Type.Object(
    {
      clientDataJSON: ClientData,
      attestationObject: described(
        base64url(100_000),
        'The new public key, as the authenticator states it, in base64url',
        'o2NmbXRkbm9uZQ',
      ),
      transports: Optional.Array(Transport, {
        maxItems: 16,
        description: 'How the authenticator can be reached',
      }),
    },
    { ...fromBrowser, description: "The authenticator's answer" },
  ),
);
const Assertion = credential<AuthenticationResponseJSON>(
  Type.Object(
    {
      clientDataJSON: ClientData,
      authenticatorData: described(
        base64url(10_000),
        'What the authenticator says of itself, in base64url',
        'SZYN5YgOjGh0NBcPZHZgW4_krrmihjLHmVzzuoMdl2M',
      ),
      signature: described(base64url(10_000), 'Its signature, in base64url', 'MEUCIQDk'),
      userHandle: described(
        base64url(100),
        'The account that the passkey was made for, in base64url',
        'P50cUnpBTw6bbA1eihssPQ',
      ),
    },
    { ...fromBrowser, description: "The authenticator's answer" },
  ),
);

const Timeout = Type.Integer({ description: 'Milliseconds that the browser waits' });
const CreationOptions = Type.Unsafe<PublicKeyCredentialCreationOptionsJSON>(
  TitledObject('PasskeyCreationOptions', 'For PublicKeyCredential.parseCreationOptionsFromJSON()', {
    challenge: Challenge,
    rp: DescribedObject('Whom the passkey is for', {
      id: Type.String({ description: 'Host name that passkeys are bound to' }),
      name: Type.String({ description: 'What the browser calls Strata' }),
    }),
    user: DescribedObject('Whose passkey it will be', {
      id: Type.String({ description: "The account's id, in base64url" }),
      name: Type.String({ description: 'Its mail address' }),
      displayName: Type.String({ description: 'What the person is called' }),
    }),
    pubKeyCredParams: Type.Array(
      StrictObject({
        alg: Type.Integer({ description: 'Number of the algorithm (COSE)', examples: [-7] }),
        type: PublicKeyType,
      }),
      { description: 'Algorithms that are taken, the preferred first' },
    ),
    timeout: Timeout,
    attestation: Type.Literal('none', { description: 'Makers of authenticators are not asked' }),
    excludeCredentials: Type.Array(
      StrictObject({
        id: CredentialId,
        type: PublicKeyType,
        transports: Type.Array(Transport, { description: 'How it is reached' }),
      }),
      { description: 'Passkeys that the account has already' },
    ),
    authenticatorSelection: DescribedObject('What the authenticator has to be capable of', {
      residentKey: Verified,
      requireResidentKey: Type.Literal(true, { description: 'The passkey knows its account' }),
      userVerification: Verified,
    }),
    extensions: DescribedObject('Extensions that are asked for', {
      credProps: Type.Literal(true, { description: 'Say whether it is a passkey' }),
    }),
    hints: Type.Array(Type.String(), { description: 'Which authenticators to offer first' }),
  }),
);
const RequestOptions = Type.Unsafe<PublicKeyCredentialRequestOptionsJSON>(
  TitledObject('PasskeyRequestOptions', 'For PublicKeyCredential.parseRequestOptionsFromJSON()', {
    challenge: Challenge,
    rpId: Type.String({ description: 'Host name that passkeys are bound to' }),
    timeout: Timeout,
    userVerification: Verified,
    allowCredentials: Type.Array(Type.Never(), {
      description: 'Always empty: the authenticator knows whose passkeys it has',
    }),
    extensions: DescribedObject('None', {}),
  }),
);
/** A ceremony that has begun. */
const Ceremony = <T extends TSchema>(publicKey: T) =>
  StrictObject({
    challenge_id: described(Uuid, 'Id of the ceremony, needed to complete it'),
    publicKey,
    expires_in: Type.Integer({
      description: 'Seconds until the challenge expires; it can be used once',
    }),
  });

export const Passkey = TitledObject('Passkey', 'A passkey of an account', {
  id: described(Uuid, 'Names the passkey'),
  name: Nullable(Name),
  aaguid: Type.String({ description: 'Model of the authenticator; zeros where it does not tell' }),
  transports: Type.Array(Transport, { description: 'How it is reached' }),
  backup_eligible: Type.Boolean({ description: 'May be synchronized between devices' }),
  backed_up: Type.Boolean({ description: 'Is synchronized now' }),
  created_at: CreatedAt,
  last_used_at: described(Nullable(Timestamp), 'When it last signed in; null: never'),
});

const open: Access = { level: 'public' };
const signedIn: Access = { level: 'authenticated' };
/** The way out for whoever is kept from everything else by a policy on how to sign in. */
const registering: Access = { ...signedIn, withAnySignIn: true };
export const passkeyContracts = {
  'auth.webauthn.login.options': action({
    summary: 'Start a sign-in with a passkey',
    rest: 'POST /auth/webauthn/login/options',
    access: open,
    leadsTo: 'own_sign_in',
    networkLimited: 'calls',
    body: StrictObject({
      email: Optional.String({
        ...claimedAddress,
        description: 'Then only a passkey of this account completes the sign-in',
      }),
    }),
    result: Ceremony(RequestOptions),
  }),
  'auth.webauthn.login.verify': action({
    summary: 'Sign in with a passkey',
    rest: 'POST /auth/webauthn/login/verify',
    access: open,
    leadsTo: 'own_sign_in',
    body: TitledObject('PasskeySignIn', 'Signing in with a passkey', {
      challenge_id: described(Uuid, 'Id of the ceremony that was started'),
      credential: Assertion,
      tenant_id: Type.Optional(
        described(Uuid, 'The tenant to act in; the one last used by default'),
      ),
    }),
    result: TokenResponse,
    response: 'token',
    failures: { database: 'auth_webauthn_db_error', unexpected: 'auth_webauthn_internal_error' },
  }),
  'auth.webauthn.register.options': action({
    summary: "Start adding a passkey to one's own account",
    rest: 'POST /auth/webauthn/register/options',
    access: registering,
    leadsTo: 'sign_in',
    networkLimited: 'calls',
    keyScope: null,
    body: StrictObject({}),
    result: Ceremony(CreationOptions),
  }),
  'auth.webauthn.register.verify': action({
    summary: "Add a passkey to one's own account",
    rest: 'POST /auth/webauthn/register/verify',
    access: registering,
    leadsTo: 'sign_in',
    keyScope: null,
    body: StrictObject({
      challenge_id: described(Uuid, 'Id of the ceremony that was started'),
      credential: Attestation,
      name: Type.Optional(Name),
    }),
    result: Passkey,
    response: 'created',
  }),
  'auth.webauthn.credentials.list': listing({
    summary: "One's own passkeys",
    rest: 'GET /auth/webauthn/credentials',
    access: signedIn,
    keyScope: 'auth:self',
    items: Passkey,
  }),
  'auth.webauthn.credentials.remove': action({
    summary: "Remove a passkey of one's own",
    rest: 'DELETE /auth/webauthn/credentials/{id}',
    access: signedIn,
    leadsTo: 'sign_in',
    keyScope: null,
    path: { id: described(Uuid, "The passkey's id") },
  }),
} as const;
