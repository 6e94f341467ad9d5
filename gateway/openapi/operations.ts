/**
 * One operation for each route: what `responses.ts` sends and `parameters.ts` reads, as schemas.
 */
import { IsObject, IsUnion, type TSchema } from 'typebox';
import { admittedScopes } from '../../shared/access.ts';
import { consequences, isPower } from '../../shared/contracts/consequences.ts';
import type { Access, Contract, Rest } from '../../shared/contracts/contract.ts';
import { ProposedWrite } from '../../shared/contracts/envelopes.ts';
import { exampleOf, hasExample } from '../../shared/contracts/examples.ts';
import { scimMediaType } from '../../shared/contracts/scim.ts';
import type { RestRoute } from '../http/rest.ts';
import {
  errorRefs,
  errorsOf,
  flagErrorRefs,
  scimErrorRefs,
  oauthErrorRefs,
  problemRefs,
} from './errors.ts';
import { headersOf, ofEveryAnswer, refsOf } from '../http/response-headers.ts';
import type { Components, Parameter, Schema } from './schemas.ts';
import { topicOf } from './topics.ts';

interface Examples {
  readonly example?: unknown;
  readonly examples?: Readonly<
    Record<string, { readonly summary: string; readonly value: unknown }>
  >;
}
/** Media type → schema, as OpenAPI nests them. */
type Content = Readonly<Record<string, { readonly schema: Schema } & Examples>>;
/** By status; undefined where there is no body. */
type Contents = Readonly<Record<number, Content | undefined>>;

const json = 'application/json';
const form = 'application/x-www-form-urlencoded';
export const jsonOf = (schema: Schema, examples: Examples = {}): Content => ({
  [json]: { schema, ...examples },
});

export const operationOf = ({ name, contract, rest }: RestRoute, components: Components) => ({
  operationId: name,
  tags: [topicOf(name)],
  summary: contract.summary,
  description: `Who may call: ${whoMayCall(contract.access)}.${powerOfOperation(contract)}${keyScopesOf(contract)}${narrowKeysOf(contract)}${limitOf(contract)}`,
  security: securityOf(contract),
  parameters: parametersOf(contract, rest, components),
  ...(rest.body ? { requestBody: requestBodyOf(contract, rest, components) } : {}),
  responses: {
    ...responsesOf(contract, rest, components),
    ...('propose' in contract.params.properties && {
      202: { $ref: '#/components/responses/Proposed' },
    }),
    ...errorRefsOf(contract, rest),
  },
});

function errorRefsOf(contract: Contract, rest: Rest) {
  if (contract.response === 'oauth_token') return oauthErrorRefs;
  if (contract.errors === 'ofrep') return flagErrorRefs;
  if (contract.errors === 'scim') return scimErrorRefs;
  return contract.problems ? problemRefs : errorRefs(errorsOf(contract, rest));
}

function keyScopesOf(contract: Contract): string {
  const [scope, ofPower] = admittedScopes(contract, undefined).map((each) => `\`${each}\``);
  if (scope === undefined) return '';
  const greater = ofPower === undefined ? '' : `, or ${ofPower} for what is powerful`;
  return ` API keys need the scope ${scope}${greater}.`;
}

const narrowTexts = {
  row: ' Narrow: what it turns out to be about.',
  own: ' Narrow keys, too.',
} as const;

function narrowKeysOf({ narrow, access, keyScope }: Contract): string {
  if (access.level === 'public' || keyScope === null) return '';
  if (narrow === undefined) return ' No narrow key.';
  if (typeof narrow === 'string') return narrowTexts[narrow];
  return ` Narrow: ${narrow.join(', ')}.`;
}

/** What a powerful operation changes, and what it takes. */
function powerOfOperation({ leadsTo }: Contract): string {
  if (leadsTo === undefined || (typeof leadsTo === 'string' && !isPower(leadsTo))) return '';
  const { name, where } =
    typeof leadsTo === 'string'
      ? { name: leadsTo, where: '' }
      : { name: leadsTo.power, where: `, where ${leadsTo.where}` };
  return ` Powerful${where}: it changes ${consequences[name].changes}. People must have signed in at most 10 minutes ago.`;
}

const limitTexts = {
  calls: ' One network may call this `NETWORK_RATE_LIMIT_PER_MINUTE` times a minute.',
  failures: ' One network may be answered with 401 `NETWORK_RATE_LIMIT_PER_MINUTE` times a minute.',
} as const;
const limitOf = ({ networkLimited }: Contract): string =>
  networkLimited ? limitTexts[networkLimited] : '';

function whoMayCall(access: Access): string {
  if (access.level === 'tenant')
    return `${access.roles.join(', ')} of the tenant${recencyOf(access)}`;
  if (access.level === 'tenant_or_platform')
    return `${access.roles.join(', ')} of the tenant, or platform_admin`;
  const anyone = 'publicWith' in access ? `; anyone, with ${access.publicWith}` : '';
  return `${access.level}${anyone}${recencyOf(access)}`;
}

function recencyOf(access: Access): string {
  if (!('recent' in access) || access.recent === undefined) return '';
  return `, signed in at most 10 minutes ago to ${access.recent.to}`;
}

/**
 * Alternatives, any of which is enough; `{}` stands for nobody signed in. An API key needs the
 * scope that is named with it.
 */
function securityOf(contract: Contract): Record<string, string[]>[] {
  const { access } = contract;
  if (access.level === 'public') return [];
  return [
    ...('publicWith' in access ? [{}] : []),
    { session: [] },
    ...admittedScopes(contract, undefined).map((scope) => ({ apiKey: [scope] })),
  ];
}

/** No parameter of the contract: the gateway itself heeds it. */
const ifNoneMatch = {
  name: 'if-none-match',
  in: 'header',
  required: false,
  description: 'Entity tags that the client has',
  schema: { type: 'string' },
} as const;

function parametersOf({ params, response }: Contract, rest: Rest, components: Components) {
  const parameter = (place: Parameter['in'], shownName: string, name: string) => {
    const own = params.properties[name]!;
    const { description, ...schema } = components.shown(own);
    const shown = {
      name: shownName,
      in: place,
      required: place === 'path' || isRequired(params, name),
      ...(typeof description === 'string' && { description }),
      schema,
      ...((place === 'path' || hasExample(own)) && { example: exampleOf(own) }),
    };
    // Reads have another of this name.
    return components.parameter(shown, name === 'if_none_match' ? 'only-new' : shownName);
  };
  return [
    ...rest.pathParams.map((name) => parameter('path', name, name)),
    ...rest.query.map((name) => parameter('query', name, name)),
    ...Object.entries(rest.headers).map(([header, name]) => parameter('header', header, name)),
    ...(response === 'resource' || response === 'effective' || response === 'flags'
      ? [components.parameter(ifNoneMatch)]
      : []),
  ];
}

function requestBodyOf({ params, response }: Contract, { method }: Rest, { shown }: Components) {
  const body = params.properties.body!;
  const schema = shown(body);
  const example = exampleOf(body);
  return {
    required: method !== 'POST' || isRequired(params, 'body'),
    content: {
      [response === 'oauth_token' ? form : json]: { schema, example },
      ...(method === 'PATCH' ? { 'application/merge-patch+json': { schema, example } } : {}),
    },
  };
}

/** TypeBox leaves `required` out where nothing is. */
const isRequired = ({ required }: { readonly required?: readonly string[] }, name: string) =>
  required?.includes(name) ?? false;

const descriptions: Readonly<Record<string, string>> = {
  200: 'Done',
  201: 'Created',
  202: 'Accepted',
  204: 'Done, nothing to show',
  207: 'Done in part; `errors` says what failed',
  304: 'Unchanged since If-None-Match',
};

/**
 * What `Accept` gets instead. In words, since generated clients take every media type of a response
 * for a type that it may have, whatever they asked for.
 */
const otherForms: Readonly<Partial<Record<Contract['response'], string>>> = {
  list: '. With `Accept: application/x-ndjson` the items, one a line, and the cursor in X-Next-Cursor',
  page: '. With `Accept: text/html` a page for people that says the same',
  report: '. With `Accept: text/csv`, or `format=csv`, a table that says the same',
};

const responsesOf = (contract: Contract, rest: Rest, components: Components) =>
  Object.fromEntries(
    Object.entries(contentsOf(contract, rest, components)).map(([status, content]) => [
      status,
      {
        description: `${descriptions[status]}${otherForms[contract.response] ?? ''}`,
        headers: refsOf([...ofEveryAnswer, ...headersOf(contract, Number(status))]),
        ...(content ? { content } : {}),
      },
    ]),
  );

/** Of every write that becomes a change set. */
export const proposedResponse = ({ shown }: Components) => ({
  description: 'Proposed: it waits for approval',
  headers: refsOf(ofEveryAnswer),
  content: jsonOf(shown(ProposedWrite), { example: exampleOf(ProposedWrite) }),
});

/** What `responses.ts` sends of a result. */
function contentsOf(
  { response, result, errors }: Contract,
  { method }: Rest,
  { shown }: Components,
): Contents {
  const jsonFor = (schema: TSchema): Content =>
    errors === 'scim'
      ? { [scimMediaType]: { schema: shown(schema), example: exampleOf(schema) } }
      : jsonOf(shown(schema), { example: exampleOf(schema) });
  switch (response) {
    case 'resource':
      return { 200: jsonFor(documentIn(result)), 304: undefined };
    case 'effective':
      return { 200: jsonFor(without(result, 'environment', 'stale')), 304: undefined };
    case 'flags':
      return { 200: jsonFor(without(result, 'tag', 'context')), 304: undefined };
    case 'write':
      return writeContents(result, method, shown);
    case 'list':
    case 'page':
    case 'report':
      return { 200: jsonFor(result) };
    case 'stream':
      return {
        200: {
          'text/event-stream': {
            schema: eventStreamOf(shown(result)),
            example: 'retry: 1500\n\nid: 12\nevent: ready\ndata: {"revision":12}\n\n',
          },
        },
      };
    case 'value_or_proposed':
      return { 200: jsonFor(alternativesOf(result)[0]!) };
    case 'created':
      return { 201: jsonFor(result) };
    case 'created_or_proposed':
      return { 201: jsonFor(alternativesOf(result)[0]!) };
    case 'accepted':
      return { 202: jsonFor(result) };
    case 'nothing':
      return { 204: undefined };
    case 'reload':
      return { 200: jsonFor(result), 207: jsonFor(result) };
    case 'token_or_nothing':
      return { 200: jsonFor(alternativesOf(result)[0]!), 204: undefined };
    case 'value':
      return { 200: jsonFor(without(result, 'stale')) };
    case 'token':
    case 'oauth_token':
      return { 200: jsonFor(result) };
  }
}

/**
 * PUT and POST create, DELETE and a rollback by POST remove; each can be tried first with
 * `dry_run`.
 */
function writeContents(
  result: TSchema,
  method: Rest['method'],
  shown: Components['shown'],
): Contents {
  const [written, dryRun] = alternativesOf(result);
  // The other alternative is null, after a deletion.
  const [document] = alternativesOf(documentIn(written!));
  const creates = method === 'PUT' || method === 'POST';
  const removes = method === 'DELETE' || method === 'POST';
  const tried = exampleOf(dryRun!);
  const stored = exampleOf(document!);
  const either = {
    examples: {
      written: { summary: 'Written', value: stored },
      tried: { summary: 'With dry_run', value: tried },
    },
  };
  return {
    200:
      method === 'DELETE'
        ? jsonOf(shown(dryRun!), { example: tried })
        : jsonOf({ anyOf: [shown(document!), shown(dryRun!)] }, either),
    ...(creates ? { 201: jsonOf(shown(document!), { example: stored }) } : {}),
    ...(removes ? { 204: undefined } : {}),
  };
}

const eventStreamOf = (change: Schema): Schema => ({
  type: 'string',
  contentMediaType: json,
  contentSchema: change,
  description:
    'Events `config.changed`, of approvals `approval.changed`, of change sets `changeset.changed`, of effective values `effective.changed`, whose `id` is the revision, and of ' +
    'the own session `session.ended` and `memberships.changed`, which have none; their `data` is this schema in one line of JSON. Beside them `ready` (begins), `reset` (changes are missing: read everything again), ' +
    '`heartbeat` (of effective values, every 5 s: nothing else has changed) and `closed` (ends, with `{"code"}`)',
});

/** The document in what `Resource` and `Written` in shared/contracts/contract.ts make of it. */
function documentIn(schema: TSchema): TSchema {
  const document = IsObject(schema) ? schema.properties.document : undefined;
  if (!document) throw new Error('The result of a resource or write has no document.');
  return document;
}

/** A result without the members that entity tag and headers say. */
function without(result: TSchema, ...names: readonly string[]): TSchema {
  if (!IsObject(result) || !names.some((name) => name in result.properties)) return result;
  const isShown = (name: string): boolean => !names.includes(name);
  return {
    ...result,
    properties: Object.fromEntries(
      Object.entries(result.properties).filter(([name]) => isShown(name)),
    ),
    required: (result as { required?: readonly string[] }).required?.filter(isShown),
  } as TSchema;
}

function alternativesOf(schema: TSchema): readonly TSchema[] {
  if (!IsUnion(schema)) throw new Error('The result has no alternatives.');
  return schema.anyOf;
}
