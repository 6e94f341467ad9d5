/**
 * Values for a schema of the contracts, good ones and ones with several faults at once, from a
 * random generator that the caller gives, so that a failure can be repeated by its seed.
 */
import type { TSchema } from 'typebox';

/** Numbers from 0 up to, but not including, 1. */
export type Random = () => number;

/** Mulberry32 by Tommy Ettinger: small, seeded, and good enough to spread over shapes. */
export function randomFrom(seed: number): Random {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

export interface Schema {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly then?: Schema;
  readonly else?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: boolean | Schema;
  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly format?: string;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
}

const names = ['a', 'b', 'cloud_run', 'low', 'high', 'approval_request', '__proto__', 'a/b~c'];
const texts = [
  '3f9d1c52-7a41-4f0e-9b6c-0d5e8a1b2c3d',
  'ada@example.com',
  '2026-01-02T03:04:05Z',
  'checkout',
  'https://example.com/hook',
  '09:30',
  'Europe/Berlin',
  'EUR',
  '512Mi',
  'x',
];
const wrongValues: readonly unknown[] = [
  null,
  true,
  -1,
  1e300,
  0.5,
  '',
  'wrong',
  [],
  [null, null],
  {},
  { wrong: 1 },
];

const pick = <T>(from: readonly T[], random: Random): T =>
  from[Math.floor(random() * from.length)]!;

/** The names of this generator that a pattern of names lets through. */
export const fittingNames = (pattern: string): string[] =>
  names.filter((name) => new RegExp(pattern, 'u').test(name));

/** The schemas that stand for the same place: of a choice, of a condition. */
export const shapesOf = ({ anyOf, oneOf, allOf, then, else: otherwise }: Schema): Schema[] => [
  ...(anyOf ?? []),
  ...(oneOf ?? []),
  ...(allOf ?? []),
  ...(then ? [then] : []),
  ...(otherwise ? [otherwise] : []),
];

/** A value for the schema; each part of it is wrong with the probability `faultRate`. */
export function valueOf(schema: TSchema, random: Random, faultRate = 0): unknown {
  return valueFor(schema as Schema, random, faultRate);
}

function valueFor(schema: Schema, random: Random, faultRate: number): unknown {
  if (random() < faultRate) return pick(wrongValues, random);
  if ('const' in schema) return schema.const;
  if (schema.enum) return pick(schema.enum, random);
  const shapes = shapesOf(schema);
  if (shapes.length > 0) return valueFor(pick(shapes, random), random, faultRate);
  switch (schema.type) {
    case 'object':
      return objectFor(schema, random, faultRate);
    case 'array':
      return arrayFor(schema, random, faultRate);
    case 'string':
      return textFor(schema, random);
    case 'integer':
    case 'number':
      return numberFor(schema, random);
    case 'boolean':
      return random() < 0.5;
    case 'null':
      return null;
    default:
      return pick(wrongValues, random);
  }
}

function objectFor(schema: Schema, random: Random, faultRate: number): unknown {
  const members: [string, unknown][] = [];
  for (const [name, member] of Object.entries(schema.properties ?? {})) {
    const isRequired = schema.required?.includes(name) ?? false;
    const isLeftOut = isRequired ? random() < faultRate : random() < 0.5;
    if (!isLeftOut) members.push([name, valueFor(member, random, faultRate)]);
  }
  const ofAny = Object.values(schema.patternProperties ?? {})[0] ?? schema.additionalProperties;
  if (typeof ofAny === 'object')
    for (const name of names)
      if (random() < 0.3) members.push([name, valueFor(ofAny, random, faultRate)]);
  if (random() < faultRate) members.push(['unknown_field', 1]);
  // `fromEntries` keeps a member named __proto__ as data.
  return Object.fromEntries(members);
}

function arrayFor(schema: Schema, random: Random, faultRate: number): unknown {
  const isTooLong = schema.maxItems !== undefined && random() < faultRate;
  const usual = (schema.minItems ?? 0) + Math.floor(random() * 3);
  const length = isTooLong ? schema.maxItems! + 1 : Math.min(usual, schema.maxItems ?? usual);
  return Array.from({ length }, () => valueFor(schema.items ?? {}, random, faultRate));
}

function textFor({ format, pattern }: Schema, random: Random): string {
  if (format === 'uuid') return texts[0]!;
  if (format === 'email') return texts[1]!;
  if (format === 'date-time') return texts[2]!;
  if (format === 'iana-time-zone') return 'Europe/Rome';
  const fitting =
    pattern === undefined ? texts : texts.filter((text) => new RegExp(pattern, 'u').test(text));
  return pick(fitting.length > 0 ? fitting : texts, random);
}

function numberFor({ type, minimum, maximum, exclusiveMinimum }: Schema, random: Random): number {
  const least = minimum ?? exclusiveMinimum ?? 0;
  const most = Math.min(maximum ?? least + 100, least + 100);
  const number = least + random() * (most - least);
  return type === 'integer' ? Math.ceil(number) : number;
}
