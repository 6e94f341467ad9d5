import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import addFormats from 'ajv-formats';
import type { TSchema } from 'typebox';
import type { Problem } from '../errors.ts';
import { pointerToken } from './json-pointer.ts';

// Refuses instead of repairing: no coercion, no defaults, no removal of unknown fields.
const ajv = new Ajv({
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

const compiled = new WeakMap<TSchema, ValidateFunction>();
const mostProblems = 50;

/** All problems of a value against a schema (at most 50), as JSON Pointers; none where it is valid. Never holds a value. */
export function problemsOf(schema: TSchema, value: unknown): Problem[] {
  let validate = compiled.get(schema);
  if (!validate) compiled.set(schema, (validate = ajv.compile(schema)));
  if (validate(value)) return [];
  const seen = new Map<string, Problem>();
  for (const error of telling(validate.errors ?? [])) {
    const problem = { path: pointer(error), message: sentence(error) };
    seen.set(`${problem.path} ${problem.message}`, problem);
    if (seen.size === mostProblems) break;
  }
  return [...seen.values()];
}

/** Of a choice between shapes, what is wrong with those of the value's own type; that the others are of another type says nothing. */
function telling(errors: readonly ErrorObject[]): readonly ErrorObject[] {
  const mute = new Set(errors.filter(({ keyword }) => keyword === 'if'));
  for (const choice of errors.filter(({ keyword }) => keyword === 'anyOf' || keyword === 'oneOf')) {
    const within = errors.filter(({ schemaPath }) =>
      schemaPath.startsWith(`${choice.schemaPath}/`),
    );
    const ofType = ({ keyword, instancePath }: ErrorObject): boolean =>
      keyword === 'type' && instancePath === choice.instancePath;
    if (within.length > 0) mute.add(choice);
    if (!within.every(ofType)) for (const error of within.filter(ofType)) mute.add(error);
  }
  return errors.filter((error) => !mute.has(error));
}

function pointer({ instancePath, keyword, params }: ErrorObject): string {
  const member =
    keyword === 'additionalProperties'
      ? params.additionalProperty
      : keyword === 'required'
        ? params.missingProperty
        : keyword === 'unevaluatedProperties'
          ? params.unevaluatedProperty
          : keyword === 'propertyNames'
            ? params.propertyName
            : keyword === 'discriminator'
              ? params.tag
              : undefined;
  return typeof member === 'string' ? `${instancePath}/${pointerToken(member)}` : instancePath;
}

/** The values that choose between the shapes of a `discriminator`. */
const tagsOf = ({ parentSchema, params }: ErrorObject): string[] =>
  (parentSchema as { oneOf: { properties: Record<string, { const: string }> }[] }).oneOf.map(
    ({ properties }) => properties[params.tag as string]!.const,
  );

function sentence(error: ErrorObject): string {
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
    default:
      return message ?? 'is not valid';
  }
}
