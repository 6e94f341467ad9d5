/**
 * Strata as a relying party (W3C Web Authentication Level 3): what browsers are asked for, and
 * whether what they answer holds. Passkeys are always discoverable, their user always verified, and
 * no attestation is asked for.
 */
import {
  generateAuthenticationOptions,
  generateRegistrationOptions,
  verifyAuthenticationResponse,
  verifyRegistrationResponse,
  type AuthenticationResponseJSON,
  type RegistrationResponseJSON,
} from '@simplewebauthn/server';
import {
  cose,
  COSEALG,
  decodeAttestationObject,
  decodeClientDataJSON,
  decodeCredentialPublicKey,
} from '@simplewebauthn/server/helpers';
import type { Logger } from 'pino';
import type { Settings } from '../../../../shared/settings/settings.ts';
import type { PasskeyRow, UserRow } from '../../schema.ts';
import { challengeSeconds } from './challenges.ts';
import { handleOf } from './user-handle.ts';

type PublicKey = ReturnType<typeof decodeCredentialPublicKey>;
/**
 * The algorithms that are asked for, in the order in which authenticators are to choose, each with
 * the type and curve of its keys (Web Authentication Level 3, 5.8.5). Named, so that nodes with
 * different runtimes agree.
 */
const algorithms: ReadonlyMap<COSEALG | undefined, (key: PublicKey) => boolean> = new Map([
  [
    COSEALG.EdDSA,
    (key: PublicKey) =>
      cose.isCOSEPublicKeyOKP(key) && key.get(cose.COSEKEYS.crv) === cose.COSECRV.ED25519,
  ],
  [
    COSEALG.ES256,
    (key: PublicKey) =>
      cose.isCOSEPublicKeyEC2(key) && key.get(cose.COSEKEYS.crv) === cose.COSECRV.P256,
  ],
  [COSEALG.RS256, (key: PublicKey) => cose.isCOSEPublicKeyRSA(key)],
]);
const supportedAlgorithmIDs = [COSEALG.EdDSA, COSEALG.ES256, COSEALG.RS256];
/**
 * Others carry certificates, which the library would check against lists that it fetches from
 * addresses named in them.
 */
const attestationFormats: readonly string[] = ['none', 'packed'];
const timeout = challengeSeconds * 1000;

/** What a sign-in proved, for the passkey's row. */
export interface VerifiedAssertion {
  readonly counter: number;
  readonly backedUp: boolean;
}

/**
 * A backup-eligible credential may be synchronized between devices (Web Authentication Level
 * 3, 6.1.3).
 */
const isBackupEligible = (deviceType: 'singleDevice' | 'multiDevice'): boolean =>
  deviceType === 'multiDevice';

function requireSupportedAttestation(credential: RegistrationResponseJSON): void {
  const attestation = Buffer.from(credential.response.attestationObject, 'base64url');
  const format = decodeAttestationObject(new Uint8Array(attestation)).get('fmt');
  if (!attestationFormats.includes(format)) throw new Error(`attestation of the format ${format}`);
}

/**
 * Throws for a key whose algorithm contradicts its type or curve. The library verifies by the type
 * alone, so the key would be used in another way than it says.
 */
function requireConsistentKey(publicKey: Uint8Array<ArrayBuffer>): void {
  const key = decodeCredentialPublicKey(publicKey);
  const algorithm = key.get(cose.COSEKEYS.alg);
  const fits = algorithms.get(algorithm);
  if (!fits?.(key)) throw new Error(`the key is not of the type of its algorithm ${algorithm}`);
}

/**
 * Throws for a ceremony in a frame of another site, which leads the person (7.1 step 10, 7.2 step 14).
 * The library compares the site alone, which not all browsers name, and only at sign-ins.
 */
function requireOwnWindow({ response }: AuthenticationResponseJSON | RegistrationResponseJSON) {
  const { crossOrigin } = decodeClientDataJSON(response.clientDataJSON);
  if (crossOrigin === true) throw new Error('a frame of another site');
}

/**
 * The library throws for everything that does not fit. Why is for the log; a client learns only
 * that it was refused.
 */
async function nullWhereRefused<T>(log: Logger, verify: () => Promise<T>): Promise<T | null> {
  try {
    return await verify();
  } catch (error) {
    log.info({ err: error }, 'a passkey was refused');
    return null;
  }
}

export function createRelyingParty(settings: () => Pick<Settings, 'frontend_origin'>) {
  const rpID = (): string => new URL(settings().frontend_origin).hostname;
  const expected = (challenge: string) => ({
    expectedChallenge: challenge,
    expectedOrigin: settings().frontend_origin,
    expectedRPID: rpID(),
  });

  return {
    loginOptions: () =>
      generateAuthenticationOptions({
        rpID: rpID(),
        allowCredentials: [],
        userVerification: 'required',
        timeout,
        extensions: {},
      }),

    /** Null for every reason not to trust the assertion. Leaves the counter to the caller. */
    async verifyLogin(
      assertion: AuthenticationResponseJSON,
      challenge: string,
      passkey: PasskeyRow,
      log: Logger,
    ): Promise<VerifiedAssertion | null> {
      // Counter 0: the library would refuse synchronized passkeys too where the counter does not
      // rise.
      const credential = {
        id: passkey.credential_id,
        publicKey: new Uint8Array(passkey.public_key),
        counter: 0,
      };
      const result = await nullWhereRefused(log, () => {
        requireOwnWindow(assertion);
        return verifyAuthenticationResponse({
          response: assertion,
          ...expected(challenge),
          credential,
        });
      });
      if (!result?.verified) return null;
      const { newCounter, credentialBackedUp, credentialDeviceType } = result.authenticationInfo;
      // Eligibility is fixed when a credential is made (6.1.3): another one says that this is
      // another key.
      if (isBackupEligible(credentialDeviceType) !== passkey.backup_eligible) return null;
      return { counter: newCounter, backedUp: credentialBackedUp };
    },

    registrationOptions: (user: UserRow, known: readonly PasskeyRow[]) =>
      generateRegistrationOptions({
        rpName: 'Strata',
        rpID: rpID(),
        userID: handleOf(user.id),
        userName: user.email,
        userDisplayName: user.display_name ?? user.email,
        attestationType: 'none',
        authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
        supportedAlgorithmIDs,
        excludeCredentials: known.map(({ credential_id: id, transports }) => ({ id, transports })),
        timeout,
      }),

    /** Null for every reason not to trust the new credential. */
    async verifyRegistration(credential: RegistrationResponseJSON, challenge: string, log: Logger) {
      const result = await nullWhereRefused(log, async () => {
        requireSupportedAttestation(credential);
        requireOwnWindow(credential);
        const verified = await verifyRegistrationResponse({
          response: credential,
          ...expected(challenge),
          supportedAlgorithmIDs,
        });
        if (verified.verified) requireConsistentKey(verified.registrationInfo.credential.publicKey);
        return verified;
      });
      if (!result?.verified) return null;
      const {
        credential: made,
        aaguid,
        credentialDeviceType,
        credentialBackedUp,
      } = result.registrationInfo;
      // The library does not compare them, and only the outer id has been measured by the contract.
      if (made.id !== credential.id) return null;
      return {
        credential_id: made.id,
        public_key: Buffer.from(made.publicKey),
        counter: made.counter,
        aaguid,
        transports: made.transports ?? [],
        backup_eligible: isBackupEligible(credentialDeviceType),
        backed_up: credentialBackedUp,
      };
    },
  };
}
