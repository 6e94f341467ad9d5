/**
 * The rules of a document's addresses, which a schema can't say: where this process may send, and
 * that no sealed secret comes in from outside.
 */
import type { TSchema } from 'typebox';
import type { Problem } from '../errors.ts';
import type { Guard } from '../outgoing/guard.ts';
import type { OutgoingError } from '../outgoing/outgoing-error.ts';
import { pointerTo } from '../schema/json-pointer.ts';
import { markedTexts } from '../schema/marked.ts';
import { sealedTexts } from '../security/document-secrets.ts';
import { mask } from '../security/vault.ts';

/** URL → why nothing may be sent there, of those whose names resolve. */
export type RefusedAddresses = ReadonlyMap<string, string>;

/**
 * `problems`, and those of addresses of which they say nothing. `refused` comes from
 * `refusedAddresses`, which had the time to look names up.
 */
export function withAddressProblems(
  problems: readonly Problem[],
  schema: TSchema,
  document: unknown,
  guard: Guard,
  refused: RefusedAddresses,
): Problem[] {
  const all = [...problems];
  const paths = new Set(problems.map(({ path }) => path));
  for (const { path, url } of addressesOf(schema, document)) {
    const message = objectionToForm(guard, url) ?? refused.get(url);
    if (message !== undefined && !paths.has(path)) all.push({ path, message });
  }
  if (holdsSealedText(document))
    all.push({ path: '', message: 'holds text that looks like a sealed secret' });
  return all;
}

/**
 * Every address in a document, or in whatever was sent as one or as a merge patch of one. A masked
 * one is not known here.
 */
const addressesOf = (schema: TSchema, document: unknown) =>
  markedTexts(schema, document)
    .filter(({ isCalled, text }) => isCalled && text !== mask)
    .map(({ path, text }) => ({ path: pointerTo(path), url: text }));

/** Why the guard refuses a URL by its text alone. */
function objectionToForm(guard: Guard, url: string): string | undefined {
  try {
    guard.parse(url);
    return undefined;
  } catch (error) {
    return (error as OutgoingError).message;
  }
}

/**
 * Nobody sends such text but to smuggle it past the masks: `sealSecrets` would keep it as if it
 * were stored.
 */
const holdsSealedText = (document: unknown): boolean => sealedTexts(document).length > 0;

/**
 * Looks up the names in a body or merge patch, in whatever shape it was sent, all at once. A
 * document with more than `most` addresses is refused anyway.
 */
export async function refusedAddresses(
  schema: TSchema,
  body: unknown,
  most: number,
  guard: Guard,
): Promise<RefusedAddresses> {
  const urls = new Set(
    addressesOf(schema, body)
      .slice(0, most)
      .map(({ url }) => url),
  );
  const refused = new Map<string, string>();
  await Promise.all(
    [...urls].map(async (url) => {
      try {
        await guard.checkUrl(url);
      } catch (error) {
        refused.set(url, (error as OutgoingError).message);
      }
    }),
  );
  return refused;
}
