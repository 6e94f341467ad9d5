/** What results are wrapped in: stored documents, answers of writes, pages of lists. */
import { Type, type Static, type TProperties, type TSchema } from 'typebox';
import { action, type Definition } from './contract.ts';
import { EffectiveChanges } from './effective-trial.ts';
import {
  ActorName,
  Author,
  described,
  DescribedObject,
  Nullable,
  Optional,
  Revision,
  StrictObject,
  Timestamp,
  TitledObject,
  Uuid,
} from './fields.ts';
import { plannedToo } from './impact.ts';

/**
 * A stored document with what the headers of its response need. `updated_by` is a user id, or the
 * name of a service or operator. `stale` marks one that its owner could not be asked for.
 */
export const Resource = <T extends TSchema>(document: T) =>
  StrictObject({
    document,
    revision: Revision,
    updated_by: Author,
    updated_by_name: ActorName,
    updated_at: Timestamp,
    stale: Optional.Literal(true),
  });

export const Change = TitledObject('Change', 'One difference between two documents', {
  path: Type.String({ description: 'JSON Pointer (RFC 6901) into the document' }),
  before: Optional.Unknown({ description: 'Absent if there was nothing' }),
  after: Optional.Unknown({ description: 'Absent if there is nothing any more' }),
});

const Warning = StrictObject({
  path: Type.String({ description: 'JSON Pointer (RFC 6901) into the document' }),
  message: Type.String({ description: 'Which bound it is outside of, or why it has no effect' }),
});

const warnings = Optional.Array(Warning, {
  description:
    'What was written outside of a bound that only warns, or is an approver group without members who may decide',
});

export const ProposedWrite = TitledObject(
  'ProposedWrite',
  'What a write with `propose` became, where a change_policy refuses it',
  {
    change_set: DescribedObject('The change set that waits for approval', {
      id: described(Uuid, 'Its id'),
      path: Type.String({
        description: 'Where it is read, and where others approve it',
        examples: ['/config/changesets/0f8b2c1e-6d59-4c0a-9f43-2b7d1f0a6e55'],
      }),
      digest: Type.String({ description: 'What is approved' }),
      required: Type.Integer({ description: 'Number of people who must approve it' }),
    }),
  },
);

/** An answer, or the change set that it became. It is typed as without `propose`. */
export const OrProposed = <T extends TSchema>(answer: T) =>
  Type.Unsafe<Static<T>>(Type.Union([answer, ProposedWrite]));

/**
 * What a write answers on the bus: what it did, what it would do, or the change set that it became;
 * `document` is null after a deletion.
 */
export const Written = <T extends TSchema>(document: T) =>
  Type.Union([
    StrictObject({
      outcome: Type.Union([
        Type.Literal('created'),
        Type.Literal('updated'),
        Type.Literal('deleted'),
      ]),
      document: Nullable(document),
      revision: Revision,
      updated_by: Author,
      updated_by_name: ActorName,
      updated_at: Timestamp,
      requires_restart: Optional.Literal(true),
      warnings,
    }),
    TitledObject('DryRun', 'What a write would change', {
      dry_run: Type.Literal(true, { description: 'Nothing was written' }),
      changes: Type.Array(Change, { description: 'What would change in the document' }),
      invalidates: Type.Array(Type.String(), { description: 'Cache keys that would be dropped' }),
      warnings,
      ...plannedToo,
      effective: Type.Optional(EffectiveChanges),
    }),
    ProposedWrite,
  ]);

/** How many items a page has where the caller does not say. */
export const defaultPageSize = 50;

/** The parameters of every list. */
export const page = {
  limit: Optional.Integer({
    minimum: 1,
    maximum: 200,
    default: defaultPageSize,
    description: `At most so many items. A page also ends after 2 MiB`,
  }),
  cursor: Optional.String({
    minLength: 1,
    maxLength: 500,
    description: '`next_cursor` of the previous page',
  }),
};
/** The parameters of what a stream follows: changes of a scope, and the scope's revision by now. */
export const afterRevision = {
  after: Optional.Integer({ minimum: 0, description: 'Absent: none, only the revision' }),
  limit: page.limit,
};
export const Changes = <T extends TSchema>(change: T) =>
  StrictObject({
    items: Type.Array(change),
    revision: Type.Integer({ description: "The scope's revision, at least" }),
  });
export const Page = <T extends TSchema>(item: T) =>
  StrictObject(
    {
      items: Type.Array(item, { description: 'The items of this page, in order' }),
      next_cursor: Nullable(
        Type.String({ description: '`cursor` of the next page; null on the last one' }),
      ),
    },
    {
      ...('title' in item && {
        title: `${String(item.title)}Page`,
        description: 'One page of a list',
      }),
    },
  );

type Listing<Path extends TProperties, Query extends TProperties> = Pick<
  Definition<Path, Query, undefined, TSchema>,
  'summary' | 'rest' | 'access' | 'keyScope' | 'path' | 'query'
>;
/** An action that lists items, a page at a time. */
export const listing = <
  Item extends TSchema,
  Path extends TProperties = Record<never, never>,
  Query extends TProperties = Record<never, never>,
>({
  items,
  query,
  ...definition
}: Listing<Path, Query> & { items: Item }) =>
  action({
    ...definition,
    query: { ...query, ...page } as Query & typeof page,
    result: Page(items),
    response: 'list',
  });
