/** Changes of a tenant's values that end by themselves. */
import { Type, type Static } from 'typebox';
import { internal } from './contract.ts';
import { listing } from './envelopes.ts';
import {
  ActorName,
  Author,
  CreatedAt,
  described,
  Nullable,
  Optional,
  Timestamp,
  TitledObject,
  Uuid,
} from './fields.ts';
import { configurationReaders, tenantPath } from './tenant-document.ts';

/** Of a write that can be temporary, and of a change set of such writes. */
export const temporary = {
  until: Type.Optional(
    described(
      Timestamp,
      'Expiry of the write: each field is then restored to its previous value, unless it was changed since',
    ),
  ),
};

const TemporaryField = TitledObject('TemporaryField', 'A field that becomes what it was before', {
  path: Type.String({ description: 'JSON Pointer (RFC 6901) into the document' }),
  value: Optional.Unknown({
    description: 'What it is until then; absent where the field was removed',
  }),
  becomes: Optional.Unknown({ description: 'What it becomes; absent where the field goes' }),
});
export type TemporaryField = Static<typeof TemporaryField>;

export const TemporaryChange = TitledObject('TemporaryChange', 'A change that ends by itself', {
  id: described(Uuid, 'Its id'),
  document: Type.String({ description: 'The path of the document, as its own write has it' }),
  fields: Type.Array(TemporaryField, {
    description: 'Those that end; what was changed since is none of them',
  }),
  until: described(Timestamp, 'When it expires'),
  revision: Type.Integer({ description: 'Of the write that made it' }),
  changed_by: Author,
  changed_by_name: ActorName,
  reason: Nullable(Type.String({ description: 'Why, in the words of who wrote it' })),
  note: Nullable(
    Type.String({ description: 'Why it could not end at its time; it is tried again each minute' }),
  ),
  created_at: CreatedAt,
});
export type TemporaryChange = Static<typeof TemporaryChange>;

export const temporaryChangeContracts = {
  'tenant-config.temporary-changes.list': listing({
    summary: 'List temporary changes, the next to end first',
    rest: 'GET /tenants/{tenant_id}/config/temporary-changes',
    access: { level: 'tenant', roles: configurationReaders },
    keyScope: 'config:read',
    path: tenantPath,
    query: {
      document: Optional.String({
        minLength: 1,
        maxLength: 500,
        description: 'Only of this document, by its path',
      }),
    },
    items: TemporaryChange,
  }),
  'tenant-config.temporary-changes.end': internal({
    summary: 'End a temporary change whose time has come',
    path: { ...tenantPath, temporary_change_id: described(Uuid, "The temporary change's id") },
  }),
} as const;
