/**
 * A real browser with an authenticator of its own, on a page that speaks to the gateway as a user
 * interface would.
 */
import { isoCBOR } from '@simplewebauthn/server/helpers';
import { createHash, createPrivateKey, randomUUID, sign, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { chromium as playwright, type Browser, type CDPSession, type Page } from 'playwright-core';
import { chromium } from './servers.ts';

export const openBrowser = (argv: readonly string[] = []): Promise<Browser> =>
  playwright.launch({
    executablePath: chromium(),
    args: ['--no-sandbox', ...argv],
    // Beside other tests a browser may take long to start.
    timeout: 180_000,
  });

/** The page's script: the ceremonies as a user interface goes through them. */
const html = `<!doctype html><title>Strata</title><script>
const post = async (gateway, path, body, token) => {
  const answer = await fetch(gateway + path, {
    method: 'POST', headers: { 'content-type': 'application/json', ...(token && { authorization: 'Bearer ' + token }) }, body: JSON.stringify(body),
  });
  return { status: answer.status, body: await answer.json() };
};
const create = async (options) => {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options);
  return (await navigator.credentials.create({ publicKey })).toJSON();
};
const get = async (options) => {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options);
  return (await navigator.credentials.get({ publicKey })).toJSON();
};
const register = async (gateway, token, name) => {
  const { body } = await post(gateway, '/auth/webauthn/register/options', {}, token);
  return post(gateway, '/auth/webauthn/register/verify', { challenge_id: body.challenge_id, credential: await create(body.publicKey), name }, token);
};
const signIn = async (gateway) => {
  const { body } = await post(gateway, '/auth/webauthn/login/options', {});
  return post(gateway, '/auth/webauthn/login/verify', { challenge_id: body.challenge_id, credential: await get(body.publicKey) });
};
</script>`;

export interface Site {
  readonly origin: string;
  readonly stop: () => Promise<void>;
}

export async function startSite(): Promise<Site> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end(html);
  });
  await once(server.listen(0, 'localhost'), 'listening');
  return {
    origin: `http://localhost:${(server.address() as AddressInfo).port}`,
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

export interface PasskeyKey {
  readonly id: string;
  readonly userHandle: string;
  readonly key: KeyObject;
  readonly counter: number;
}

/**
 * A tab with a platform authenticator, which keeps passkeys. One that does not verify its user
 * still tells that someone is there.
 */
export class Device {
  readonly page: Page;
  readonly #cdp: CDPSession;
  readonly #authenticator: string;
  private constructor(page: Page, cdp: CDPSession, authenticator: string) {
    this.page = page;
    this.#cdp = cdp;
    this.#authenticator = authenticator;
  }

  static async open(
    browser: Browser,
    origin: string,
    { synchronized = false, verifies = true } = {},
  ): Promise<Device> {
    const page = await browser.newPage();
    page.setDefaultTimeout(180_000);
    await page.goto(origin);
    const cdp = await page.context().newCDPSession(page);
    await cdp.send('WebAuthn.enable', {});
    const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2',
        transport: 'internal',
        hasResidentKey: true,
        hasUserVerification: verifies,
        isUserVerified: verifies,
        automaticPresenceSimulation: true,
        defaultBackupEligibility: synchronized,
        defaultBackupState: synchronized,
      },
    });
    return new Device(page, cdp, authenticatorId);
  }

  /** Calls a function of the page. */
  async call<T>(
    name: 'post' | 'create' | 'get' | 'register' | 'signIn',
    ...args: unknown[]
  ): Promise<T> {
    return this.page.evaluate<T>(`${name}(...${JSON.stringify(args)})`);
  }

  /** The one passkey of this device with its private key, as a thief would have it. */
  async steal(): Promise<PasskeyKey> {
    const {
      credentials: [found],
    } = await this.#cdp.send('WebAuthn.getCredentials', { authenticatorId: this.#authenticator });
    const url = (text: string): string => Buffer.from(text, 'base64').toString('base64url');
    return {
      id: url(found!.credentialId),
      userHandle: url(found!.userHandle!),
      counter: found!.signCount,
      key: createPrivateKey({
        key: Buffer.from(found!.privateKey, 'base64'),
        format: 'der',
        type: 'pkcs8',
      }),
    };
  }
}

export const flags = {
  present: 0x01,
  verified: 0x04,
  backupEligible: 0x08,
  backedUp: 0x10,
  attested: 0x40,
} as const;

const sha256 = (data: string | Buffer): Buffer => createHash('sha256').update(data).digest();
const clientDataOf = (
  type: string,
  challenge: string,
  origin: string,
  crossOrigin = false,
): Buffer => Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin }));
export interface Assertion {
  readonly challenge: string;
  readonly origin: string;
  readonly rpId: string;
  readonly type: string;
  readonly flags: number;
  readonly counter: number;
  readonly id: string;
  readonly userHandle: string;
  readonly key: KeyObject;
  /** In a frame of another site, which not all browsers name. */
  readonly crossOrigin?: boolean;
}

/** An assertion with a valid signature over whatever it says (Web Authentication, 6.3.3). */
export function assertion({
  challenge,
  origin,
  rpId,
  type,
  flags: set,
  counter,
  id,
  userHandle,
  key,
  crossOrigin,
}: Assertion) {
  const clientData = clientDataOf(type, challenge, origin, crossOrigin);
  const authenticatorData = Buffer.concat([sha256(rpId), Buffer.from([set]), Buffer.alloc(4)]);
  authenticatorData.writeUInt32BE(counter, 33);
  const signature = sign(
    key.asymmetricKeyType === 'ed25519' ? null : 'sha256',
    Buffer.concat([authenticatorData, sha256(clientData)]),
    key,
  );
  return {
    id,
    rawId: id,
    type: 'public-key',
    clientExtensionResults: {},
    authenticatorAttachment: 'platform',
    response: {
      clientDataJSON: clientData.toString('base64url'),
      authenticatorData: authenticatorData.toString('base64url'),
      signature: signature.toString('base64url'),
      userHandle,
    },
  };
}

export const unknownId = (): string => Buffer.from(randomUUID()).toString('base64url');

/** The members of a COSE_Key (RFC 9052, 7), by their labels. */
export type CoseKey = ReadonlyMap<number, number | Uint8Array<ArrayBuffer>>;
export interface NewCredential {
  readonly challenge: string;
  readonly origin: string;
  readonly rpId: string;
  readonly publicKey: CoseKey;
}

/**
 * A new passkey as an authenticator without attestation makes it (Web Authentication, 6.5), with
 * whatever key.
 */
export function newCredential({ challenge, origin, rpId, publicKey }: NewCredential) {
  const id = randomUUID();
  const idLength = Buffer.alloc(2);
  idLength.writeUInt16BE(id.length);
  const counter = Buffer.alloc(4);
  const aaguid = Buffer.alloc(16);
  const authData = Buffer.concat([
    sha256(rpId),
    Buffer.from([flags.present | flags.verified | flags.attested]),
    counter,
    aaguid,
    idLength,
    Buffer.from(id),
    isoCBOR.encode(new Map(publicKey)),
  ]);
  const attestation = isoCBOR.encode(
    new Map<string, string | Map<never, never> | Uint8Array<ArrayBuffer>>([
      ['fmt', 'none'],
      ['attStmt', new Map<never, never>()],
      ['authData', new Uint8Array(authData)],
    ]),
  );
  const encodedId = Buffer.from(id).toString('base64url');
  return {
    id: encodedId,
    rawId: encodedId,
    type: 'public-key' as const,
    clientExtensionResults: {},
    response: {
      clientDataJSON: clientDataOf('webauthn.create', challenge, origin).toString('base64url'),
      attestationObject: Buffer.from(attestation).toString('base64url'),
      transports: [],
    },
  };
}
