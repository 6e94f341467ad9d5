/**
 * Bodies that cost a careless validator more than their length, made from the schema of a contract:
 * each shape at each place of the body, with what surrounds the place as it should be.
 */
import type { TSchema } from 'typebox';
import { fittingNames, randomFrom, shapesOf, valueOf, type Schema } from './values-of-schema.ts';

/**
 * The body as JSON, of about so many bytes. Texts and names in it are numbered from `first` on,
 * with equally many digits.
 */
export type HostileBody = (bytes: number, first?: number) => string;

export const firstNumber = 10_000;

const many = (bytes: number, first: number, itemOf: (index: number) => string): string => {
  const items: string[] = [];
  let length = 0;
  while (length < bytes) {
    const item = itemOf(first + items.length);
    items.push(item);
    length += item.length + 1;
  }
  return items.join(',');
};

const shapes: Readonly<Record<string, HostileBody>> = {
  'many numbers': (bytes, first = firstNumber) => `[${many(bytes, first, String)}]`,
  'many equal texts': (bytes, first = firstNumber) => `[${many(bytes, first, () => '"x"')}]`,
  'many different texts': (bytes, first = firstNumber) =>
    `[${many(bytes, first, (index) => `"x${index}"`)}]`,
  'many objects': (bytes, first = firstNumber) =>
    `[${many(bytes, first, (index) => `{"a":${index}}`)}]`,
  'many names': (bytes, first = firstNumber) =>
    `{${many(bytes, first, (index) => `"n${index}":1`)}}`,
  'many objects by name': (bytes, first = firstNumber) =>
    `{${many(bytes, first, (index) => `"n${index}":{"a":null}`)}}`,
  'long names': (bytes, first = firstNumber) =>
    `{${many(bytes, first, (index) => `"${index}${'~/'.repeat(400)}":1`)}}`,
  'many wrong members under a long name': (bytes, first = firstNumber) =>
    `{"${'~/'.repeat(400)}":{${many(bytes, first, (index) => `"n${index}":[null]`)}}}`,
  'many wrong items under a long name': (bytes, first = firstNumber) =>
    `{"${'n'.repeat(900)}":[${many(bytes, first, () => 'null')}]}`,
  'a long text': (bytes) => `"${'a'.repeat(bytes)}"`,
  'a long text of escapes': (bytes) => `"${'\\u0041'.repeat(bytes / 6)}"`,
  'a long text of spaces': (bytes) => `"${' '.repeat(bytes)}x"`,
  'deep nesting, often': (bytes, first = firstNumber) =>
    `[${many(bytes, first, () => '['.repeat(50) + ']'.repeat(50))}]`,
};

/** A place in a body: the schema that judges it, and the JSON around it. */
interface Place {
  readonly path: string;
  readonly schema: Schema;
  readonly around: (json: string) => string;
}

const deepest = 6;

/** All places that a schema knows, down to a depth that no contract exceeds. */
function placesOf(place: Place, depth = 0): Place[] {
  if (depth > deepest) return [];
  const { path, schema, around } = place;
  const inner = (name: string, inside: Schema, before: string, after: string): Place[] =>
    placesOf(
      {
        path: `${path}${name}`,
        schema: inside,
        around: (json) => around(`${before}${json}${after}`),
      },
      depth + 1,
    );
  const choices = shapesOf(schema).flatMap((shape) =>
    placesOf({ path, schema: shape, around }, depth),
  );
  const named = Object.entries(schema.properties ?? {}).flatMap(([name, member]) =>
    inner(`/${name}`, member, `{${JSON.stringify(name)}:`, '}'),
  );
  const mapped = Object.entries(schema.patternProperties ?? {}).flatMap(([pattern, member]) =>
    inner('/*', member, `{${JSON.stringify(fittingNames(pattern)[0] ?? 'a')}:`, '}'),
  );
  const items = schema.items ? inner('/0', schema.items, '[', ']') : [];
  return [place, ...choices, ...named, ...mapped, ...items];
}

/** Many members or items, each wrong in ways that its schema knows. */
function siblingsOf({ schema }: Place): Record<string, HostileBody> {
  const wrong = (member: Schema): ((index: number) => string) => {
    const random = randomFrom(7);
    const values = Array.from({ length: 20 }, () =>
      JSON.stringify(valueOf(member as TSchema, random, 0.5)),
    );
    return (index) => values[index % values.length]!;
  };
  const [member] = Object.values(schema.patternProperties ?? {});
  const { items } = schema;
  return {
    ...(member && {
      'many wrong siblings': (bytes: number, first = firstNumber) => {
        const valueAt = wrong(member);
        return `{${many(bytes, first, (index) => `"n${index}":${valueAt(index)}`)}}`;
      },
    }),
    ...(items && {
      'many wrong items': (bytes: number, first = firstNumber) =>
        `[${many(bytes, first, wrong(items))}]`,
    }),
  };
}

/**
 * Whether the schema looks into values of the shape's type at all; where not, it costs what it
 * costs at the root.
 */
function isLookedInto({ schema, path }: Place, textOf: HostileBody): boolean {
  if (path === '' || shapesOf(schema).length > 0) return true;
  switch (textOf(1)[0]) {
    case '[':
      return schema.type === 'array' || schema.type === undefined;
    case '{':
      return schema.type === 'object' || schema.type === undefined;
    default:
      return schema.type === 'string';
  }
}

/**
 * By place and shape. A body, or a place inside it, whose schema is among those that were `evaluated` is
 * passed over, and others are added: most contracts share theirs.
 */
export function hostileBodies(
  body: TSchema,
  evaluated: Set<string> = new Set(),
): ReadonlyMap<string, HostileBody> {
  const found = new Map<string, HostileBody>();
  const root = { path: '', schema: body as Schema, around: (json: string) => json };
  for (const place of placesOf(root)) {
    const schema = JSON.stringify(place.schema);
    // A whole body is judged with shapes that a place inside of one is not.
    const checkedAs = place.path === '' ? `whole: ${schema}` : schema;
    if (evaluated.has(checkedAs)) continue;
    evaluated.add(checkedAs).add(schema);
    for (const [name, shape] of Object.entries({ ...shapes, ...siblingsOf(place) })) {
      if (!isLookedInto(place, shape)) continue;
      const key = `${name} at ${place.path || 'the root'}`;
      if (!found.has(key)) found.set(key, (bytes, first) => place.around(shape(bytes, first)));
    }
  }
  return found;
}
