/**
 * Change sets: writes of configuration that are proposed, approved by others than their authors, and
 * then made together, all or none. Of a tenant's documents, and of the platform's.
 */
import { Type, type Static, type TProperties } from 'typebox';
import { action, claims, internal, stream, type Access } from './contract.ts';
import { type KeyScope } from './roles.ts';
import { afterRevision, Changes, listing } from './envelopes.ts';
import { named } from './document-contracts.ts';
import {
  ActorName,
  Author,
  CreatedAt,
  described,
  DescribedObject,
  Line,
  Nullable,
  Optional,
  strict,
  StrictObject,
  Timestamp,
  TitledObject,
  UpdatedAt,
  Uuid,
} from './fields.ts';
import { DecisionsImpact } from './impact.ts';
import { PlanItem, PlannedChange } from './plan.ts';
import { platformAdmins } from './platform-document.ts';
import { temporary } from './temporary-changes.ts';
import { configurationReaders, operators, tenantAdmins, tenantPath } from './tenant-document.ts';

export const changeSetStates = [
  'draft',
  'pending',
  'approved',
  'scheduled',
  'applied',
  'rejected',
  'stale',
  'cancelled',
  'suspended',
  'failed',
] as const;
export type ChangeSetState = (typeof changeSetStates)[number];
const State = Type.Enum(changeSetStates, {
  title: 'ChangeSetState',
  description:
    '`stale`: a document was written since; `suspended`: it could not be applied for the reason in `note`, and may be tried again',
});

export const ApplyWhen = Type.Union(
  [
    Type.Literal('on_approval'),
    Type.Literal('manual'),
    TitledObject('ApplyAt', 'At a time', { at: described(Timestamp, 'Not before') }),
  ],
  {
    description:
      'When it is applied: with the last approval, on request, or at a time; `on_approval` by default',
  },
);
export type ApplyWhen = Static<typeof ApplyWhen>;

interface ItemExample {
  readonly path: string;
  readonly body: unknown;
}
/** One write, of a document whose example is shown. */
const itemOf = (title: string, example: ItemExample) =>
  TitledObject(title, 'One write of a change set', {
    ...PlanItem.properties,
    path: Type.String({
      minLength: 1,
      maxLength: 500,
      description: 'The path of a document, as its own write has it',
      examples: [example.path],
    }),
    body: Optional.Unknown({
      description: 'As the write takes it; none for a delete',
      examples: [example.body],
    }),
  });
type Item = ReturnType<typeof itemOf>;
export type ChangeSetItem = Static<Item>;

const title = Line(200, 'Summary, in one line');
const reason = Type.String({
  minLength: 1,
  maxLength: 500,
  description: 'Reason, kept in the history',
});
const itemsOf = (item: Item) =>
  Type.Array(item, {
    minItems: 1,
    maxItems: 100,
    description: 'The writes, in order; each document once',
  });
const digest = Type.String({
  pattern: '^[0-9a-f]{64}$',
  description: 'Digest of what would be written, on which base, why and when; an edit changes it',
  examples: ['9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'],
});

const Person = StrictObject({
  type: Type.String({ description: 'What kind of caller it was' }),
  id: Author,
  name: ActorName,
});

export const ChangeSet = TitledObject('ChangeSet', 'Writes that are made together once approved', {
  id: described(Uuid, 'Its id'),
  state: State,
  title,
  reason,
  apply: ApplyWhen,
  digest,
  ...claims,
  ...temporary,
  items: Type.Array(
    StrictObject({
      action: PlanItem.properties.action,
      path: Type.String({ description: 'The path of the document' }),
      body: Optional.Unknown({
        description:
          'As it was sent; none for a delete, in lists, and where its documents hold secrets',
      }),
      base: Nullable(
        Type.Integer({ description: 'Its revision when it was proposed; null for none' }),
      ),
    }),
    { description: 'The writes, in order' },
  ),
  changes: Type.Array(PlannedChange, { description: 'What it changes in the documents' }),
  moved: Optional.Array(PlannedChange, {
    description: 'What others had changed in the documents before it was rebased',
  }),
  authors: Type.Array(Person, {
    description: 'Authors and editors; neither they nor the creators of their keys may approve it',
  }),
  required: Type.Integer({ description: 'Number of people who must approve it' }),
  groups: Type.Array(Type.String({ description: 'Approver group' }), {
    description: 'Whose members approve; empty for everybody who decides approvals',
  }),
  approved_by: Type.Array(
    StrictObject({
      ...Person.properties,
      at: described(Timestamp, 'When'),
      comment: Nullable(Type.String({ description: 'What they said' })),
    }),
    { description: 'Approvals of exactly this digest' },
  ),
  break_glass: Type.Optional(
    DescribedObject('Where it was applied without the approvals it needed', {
      by: Author,
      at: described(Timestamp, 'When'),
      reason: Type.String({ description: 'Reason why it could not wait' }),
      reviewed_by: Nullable(Author),
    }),
  ),
  note: Nullable(
    Type.String({ description: 'Why it is stale, suspended, rejected or failed; null otherwise' }),
  ),
  ended_by: Nullable(Author),
  revisions: Optional.Array(Type.Integer(), { description: 'Of the items, once it is applied' }),
  impact: Type.Optional(
    DescribedObject(
      'With `impact`; without `decisions` where none is kept, and while the notifier is away',
      { decisions: Type.Optional(DecisionsImpact) },
    ),
  ),
  created_at: CreatedAt,
  updated_at: UpdatedAt,
});
export type ChangeSet = Static<typeof ChangeSet>;

/** What a stream says of a change set: that it changed, and what it is by now. */
const ChangeSetChange = TitledObject('ChangeSetChange', 'That a change set changed', {
  revision: Type.Integer({ description: 'Of the change sets' }),
  changeset_id: described(Uuid, 'Its id'),
  state: State,
});

const Comment = Optional.String({ maxLength: 500, description: 'For the others' });
const id = { changeset_id: described(Uuid, "The change set's id") };

interface Definition<Path extends TProperties, Own extends TProperties = TProperties> {
  readonly prefix: '' | '/tenants/{tenant_id}';
  readonly path: Path;
  /** What it has beside what all have. */
  readonly own: Own;
  /** What the titles of its schemas begin with. */
  readonly titled: '' | 'Platform';
  readonly example: ItemExample;
  readonly access: Extract<Access, { readonly level: 'tenant' | 'platform_admin' }>;
  /** Who reads and decides them. */
  readonly deciders: Extract<Access, { readonly level: 'tenant' | 'platform_admin' }>;
  /** Who applies without approvals. */
  readonly breakers: Access;
  readonly readScope: KeyScope;
  readonly writeScope: KeyScope;
}

/** Applying without approvals, and looking at that afterwards. By people alone. */
function emergencies<Path extends TProperties>({
  prefix,
  path,
  deciders: access,
  breakers,
}: Definition<Path>) {
  const url = `${prefix}/config/changesets` as const;
  const one = { ...path, ...id };
  const deciding = {
    access,
    leadsTo: 'configuration',
    keyScope: null,
    path: one,
    result: ChangeSet,
  } as const;
  return {
    'break-glass': action({
      ...deciding,
      access: breakers,
      leadsTo: 'approvers',
      summary:
        'Apply a change set without approvals, in an emergency: administrators are notified, and somebody else reviews it',
      rest: `POST ${url}/{changeset_id}/break-glass`,
      body: TitledObject('BreakGlass', 'Why it cannot wait', {
        reason: Type.String({
          minLength: 20,
          maxLength: 500,
          description: 'Reason why it cannot wait, kept with it and in the audit',
          examples: ['Payments are down since 03:10, and no one else is awake'],
        }),
      }),
    }),
    review: action({
      ...deciding,
      summary: 'Confirm the review of an emergency, by somebody who could have approved it',
      rest: `POST ${url}/{changeset_id}/review`,
    }),
  };
}

/** Reading them. */
function reading<Path extends TProperties>({
  prefix,
  path,
  deciders: access,
  readScope,
}: Definition<Path>) {
  const url = `${prefix}/config/changesets` as const;
  const one = { ...path, ...id };
  return {
    list: listing({
      summary: 'List change sets, newest first',
      rest: `GET ${url}`,
      access,
      keyScope: readScope,
      path,
      query: { state: Type.Optional(State) },
      items: ChangeSet,
    }),
    get: action({
      summary: 'Read a change set',
      rest: `GET ${url}/{changeset_id}`,
      access,
      keyScope: readScope,
      path: one,
      query: {
        impact: Optional.Boolean({
          description: 'Also what decisions of the last days would have been',
        }),
      },
      result: ChangeSet,
    }),
    changes: action({
      summary: 'Change sets that changed after a revision, by the revision of their last change',
      // Gateways read them for all of their streams.
      access: { ...access, services: true },
      keyScope: readScope,
      path,
      query: afterRevision,
      result: Changes(ChangeSetChange),
      changesNothing: true,
    }),
  };
}

/**
 * One set of contracts for a tenant's change sets, one for the platform's; apart by what comes before
 * and after their stream in the API's documentation.
 */
function changeSetContracts<Path extends TProperties, Own extends TProperties>(
  definition: Definition<Path, Own>,
) {
  const { prefix, path, titled, example, access, deciders, writeScope } = definition;
  const items = itemsOf(itemOf(`${titled}ChangeSetItem`, example));
  const url = `${prefix}/config/changesets` as const;
  const one = { ...path, ...id };
  const writing = {
    access,
    leadsTo: 'operations',
    keyScope: writeScope,
    // Each of its writes is checked as a write of its own.
    narrow: 'row',
    path: one,
    result: ChangeSet,
  } as const;
  /** No API key approves: an approval is a person's. */
  const deciding = {
    access: deciders,
    leadsTo: 'configuration',
    keyScope: null,
    path: one,
    result: ChangeSet,
  } as const;
  return {
    begun: {
      create: action({
        ...writing,
        summary: 'Open a change set: validated as its writes would be, and not written',
        rest: `POST ${url}`,
        path,
        query: {
          submit: Optional.Boolean({
            description: 'Ask for its approval immediately: it is no draft first',
          }),
        },
        body: TitledObject(`${titled}NewChangeSet`, 'A change set, as it is proposed', {
          title,
          reason,
          items,
          apply: Type.Optional(ApplyWhen),
          ...claims,
          ...definition.own,
        }),
        response: 'created',
      }),
      ...reading(definition),
    },
    watch: stream({
      summary: 'Watch change sets',
      rest: `GET ${url}/watch`,
      access: deciders,
      keyScope: definition.readScope,
      path,
      result: ChangeSetChange,
    }),
    steps: {
      edit: action({
        ...writing,
        summary: 'Edit a change set: it is a draft again, and its approvals are void',
        rest: `PATCH ${url}/{changeset_id}`,
        body: Type.Partial(
          Type.Object({ title, reason, items, apply: ApplyWhen, ...claims, ...definition.own }),
          {
            ...strict,
            title: `${titled}ChangeSetEdit`,
            description: 'What of it becomes something else',
          },
        ),
      }),
      submit: action({
        ...writing,
        summary: 'Ask for the approval of a draft',
        rest: `POST ${url}/{changeset_id}/submit`,
      }),
      approve: action({
        ...deciding,
        summary: 'Approve a change set, by its digest',
        rest: `POST ${url}/{changeset_id}/approve`,
        body: TitledObject('ChangeSetApproval', 'What is approved', { digest, comment: Comment }),
      }),
      reject: action({
        ...deciding,
        summary: 'Reject a change set, which ends it',
        rest: `POST ${url}/{changeset_id}/reject`,
        body: TitledObject('ChangeSetRejection', 'Why it is rejected', { comment: Comment }),
      }),
      cancel: action({
        ...writing,
        summary: 'Take back a change set that was not applied',
        rest: `POST ${url}/{changeset_id}/cancel`,
      }),
      apply: action({
        ...writing,
        leadsTo: 'configuration',
        summary: 'Apply an approved change set: all of its writes, or none',
        rest: `POST ${url}/{changeset_id}/apply`,
      }),
      rebase: action({
        ...writing,
        summary:
          'Rebase a change set onto the current documents; it becomes a draft again, without approvals',
        rest: `POST ${url}/{changeset_id}/rebase`,
      }),
      run: internal({
        summary: 'Apply a scheduled change set whose time has come',
        path: one,
        result: ChangeSet,
      }),
      ...emergencies(definition),
    },
  };
}

const tenant = changeSetContracts({
  prefix: '/tenants/{tenant_id}',
  path: tenantPath,
  own: temporary,
  titled: '',
  example: {
    path: '/tenants/3f0f1c9e-9a1b-4c39-9d55-3a1f0a0a7f10/config/agents/scaler',
    body: { default_region: 'europe-west1' },
  },
  access: { level: 'tenant', roles: operators },
  deciders: { level: 'tenant', roles: configurationReaders },
  breakers: tenantAdmins,
  readScope: 'config:read',
  writeScope: 'config:write',
});
const platform = changeSetContracts({
  prefix: '',
  path: {},
  own: {},
  titled: 'Platform',
  example: {
    path: '/config/global/http_client_timeout_seconds',
    body: { config_value: 20, is_public: true },
  },
  access: platformAdmins,
  deciders: platformAdmins,
  breakers: platformAdmins,
  readScope: 'platform:read',
  writeScope: 'platform:write',
});

export const changeSetActions = {
  ...named('tenant-config.changesets', tenant.begun),
  'gateway.watch.changesets': tenant.watch,
  ...named('tenant-config.changesets', tenant.steps),
  ...named('global-config.changesets', platform.begun),
  'gateway.watch.platform-changesets': platform.watch,
  ...named('global-config.changesets', platform.steps),
} as const;
