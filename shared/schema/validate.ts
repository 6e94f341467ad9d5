import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import addFormats from 'ajv-formats';
import type { TSchema } from 'typebox';
import type { Problem } from '../errors.ts';

// Refuses instead of repairing: no coercion, no defaults, no removal of unknown fields.
const ajv = new Ajv({ allErrors: true, strict: true, strictTypes: false, strictTuples: false, coerceTypes: false, useDefaults: false, removeAdditional: false, discriminator: true });
addFormats.default(ajv);

const compiled = new WeakMap<TSchema, ValidateFunction>();
const mostProblems = 50;

/** All problems of a value against a schema (at most 50), as JSON Pointers; none where it is valid. Never holds a value. */
export function problemsOf(schema: TSchema, value: unknown): Problem[] {
  let validate = compiled.get(schema);
  if (!validate) compiled.set(schema, validate = ajv.compile(schema));
  if (validate(value)) return [];
  const seen = new Map<string, Problem>();
  for (const error of validate.errors ?? []) {
    const problem = { path: pointer(error), message: sentence(error) };
    seen.set(`${problem.path} ${problem.message}`, problem);
    if (seen.size === mostProblems) break;
  }
  return [...seen.values()];
}

const escape = (member: string): string => member.replaceAll('~', '~0').replaceAll('/', '~1');

function pointer({ instancePath, keyword, params }: ErrorObject): string {
  const member = keyword === 'additionalProperties' ? params.additionalProperty
    : keyword === 'required' ? params.missingProperty
    : keyword === 'unevaluatedProperties' ? params.unevaluatedProperty
    : keyword === 'propertyNames' ? params.propertyName
    : undefined;
  return typeof member === 'string' ? `${instancePath}/${escape(member)}` : instancePath;
}

function sentence({ keyword, params, message }: ErrorObject): string {
  switch (keyword) {
    case 'additionalProperties': return 'unknown field';
    case 'required': return 'is required';
    case 'const': return `must be ${JSON.stringify(params.allowedValue)}`;
    case 'enum': return `must be one of ${(params.allowedValues as unknown[]).map(String).join(', ')}`;
    default: return message ?? 'is not valid';
  }
}
