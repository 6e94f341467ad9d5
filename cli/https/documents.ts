/**
 * Documents of a tenant or of the platform as files: each is a file of YAML or JSON in a folder,
 * named as commands name it, so that `service/checkout.yaml` is what `config get service checkout`
 * shows.
 */
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import { Alias, parseDocument, stringify, visit } from 'yaml';
import { isObject } from '../../shared/schema/json-pointer.ts';
import { resources } from '../commands/config-commands.ts';
import { allItems } from '../pages.ts';
import { fileProblem } from '../output.ts';
import { Failed } from '../session.ts';
import { platformWord } from '../typed.ts';
import { contractOf, type ActionName } from '../../shared/contracts/index.ts';
import { InexactJson, parseExactJson } from '../../shared/schema/exact-json.ts';
import { makeFolder } from './folders.ts';
import type { HttpSession } from './http-session.ts';

/** What a PUT takes, without the address, which is the name. */
export type Body = Readonly<Record<string, unknown>>;
/** By name: the resource and its address, with slashes between them, such as `service/checkout`. */
export type Documents = ReadonlyMap<string, Body>;

export interface Resource {
  readonly name: string;
  /** What its actions begin with. */
  readonly prefix: string;
  /** The parameters of its address, without the tenant. */
  readonly address: readonly string[];
  readonly isPlatform: boolean;
}

const allResources: readonly Resource[] = Object.entries(resources).map(([name, prefix]) => {
  const { pathParams } = contractOf(`${prefix}.get`)!.rest!;
  return {
    name,
    prefix,
    address: pathParams.filter((parameter) => parameter !== 'tenant_id'),
    isPlatform: !pathParams.includes('tenant_id'),
  };
});

const resourcesOf = (tenant: string): readonly Resource[] =>
  allResources.filter(({ isPlatform }) => isPlatform === (tenant === platformWord));

/** Of a name: which resource, and the parameters of its actions. */
export function addressOf(name: string, tenant: string) {
  const [first, ...values] = name.split('/');
  const resource = allResources.find((each) => each.name === first)!;
  const address = Object.fromEntries(
    resource.address.map((parameter, index) => [parameter, values[index]]),
  );
  return {
    resource,
    params: resource.isPlatform ? address : { tenant_id: tenant, ...address },
  };
}

/** The route of a document, as plans and change sets name it. */
export function pathOf(name: string, tenant: string): string {
  const { resource, params } = addressOf(name, tenant);
  const { path } = contractOf(`${resource.prefix}.put`)!.rest!;
  const values = new Map<string, unknown>(Object.entries(params));
  return path.replaceAll(/\{(\w+)\}/g, (_match, parameter: string) =>
    encodeURIComponent(String(values.get(parameter))),
  );
}

/** What Strata has, all of a tenant or of the platform. */
export async function liveDocuments(session: HttpSession, tenant: string): Promise<Documents> {
  const found = new Map<string, Body>();
  for (const resource of resourcesOf(tenant)) {
    const named =
      resource.address.length === 0
        ? await single(session, resource, tenant)
        : await listed(session, resource, tenant);
    for (const [name, document] of named) found.set(name, bodyOf(resource, document));
  }
  return found;
}

type Named = [name: string, document: Body];

async function single(
  session: HttpSession,
  { name, prefix }: Resource,
  tenant: string,
): Promise<Named[]> {
  const { params } = addressOf(name, tenant);
  try {
    const got = (await session.call(`${prefix}.get` as ActionName, params)) as {
      readonly document: Body | null;
    };
    return got.document === null ? [] : [[name, got.document]];
  } catch (error) {
    if (error instanceof Failed && error.code === 'not_found') return [];
    throw error;
  }
}

async function listed(
  session: HttpSession,
  { name, prefix, address, isPlatform }: Resource,
  tenant: string,
): Promise<Named[]> {
  const action = `${prefix}.list` as 'tenant-config.projects.list';
  const items = await allItems(session, action, isPlatform ? {} : { tenant_id: tenant });
  return items.map((item: Body) => {
    const values = address.map((parameter) => item[parameter] ?? item[`config_${parameter}`]);
    return [[name, ...values.map(String)].join('/'), item];
  });
}

/** Of a document as it is read, what a PUT of it takes, but for what the name says. */
export function bodyOf({ prefix, address }: Resource, document: Body): Body {
  const { properties } = contractOf(`${prefix}.put`)!.params.properties.body as {
    properties?: Readonly<Record<string, unknown>>;
  };
  if (properties === undefined) return document;
  const isWritten = ([name]: [string, unknown]): boolean =>
    Object.hasOwn(properties, name) && !address.includes(name);
  return Object.fromEntries(Object.entries(document).filter(isWritten));
}

const extensions = new Set(['.yaml', '.yml', '.json']);

/** Every document of the folder. Throws Failed, which says of a file why it is none. */
export function documentsIn(folder: string, tenant: string): Documents {
  const found = new Map<string, Body>();
  for (const file of filesIn(folder)) {
    const name = file.slice(0, -extname(file).length);
    requireName(name, file, tenant);
    if (found.has(name)) throw unusable(file, 'says again what another file of that name says');
    found.set(name, bodyIn(join(folder, file), file));
  }
  return new Map([...found].sort(([one], [other]) => (one < other ? -1 : 1)));
}

/**
 * Deeper than any name goes, so that what lies there is told and links that lead in a circle end.
 */
const mostParts = 4;

function filesIn(folder: string, below: readonly string[] = []): string[] {
  const path = join(folder, ...below);
  let names: string[];
  try {
    names = readdirSync(path);
  } catch (error) {
    throw new Failed('unreadable', `the folder is not read: ${fileProblem(error)}`);
  }
  return names.sort().flatMap((name) => {
    const parts = [...below, name];
    if (below.length === 0 && name.startsWith('.')) return [];
    if (statSync(join(folder, ...parts)).isDirectory())
      return parts.length < mostParts ? filesIn(folder, parts) : [];
    return extensions.has(extname(name)) ? [parts.join('/')] : [];
  });
}

function requireName(name: string, file: string, tenant: string): void {
  const [first, ...values] = name.split('/');
  const resource = allResources.find((each) => each.name === first);
  if (!resource) {
    const names = resourcesOf(tenant).map(({ name: known }) => known);
    throw unusable(file, `is no document; there are ${names.join(', ')}`);
  }
  if (values.length !== resource.address.length || values.includes('')) {
    const form = [first, ...resource.address.map((parameter) => `<${parameter}>`)].join('/');
    throw unusable(file, `has to be called ${form}.yaml`);
  }
  if (resource.isPlatform && tenant !== platformWord)
    throw unusable(file, "is the platform's: use plan and apply, or --tenant platform");
  if (!resource.isPlatform && tenant === platformWord)
    throw unusable(file, 'is a tenant’s: use config import');
}

const unusable = (file: string, why: string): Failed => new Failed('bad_file', `${file} ${why}`);

/** Exactly as it is written, or not at all: what YAML could mean otherwise is refused. */
function bodyIn(path: string, file: string): Body {
  const text = readFileSync(path, 'utf8');
  try {
    const value = extname(file) === '.json' ? parseExactJson(text) : yamlOf(text);
    if (isObject(value)) return value as Body;
  } catch (error) {
    const why =
      error instanceof InexactJson
        ? error.problems.map(({ path: at, message }) => `${at} ${message}`.trim()).join('; ')
        : (error as Error).message.split('\n')[0]!;
    throw unusable(file, `is not usable: ${why}`);
  }
  throw unusable(file, 'has to be an object');
}

function yamlOf(text: string): unknown {
  const document = parseDocument(text, { version: '1.2', prettyErrors: true });
  const [problem] = [...document.errors, ...document.warnings];
  if (problem) throw problem;
  visit(document, {
    Scalar(_key, { value, source = '' }) {
      if (typeof value !== 'number') return;
      if (!Number.isFinite(value)) throw new Error(`${source} is no number that JSON has`);
      if (/^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/.test(source)) parseExactJson(source);
      else if (Number.isInteger(value) && !Number.isSafeInteger(value))
        throw new Error(`${source} cannot be kept exactly`);
    },
    Alias(_key, node: Alias) {
      if (!node.resolve(document)) throw new Error(`there is no anchor ${node.source}`);
    },
  });
  return document.toJS({ maxAliasCount: 100 }) as unknown;
}

/**
 * Writes the documents, and removes the files of those that are no more, or had another extension.
 * Returns the names of the files.
 */
export function writeDocuments(folder: string, documents: Documents, tenant: string): string[] {
  const files = [...documents].map(([name, body]) => [fileOf(name), body] as const);
  const spellings = new Set(files.map(([file]) => file.toLowerCase()));
  if (spellings.size < files.length)
    throw new Failed('bad_names', 'names differ by upper and lower case alone, which files cannot');
  const before = isThere(folder) ? [...documentsIn(folder, tenant).keys()] : [];
  const kept = new Set(files.map(([file]) => file));
  const unwanted = before
    .flatMap((name) => [...extensions].map((extension) => name + extension))
    .filter((file) => !kept.has(file));
  for (const file of unwanted) rmSync(join(folder, file), { force: true });
  for (const [file, body] of files) {
    const path = join(folder, file);
    makeFolder(dirname(path));
    writeFileSync(path, stringify(body, { lineWidth: 0, compat: 'yaml-1.1' }));
  }
  return files.map(([file]) => file);
}

export const isThere = (folder: string): boolean =>
  statSync(folder, { throwIfNoEntry: false })?.isDirectory() ?? false;

/** What a server says is a name does not lead out of the folder. */
function fileOf(name: string): string {
  const parts = name.split('/');
  const isSafe = parts.every((part) => /^[A-Za-z0-9._-]+$/.test(part) && !/^\.\.?$/.test(part));
  const { resource } = addressOf(name, platformWord);
  const isWhole = parts.length === resource.address.length + 1;
  if (!isSafe || !isWhole) throw new Failed('bad_names', `${name} can't be the name of a file`);
  return `${name}.yaml`;
}
