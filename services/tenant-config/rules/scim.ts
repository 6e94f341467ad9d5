/**
 * What directories send, as a user of SCIM: filters and PATCH in the forms that Entra and Okta have,
 * and nothing more of RFC 7644.
 *
 * | Sent by | Form                                                                       |
 * | ------- | -------------------------------------------------------------------------- |
 * | Okta    | `{op: "replace", value: {active: false}}`, and whole users by PUT           |
 * | Entra   | `{op: "Replace", path: "active", value: "False"}`, also `[{value: "False"}]` |
 * | Entra   | `{op: "Add", value: {"name.givenName": "Ada"}}`: dotted names without a path |
 * | Entra   | `emails[type eq "work"].value`: a path with a filter, of what is not kept    |
 */
import { scimSchemas, type ScimOperation, type SentUser } from '../../../shared/contracts/scim.ts';
import { invalid, StrataError } from '../../../shared/errors.ts';
import { isObject } from '../../../shared/schema/json-pointer.ts';

/** What is kept of a person beside their membership. */
export interface ScimProfile {
  readonly userName: string;
  readonly externalId: string | null;
  readonly displayName: string | null;
  readonly formatted: string | null;
  readonly givenName: string | null;
  readonly familyName: string | null;
}
export interface ScimState extends ScimProfile {
  readonly active: boolean;
}

export interface ScimFilter<A extends string> {
  readonly attribute: A;
  readonly value: string;
}

/** Throws `scim_filter_invalid` for all but `attribute eq "text"`. */
export function filterOf<A extends string>(
  text: string | undefined,
  filterable: readonly A[],
): ScimFilter<A> | undefined {
  if (text === undefined) return undefined;
  const [, name, quoted] = /^\s*([A-Za-z]+)\s+eq\s+("(?:[^"\\]|\\.)*")\s*$/i.exec(text) ?? [];
  const attribute = filterable.find((each) => each.toLowerCase() === name?.toLowerCase());
  const value = quoted === undefined ? undefined : textIn(quoted);
  if (attribute === undefined || value === undefined)
    throw new StrataError(
      'scim_filter_invalid',
      `Filter by one of ${filterable.join(', ')}, with eq and a text in quotes.`,
    );
  return { attribute, value };
}

/** Undefined where it is none that PostgreSQL could have stored. */
function textIn(quoted: string): string | undefined {
  try {
    const value = JSON.parse(quoted) as string;
    return value.isWellFormed() && !value.includes('\0') ? value : undefined;
  } catch {
    return undefined;
  }
}

const activeOf = (value: unknown): boolean => {
  const only = onlyOf(value);
  if (typeof only === 'boolean') return only;
  const said = typeof only === 'string' ? only.toLowerCase() : undefined;
  if (said === 'true' || said === 'false') return said === 'true';
  throw invalid([{ path: '/active', message: 'must be true or false' }]);
};

/** Entra wraps a value in an array of one, or in that of one object. */
function onlyOf(value: unknown): unknown {
  if (!Array.isArray(value)) return value;
  const [only, ...others] = value as unknown[];
  if (others.length > 0) return value;
  const isWrapped = typeof only === 'object' && only !== null && 'value' in only;
  return isWrapped ? only.value : only;
}

/** By their names in lower case, as SCIM compares them (RFC 7643, 2.1). */
const membersOf = (value: object): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(value).map(([name, each]) => [name.toLowerCase(), each]));

/** What a whole user says: what it leaves out is not there, but for `active`, which is true. */
export function stateOf(sent: SentUser): ScimState {
  const { externalid, displayname, name, active = true } = membersOf(sent);
  const { formatted, givenname, familyname } = membersOf(objectOf(name ?? {}, 'name'));
  return {
    userName: sent.userName,
    externalId: textOf(externalid, 'externalId'),
    displayName: textOf(displayname, 'displayName'),
    formatted: textOf(formatted, 'name/formatted'),
    givenName: textOf(givenname, 'name/givenName'),
    familyName: textOf(familyname, 'name/familyName'),
    active: activeOf(active),
  };
}

/** Paths in lower case, as SCIM compares them. */
const texts: Readonly<Record<string, Exclude<keyof ScimProfile, 'userName'>>> = {
  externalid: 'externalId',
  displayname: 'displayName',
  'name.formatted': 'formatted',
  'name.givenname': 'givenName',
  'name.familyname': 'familyName',
};
const readOnly = ['id', 'meta', 'groups'];
/** Of the core, and not kept: a directory that sends them does nothing wrong. */
const notKept = new Set([
  'emails',
  'phonenumbers',
  'addresses',
  'ims',
  'photos',
  'x509certificates',
  'entitlements',
  'roles',
  'title',
  'usertype',
  'preferredlanguage',
  'locale',
  'timezone',
  'nickname',
  'profileurl',
  'password',
  'schemas',
  'name.middlename',
  'name.honorificprefix',
  'name.honorificsuffix',
]);

/** In lower case, as SCIM compares them, and without the schema of the core. */
export function pathOf(text: string): string {
  const path = text.trim().toLowerCase();
  const cores = [scimSchemas.user, scimSchemas.group].map((urn) => `${urn}:`.toLowerCase());
  const core = cores.find((urn) => path.startsWith(urn)) ?? '';
  return path.slice(core.length);
}

/** An attribute, or one of several by a filter, that nothing here depends on. */
function isNotKept(path: string): boolean {
  if (path.startsWith(scimSchemas.enterpriseUser.toLowerCase())) return true;
  if (notKept.has(path)) return true;
  const [, name] = /^([a-z0-9]+)(?:\[[^[\]]*\])?(?:\.[a-z]+)?$/.exec(path) ?? [];
  return name !== undefined && name !== 'name' && notKept.has(name);
}

export function textOf(value: unknown, path: string): string | null {
  const only = onlyOf(value);
  if (only === null || only === undefined || only === '') return null;
  if (typeof only === 'string' && only.length <= 256) return only;
  throw invalid([{ path: `/${path}`, message: 'must be a text of at most 256 characters' }]);
}

/** One attribute; `value` is undefined where it is removed. */
function assign(state: ScimState, sentPath: string, value: unknown): ScimState {
  const path = pathOf(sentPath);
  const text = Object.hasOwn(texts, path) ? texts[path] : undefined;
  if (text !== undefined) return { ...state, [text]: textOf(value, text) };
  if (path === 'active') return { ...state, active: activeOf(value) };
  if (path === 'username') return { ...state, userName: textOf(value, 'userName') ?? '' };
  if (path === 'name') return assignAll(state, namesOf(value));
  if (readOnly.includes(path))
    throw new StrataError('scim_mutability', `${path} is not for directories to change.`);
  if (isNotKept(path)) return state;
  throw new StrataError('scim_path_invalid', `There is no ${JSON.stringify(sentPath)} to change.`);
}

const noNames = { formatted: null, givenName: null, familyName: null };

function namesOf(value: unknown): Record<string, unknown> {
  const names = objectOf(value ?? noNames, 'name');
  return Object.fromEntries(Object.entries(names).map(([name, each]) => [`name.${name}`, each]));
}

const assignAll = (state: ScimState, values: object): ScimState =>
  Object.entries(values).reduce((after, [path, value]) => assign(after, path, value), state);

export function objectOf(value: unknown, path: string): object {
  if (isObject(value)) return value;
  throw invalid([{ path: `/${path}`, message: 'must be an object' }]);
}

/** The state after all operations. Throws where one of them is none. */
export const patched = (state: ScimState, operations: readonly ScimOperation[]): ScimState =>
  operations.reduce((after, { op, path, value }) => {
    const removes = op.toLowerCase() === 'remove';
    if (path !== undefined) return assign(after, path, removes ? undefined : value);
    if (removes) throw new StrataError('scim_path_invalid', 'Name in path what is removed.');
    return assignAll(after, objectOf(value, 'value'));
  }, state);

/** The address is what an account is found by, which a directory does not change. */
export function requireSameName(before: ScimProfile, after: ScimProfile): void {
  if (before.userName.toLowerCase() === after.userName.toLowerCase()) return;
  throw new StrataError('scim_mutability');
}
