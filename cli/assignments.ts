/**
 * Parts of a document as they are typed, `global_settings.max_cost_impact_auto=4`, as a merge patch
 * (RFC 7396).
 */
import { isObject, namesOf, withValuesAt, type JsonObject } from '../shared/schema/json-pointer.ts';
import { Misused } from './command.ts';
import { jsonOf } from './typed.ts';

/** Throws Misused. */
export const assigned = (words: readonly string[]): JsonObject =>
  words.map(assignment).reduce(merged, {});

/** A patch that takes these members away. Throws Misused. */
export const removed = (paths: readonly string[]): JsonObject =>
  paths.map((path) => nested(path, null)).reduce(merged, {});

function assignment(word: string): JsonObject {
  const at = word.indexOf('=');
  if (at < 1) throw new Misused(`${word} is neither JSON nor <path>=<value>`);
  return nested(word.slice(0, at), valueOf(word.slice(at + 1)));
}

/** JSON where it is that; other text is a text, unless it begins as what JSON encloses does. */
function valueOf(text: string): unknown {
  if (/^\s*[[{"]/.test(text)) return jsonOf(text);
  if (/^-?[0-9]/.test(text)) return isNumber(text) ? jsonOf(text) : text;
  return ['true', 'false', 'null'].includes(text) ? jsonOf(text) : text;
}

const isNumber = (text: string): boolean =>
  /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/.test(text);

/** Names with points between them; or, for names with points in them, a JSON Pointer (RFC 6901). */
function namesIn(path: string): string[] {
  const names = path.startsWith('/') ? namesOf(path) : path.split('.');
  if (names.includes('')) throw new Misused(`${path} is not a path of names`);
  return names;
}

const nested = (path: string, next: unknown): JsonObject =>
  withValuesAt({}, [{ names: namesIn(path), next }]) as JsonObject;

function merged(left: JsonObject, right: JsonObject): JsonObject {
  const members = new Map(Object.entries(left));
  for (const [name, value] of Object.entries(right)) {
    const before = members.get(name);
    members.set(name, isObject(before) && isObject(value) ? merged(before, value) : value);
  }
  return Object.fromEntries(members);
}
