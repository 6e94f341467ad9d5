/**
 * What callers rely on in the contracts, as one line for each fact. `contracts.txt` has those of
 * the last release, and `contract-snapshot.test.ts` holds this checkout against them: what a
 * release has promised does not disappear.
 */
import { errorTable } from '../../shared/contracts/error-codes.ts';
import { contractTable } from '../../shared/contracts/index.ts';
import { type Contract } from '../../shared/contracts/contract.ts';
import { keyScopes } from '../../shared/contracts/roles.ts';

interface Schema {
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly additionalProperties?: boolean | Schema;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
}

/**
 * Of a schema: which paths it has, which of them always, and which types and values each may have.
 */
function* factsOf(schema: Schema, path: string): Generator<string> {
  for (const shape of [schema.anyOf, schema.oneOf, schema.allOf].flatMap((each) => each ?? []))
    yield* factsOf(shape, path);
  if ('const' in schema) yield `${path} = ${JSON.stringify(schema.const)}`;
  for (const value of schema.enum ?? []) yield `${path} = ${JSON.stringify(value)}`;
  const isValue = 'const' in schema || 'enum' in schema;
  for (const type of isValue ? [] : [schema.type ?? []].flat()) yield `${path}: ${type}`;
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    const within = `${path}.${name}`;
    yield `${within} ${schema.required?.includes(name) ? 'required' : 'optional'}`;
    yield* factsOf(property, within);
  }
  if (schema.items) yield* factsOf(schema.items, `${path}[]`);
  const { additionalProperties: others } = schema;
  const maps = [
    typeof others === 'object' ? [others] : [],
    Object.values(schema.patternProperties ?? {}),
  ];
  for (const each of maps.flat()) yield* factsOf(each, `${path}.*`);
}

function* factsOfContract(name: string, { rest, params, result }: Contract): Generator<string> {
  yield name;
  if (rest) yield `${name} ${rest.method} ${rest.path}`;
  for (const [header, parameter] of Object.entries(rest?.headers ?? {}))
    yield `${name} ${header} is ${parameter}`;
  // Schemas of TypeBox are JSON Schema, whose keywords its types do not show here.
  yield* factsOf(params as Schema, `${name} takes`);
  yield* factsOf(result as Schema, `${name} answers`);
}

/** Sorted, each once. */
export function contractFacts(
  contracts: Readonly<Record<string, Contract>> = contractTable,
): string[] {
  const facts = new Set<string>();
  for (const [name, contract] of Object.entries(contracts))
    for (const fact of factsOfContract(name, contract)) facts.add(fact);
  for (const [code, { status }] of Object.entries(errorTable)) facts.add(`error ${code} ${status}`);
  for (const scope of keyScopes) facts.add(`scope ${scope}`);
  return [...facts].sort();
}

/**
 * What breaks callers of `released`: facts that are gone, and parameters that are needed now where
 * they were unknown; and what breaks its data: fields that documents need now, and stored ones lack.
 * Parameters that are no longer needed break nobody, nor do fields of answers that are always there
 * now.
 */
export function breaksOf(released: readonly string[], current: readonly string[]): string[] {
  const [before, now] = [new Set(released), new Set(current)];
  const isEased = (fact: string): boolean => {
    const [, place, was] = /^(.*) (required|optional)$/.exec(fact) ?? [];
    if (was === 'required' && / takes\./.test(fact)) return now.has(`${place} optional`);
    if (was === 'optional' && / answers\./.test(fact)) return now.has(`${place} required`);
    return false;
  };
  const gone = released.filter((fact) => !now.has(fact) && !isEased(fact));
  const needed = current.filter((fact) => {
    const [, parent] = /^(.* (?:takes|answers\.document).*)\.[^.]+ required$/.exec(fact) ?? [];
    if (parent === undefined || before.has(fact)) return false;
    return released.some((each) => each.startsWith(`${parent}.`) || each === `${parent}: object`);
  });
  return [
    ...gone.map((fact) => `gone: ${fact}`),
    ...needed.map((fact) => `needed now: ${fact.replace(/ required$/, '')}`),
  ];
}

/**
 * The facts as a file that people can read: under each action, error code and scope what is said of
 * it, one line for each place.
 */
export function written(facts: readonly string[]): string {
  const bySubject = Map.groupBy(facts, subjectOf);
  const blocks = [...bySubject].map(([subject, all]) => {
    const rests = all.map((fact) => fact.slice(subject.length).trimStart());
    const byPlace = Map.groupBy(rests, (rest) => placeOf(rest));
    const lines = [...byPlace].map(([place, each]) =>
      [`  ${place}`, ...each.map((rest) => word(rest.slice(place.length)))].join(' ').trimEnd(),
    );
    return [subject, ...lines.filter((line) => line.trim() !== '')].join('\n');
  });
  return `${blocks.join('\n')}\n`;
}

/** What `written` has written, as facts. */
export function read(text: string): string[] {
  const facts: string[] = [];
  let subject = '';
  for (const line of text.trimEnd().split('\n')) {
    if (!line.startsWith('  ')) {
      subject = line;
      facts.push(subject);
      continue;
    }
    const [place = '', ...words] = line.trim().split(' ');
    if (!isPlace(place)) facts.push(`${subject} ${line.trim()}`);
    else facts.push(...words.map((each) => `${subject} ${place}${unword(each)}`));
  }
  return facts.sort();
}

const isPlace = (text: string): boolean => /^(?:takes|answers)/.test(text);
const subjectOf = (fact: string): string =>
  /^(?:error|scope) /.test(fact) ? fact : fact.split(' ', 1)[0]!;
/** A place of a schema, which is without blanks but for keys of a map; any other line as it is. */
const placeOf = (rest: string): string =>
  isPlace(rest) ? /^\S+?(?=: | = | required$| optional$)/.exec(rest)![0] : rest;

/** What is said of a place, without blanks. */
function word(text: string): string {
  if (text === ' required') return '!';
  if (text === ' optional') return '?';
  return text.replace(/^: /, ':').replace(/^ = /, '=').replaceAll(' ', '\\u0020');
}
function unword(text: string): string {
  if (text === '!') return ' required';
  if (text === '?') return ' optional';
  const blank = text.replaceAll('\\u0020', ' ');
  return blank.startsWith(':') ? `: ${blank.slice(1)}` : ` = ${blank.slice(1)}`;
}
