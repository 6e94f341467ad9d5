/**
 * Whether a value fits a schema of the contracts, and where it does not, in words for whoever sent
 * it.
 */
import { Ajv, type AnySchemaObject, type ErrorObject, type ValidateFunction } from 'ajv';
import addFormats from 'ajv-formats';
import type { TSchema } from 'typebox';
import { marks } from '../contracts/marks.ts';
import { boundedProblems, type Problem } from '../errors.ts';
import { pointerToken } from './json-pointer.ts';
import { momentOf } from './moment.ts';
import { isTimeZone } from './time-zone.ts';
import { patterns } from '../contracts/fields.ts';

/** A format of our own. */
const timeZoneFormat = 'iana-time-zone';

// Refuses instead of repairing: no coercion, no defaults, no removal of unknown fields. That
// schemas are schemas is what tests see to: to compile the schema of schemas for that was a
// twentieth of each start.
const ajv = new Ajv({
  validateSchema: false,
  allErrors: true,
  strict: true,
  strictTypes: false,
  strictTuples: false,
  coerceTypes: false,
  useDefaults: false,
  removeAdditional: false,
  discriminator: true,
  verbose: true,
});
addFormats.default(ajv);
ajv.addVocabulary(Object.values(marks));
ajv.addFormat(timeZoneFormat, { validate: isTimeZone });
// In place of the package's, which takes leap seconds, and other years than PostgreSQL.
ajv.addFormat('date-time', { validate: (text: string) => momentOf(text) !== undefined });

const validators = new WeakMap<TSchema, ValidateFunction>();

function validatorOf(schema: TSchema): ValidateFunction {
  const known = validators.get(schema);
  if (known) return known;
  const validator = ajv.compile(sizeFirst(schema) as AnySchemaObject);
  validators.set(schema, validator);
  return validator;
}

/** By type: the keyword that bounds the size, and those whose cost grows with it. */
const sized: Readonly<Record<string, { bound: string; costly: readonly string[] }>> = {
  array: { bound: 'maxItems', costly: ['items', 'uniqueItems'] },
  string: { bound: 'maxLength', costly: ['format', 'pattern'] },
};

/**
 * The schema with what costs more the larger a value is judged only where the value is not too
 * large. Ajv would otherwise tell of every item of an array that is refused for its length, compare
 * them with each other where they have to be unique, and take a long text apart to see whether it
 * is a time.
 */
function sizeFirst(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(sizeFirst);
  if (typeof schema !== 'object' || schema === null) return schema;
  const members = Object.fromEntries(
    Object.entries(schema).map(([keyword, value]) => [
      keyword,
      // Values to compare with, not schemas.
      keyword === 'const' || keyword === 'enum' ? value : sizeFirst(value),
    ]),
  );
  const size = sized[String(members.type)];
  if (size === undefined || members[size.bound] === undefined) return members;
  const isCostly = ([keyword]: [string, unknown]): boolean => size.costly.includes(keyword);
  const entries = Object.entries(members);
  const costly = entries.filter(isCostly);
  if (costly.length === 0) return members;
  const rest = Object.fromEntries(entries.filter((entry) => !isCostly(entry)));
  const inBounds = { [size.bound]: members[size.bound] };
  // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema; nobody awaits a schema
  return { ...rest, if: inBounds, then: Object.fromEntries(costly) };
}

/**
 * The problems of a value against a schema, as JSON Pointers; none if and only if it is valid. At
 * most `maxProblems`, and never with a value of the caller's in their words.
 */
export function problemsOf(schema: TSchema, value: unknown): Problem[] {
  const validate = validatorOf(schema);
  if (validate(value)) return [];
  const errors = validate.errors ?? [];
  const problems = boundedProblems(worded(withoutEchoes(errors)));
  if (problems.length > 0) return problems;
  // Whatever is taken for an echo: a value that was refused is never answered as if it were good.
  const all = boundedProblems(worded(errors));
  if (all.length === 0) throw new Error('A value was refused without a reason.');
  return all;
}

/** Each error once, as a path and a sentence. Lazily, since only the first ones are told. */
function* worded(errors: Iterable<ErrorObject>): Generator<Problem> {
  const reported = new Set<string>();
  for (const error of errors) {
    const problem = { path: pointerOf(error), message: sentenceOf(error) };
    const key = `${problem.path} ${problem.message}`;
    if (reported.has(key)) continue;
    reported.add(key);
    yield problem;
  }
}

const isChoice = ({ keyword }: ErrorObject): boolean => keyword === 'anyOf' || keyword === 'oneOf';

/**
 * Without errors that only repeat others: that a choice fits no shape, where the shapes' own errors
 * say why, and that the value is of another type than a shape, where another shape is of its type.
 * `if` repeats what its branch says.
 *
 * Ajv tells the errors of a choice's shapes right before that of the choice. So what belongs to a
 * choice is found by walking back from it, and never among the errors of a sibling, whose schema
 * path is the same.
 */
function withoutEchoes(errors: readonly ErrorObject[]): ErrorObject[] {
  const echoes = new Set<ErrorObject>();
  for (const [index, choice] of errors.entries()) {
    if (choice.keyword === 'if') echoes.add(choice);
    if (!isChoice(choice)) continue;
    const shapes = errorsWithin(errors, index);
    const ofOtherTypes = shapes.filter(
      ({ keyword, instancePath }) => keyword === 'type' && instancePath === choice.instancePath,
    );
    if (shapes.length > 0) echoes.add(choice);
    if (ofOtherTypes.length === shapes.length) continue;
    for (const error of ofOtherTypes) echoes.add(error);
  }
  return errors.filter((error) => !echoes.has(error));
}

/**
 * The errors that led to the one at `index`: those right before it, of its place or below, from its
 * schema or below.
 */
function errorsWithin(errors: readonly ErrorObject[], index: number): ErrorObject[] {
  const { schemaPath, instancePath } = errors[index]!;
  const belongs = (error: ErrorObject): boolean =>
    error.schemaPath.startsWith(`${schemaPath}/`) &&
    (error.instancePath === instancePath || error.instancePath.startsWith(`${instancePath}/`));
  let first = index;
  while (first > 0 && belongs(errors[first - 1]!)) first -= 1;
  return errors.slice(first, index);
}

/** The member that an error of an object's keyword is about, by keyword. */
const memberOf: Readonly<Record<string, (params: ErrorObject['params']) => unknown>> = {
  additionalProperties: (params) => params.additionalProperty,
  required: (params) => params.missingProperty,
  unevaluatedProperties: (params) => params.unevaluatedProperty,
  propertyNames: (params) => params.propertyName,
  discriminator: (params) => params.tag,
};

function pointerOf({ instancePath, keyword, params }: ErrorObject): string {
  const member = memberOf[keyword]?.(params);
  return typeof member === 'string' ? `${instancePath}/${pointerToken(member)}` : instancePath;
}

/** The values that choose between the shapes of a `discriminator`. */
const tagsOf = ({ parentSchema, params }: ErrorObject): string[] =>
  (parentSchema as { oneOf: { properties: Record<string, { const: string }> }[] }).oneOf.map(
    ({ properties }) => properties[params.tag as string]!.const,
  );

const notUuid = 'must be an id: a UUID, in lower case';
const sentencesOfPatterns: Readonly<Record<string, string>> = {
  [patterns.uuid]: notUuid,
  [patterns.revisionOrTime]: 'must be a revision, or a time such as 2026-11-30T09:30:00Z',
  [patterns.decimal]:
    'must be a decimal that is not negative, as text such as 500.00, with at most twelve digits before the point and six after it',
  [patterns.currency]: 'must be three capital letters, such as EUR (ISO 4217)',
  [patterns.localTime]:
    "must be a time of this century by the zone's clocks, without an offset, such as 2026-12-24T18:00",
};

function sentenceOf(error: ErrorObject): string {
  const { keyword, params, message } = error;
  switch (keyword) {
    case 'additionalProperties':
      return 'unknown field';
    case 'required':
      return 'is required';
    case 'const':
      return `must be ${JSON.stringify(params.allowedValue)}`;
    case 'discriminator':
      return `must be one of ${tagsOf(error).join(', ')}`;
    case 'enum':
      return `must be one of ${(params.allowedValues as unknown[]).map(String).join(', ')}`;
    case 'pattern':
      return sentencesOfPatterns[params.pattern as string] ?? message ?? 'is not valid';
    default:
      if (params.format === timeZoneFormat) return 'is not an IANA time zone';
      if (params.format === 'uuid') return notUuid;
      if (params.format === 'date-time')
        return 'is not a valid timestamp, such as 2026-11-30T09:30:00Z';
      return message ?? 'is not valid';
  }
}
