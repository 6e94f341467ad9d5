/** Which fields of documents a folder owns, for whoever edits them by hand. */
import { Type, type Static } from 'typebox';
import { listing } from './envelopes.ts';
import { ActorName, Author, described, FolderName, Timestamp, TitledObject } from './fields.ts';
import { platformAdmins } from './platform-document.ts';
import { configurationReaders, tenantPath } from './tenant-document.ts';

export const ManagedField = TitledObject('ManagedField', 'A field that a folder owns', {
  path: Type.String({
    description: 'JSON Pointer (RFC 6901) into the document; empty for all of it',
  }),
  owner: described(FolderName, 'The folder that sets it'),
  taken_by: Type.Optional(described(Author, 'Who took it over by hand; absent if no one did')),
  taken_by_name: Type.Optional(ActorName),
  taken_at: Type.Optional(described(Timestamp, 'When it was taken over')),
});
export type ManagedField = Static<typeof ManagedField>;

const ManagedDocument = TitledObject(
  'ManagedDocument',
  'A document of which a folder owns fields',
  {
    path: Type.String({
      description: 'The path of the document, as its own write has it',
      examples: ['/config/global/http_client_timeout_seconds'],
    }),
    fields: Type.Array(ManagedField, { description: 'Those that have an owner' }),
  },
);
export type ManagedDocument = Static<typeof ManagedDocument>;

const listed = {
  document: Type.Optional(
    Type.String({ minLength: 1, maxLength: 500, description: 'Only this document, by its path' }),
  ),
};
const summary = 'List the fields that folders own, by document';

export const managedFieldContracts = {
  'tenant-config.managed-fields.list': listing({
    summary,
    rest: 'GET /tenants/{tenant_id}/config/managed-fields',
    access: { level: 'tenant', roles: configurationReaders },
    keyScope: 'config:read',
    path: tenantPath,
    query: listed,
    items: ManagedDocument,
  }),
  'global-config.managed-fields.list': listing({
    summary: `${summary}, of the platform`,
    rest: 'GET /config/managed-fields',
    access: platformAdmins,
    keyScope: 'platform:read',
    query: listed,
    items: ManagedDocument,
  }),
} as const;
