import type { FastifyRequest } from 'fastify';
import type { Contract, Rest } from '../shared/contracts/contract.ts';
import { invalid, type Problem } from '../shared/errors.ts';

type Texts = Readonly<Record<string, unknown>>;

/** A text from the URL in the type that the contract gives it; what does not fit stays text, and the contract refuses it. */
function typed(contract: Contract, name: string, text: unknown): unknown {
  const { type } = contract.params.properties[name] as { type?: string };
  if (typeof text !== 'string') return text;
  if (type === 'integer' && /^[0-9]{1,15}$/.test(text)) return Number(text);
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}

/** Path and query: what access is decided on, before the body is read. */
export function addressOf(
  contract: Contract,
  rest: Rest,
  request: FastifyRequest,
): Record<string, unknown> {
  const params: Record<string, unknown> = {};
  const query = request.query as Texts;
  for (const name of rest.query)
    if (query[name] !== undefined) params[name] = typed(contract, name, query[name]);
  const path = request.params as Texts;
  for (const name of rest.pathParams) params[name] = typed(contract, name, path[name]);
  return params;
}

/** HTTP header values come as latin1; a reason may be written in any script. */
const headerText = (value: string): string => {
  const bytes = Buffer.from(value, 'latin1');
  const text = bytes.toString('utf8');
  return text.includes('\uFFFD') ? value : text;
};

/** Everything that the action is called with. Throws 422 for a query parameter that the contract does not know. */
export function parametersOf(
  contract: Contract,
  rest: Rest,
  request: FastifyRequest,
  address: Record<string, unknown>,
): Record<string, unknown> {
  const problems: Problem[] = Object.keys(request.query as Texts)
    .filter((name) => !rest.query.includes(name))
    .map((name) => ({ path: `/${name}`, message: 'unknown query parameter' }));
  const params = { ...address };
  for (const [header, name] of Object.entries(rest.headers)) {
    const value = request.headers[header];
    if (typeof value !== 'string') continue;
    const given = typed(contract, name, headerText(value));
    if (name === 'min_revision' && typeof given !== 'number')
      problems.push({ path: `/${header}`, message: 'must be a revision' });
    if (name === 'reason' && typeof given === 'string' && given.length > 500)
      problems.push({ path: `/${header}`, message: 'must NOT have more than 500 characters' });
    if (name === 'if_none_match' && given !== '*') {
      problems.push({ path: `/${header}`, message: 'must be * on a write' });
    }
    params[name] = given;
  }
  if (problems.length > 0) throw invalid(problems);
  if (rest.body)
    params.body = request.body === undefined && rest.method === 'POST' ? {} : request.body;
  return params;
}
