/** Schemas of single fields that several contracts share, so that a rule such as "what an e-mail address is" stands once. */
import { Type, type TSchema } from 'typebox';

/** For objects whose unknown members are refused, which are nearly all. */
export const strict = { additionalProperties: false } as const;

export const Uuid = Type.String({ format: 'uuid', pattern: '^[0-9a-f-]{36}$' });
export const Timestamp = Type.String({ format: 'date-time', maxLength: 40 });
/** Some of the values, each once. The bound spares comparing the items of an array that is too long anyway. */
export const SomeOf = <Values extends string[]>(
  values: readonly [...Values],
  options: { readonly minItems?: number; readonly description?: string } = {},
) => Type.Array(Type.Enum(values), { ...options, maxItems: values.length, uniqueItems: true });
/** An e-mail address of at most 254 characters, the longest that SMTP can carry (RFC 5321, 4.5.3.1.3, less its brackets). */
export const Email = Type.String({ format: 'email', maxLength: 254 });

/** A name that Strata's own configuration gives: a service type, an agent type. */
export const Slug = Type.String({
  pattern: '^[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?$',
  description: 'Lower-case letters, digits, - and _',
});
/** A name that the cloud gives: a service instance's, a project's. */
export const Identifier = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$',
  description: 'Letters, digits, . _ -',
});
/** One line of text, without control characters. */
export const Line = (maxLength: number, description: string) =>
  Type.String({ minLength: 1, maxLength, pattern: '^[^\\x00-\\x1f\\x7f]*$', description });
/** A short text for people. */
export const Text = Type.String({ minLength: 1, maxLength: 200 });

export const InstanceCount = Type.Integer({ minimum: 0, maximum: 1_000_000 });

/** An object whose members Strata keeps and does not interpret. */
export const FreeForm = Type.Record(Type.String(), Type.Unknown());

export const Nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

/** For people, beside an id: who it is, as readers of the answer may know. Nodes from before this release leave it out. */
export const ActorName = Type.Optional(
  Nullable(
    Type.String({
      description:
        'What they are called: a display name, else an address; null where that is not known here. Not a proof',
    }),
  ),
);
