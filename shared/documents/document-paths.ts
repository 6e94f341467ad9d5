/** Paths of documents, as their contracts have them, and the addresses in them. */
import { contractOf } from '../contracts/index.ts';
import type { Problem } from '../errors.ts';
import { pathWith } from '../narrow-keys.ts';

/** The template of the kind whose actions begin so. */
export const templateOf = (actions: string): string => contractOf(`${actions}.put`)!.rest!.path;

/** The path of a document, whose address has the path parameters of its kind's contracts. */
export const pathOf = (actions: string, address: unknown): string =>
  pathWith(templateOf(actions), address as Readonly<Record<string, unknown>>);

/**
 * The address of the document that the history calls so. Where its path has several names of its
 * own, the history has a slash between them.
 */
export function addressOf(
  actions: string,
  tenantId: string | null,
  resourceId: string,
): Readonly<Record<string, string>> {
  const parameters = [...templateOf(actions).matchAll(/\{(.+?)\}/g)].map(([, name]) => name!);
  const names = parameters.filter((name) => name !== 'tenant_id');
  const parts = names.length > 1 ? resourceId.split('/') : [resourceId];
  return {
    ...(tenantId !== null && { tenant_id: tenantId }),
    ...Object.fromEntries(names.map((name, index) => [name, parts[index] ?? ''])),
  };
}

/** The parameters in a path; undefined where it is not of this template. */
export function parametersIn(path: string, template: string): Record<string, string> | undefined {
  const segments = path.split('/');
  const expected = template.split('/');
  if (segments.length !== expected.length) return undefined;
  const found: [string, string][] = [];
  for (const [index, part] of expected.entries()) {
    const segment = segments[index]!;
    const [, name] = /^\{(.+)\}$/.exec(part) ?? [];
    if (name === undefined && segment !== part) return undefined;
    if (name !== undefined) found.push([name, decoded(segment)]);
  }
  return Object.fromEntries(found);
}

/**
 * A problem of a write's parameters where an item has them: a part of the address is in its path.
 */
export function problemOfItem(
  { path, message }: Problem,
  address: Readonly<Record<string, string>>,
): Problem {
  const [, name = ''] = path.split('/');
  return Object.hasOwn(address, name)
    ? { path: '/path', message: `${name} ${message}` }
    : { path, message };
}

/** What cannot be decoded is no name that a contract allows. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return '';
  }
}
