/** From a request to the parameters of its contract's action. */
import type { FastifyRequest } from 'fastify';
import type { Contract, Rest } from '../../shared/contracts/contract.ts';
import { invalid, StrataError, type Problem } from '../../shared/errors.ts';
import { pointerTo } from '../../shared/schema/json-pointer.ts';
import { problemsOf } from '../../shared/schema/validate.ts';

type Texts = Readonly<Record<string, unknown>>;
type Params = Record<string, unknown>;

/** The parameters in path and query: what access is decided on, before the body is read. */
export function urlParamsOf(contract: Contract, rest: Rest, request: FastifyRequest): Params {
  const params: Params = {};
  const query = request.query as Texts;
  for (const name of rest.query) {
    if (query[name] !== undefined) params[name] = typed(contract, name, query[name]);
  }
  const path = request.params as Texts;
  for (const name of rest.pathParams) params[name] = typed(contract, name, path[name]);
  return params;
}

/**
 * Everything that the action is called with. Throws 422 for a query parameter that the contract
 * does not know, for U+0000, and for headers that do not fit, 412 for a condition that cannot be
 * kept: the contract would name those by the parameter, and the caller knows them by the header.
 */
export function parametersOf(
  contract: Contract,
  rest: Rest,
  request: FastifyRequest,
  urlParams: Readonly<Params>,
): Params {
  if (rest.method !== 'GET') refuseUnmodifiedSince(rest, request);
  const params = { ...urlParams };
  const problems: Problem[] = Object.keys(request.query as Texts)
    .filter((name) => !rest.query.includes(name))
    .map((name) => ({ path: `/${name}`, message: 'unknown query parameter' }));
  problems.push(...textProblems(Object.entries(urlParams)));
  for (const [header, name] of Object.entries(rest.headers)) {
    const text = request.headers[header];
    if (typeof text !== 'string') continue;
    const value = typed(contract, name, decodeHeader(text));
    const message = headerProblem(contract, name, value);
    if (message !== undefined) problems.push({ path: `/${header}`, message });
    params[name] = value;
  }
  if (!rest.body) problems.push(...untakenBody(contract, rest, request));
  if (problems.length > 0) throw invalid(problems);
  if (rest.body) {
    const mayBeAbsent = rest.method === 'POST';
    params.body = request.body === undefined && mayBeAbsent ? {} : request.body;
  }
  return params;
}

/** What the database takes in no text. Bodies in JSON were refused for it while they were read. */
export const textProblems = (fields: readonly (readonly [string, unknown])[]): Problem[] =>
  fields
    .filter(([, value]) => typeof value === 'string' && value.includes('\0'))
    .map(([name]) => ({ path: pointerTo([name]), message: 'has the character U+0000' }));

/**
 * What is wrong with a body where none is taken: what it asks for would not be done. `{}`, which
 * some clients always send, asks for nothing; protocols of others have such members ignored.
 */
function untakenBody(
  { errors, problems }: Contract,
  { method }: Rest,
  { body }: FastifyRequest,
): Problem[] {
  if (method === 'GET' || body === undefined || (errors ?? problems) !== undefined) return [];
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    return [{ path: '', message: 'must be absent: this request takes no body' }];
  return Object.keys(body).map((name) => ({ path: pointerTo([name]), message: 'unknown field' }));
}

/**
 * A date cannot tell two changes of one second apart, so a write that counts on one could overwrite
 * what its client has not seen. Beside If-Match, where that is taken, the date does not count (RFC
 * 9110, section 13.1.4).
 */
function refuseUnmodifiedSince(rest: Rest, { headers }: FastifyRequest): void {
  if (headers['if-unmodified-since'] === undefined) return;
  const isMatched = 'if-match' in rest.headers && headers['if-match'] !== undefined;
  if (isMatched) return;
  throw new StrataError(
    'precondition_failed',
    'If-Unmodified-Since cannot tell two changes of one second apart, so it is not taken. Send If-Match with the ETag.',
  );
}

/**
 * A text from the URL or a header in the type that the contract gives it. What does not fit stays
 * text, and the contract refuses it.
 */
function typed(contract: Contract, name: string, text: unknown): unknown {
  if (typeof text !== 'string') return text;
  const schema = contract.params.properties[name];
  const { type } = schema as { type?: string };
  if (isInteger(schema) && /^([0-9]{1,15}|-[1-9][0-9]{0,14})$/.test(text)) return Number(text);
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}

const isInteger = (schema: object | undefined): boolean =>
  schema !== undefined && 'type' in schema && schema.type === 'integer';

/** What is wrong with a parameter that came by header. */
function headerProblem({ params }: Contract, name: string, value: unknown): string | undefined {
  switch (name) {
    case 'min_revision':
      if (isInteger(params.properties[name]))
        return typeof value === 'number' && value >= 0 ? undefined : 'must be a revision';
      return /^[0-9]{1,15}(\.[0-9]{1,15})?$/.test(String(value))
        ? undefined
        : 'must be a revision of the tenant, or those of tenant and platform with a dot in between';
    case 'reason':
      return typeof value === 'string' && value.length > 500
        ? 'must NOT have more than 500 characters'
        : undefined;
    case 'break_glass':
      return typeof value === 'string' && value.length >= 20 && value.length <= 500
        ? undefined
        : 'must say why it cannot wait, in 20 to 500 characters';
    case 'managed_by':
    case 'take_over':
      return problemsOf(params.properties[name]!, value).length === 0
        ? undefined
        : 'must be names of folders: letters, digits and ._:/@-, several with commas between them to take over';
    case 'if_none_match':
      return value === '*' ? undefined : 'must be * on a write';
    default:
      return undefined;
  }
}

/**
 * Node gives header values as latin1, and a reason may be written in any script: read as UTF-8
 * where it is valid UTF-8.
 */
function decodeHeader(value: string): string {
  const text = Buffer.from(value, 'latin1').toString('utf8');
  return text.includes('\uFFFD') ? value : text;
}
