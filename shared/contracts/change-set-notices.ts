/** What webhooks and chat are sent of a tenant's change sets, and how the notifier gets it. */
import { Type, type Static } from 'typebox';
import { ApplyWhen, changeSetStates } from './change-sets.ts';
import { internal } from './contract.ts';
import {
  Author,
  described,
  DescribedObject,
  Nullable,
  StrictObject,
  TenantId,
  Timestamp,
  TitledObject,
  Uuid,
} from './fields.ts';
import { changeSetNoticeTypes, noticed } from './notifier.ts';

const people = (description: string) => Type.Array(Author, { description });

/** What a webhook receives of a change set. */
export const ChangeSetNotice = TitledObject('ChangeSetNotice', 'A step of a change set', {
  type: Type.Enum(changeSetNoticeTypes, { description: 'What has happened' }),
  ...noticed,
  data: DescribedObject('The change set as it was then, without what it writes', {
    tenant_id: TenantId,
    changeset_id: described(Uuid, 'Its id'),
    state: Type.Enum(changeSetStates, { description: 'What it is by that' }),
    by: described(Author, 'Who did it; a service where its time had come'),
    title: Type.String({
      description: 'Summary, in one line',
      examples: ['Longer time-outs'],
    }),
    reason: Type.String({ description: 'Why', examples: ['Slow networks'] }),
    paths: Type.Array(Type.String(), {
      description: 'Of the documents that it writes',
      examples: [['/tenants/3f9d1c52-7a41-4f0e-9b6c-0d5e8a1b2c3d/config/agents/scaler']],
    }),
    apply: ApplyWhen,
    digest: Type.String({ description: 'What is approved' }),
    required: Type.Integer({ description: 'Number of people who must approve it' }),
    groups: Type.Array(Type.String(), { description: 'Whose members approve; empty for all' }),
    authors: people('Who wrote and edited it'),
    approved_by: people('Who has approved it'),
    note: Nullable(Type.String({ description: 'Why it is stale, suspended, rejected or failed' })),
    emergency: Nullable(
      Type.String({ description: 'Why it was applied without approvals; null otherwise' }),
    ),
  }),
});
export type ChangeSetNotice = Static<typeof ChangeSetNotice>;

/** A step as tenant-config hands it over; its `id` is that of the step. */
export const ChangeSetStep = StrictObject({
  id: Uuid,
  type: ChangeSetNotice.properties.type,
  timestamp: Timestamp,
  data: ChangeSetNotice.properties.data,
});
export type ChangeSetStep = Static<typeof ChangeSetStep>;

export const changeSetNoticeContracts = {
  'notifier.change-sets.notify': internal({
    summary: 'Queue the notices of steps of change sets, each step once',
    path: { tenant_id: TenantId },
    body: Type.Array(ChangeSetStep),
    result: StrictObject({ queued: Type.Integer() }),
  }),
} as const;
