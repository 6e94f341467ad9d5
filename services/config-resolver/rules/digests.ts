/**
 * What values are, by key, as short texts to be compared: equal for equal values, and another one
 * for every other.
 */
import { hash } from 'node:crypto';
import type { Digests } from '../../../shared/contracts/effective-config.ts';

/** A text of JSON that is no longer stands for itself. */
const maxPlain = 24;

/** By object, since contexts share the documents that values are from. */
const ofObjects = new WeakMap<object, string>();

export const digestsOf = (values: Readonly<Record<string, unknown>>): Digests =>
  Object.fromEntries(Object.entries(values).map(([key, value]) => [key, digestOf(value)]));

function digestOf(value: unknown): string {
  if (typeof value !== 'object' || value === null) return shortened(JSON.stringify(value));
  const known = ofObjects.get(value);
  if (known !== undefined) return known;
  const made = shortened(JSON.stringify(value));
  ofObjects.set(value, made);
  return made;
}

/** No text of JSON begins as a hash does here. */
const shortened = (text: string): string =>
  text.length <= maxPlain ? text : `#${hash('sha256', text, 'base64url').slice(0, 16)}`;
