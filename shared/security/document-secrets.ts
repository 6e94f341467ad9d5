/**
 * Secrets inside documents: sealed where they are stored, masked where they are shown, open only
 * where they are used. Writing the mask back keeps the stored secret, but only for the place it was
 * given for: whoever may not read a secret must not have it sent to an address of theirs.
 */
import type { TSchema } from 'typebox';
import { invalid, StrataError, type Problem } from '../errors.ts';
import { pointerTo } from '../schema/json-pointer.ts';
import { markedTexts } from '../schema/marked.ts';
import type { SecretKeys } from './derived-keys.ts';
import { createVault, isSealed, mask, type Vault } from './vault.ts';

/** A part of a document that holds secrets, and where they are sent. */
interface SecretHolder {
  /** What the part is. Secrets never move between kinds. */
  readonly kind: string;
  readonly path: readonly string[];
  /** Where its secrets are sent; null where the document names no address outside the secrets. */
  readonly url: string | null;
  /** Where its secrets are, within the holder. */
  readonly secrets: readonly (readonly string[])[];
}

/** What the schema marks as secrets, by what they are sent to. */
function holdersOf(schema: TSchema, document: unknown): SecretHolder[] {
  const texts = markedTexts(schema, document);
  const ofReceivers = Map.groupBy(texts, ({ receiver }) => JSON.stringify(receiver?.path ?? []));
  return [...ofReceivers.values()].map((group) => {
    const { kind, path } = group[0]!.receiver ?? { kind: 'document', path: [] };
    const address = group.find(({ isCalled, isSecret }) => isCalled && !isSecret);
    const secrets = group.filter(({ isSecret }) => isSecret);
    return {
      kind,
      path,
      url: address?.text ?? null,
      secrets: secrets.map((each) => each.path.slice(path.length)),
    };
  });
}

/** One secret of a holder. */
interface SecretPlace {
  readonly holder: SecretHolder;
  readonly secret: readonly string[];
}
type JsonObject = Record<string, unknown>;

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null;

/**
 * The value at a path; undefined where the path leads nowhere. Only own members count, so that
 * `constructor` is none.
 */
const valueAt = (document: unknown, path: readonly string[]): unknown =>
  path.reduce<unknown>(
    (found, name) => (isObject(found) && Object.hasOwn(found, name) ? found[name] : undefined),
    document,
  );

/** A copy of the document in which `change` has replaced every secret. */
function replaceSecrets<T>(
  document: T,
  schema: TSchema,
  change: (value: string, place: SecretPlace) => string,
): T {
  const copy = structuredClone(document);
  for (const holder of holdersOf(schema, copy)) {
    for (const secret of holder.secrets) {
      const path = [...holder.path, ...secret];
      const parent = valueAt(copy, path.slice(0, -1)) as JsonObject;
      const name = path.at(-1)!;
      parent[name] = change(parent[name] as string, { holder, secret });
    }
  }
  return copy;
}

/**
 * What a sealed secret is bound to: whose document, which field, and the address it is for, so that
 * one that is copied elsewhere behind Strata's back does not open there. Without the holder's
 * position, so that a list may be reordered.
 */
const bindingOf = (context: string, { holder, secret }: SecretPlace): string =>
  JSON.stringify([context, holder.kind, addressOf(holder), ...secret]);

/**
 * One spelling for each address. Whatever differs, the path and the query included, may be somebody
 * else's.
 */
const addressOf = ({ url }: SecretHolder): string | null =>
  url === null ? null : (URL.parse(url)?.href ?? url);

/**
 * The document as it is stored: every secret sealed. A mask keeps the secret of the stored holder
 * that this one continues; where there is none, the mask is refused with 422 and the path of each.
 * `context` says whose document it is, and it opens nowhere else.
 */
export function sealSecrets<T>(
  document: T,
  schema: TSchema,
  vault: Vault,
  context: string,
  stored: T | null,
): T {
  const continued = matchHolders(holdersOf(schema, document), holdersOf(schema, stored));
  const problems: Problem[] = [];

  const sealed = replaceSecrets(document, schema, (value, place) => {
    if (value !== mask) return vault.seal(value, bindingOf(context, place));
    const { holder, secret } = place;
    const before = continued.get(pathKey(holder));
    const kept = before && valueAt(stored, [...before.path, ...secret]);
    if (isSealed(kept)) return kept;
    problems.push({
      path: pointerTo([...holder.path, ...secret]),
      message: 'is the mask, but nothing is stored for this address: give the secret itself',
    });
    return value;
  });
  if (problems.length > 0) throw invalid(problems);
  return sealed;
}

/**
 * The document with its secrets open, as whoever sends them needs it. Throws where one does not
 * open.
 */
export const openSecrets = <T>(document: T, schema: TSchema, vault: Vault, context: string): T =>
  replaceSecrets(document, schema, (value, place) => vault.open(value, bindingOf(context, place)));

/** Throws 409 where one does not open, so that nothing is restored that could not be sent by. */
export function requireOpenSecrets(...document: Parameters<typeof openSecrets>): void {
  try {
    openSecrets(...document);
  } catch (cause) {
    const message =
      'A secret of it does not open: SECRET_KEY has changed since. Write the document with its secrets instead.';
    throw new StrataError('conflict', message, { cause });
  }
}

/**
 * The same of documents that are called so: under a key of their own, each bound to its owner, who is
 * a tenant or the platform.
 */
export function secretsIn<T>(called: string, schema: TSchema, settings: () => SecretKeys) {
  const of = (owner: string) =>
    [schema, createVault(settings(), called), `${called} ${owner}`] as const;
  return {
    seal: (document: T, owner: string, stored: T | null): T =>
      sealSecrets(document, ...of(owner), stored),
    open: (document: T, owner: string): T => openSecrets(document, ...of(owner)),
    requireOpen: (document: T, owner: string): void => requireOpenSecrets(document, ...of(owner)),
  };
}

const pathKey = ({ path }: SecretHolder): string => path.join('/');

/** The holder's position among those of its kind. */
const positionOf = (holder: SecretHolder, all: readonly SecretHolder[]): number =>
  all.filter(({ kind }) => kind === holder.kind).indexOf(holder);

/**
 * New holder's path → the stored holder that it continues, each at most once. Only one with the
 * same address; where several have it, the one at the same position first.
 */
function matchHolders(
  next: readonly SecretHolder[],
  stored: readonly SecretHolder[],
): ReadonlyMap<string, SecretHolder> {
  type Matches = (a: SecretHolder, b: SecretHolder) => boolean;
  const samePosition: Matches = (a, b) => positionOf(a, next) === positionOf(b, stored);
  const sameAddress: Matches = (a, b) => addressOf(a) === addressOf(b);
  const rounds: readonly Matches[] = [
    (a, b) => sameAddress(a, b) && samePosition(a, b),
    sameAddress,
  ];

  const matched = new Map<string, SecretHolder>();
  const free = new Set(stored);
  for (const matches of rounds) {
    for (const holder of next) {
      if (matched.has(pathKey(holder))) continue;
      const match = [...free].find((each) => each.kind === holder.kind && matches(holder, each));
      if (!match) continue;
      free.delete(match);
      matched.set(pathKey(holder), match);
    }
  }
  return matched;
}

/** Every sealed string, wherever it is. */
export function sealedTexts(value: unknown): string[] {
  const found: string[] = [];
  JSON.stringify(value, (_name, member: unknown) => {
    if (isSealed(member)) found.push(member);
    return member;
  });
  return found;
}

const maskSealed = (_name: string, member: unknown): unknown => (isSealed(member) ? mask : member);

/** Every sealed string replaced by the mask, wherever it is. */
export const concealSecrets = <T>(value: T): T =>
  value === undefined ? value : (JSON.parse(JSON.stringify(value, maskSealed)) as T);
