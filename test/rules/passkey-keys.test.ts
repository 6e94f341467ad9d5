/**
 * The public key of a new passkey: its algorithm must be one that its type and curve can be used
 * with (RFC 9053).
 */
import { expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import pino from 'pino';
import { createRelyingParty } from '../../services/auth/passkeys/webauthn/relying-party.ts';
import { newCredential, type CoseKey } from '../support/browser.ts';

const origin = 'https://app.example.com';
const relyingParty = createRelyingParty(() => ({ frontend_origin: origin }));
const log = pino({ enabled: false });
const bytes = (length: number): Uint8Array<ArrayBuffer> => new Uint8Array(randomBytes(length));

async function isTaken(publicKey: CoseKey): Promise<boolean> {
  const challenge = randomBytes(32).toString('base64url');
  const credential = newCredential({ challenge, origin, rpId: 'app.example.com', publicKey });
  return (await relyingParty.verifyRegistration(credential, challenge, log)) !== null;
}

type Member = readonly [label: number, value: number | Uint8Array<ArrayBuffer>];
const key = (type: number, algorithm: number, ...others: readonly Member[]): CoseKey =>
  new Map<number, number | Uint8Array<ArrayBuffer>>([[1, type], [3, algorithm], ...others]);
const [okp, ec2, rsa] = [1, 2, 3] as const;
const [eddsa, es256, rs256] = [-8, -7, -257] as const;
const ed25519: Member = [-1, 6];
const p256: Member = [-1, 1];
const p384: Member = [-1, 2];
const x: Member = [-2, bytes(32)];
const y: Member = [-3, bytes(32)];
const modulus: Member = [-1, bytes(256)];
const exponent: Member = [-2, new Uint8Array([1, 0, 1])];

test.each<[string, boolean, CoseKey]>([
  ['EdDSA on Ed25519', true, key(okp, eddsa, ed25519, x)],
  ['ES256 on P-256', true, key(ec2, es256, p256, x, y)],
  ['RS256 with RSA', true, key(rsa, rs256, modulus, exponent)],
  ['EdDSA on P-256', false, key(ec2, eddsa, p256, x, y)],
  ['RS256 on P-256', false, key(ec2, rs256, p256, x, y)],
  ['ES256 on Ed25519', false, key(okp, es256, ed25519, x)],
  ['ES256 with RSA', false, key(rsa, es256, modulus, exponent)],
  ['ES256 on P-384', false, key(ec2, es256, p384, x, y)],
  ['EdDSA on P-256 as an OKP', false, key(okp, eddsa, p256, x)],
])('%s: is taken %s', async (...[, taken, publicKey]) => {
  expect(await isTaken(publicKey)).toBe(taken);
});
