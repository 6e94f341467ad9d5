/**
 * The OpenAPI document as generators, linters and readers need it: named, described, without
 * faults.
 */
import { describe, expect, test } from '@jest/globals';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { Ajv2020, type AnySchema, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { openApi } from '../../gateway/openapi/document.ts';
import { Type } from 'typebox';
import { createComponents } from '../../gateway/openapi/schemas.ts';
import { deliveredTypes } from '../../shared/contracts/notifier.ts';

interface Node {
  readonly [key: string]: unknown;
}
const text = JSON.stringify(openApi('https://strata.test', '1.2.3'));
const document = JSON.parse(text) as {
  readonly paths: Record<string, Record<string, Node>>;
  readonly webhooks: Record<string, Record<string, Node>>;
  readonly components: {
    readonly schemas: Record<string, Node>;
    readonly parameters: Record<string, Node>;
  };
};
const operations = Object.entries({ ...document.paths, ...document.webhooks }).flatMap(
  ([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      operation: operation as Node & { readonly parameters?: readonly Node[] },
    })),
);

const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null;
/**
 * Everything below a node, with its path. What examples show is no part of the document's
 * structure.
 */
function* nodesBelow(node: unknown, path: string): Generator<{ path: string; node: Node }> {
  if (!isNode(node)) return;
  yield { path, node };
  for (const [key, value] of Object.entries(node))
    if (!['example', 'examples', 'default', 'enum', 'const'].includes(key))
      yield* nodesBelow(value, `${path}/${key}`);
}
const all = [...nodesBelow(document, '')];

/** A parameter that is written where it is, or as a component. */
function resolved(parameter: Node): Node {
  const name = /^#\/components\/parameters\/(.+)$/.exec(String(parameter.$ref))?.[1];
  return name === undefined ? parameter : document.components.parameters[name]!;
}

/**
 * Whether it is at its place, at what it refers to, or at the one thing that it is when it is not
 * null.
 */
function isDescribed(schema: Node): boolean {
  if (typeof schema.description === 'string') return schema.description.length > 0;
  const name = /^#\/components\/schemas\/(.+)$/.exec(String(schema.$ref))?.[1];
  if (name !== undefined) return isDescribed(document.components.schemas[name]!);
  const others = ((schema.anyOf ?? []) as readonly Node[]).filter(({ type }) => type !== 'null');
  return others.length === 1 && isDescribed(others[0]!);
}

test("keeps to Redocly's recommended rules", async () => {
  // Examples are tried below, in a third of the time.
  const rules = { 'no-invalid-media-type-examples': 'off' } as const;
  const config = await createConfig({ extends: ['recommended'], rules });
  const problems = await lintFromString({ source: text, config });
  expect(
    problems.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer]),
  ).toEqual([]);
});

describe('descriptions', () => {
  test('every parameter has one', () => {
    const undescribed = operations.flatMap(({ name, operation }) =>
      (operation.parameters ?? [])
        .map(resolved)
        .filter((parameter) => !isDescribed(parameter) && !isDescribed(parameter.schema as Node))
        .map((parameter) => `${name}: ${String(parameter.name)}`),
    );
    expect(undescribed).toEqual([]);
  });

  test('every field has one, at its place or at what it refers to', () => {
    const undescribed = all.flatMap(({ path, node }) =>
      isNode(node.properties) && typeof node.properties.description !== 'string'
        ? Object.entries(node.properties)
            .filter(([, field]) => !isDescribed(field as Node))
            .map(([name]) => `${path}/${name}`)
        : [],
    );
    expect([...new Set(undescribed)]).toEqual([]);
  });

  test('every component has one', () => {
    const undescribed = Object.entries(document.components.schemas)
      .filter(([, schema]) => !isDescribed(schema))
      .map(([name]) => name);
    expect(undescribed).toEqual([]);
  });
});

describe('names', () => {
  test('what is described in two places has a name', () => {
    const places = new Map<string, string[]>();
    for (const { path, node } of all) {
      const isShape = isNode(node.properties) || Array.isArray(node.enum);
      if (!isShape || path.endsWith('/properties') || /^\/components\/schemas\/\w+$/.test(path))
        continue;
      const { description: _description, examples: _examples, ...shape } = node;
      const key = JSON.stringify(shape);
      // Two words, or one field, are said as quickly as named.
      const isShort = key.length < 120;
      if (!isShort) places.set(key, [...(places.get(key) ?? []), path]);
    }
    expect([...places.values()].filter(({ length }) => length > 1)).toEqual([]);
  });

  test('one name for two schemas is refused', () => {
    const { shown } = createComponents();
    shown(Type.String({ title: 'Twice' }));
    shown(Type.String({ title: 'Twice', $comment: 'the same, elsewhere' }));
    expect(() => shown(Type.Integer({ title: 'Twice' }))).toThrow('Twice');
  });

  test('an operation is read at a glance: its schemas are elsewhere', () => {
    const withoutExamples = (name: string, value: unknown): unknown =>
      name.startsWith('example') ? undefined : value;
    const long = operations
      .filter(({ operation }) => JSON.stringify(operation, withoutExamples).length > 3600)
      .map(({ name }) => name);
    expect(long).toEqual([]);
  });
});

describe('examples', () => {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormats.default(ajv);
  ajv.addFormat('iana-time-zone', true);
  // Once for all examples: with each of them it would be compiled again, and validated itself.
  ajv.addSchema({ $id: 'document', components: document.components });
  /** By their text: problems and pages are answered by many. */
  const validators = new Map<string, ValidateFunction>();
  function validatorOf(schema: unknown): ValidateFunction {
    const referring = JSON.stringify(schema).replaceAll('"$ref":"#/', '"$ref":"document#/');
    const validator = validators.get(referring) ?? ajv.compile(JSON.parse(referring) as AnySchema);
    validators.set(referring, validator);
    return validator;
  }

  /** What is wrong with the examples of a parameter or of a body. */
  function problemsOf(shown: Node): unknown[] {
    const several = Object.values((shown.examples ?? {}) as Record<string, Node>);
    const values = 'example' in shown ? [shown.example] : several.map(({ value }) => value);
    if (values.length === 0) return ['there is none'];
    const isValid = validatorOf(shown.schema);
    return values.flatMap((value) => (isValid(value) ? [] : [value, isValid.errors]));
  }

  test.each(operations)('$name shows what it takes and answers, and that is valid', (operation) => {
    const { parameters = [], requestBody, responses } = operation.operation;
    const bodies = [requestBody, ...Object.values(responses as Node)].flatMap((each) =>
      Object.entries(((each as Node | undefined)?.content ?? {}) as Record<string, Node>),
    );
    const shown = [
      ...parameters
        .map(resolved)
        .filter((parameter) => parameter.required === true || 'example' in parameter)
        .map((parameter): [string, Node] => [String(parameter.name), parameter]),
      ...bodies,
    ];
    const problems = shown
      .map(([name, each]) => [name, problemsOf(each)] as const)
      .filter(([, found]) => found.length > 0);
    expect(problems).toEqual([]);
  });
});

test('every notice is a webhook', () => {
  expect(Object.keys(document.webhooks)).toEqual([...deliveredTypes]);
});
