/**
 * The contracts of one stored document: read, replace, change parts, remove. They differ from
 * document to document only by what `DocumentContracts` lists. A file such as `risk.ts` gives each
 * its action name, and leaves out what the document does not have.
 */
import type { Static, TObject, TProperties, TSchema } from 'typebox';
import type { ConsequenceName } from './consequences.ts';
import { read, write, type Access } from './contract.ts';
import { type KeyScope } from './roles.ts';
import { Resource, Written } from './envelopes.ts';
import { exampleOf } from './examples.ts';
import { described, FreeForm } from './fields.ts';
import type { Narrow } from './narrow-keys.ts';
import type { RevisionScope } from './revision-scopes.ts';

/** What could be put could also be merged. */
const mergePatchOf = (body: TSchema) =>
  described(
    FreeForm,
    'The members to change (JSON merge patch, RFC 7396): null removes one, and what is not named stays',
    exampleOf(body),
  );

type ResourceOf<Document extends TSchema> = ReturnType<typeof Resource<Document>>;

interface DocumentContracts<
  Document extends TSchema,
  Path extends TProperties,
  Body extends TSchema,
  Trial extends TProperties,
> {
  /** Completes the sentences "Read …", "Replace …" of the API's documentation. */
  readonly title: string;
  readonly url: `/${string}`;
  /** There is always exactly one, so it is neither created nor removed. */
  readonly permanent?: true;
  /** The path parameters, which are the document's address. */
  readonly path: Path;
  readonly document: Document;
  /** What a PUT takes: the document, less what the path says and what is filled in. */
  readonly body: Body;
  /** How its writes can be tried, and whether they can be temporary. */
  readonly trial: Trial;
  readonly readers: Access;
  readonly writers: Access;
  /** By default `config:read`. */
  readonly readScope?: KeyScope;
  /** Null where no API key may write it. */
  readonly writeScope: KeyScope | null;
  readonly leadsTo: ConsequenceName;
  /** The key that the document is cached under, which every write of it drops. */
  key(address: Static<TObject<Path>>): string;
  revisionScopes(address: Static<TObject<Path>>): RevisionScope[];
  /**
   * Whether this reader may see the document. Absent where everyone may who may read the kind at
   * all.
   */
  visible?(result: Static<ResourceOf<Document>>, caller: { readonly platform: boolean }): boolean;
}

export function documentContracts<
  Document extends TSchema,
  Path extends TProperties,
  Body extends TSchema,
  Trial extends TProperties,
>(definition: DocumentContracts<Document, Path, Body, Trial>) {
  const { title, url, path, document, body, readers, writers, writeScope } = definition;
  const narrow: Narrow = [
    'documents',
    ...('service_id' in path ? (['service_ids'] as const) : []),
    ...('agent_type' in path ? (['agent_types'] as const) : []),
  ];
  const written = {
    access: writers,
    leadsTo: definition.leadsTo,
    keyScope: writeScope,
    narrow,
    path,
    query: definition.trial,
    result: Written(document),
    drops: (address: Static<TObject<Path>>) => [definition.key(address)],
  } as const;
  return {
    get: read<ResourceOf<Document>, Path>({
      summary: `Read ${title}`,
      rest: `GET ${url}`,
      access: readers,
      keyScope: definition.readScope ?? 'config:read',
      narrow,
      path,
      result: Resource(document),
      response: 'resource',
      cache: {
        cache: 'configuration_service',
        key: definition.key,
        revisionScopes: definition.revisionScopes,
      },
      ...(definition.visible && { visible: definition.visible }),
    }),
    put: write({
      ...written,
      summary: `${definition.permanent ? 'Replace' : 'Create or replace'} ${title}`,
      rest: `PUT ${url}`,
      body,
    }),
    patch: write({
      ...written,
      summary: `Change parts of ${title} (JSON merge patch, RFC 7396)`,
      rest: `PATCH ${url}`,
      body: mergePatchOf(body),
    }),
    delete: write({ ...written, summary: `Remove ${title}`, rest: `DELETE ${url}` }),
  };
}

/** Contracts by the names of their actions, which begin alike. */
export const named = <Prefix extends string, Verbs extends object>(prefix: Prefix, verbs: Verbs) =>
  Object.fromEntries(
    Object.entries(verbs).map(([verb, contract]) => [`${prefix}.${verb}`, contract]),
  ) as { [Verb in keyof Verbs & string as `${Prefix}.${Verb}`]: Verbs[Verb] };
