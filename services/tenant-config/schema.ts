/**
 * The tables of tenant-config. Documents are kept as `json`, which keeps them as sent; `jsonb`
 * would reorder and renumber.
 */
import type { ChangeSetStep } from '../../shared/contracts/change-set-notices.ts';
import type { TenantRole } from '../../shared/contracts/roles.ts';
import type { ConfigType } from '../../shared/contracts/history.ts';
import type { NotificationConfig } from '../../shared/contracts/notification-config.ts';
import type { SignInPolicy } from '../../shared/contracts/sign-in-policy.ts';
import { countedBy } from '../../shared/commits/usage.ts';
import {
  changeSetEntity,
  changeSetTable,
  countedChangeSets,
  remindedChangeSets,
  timedChangeSets,
  waitingChangeSets,
} from '../../shared/change-sets/schema.ts';
import { migration, type Schema } from '../../shared/database/open.ts';
import {
  arrayOf,
  int4,
  int8,
  json,
  nullable,
  primary,
  text,
  textOf,
  time,
  uuid,
  tablesOf,
  type RowOf,
} from '../../shared/database/table.ts';
import { keyChangesOfHistory, keyChangesTable } from '../../shared/documents/key-changes.ts';
import { historyColumns } from '../../shared/documents/history.ts';
import type { Rights } from './rules/directory-groups.ts';
import type { Given } from './rules/given.ts';
import type { ScimProfile } from './rules/scim.ts';
import { membershipHistoryTable } from './stores/membership-history.ts';

const schema = 'tenant_config';
const { table, entities } = tablesOf(schema);

export const TenantEntity = table('tenants', {
  id: primary(uuid),
  name: text,
  status: textOf<'active' | 'disabled'>(),
  sign_in_policy: { ...textOf<SignInPolicy>(), default: 'any' },
  created_at: time,
  updated_at: time,
  notification_config: nullable(json<NotificationConfig>()),
  notification_revision: int8,
  notification_updated_by: text,
  notification_updated_at: time,
  /** When its deletion was asked for; null where it was not, or that was taken back. */
  deletion_asked_at: nullable(time),
  /** Since when it is being erased, which nothing takes back: it exists for nobody any more. */
  erasing_since: nullable(time),
  /** The services that have nothing left of it; null for none. */
  erased_by: nullable(arrayOf(text)),
  /** Since when `membership_history` tells who was in it; null: since there is one. */
  memberships_known_since: nullable(time),
});
export type TenantRow = RowOf<typeof TenantEntity>;

export const MemberEntity = table('members', {
  tenant_id: primary(uuid),
  user_id: primary(uuid),
  roles: arrayOf(textOf<TenantRole>()),
  groups: arrayOf(text),
  /** Whoever is invited has no right anywhere until they accept. */
  status: textOf<'invited' | 'active'>(),
  /** When the person was invited or, without an invitation, made a member. */
  added_at: time,
  /** By whom and when roles and groups were given; null where that was before it was kept. */
  given: nullable(json<Given>()),
  /** What people gave; null where groups of the directory add nothing to it. */
  by_hand: nullable(json<Rights>()),
});
export type MemberRow = RowOf<typeof MemberEntity>;

/** What a directory says of a person; it stays when their membership ends. */
export const ScimUserEntity = table('scim_users', {
  tenant_id: primary(uuid),
  user_id: primary(uuid),
  /** The address, as the directory writes it. */
  user_name: text,
  external_id: nullable(text),
  profile: json<ScimProfile>(),
  created_at: time,
  updated_at: time,
  /** Since when the directory has it no more; null while it has. */
  deleted_at: nullable(time),
});
export type ScimUserRow = RowOf<typeof ScimUserEntity>;

/** A group of a directory: it says who is in it, an administrator what that gives. */
export const DirectoryGroupEntity = table('directory_groups', {
  tenant_id: primary(uuid),
  id: primary(uuid),
  display_name: text,
  external_id: nullable(text),
  /** Users whom the directory has provisioned, active or not. */
  members: arrayOf(uuid),
  roles: arrayOf(textOf<TenantRole>()),
  groups: arrayOf(text),
  created_at: time,
  updated_at: time,
});
export type DirectoryGroupRow = RowOf<typeof DirectoryGroupEntity>;

export const ServiceAccountEntity = table('service_accounts', {
  tenant_id: primary(uuid),
  id: primary(uuid),
  name: text,
  description: nullable(text),
  roles: arrayOf(textOf<TenantRole>()),
  status: textOf<'active' | 'disabled'>(),
  created_by: text,
  created_at: time,
  updated_at: time,
  /** By whom and when roles were given; null where that was before it was kept. */
  given: nullable(json<Given>()),
});
export type ServiceAccountRow = RowOf<typeof ServiceAccountEntity>;

/** A table of documents. */
const documents = (name: string) =>
  table(name, {
    tenant_id: primary(uuid),
    id: primary(text),
    document: json(),
    revision: int8,
    updated_by: text,
    updated_at: time,
  });
export type DocumentRow = RowOf<ReturnType<typeof documents>>;
export const RiskEntity = documents('tenant_risk_configurations');
export const AgentEntity = documents('agent_configurations');
export const ServiceInstanceEntity = documents('service_configurations');
export const ProjectEntity = documents('cloud_projects');
export const BoundsEntity = documents('bounds');
export const BudgetsEntity = documents('budgets');
export const FreezesEntity = documents('freezes');
export const ChangePolicyEntity = documents('change_policies');
export const EventDestinationsEntity = documents('event_destinations');
export const documentEntities = [
  RiskEntity,
  AgentEntity,
  ServiceInstanceEntity,
  ProjectEntity,
  BoundsEntity,
  BudgetsEntity,
  FreezesEntity,
  ChangePolicyEntity,
  EventDestinationsEntity,
];

export const ChangeSetEntity = changeSetEntity(table);

export const ChangeSetNoticeEntity = table('change_set_notices', {
  id: primary(uuid),
  tenant_id: uuid,
  notice: json<ChangeSetStep>(),
  /** A claim moves it. */
  due_at: time,
});

export const VisitEntity = table('visits', {
  tenant_id: primary(uuid),
  id: primary(uuid),
  user_id: uuid,
  /** The session that began it, and no other looks. */
  session_id: uuid,
  reason: text,
  created_at: time,
  until: time,
  ended_at: nullable(time),
});
export type VisitRow = RowOf<typeof VisitEntity>;

export const WriteCountsEntity = table('write_figures', {
  tenant_id: primary(uuid),
  bucket: primary(time),
  all: int4,
  bad: int4,
});

export const HistoryEntity = table('configuration_history', {
  tenant_id: primary(uuid),
  ...historyColumns<ConfigType>(),
  /**
   * In whose hands the change was (stores/givers.ts); null but for a notification_config, which says
   * who decides.
   */
  principals: nullable(json<string[]>()),
});
export type HistoryRow = RowOf<typeof HistoryEntity>;

/** The table behind a `documents`. */
const documentTable = (name: string): string => `
  CREATE TABLE tenant_config.${name} (
    tenant_id uuid NOT NULL, id text NOT NULL, document json NOT NULL, revision int8 NOT NULL, updated_by text NOT NULL,
    updated_at timestamptz NOT NULL, PRIMARY KEY (tenant_id, id)
  )`;

export const tenantConfigSchema: Schema = {
  schema,
  entities,
  migrations: [
    migration(
      'TenantConfiguration1763700000001',
      `CREATE TABLE tenant_config.tenants (
      id uuid PRIMARY KEY, name text NOT NULL, status text NOT NULL, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL,
      notification_config json, notification_revision int8 NOT NULL, notification_updated_by text NOT NULL, notification_updated_at timestamptz NOT NULL
    )`,
      `CREATE TABLE tenant_config.members (
      tenant_id uuid NOT NULL, user_id uuid NOT NULL, roles text[] NOT NULL, groups text[] NOT NULL, added_at timestamptz NOT NULL,
      PRIMARY KEY (tenant_id, user_id)
    )`,
      'CREATE INDEX members_user_id ON tenant_config.members (user_id)',
      ...[
        'tenant_risk_configurations',
        'agent_configurations',
        'service_configurations',
        'cloud_projects',
      ].map(documentTable),
      `CREATE TABLE tenant_config.configuration_history (
      tenant_id uuid NOT NULL, revision int8 NOT NULL, config_type text NOT NULL, resource_id text NOT NULL, action text NOT NULL,
      changed_by text NOT NULL, changed_at timestamptz NOT NULL, reason text, request_id text, before json, after json,
      PRIMARY KEY (tenant_id, revision)
    )`,
      'CREATE INDEX history_resource ON tenant_config.configuration_history (tenant_id, config_type, resource_id, revision)',
    ),
    migration(
      'TenantConfigMembersAreInvited1763700000501',
      // Whoever is a member already stays one; the default is for these rows alone.
      `ALTER TABLE tenant_config.members ADD COLUMN status text NOT NULL DEFAULT 'active'`,
      'ALTER TABLE tenant_config.members ALTER COLUMN status DROP DEFAULT',
    ),
    migration(
      'TenantConfigServiceAccounts1763700000601',
      `CREATE TABLE tenant_config.service_accounts (
        tenant_id uuid NOT NULL, id uuid NOT NULL, name text NOT NULL, description text, roles text[] NOT NULL, status text NOT NULL,
        created_by text NOT NULL, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, PRIMARY KEY (tenant_id, id)
      )`,
    ),
    migration(
      'TenantConfigSignInPolicy1763700000602',
      // The default is for the nodes that have not been restarted with this yet.
      `ALTER TABLE tenant_config.tenants ADD COLUMN sign_in_policy text NOT NULL DEFAULT 'any'`,
    ),
    migration('TenantConfigBounds1763700000702', documentTable('bounds')),
    migration(
      'TenantConfigErasure1764400000001',
      `ALTER TABLE tenant_config.tenants
         ADD COLUMN deletion_asked_at timestamptz, ADD COLUMN erasing_since timestamptz, ADD COLUMN erased_by text[]`,
      'CREATE INDEX tenants_deletion ON tenant_config.tenants (deletion_asked_at) WHERE deletion_asked_at IS NOT NULL',
    ),
    migration(
      'TenantConfigGiven1764500000101',
      'ALTER TABLE tenant_config.members ADD COLUMN given json',
      'ALTER TABLE tenant_config.service_accounts ADD COLUMN given json',
    ),
    migration('TenantConfigKeyChanges1764900000101', ...keyChangesTable(schema, 'tenant_id')),
    migration('TenantConfigKeyChanges1764900000102', keyChangesOfHistory(schema, 'tenant_id')),
    migration(
      'TenantConfigPrincipals1765000000001',
      'ALTER TABLE tenant_config.configuration_history ADD COLUMN principals json',
    ),
    migration(
      'TenantConfigLimitsOverTime1765100000001',
      documentTable('budgets'),
      documentTable('freezes'),
    ),
    migration(
      'TenantConfigUsage1765000000003',
      ...countedBy('documents', 'tenant_config.agent_configurations'),
      ...countedBy('documents', 'tenant_config.service_configurations'),
      ...countedBy('documents', 'tenant_config.cloud_projects'),
      ...countedBy('members', 'tenant_config.members'),
      ...countedBy('service_accounts', 'tenant_config.service_accounts'),
    ),
    migration(
      'TenantConfigSearchByName1765000000002',
      // For a search by part of a name: its parts of up to three characters, of which a longer part has only such.
      `CREATE FUNCTION tenant_config.parts_of(name text, size int) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
         SELECT coalesce(array_agg(DISTINCT substr(lower(name), n, size)), '{}')
         FROM generate_series(1, length(lower(name)) - size + 1) n $$`,
      `CREATE FUNCTION tenant_config.parts_of(name text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
         SELECT tenant_config.parts_of(name, 1) || tenant_config.parts_of(name, 2) || tenant_config.parts_of(name, 3) $$`,
      'CREATE INDEX tenants_name ON tenant_config.tenants USING gin (tenant_config.parts_of(name))',
    ),
    migration('TenantConfigChangePolicies1765400000002', documentTable('change_policies')),
    migration(
      'TenantConfigChangeSets1765400000012',
      ...changeSetTable(schema),
      'ALTER TABLE tenant_config.configuration_history ADD COLUMN changeset_id uuid',
    ),
    migration(
      'TenantConfigBreakGlass1765500000022',
      'ALTER TABLE tenant_config.configuration_history ADD COLUMN break_glass boolean NOT NULL DEFAULT false',
    ),
    migration('TenantConfigMembershipHistory1765600000001', ...membershipHistoryTable),
    migration(
      'TenantConfigChangeSetNotices1765700000031',
      `CREATE TABLE tenant_config.change_set_notices (
         id uuid PRIMARY KEY, tenant_id uuid NOT NULL, notice json NOT NULL, due_at timestamptz NOT NULL
       )`,
      'CREATE INDEX change_set_notices_due ON tenant_config.change_set_notices (due_at)',
      'CREATE INDEX change_set_notices_tenant ON tenant_config.change_set_notices (tenant_id)',
      ...waitingChangeSets(schema),
      ...countedChangeSets(schema),
    ),
    migration(
      'TenantConfigWriteFigures1765700000033',
      `CREATE TABLE tenant_config.write_figures (
         tenant_id uuid NOT NULL, bucket timestamptz NOT NULL, "all" int4 NOT NULL, bad int4 NOT NULL,
         PRIMARY KEY (tenant_id, bucket)
       )`,
      'CREATE INDEX write_figures_bucket ON tenant_config.write_figures (bucket)',
    ),
    migration('TenantConfigEventDestinations1765700000041', documentTable('event_destinations')),
    migration(
      'TenantConfigScim1765800000051',
      `CREATE TABLE tenant_config.scim_users (
         tenant_id uuid NOT NULL, user_id uuid NOT NULL, user_name text NOT NULL, external_id text, profile json NOT NULL,
         created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, deleted_at timestamptz,
         PRIMARY KEY (tenant_id, user_id)
       )`,
      'CREATE UNIQUE INDEX scim_users_external_id ON tenant_config.scim_users (tenant_id, external_id)',
      'CREATE INDEX scim_users_user_id ON tenant_config.scim_users (user_id)',
    ),
    migration('TenantConfigChangeSetReminders1766200000052', ...remindedChangeSets(schema)),
    migration(
      'TenantConfigDirectoryGroups1766300000001',
      `CREATE TABLE tenant_config.directory_groups (
         tenant_id uuid NOT NULL, id uuid NOT NULL, display_name text NOT NULL, external_id text, members uuid[] NOT NULL,
         roles text[] NOT NULL, groups text[] NOT NULL, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL,
         PRIMARY KEY (tenant_id, id)
       )`,
      'CREATE UNIQUE INDEX directory_groups_external_id ON tenant_config.directory_groups (tenant_id, external_id)',
      'ALTER TABLE tenant_config.members ADD COLUMN by_hand json',
    ),
    migration(
      'TenantConfigSlack1766300000002',
      `CREATE INDEX tenants_slack ON tenant_config.tenants (id) WHERE notification_config->'slack' IS NOT NULL`,
    ),
    migration(
      'TenantConfigVisits1766500000001',
      `CREATE TABLE tenant_config.visits (
         tenant_id uuid NOT NULL, id uuid NOT NULL, user_id uuid NOT NULL, session_id uuid NOT NULL, reason text NOT NULL,
         created_at timestamptz NOT NULL, until timestamptz NOT NULL, ended_at timestamptz, PRIMARY KEY (tenant_id, id)
       )`,
      'CREATE INDEX visits_newest ON tenant_config.visits (tenant_id, created_at, id)',
      'CREATE INDEX visits_open ON tenant_config.visits (until) WHERE ended_at IS NULL',
    ),
    migration(
      'TenantConfigFewTenants1766600000001',
      // Without it the planner takes nearly all tenants for such with Slack, and reads them all instead of tenants_slack.
      `CREATE STATISTICS tenant_config.tenants_with_slack ON (notification_config->'slack') FROM tenant_config.tenants`,
      'CREATE INDEX tenants_erasing ON tenant_config.tenants (erasing_since) WHERE erasing_since IS NOT NULL',
      'ANALYZE tenant_config.tenants',
    ),
    migration(
      'TenantConfigScimNames1766800000001',
      // A directory asks for each of its people by name before it does anything.
      'CREATE INDEX scim_users_user_name ON tenant_config.scim_users (tenant_id, lower(user_name))',
    ),
    migration('TenantConfigChangeSetTimes1766900000001', ...timedChangeSets(schema)),
  ],
};
