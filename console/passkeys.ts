/** The two ceremonies of passkeys: asking the browser for one, and having it make one. */
import { call, Problem, send } from './api.ts';

/** Browsers have none for hosts that are addresses. */
export const canUsePasskeys =
  'PublicKeyCredential' in globalThis && !/^[\d.]+$|^\[/.test(location.hostname);

interface Ceremony<T> {
  readonly challenge_id: string;
  readonly publicKey: T;
}

/** What browsers say of a ceremony that did not happen, in words for people. */
const refusals: Readonly<Record<string, string>> = {
  NotAllowedError: 'The browser gave no passkey: that was cancelled, or took too long.',
  InvalidStateError: 'This device has a passkey of this account already.',
  SecurityError: 'The browser gives no passkeys at this address. See FRONTEND_ORIGIN.',
};

async function fromBrowser(ceremony: Promise<Credential | null>): Promise<PublicKeyCredential> {
  try {
    const credential = await ceremony;
    if (credential instanceof PublicKeyCredential) return credential;
  } catch (error) {
    const name = error instanceof DOMException ? error.name : '';
    throw new Problem(0, 'no_passkey', refusals[name] ?? String(error));
  }
  throw new Problem(0, 'no_passkey', 'The browser gave no passkey.');
}

/** What a sign-in with a passkey is asked with. */
export async function askForPasskey(): Promise<object> {
  const { body } = await send<Ceremony<PublicKeyCredentialRequestOptionsJSON>>(
    'POST',
    '/auth/webauthn/login/options',
    { body: {} },
  );
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(body.publicKey);
  const credential = await fromBrowser(navigator.credentials.get({ publicKey }));
  return { challenge_id: body.challenge_id, credential: credential.toJSON() };
}

/** Adds a passkey of this device to the account of whoever is signed in. */
export async function registerPasskey(name: string): Promise<void> {
  const { body } = await call<Ceremony<PublicKeyCredentialCreationOptionsJSON>>(
    'POST',
    '/auth/webauthn/register/options',
    { body: {} },
  );
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(body.publicKey);
  const credential = await fromBrowser(navigator.credentials.create({ publicKey }));
  await call('POST', '/auth/webauthn/register/verify', {
    body: {
      challenge_id: body.challenge_id,
      credential: credential.toJSON(),
      ...(name !== '' && { name }),
    },
  });
}
