/**
 * Signed notes (https://c2sp.org/signed-note): a text, an empty line, and a line for each
 * signature. Whoever pinned a verifier key checks them without asking anybody.
 */
import { createHash, sign, verify, type KeyObject } from 'node:crypto';
import { privateKeyOf, publicKeyOf, rawPublicKey } from './ed25519.ts';

export interface NoteSigner {
  readonly name: string;
  readonly key: KeyObject;
}

export const noteSigner = (name: string, seed: Buffer): NoteSigner => ({
  name,
  key: privateKeyOf(seed),
});

/** The signature type of Ed25519. */
const ed25519 = Buffer.from([1]);
const idBytes = 4;

const idOf = (name: string, publicKey: Buffer): Buffer =>
  createHash('sha256')
    .update(Buffer.concat([Buffer.from(`${name}\n`), ed25519, publicKey]))
    .digest()
    .subarray(0, idBytes);

/** What verifies a signer's notes: `<name>+<id>+<key>`. */
export function verifierKeyOf({ name, key }: NoteSigner): string {
  const publicKey = rawPublicKey(key);
  const id = idOf(name, publicKey).toString('hex');
  return `${name}+${id}+${Buffer.concat([ed25519, publicKey]).toString('base64')}`;
}

/** Signs a text, which ends with a line feed and has no empty line. */
export function signNote(text: string, signers: readonly NoteSigner[]): string {
  const lines = signers.map(({ name, key }) => {
    const signature = sign(null, Buffer.from(text), key);
    const signed = Buffer.concat([idOf(name, rawPublicKey(key)), signature]);
    return `— ${name} ${signed.toString('base64')}\n`;
  });
  return `${text}\n${lines.join('')}`;
}

/** Throws where the text is no verifier key of Ed25519, or its id is not that of its key. */
function verifierOf(verifierKey: string) {
  const [, name = '', id = '', encoded = ''] =
    /^([^+\s]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+=*)$/.exec(verifierKey) ?? [];
  const bytes = Buffer.from(encoded, 'base64');
  const publicKey = bytes.subarray(1);
  const isKey = bytes.length === 33 && bytes[0] === ed25519[0];
  if (!isKey || idOf(name, publicKey).toString('hex') !== id)
    throw new Error(`${verifierKey} is no verifier key of Ed25519`);
  return { name, id: Buffer.from(id, 'hex'), key: publicKeyOf(publicKey) };
}

/** All of a text are notes; anything beside them is an error. */
const notePattern = /(?:.+\n)+\n(?:— .+\n)+/g;

/** The notes of a text that has one after the other. Throws where it has anything else. */
export function notesIn(text: string): string[] {
  const lines = `${text.trim()}\n`;
  const beside = lines.replaceAll(notePattern, '');
  if (beside.trim() !== '') throw new Error('there is something that is no signed note');
  return lines.match(notePattern) ?? [];
}

/** The text of a note as it was signed, whoever signed it. */
const textOfNote = (note: string): string => note.slice(0, note.lastIndexOf('\n\n') + 1);

/**
 * The text of a note that one of these keys has signed. Throws where none has, or where the
 * signature of one of them does not fit.
 */
export function openNote(note: string, verifierKeys: readonly string[]): string {
  const text = textOfNote(note);
  const verifiers = verifierKeys.map(verifierOf);
  const signatures = [...note.slice(text.length).matchAll(/^— (\S+) (\S+)$/gm)];
  let isSigned = false;
  for (const [, name, encoded] of signatures) {
    const bytes = Buffer.from(encoded!, 'base64');
    const id = bytes.subarray(0, idBytes);
    const verifier = verifiers.find((each) => each.name === name && each.id.equals(id));
    if (!verifier) continue;
    if (!verify(null, Buffer.from(text), verifier.key, bytes.subarray(idBytes)))
      throw new Error(`the signature of ${name} does not fit the note`);
    isSigned = true;
  }
  if (!isSigned) throw new Error('none of the given keys has signed the note');
  return text;
}
