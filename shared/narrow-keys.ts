/**
 * Whether a call is within what its API key is narrowed to; `access.ts` asks in front of every
 * action, and handlers ask for what they alone can know.
 */
import type { Contract } from './contracts/contract.ts';
import { narrowedParameters, type NarrowedTo, type Narrowing } from './contracts/narrow-keys.ts';
import { StrataError } from './errors.ts';

type Params = Readonly<Record<string, unknown>>;
type NarrowedContract = Pick<Contract, 'narrow' | 'rest' | 'params'>;
type NameOf = (narrowing: Narrowing) => unknown;

const narrowings: readonly Narrowing[] = ['service_ids', 'agent_types', 'documents'];

/**
 * Throws 403 for a call that is outside. The parameters are unchecked. What a body names is unknown
 * before it is read: the owner of the action asks again, and refuses a call without its body.
 */
export function requireWithin(contract: NarrowedContract, to: NarrowedTo, params: Params): void {
  const { narrow } = contract;
  if (narrow === 'row' || narrow === 'own') return;
  if (narrow === undefined) throw outside('may not do this');
  const inBody = contract.rest?.body === true && namedInBody(contract, narrow);
  if (inBody && params.body === undefined) return;
  requireNamed(to, narrow, (narrowing) => nameIn(contract, params, narrowing));
}

/** The same of something stored, such as an automation, by the names that it is about. */
export function isWithin(
  to: NarrowedTo | undefined,
  names: Readonly<Partial<Record<Narrowing, unknown>>>,
): boolean {
  if (to === undefined) return true;
  return (
    problemOf(to, Object.keys(names) as Narrowing[], (narrowing) => names[narrowing]) === undefined
  );
}

function requireNamed(to: NarrowedTo, by: readonly Narrowing[], nameOf: NameOf): void {
  const problem = problemOf(to, by, nameOf);
  if (problem !== undefined) throw outside(problem);
}

/** Undefined where it is within. What a list can name, but this call need not, is refused only where it names others. */
function problemOf(to: NarrowedTo, by: readonly Narrowing[], nameOf: NameOf): string | undefined {
  let isNamed = false;
  for (const narrowing of narrowings) {
    const allowed: readonly string[] | undefined = to[narrowing];
    if (allowed === undefined) continue;
    const name = nameOf(narrowing);
    const isListed = by.includes(narrowing);
    if (!isListed && name === undefined) continue;
    if (typeof name !== 'string' || !allowed.includes(name)) return `is for other ${narrowing}`;
    isNamed ||= isListed;
  }
  return isNamed ? undefined : 'may not do this';
}

const outside = (why: string): StrataError =>
  new StrataError('insufficient_scope', `The API key is narrow and ${why}.`);

/** In the parameters or, where the contract has none of this name there, in the body. */
function nameIn(contract: NarrowedContract, params: Params, narrowing: Narrowing): unknown {
  if (narrowing === 'documents') return pathIn(contract, params);
  const name = narrowedParameters[narrowing];
  const others = params[`for_${name}`];
  if (others !== undefined) return others;
  if (name in contract.params.properties) return params[name];
  // The body of a document is what it says, and not what the call is about.
  if (typeof contract.narrow === 'object' && contract.narrow.includes('documents'))
    return undefined;
  const { body } = params;
  return typeof body === 'object' && body !== null && Object.hasOwn(body, name)
    ? (body as Params)[name]
    : undefined;
}

/** Whether what tells it is a member of the body. */
const namedInBody = ({ params }: NarrowedContract, narrow: readonly Narrowing[]): boolean =>
  narrow.every(
    (narrowing) =>
      narrowing !== 'documents' && !(narrowedParameters[narrowing] in params.properties),
  );

/** The path of the document that the call is about; undefined where it is about none. */
function pathIn({ narrow, rest }: NarrowedContract, params: Params): string | undefined {
  if (!rest || typeof narrow !== 'object' || !narrow.includes('documents')) return undefined;
  const isWhole = rest.pathParams.every((name) => typeof params[name] === 'string');
  return isWhole ? pathWith(rest.path, params) : undefined;
}

/** The path of a template with these parameters in it. */
export const pathWith = (template: string, params: Params): string =>
  template.replaceAll(/\{([a-z_]+)\}/g, (_placeholder, name: string) =>
    encodeURIComponent(String(params[name])),
  );
