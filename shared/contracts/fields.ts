/**
 * Schemas of single fields that several contracts share, so that a rule such as "what an e-mail
 * address is" stands once.
 */
import {
  Type,
  type TArrayOptions,
  type TLiteralValue,
  type TNumberOptions,
  type TObjectOptions,
  type TProperties,
  type TSchema,
  type TSchemaOptions,
  type TStringOptions,
} from 'typebox';

/** What a text has to look like, where its pattern says that to nobody. Each has its sentence in shared/schema/validate.ts. */
export const patterns = {
  uuid: '^[0-9a-f-]{36}$',
  decimal: '^(0|[1-9][0-9]{0,11})(\\.[0-9]{1,6})?$',
  currency: '^[A-Z]{3}$',
  localTime: '^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]$',
  revisionOrTime:
    '^([0-9]{1,15}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,15}(Z|[+-][0-9]{2}:[0-9]{2}))$',
} as const;

/** For objects whose unknown members are refused, which are nearly all. */
export const strict = { additionalProperties: false } as const;

/** Members that may be absent. */
export const Optional = {
  String: (options?: TStringOptions) => Type.Optional(Type.String(options)),
  Integer: (options?: TNumberOptions) => Type.Optional(Type.Integer(options)),
  Number: (options?: TNumberOptions) => Type.Optional(Type.Number(options)),
  Boolean: (options?: TSchemaOptions) => Type.Optional(Type.Boolean(options)),
  Unknown: (options?: TSchemaOptions) => Type.Optional(Type.Unknown(options)),
  Literal: <Value extends TLiteralValue>(value: Value, options?: TSchemaOptions) =>
    Type.Optional(Type.Literal(value, options)),
  Enum: <Values extends string[]>(values: readonly [...Values], options?: TSchemaOptions) =>
    Type.Optional(Type.Enum(values, options)),
  Array: <T extends TSchema>(items: T, options?: TArrayOptions) =>
    Type.Optional(Type.Array(items, options)),
};

/** An object whose unknown members are refused. */
export const StrictObject = <P extends TProperties>(properties: P, options: TObjectOptions = {}) =>
  Type.Object(properties, { ...strict, ...options });
/** The same with what it stands for. */
export const DescribedObject = <P extends TProperties>(description: string, properties: P) =>
  StrictObject(properties, { description });
/** The same with a title, which is its name in the OpenAPI document. */
export const TitledObject = <P extends TProperties>(
  title: string,
  description: string,
  properties: P,
) => StrictObject(properties, { title, description });

/**
 * The same schema with what it stands for at this place, and values to show. A schema with a title
 * is described by itself; what it stands for here is then its comment, which the OpenAPI document
 * puts beside the reference to it.
 */
export const described = <T extends TSchema>(
  schema: T,
  description: string,
  ...examples: readonly unknown[]
): T =>
  Type.With(schema, {
    ...('title' in schema ? { $comment: description } : { description }),
    ...(examples.length > 0 && { examples }),
  }) as TSchema as T;

export const Uuid = Type.String({ format: 'uuid', pattern: patterns.uuid });
export const Timestamp = Type.String({ format: 'date-time', maxLength: 40 });
export const TenantId = described(Uuid, "The tenant's id");
export const UserId = described(Uuid, "The account's id");
export const CreatedAt = described(Timestamp, 'When it was made');
export const UpdatedAt = described(Timestamp, 'When it was last changed');
/**
 * Some of the values, each once. The bound spares comparing the items of an array that is too long
 * anyway.
 */
export const SomeOf = <Values extends string[]>(
  values: readonly [...Values],
  options: { readonly minItems?: number; readonly description?: string } = {},
) => Type.Array(Type.Enum(values), { ...options, maxItems: values.length, uniqueItems: true });
/**
 * An e-mail address of at most 254 characters, the longest that SMTP can carry (RFC
 * 5321, 4.5.3.1.3, less its brackets).
 */
export const Email = Type.String({
  format: 'email',
  maxLength: 254,
  description: 'Mail address',
  examples: ['ada@example.com'],
});

/** A name that Strata's own configuration gives: a service type, an agent type. */
export const Slug = Type.String({
  pattern: '^[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?$',
  description: 'Lower-case letters, digits, - and _',
});
export const AgentType = described(
  Slug,
  'Type of agent: lower-case letters, digits, - and _',
  'scaler',
);
export const ServiceTypeName = described(
  Slug,
  'Type of cloud service: lower-case letters, digits, - and _',
  'cloud_run',
);
/** A name that the cloud gives: a service instance's, a project's. */
export const Identifier = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$',
  description: 'Letters, digits, . _ -',
});
export const ServiceId = described(
  Identifier,
  'The service instance, by the name that the cloud gives it: letters, digits, . _ -',
  'checkout-api',
);
export const ProjectId = described(
  Identifier,
  'The project, by the name that the cloud gives it: letters, digits, . _ -',
  'shop-production',
);
/** One line of text, without control characters. */
export const Line = (maxLength: number, description: string) =>
  Type.String({ minLength: 1, maxLength, pattern: '^[^\\x00-\\x1f\\x7f]*$', description });
export const MailedToken = (maxLength: number) =>
  Type.String({
    minLength: 1,
    maxLength,
    description: 'From the link in the mail',
    examples: ['dGhlLXRva2VuLWluLXRoZS1tYWls'],
  });
/** What a folder that owns fields of documents is called. */
export const FolderName = Type.String({
  pattern: '^[A-Za-z0-9._:/@-]{1,100}$',
  description: 'What the folder is called, such as its repository',
  examples: ['git/acme'],
});
/** Names of such folders, with commas between them. */
export const FolderNames = Type.String({
  pattern: '^[A-Za-z0-9._:/@, -]{1,500}$',
  description: 'The owners whose fields it may change, with commas',
  examples: ['git/acme'],
});
/** A short text for people. */
export const Text = (description: string, ...examples: readonly string[]) =>
  described(Type.String({ minLength: 1, maxLength: 200 }), description, ...examples);

export const InstanceCount = Type.Integer({
  minimum: 0,
  maximum: 1_000_000,
  description: 'Number of instances',
});

/** An object whose members Strata keeps and does not interpret. */
export const FreeForm = Type.Record(Type.String(), Type.Unknown());

/** Names and texts that something is found by. */
export const Labels = (
  description: string,
  example: Readonly<Record<string, string>>,
  options: { readonly maxProperties?: number } = {},
) =>
  Type.Record(Type.String(), Type.String({ maxLength: 500 }), {
    ...options,
    description,
    examples: [example],
  });

/**
 * Who did something: the id of a person or service account, or the name of a service or operator.
 */
export const Author = Type.String({
  description:
    'Who it was: the id of a person or service account, or the name of a service or operator',
  examples: ['3f9d1c52-7a41-4f0e-9b6c-0d5e8a1b2c3d'],
});
export const Revision = Type.Integer({ description: 'Its revision', examples: [12] });

export const Nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

/**
 * For people, beside an id: who it is, as readers of the answer may know. Nodes from before this
 * release leave it out.
 */
export const ActorName = Type.Optional(
  Nullable(
    Type.String({
      description:
        'What they are called: a display name, else an address; null if that is not known here. Not a proof',
      examples: ['Ada Lovelace'],
    }),
  ),
);
