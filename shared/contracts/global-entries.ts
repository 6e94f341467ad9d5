/**
 * Global entries: the platform's configuration by key. Public ones are the layer `global` of every
 * effective configuration.
 */
import { Type, type Static } from 'typebox';

import { listing } from './envelopes.ts';
import { documentContracts, named } from './document-contracts.ts';
import {
  ActorName,
  Author,
  Optional,
  Revision,
  StrictObject,
  TitledObject,
  UpdatedAt,
} from './fields.ts';
import { ofPlatform, platformAdmins } from './platform-document.ts';

const keyPath = {
  key: Type.String({
    pattern: '^[A-Za-z0-9._-]{1,128}$',
    description: 'Name of the entry: letters, digits, . _ -',
    examples: ['http_client_timeout_seconds'],
  }),
};
const fields = {
  config_value: Type.Unknown({ description: 'Any JSON, kept exactly as sent', examples: [30] }),
  is_public: Type.Boolean({ description: 'Tenant-scoped callers may read it' }),
  requires_restart: Type.Boolean({
    description: 'A change takes effect after a restart or reload',
  }),
  data_type: Optional.Literal('json', { description: 'The only type there is' }),
};

/** An entry as it is stored. */
export const StoredGlobalEntry = StrictObject({ config_key: keyPath.key, ...fields });
export type StoredGlobalEntry = Static<typeof StoredGlobalEntry>;
/** An entry as it is read: its revision, author and time are in the body too. */
export const GlobalEntry = TitledObject('GlobalEntry', "An entry of the platform's configuration", {
  ...StoredGlobalEntry.properties,
  revision: Revision,
  updated_by: Author,
  updated_by_name: ActorName,
  updated_at: UpdatedAt,
});
export type GlobalEntry = Static<typeof GlobalEntry>;

export interface GlobalEntryAddress {
  readonly key: string;
}
export const globalEntryKey = ({ key }: GlobalEntryAddress): string => `global_${key}`;

const entry = documentContracts({
  ...ofPlatform,
  title: 'a global entry',
  url: '/config/global/{key}',
  path: keyPath,
  document: GlobalEntry,
  body: TitledObject('GlobalEntryBody', 'A global entry, as written', {
    config_value: fields.config_value,
    is_public: Type.Optional(fields.is_public),
    requires_restart: Type.Optional(fields.requires_restart),
    data_type: fields.data_type,
  }),
  key: globalEntryKey,
  visible: ({ document }, { platform }) => platform || document.is_public,
});

export const globalEntryContracts = {
  ...named('global-config.entries', entry),
  'global-config.entries.list': listing({
    summary: 'List global entries',
    rest: 'GET /config/global',
    access: platformAdmins,
    keyScope: 'platform:read',
    items: GlobalEntry,
  }),
} as const;
