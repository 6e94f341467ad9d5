/** Ed25519 (RFC 8032) from raw keys of 32 bytes, which `node:crypto` takes in frames (RFC 8410). */
import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';

const privateFrame = Buffer.from('302e020100300506032b657004220420', 'hex');
const publicFrame = Buffer.from('302a300506032b6570032100', 'hex');

export const privateKeyOf = (bytes: Buffer): KeyObject =>
  createPrivateKey({ key: Buffer.concat([privateFrame, bytes]), format: 'der', type: 'pkcs8' });

export const publicKeyOf = (bytes: Buffer): KeyObject =>
  createPublicKey({ key: Buffer.concat([publicFrame, bytes]), format: 'der', type: 'spki' });

/** The public key of a private one. */
export const rawPublicKey = (key: KeyObject): Buffer =>
  createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(publicFrame.length);
