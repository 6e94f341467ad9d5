/**
 * Tables of sign-in: their rows, their entities, and the migrations that make them. A test compares
 * the last two.
 */
import { EntitySchema, type EntitySchemaColumnOptions } from 'typeorm';
import type { KeyScope, TenantRole } from '../../shared/contracts/roles.ts';
import type { TrustRule, WorkloadIssuer } from '../../shared/contracts/auth-workload.ts';
import type { NarrowedTo } from '../../shared/contracts/narrow-keys.ts';
import type { SignInMethod } from '../../shared/contracts/sign-in-policy.ts';
import { countedBy } from '../../shared/commits/usage.ts';
import { migration, type Schema } from '../../shared/database/open.ts';
import { statusHistoryTable } from './accounts/stores/status-history.ts';

export interface UserRow {
  id: string;
  /** As `addressOf` gives it. */
  email: string;
  /** The person has proved that the address is theirs. */
  email_verified: boolean;
  display_name: string | null;
  /** argon2id in PHC string form; null where the person signs in without a password. */
  password_hash: string | null;
  status: 'active' | 'disabled';
  created_at: Date;
  /** Since when it is being erased: all that is left is the id, for whoever finishes that. */
  erasing_since: Date | null;
}

export interface SessionRow {
  id: string;
  user_id: string;
  /** What the session is for; null for a platform administrator without a tenant. */
  tenant_id: string | null;
  created_at: Date;
  /**
   * When its person last proved who they are: some actions want that recent. Through a provider it
   * is what the provider says (`auth_time`), or long ago where it says nothing.
   */
  authenticated_at: Date;
  method: SignInMethod;
  /** Through which provider; null for other methods. */
  provider_id: string | null;
  /**
   * The tenant that it is good for and no other, because it goes back to that tenant's provider,
   * which may say of anybody that they signed in; null for one that is good for all.
   */
  confined_to: string | null;
  last_used_at: Date;
  expires_at: Date;
  revoked_at: Date | null;
  user_agent: string | null;
  ip: string | null;
}

/**
 * Where a person was last, of sessions that are removed already: stores/retention.ts writes it, a
 * sign-in lands there.
 */
export interface LastUsedTenantRow {
  user_id: string;
  tenant_id: string;
  last_used_at: Date;
}

export interface PasskeyRow {
  id: string;
  user_id: string;
  /** base64url, as the browser gives it. */
  credential_id: string;
  /** COSE_Key (RFC 9052, 7). */
  public_key: Buffer;
  /** The signature counter of its last use. */
  counter: number;
  name: string | null;
  /** The model of the authenticator. */
  aaguid: string;
  transports: string[];
  /** May be synchronized between devices; fixed when it is made. */
  backup_eligible: boolean;
  backed_up: boolean;
  /** As of the session that registered it: it signs in to no more than that session could. */
  confined_to: string | null;
  created_at: Date;
  last_used_at: Date | null;
}

export interface RefreshRow {
  /** SHA-256 of the token, as hex: the token itself is not stored. */
  hash: string;
  session_id: string;
  created_at: Date;
  used_at: Date | null;
  /** Hash of the token that it was exchanged for. */
  successor: string | null;
}

/**
 * What a person was asked: to join a tenant. There is one for each membership that is not accepted
 * yet.
 */
export interface InvitationRow {
  id: string;
  tenant_id: string;
  user_id: string;
  /** As it was when the mail was sent. */
  tenant_name: string;
  /** SHA-256 of the mailed token, as hex: the token itself is not stored. */
  token_hash: string;
  /** Whoever sent it: a user id, or the name of a service or operator. */
  invited_by: string;
  created_at: Date;
  expires_at: Date;
  /** When the mailed link was used. */
  used_at: Date | null;
}

export interface SsoProviderRow {
  id: string;
  name: string;
  issuer: string;
  client_id: string;
  /** Sealed. */
  client_secret: string;
  /** The tenant whose people it signs in; null for the platform's own. */
  tenant_id: string | null;
  domains: { domain: string; verified: boolean }[];
  /** Whether it may make accounts at their first sign-in, and with which roles in the tenant. */
  jit_enabled: boolean;
  default_roles: TenantRole[];
  redirect_uris: string[];
  enabled: boolean;
  created_at: Date;
  updated_at: Date;
}

/** Who somebody is at an issuer. */
export interface SsoIdentityRow {
  issuer: string;
  subject: string;
  user_id: string;
  created_at: Date;
}

export interface ApiKeyRow {
  id: string;
  /** The person whose it is; null where it is a service account's. */
  user_id: string | null;
  service_account_id: string | null;
  tenant_id: string | null;
  /** User id; null for keys from before it was kept. */
  made_by: string | null;
  /** As of the session that made it: a confined key has no right on the platform. */
  confined_to: string | null;
  /** How the session that gave it its secret was signed in; null for keys from before it was kept. */
  made_with: SignInMethod | null;
  name: string;
  scopes: KeyScope[];
  /** Null: it is for all that its scopes open. */
  narrowed_to: NarrowedTo | null;
  /** HMAC-SHA-256 of the secret, as hex. */
  hash: string;
  created_at: Date;
  expires_at: Date;
  /** Lifetime that was asked for; a rotation begins it again. */
  days: number;
  last_used_at: Date | null;
}

/** Whose tokens stand for a service account. */
export interface WorkloadTrustRow {
  tenant_id: string;
  account_id: string;
  revision: number;
  rules: TrustRule[];
}

/** The issuers that rules may name, in one row. */
export interface WorkloadIssuersRow {
  id: number;
  revision: number;
  issuers: WorkloadIssuer[];
}

const text: EntitySchemaColumnOptions = { type: 'text' };
const nullableText: EntitySchemaColumnOptions = { type: 'text', nullable: true };
const time: EntitySchemaColumnOptions = { type: 'timestamptz' };
const nullableTime: EntitySchemaColumnOptions = { type: 'timestamptz', nullable: true };

export const UserEntity = new EntitySchema<UserRow>({
  name: 'User',
  tableName: 'users',
  schema: 'auth',
  columns: {
    id: { type: 'uuid', primary: true },
    email: { type: 'text', unique: true },
    email_verified: { type: 'boolean' },
    display_name: nullableText,
    password_hash: nullableText,
    status: text,
    created_at: time,
    erasing_since: nullableTime,
  },
  indices: [
    {
      name: 'users_erasing',
      columns: ['erasing_since'],
      where: 'erasing_since IS NOT NULL',
    },
  ],
});

export const SessionEntity = new EntitySchema<SessionRow>({
  name: 'Session',
  tableName: 'sessions',
  schema: 'auth',
  columns: {
    id: { type: 'uuid', primary: true },
    user_id: { type: 'uuid' },
    tenant_id: { type: 'uuid', nullable: true },
    created_at: time,
    authenticated_at: time,
    method: { type: 'text', default: 'password' },
    provider_id: { type: 'uuid', nullable: true },
    confined_to: { type: 'uuid', nullable: true },
    last_used_at: time,
    expires_at: time,
    revoked_at: nullableTime,
    user_agent: nullableText,
    ip: nullableText,
  },
  indices: [{ name: 'sessions_last_used', columns: ['user_id', 'last_used_at'] }],
});

export const LastUsedTenantEntity = new EntitySchema<LastUsedTenantRow>({
  name: 'LastUsedTenant',
  tableName: 'last_used_tenants',
  schema: 'auth',
  columns: {
    user_id: { type: 'uuid', primary: true },
    tenant_id: { type: 'uuid', primary: true },
    last_used_at: time,
  },
});

export const RefreshEntity = new EntitySchema<RefreshRow>({
  name: 'RefreshToken',
  tableName: 'refresh_tokens',
  schema: 'auth',
  columns: {
    hash: { type: 'text', primary: true },
    session_id: { type: 'uuid' },
    created_at: time,
    used_at: nullableTime,
    successor: nullableText,
  },
  indices: [{ name: 'refresh_tokens_session_id', columns: ['session_id'] }],
});

export const PasskeyEntity = new EntitySchema<PasskeyRow>({
  name: 'Passkey',
  tableName: 'passkeys',
  schema: 'auth',
  columns: {
    id: { type: 'uuid', primary: true },
    user_id: { type: 'uuid' },
    credential_id: { type: 'text', unique: true },
    public_key: { type: 'bytea' },
    counter: { type: 'bigint' },
    name: nullableText,
    aaguid: { type: 'uuid' },
    transports: { type: 'text', array: true },
    backup_eligible: { type: 'boolean' },
    backed_up: { type: 'boolean' },
    confined_to: { type: 'uuid', nullable: true },
    created_at: time,
    last_used_at: nullableTime,
  },
  indices: [{ name: 'passkeys_user_id', columns: ['user_id'] }],
});

export const InvitationEntity = new EntitySchema<InvitationRow>({
  name: 'Invitation',
  tableName: 'invitations',
  schema: 'auth',
  columns: {
    id: { type: 'uuid', primary: true },
    tenant_id: { type: 'uuid' },
    user_id: { type: 'uuid' },
    tenant_name: text,
    token_hash: text,
    invited_by: text,
    created_at: time,
    expires_at: time,
    used_at: nullableTime,
  },
  indices: [
    { name: 'invitations_member', columns: ['user_id', 'tenant_id'], unique: true },
    { name: 'invitations_token_hash', columns: ['token_hash'], unique: true },
    { name: 'invitations_expiry', columns: ['expires_at'] },
  ],
});

export const SsoProviderEntity = new EntitySchema<SsoProviderRow>({
  name: 'SsoProvider',
  tableName: 'sso_providers',
  schema: 'auth',
  columns: {
    id: { type: 'uuid', primary: true },
    name: text,
    issuer: text,
    client_id: text,
    client_secret: text,
    tenant_id: { type: 'uuid', nullable: true },
    domains: { type: 'jsonb' },
    jit_enabled: { type: 'boolean' },
    default_roles: { type: 'text', array: true },
    redirect_uris: { type: 'text', array: true },
    enabled: { type: 'boolean' },
    created_at: time,
    updated_at: time,
  },
});

export const SsoIdentityEntity = new EntitySchema<SsoIdentityRow>({
  name: 'SsoIdentity',
  tableName: 'sso_identities',
  schema: 'auth',
  columns: {
    issuer: { type: 'text', primary: true },
    subject: { type: 'text', primary: true },
    user_id: { type: 'uuid' },
    created_at: time,
  },
  indices: [{ name: 'sso_identities_user_id', columns: ['user_id'] }],
});

export const ApiKeyEntity = new EntitySchema<ApiKeyRow>({
  name: 'ApiKey',
  tableName: 'api_keys',
  schema: 'auth',
  columns: {
    id: { type: 'uuid', primary: true },
    user_id: { type: 'uuid', nullable: true },
    service_account_id: { type: 'uuid', nullable: true },
    tenant_id: { type: 'uuid', nullable: true },
    made_by: nullableText,
    confined_to: { type: 'uuid', nullable: true },
    made_with: nullableText,
    name: text,
    scopes: { type: 'text', array: true },
    narrowed_to: { type: 'jsonb', nullable: true },
    hash: text,
    created_at: time,
    expires_at: time,
    days: { type: 'int4' },
    last_used_at: nullableTime,
  },
  indices: [
    { name: 'api_keys_user_id', columns: ['user_id'] },
    { name: 'api_keys_service_account_id', columns: ['service_account_id'] },
    { name: 'api_keys_tenant_id', columns: ['tenant_id', 'id'] },
  ],
  checks: [
    { name: 'api_keys_one_owner', expression: 'num_nonnulls(user_id, service_account_id) = 1' },
  ],
});

export const WorkloadTrustEntity = new EntitySchema<WorkloadTrustRow>({
  name: 'WorkloadTrust',
  tableName: 'workload_trust',
  schema: 'auth',
  columns: {
    account_id: { type: 'uuid', primary: true },
    tenant_id: { type: 'uuid' },
    revision: { type: 'bigint' },
    rules: { type: 'jsonb' },
  },
  indices: [{ name: 'workload_trust_tenant_id', columns: ['tenant_id'] }],
});

export const WorkloadIssuersEntity = new EntitySchema<WorkloadIssuersRow>({
  name: 'WorkloadIssuers',
  tableName: 'workload_issuers',
  schema: 'auth',
  columns: {
    id: { type: 'int4', primary: true },
    revision: { type: 'bigint' },
    issuers: { type: 'jsonb' },
  },
});

export const authSchema: Schema = {
  schema: 'auth',
  entities: [
    UserEntity,
    SessionEntity,
    LastUsedTenantEntity,
    RefreshEntity,
    PasskeyEntity,
    SsoProviderEntity,
    SsoIdentityEntity,
    ApiKeyEntity,
    InvitationEntity,
    WorkloadTrustEntity,
    WorkloadIssuersEntity,
  ],
  migrations: [
    migration(
      'Auth1763700000004',
      `CREATE TABLE auth.users (
        id uuid PRIMARY KEY,
        email text NOT NULL UNIQUE,
        email_verified boolean NOT NULL,
        display_name text,
        password_hash text,
        status text NOT NULL,
        created_at timestamptz NOT NULL
      )`,
      `CREATE TABLE auth.sessions (
        id uuid PRIMARY KEY,
        user_id uuid NOT NULL,
        tenant_id uuid,
        created_at timestamptz NOT NULL,
        authenticated_at timestamptz NOT NULL,
        last_used_at timestamptz NOT NULL,
        expires_at timestamptz NOT NULL,
        revoked_at timestamptz,
        user_agent text,
        ip text
      )`,
      'CREATE INDEX sessions_user_id ON auth.sessions (user_id)',
      `CREATE TABLE auth.refresh_tokens (
        hash text PRIMARY KEY,
        session_id uuid NOT NULL,
        created_at timestamptz NOT NULL,
        used_at timestamptz,
        successor text
      )`,
      'CREATE INDEX refresh_tokens_session_id ON auth.refresh_tokens (session_id)',
    ),
    migration(
      'AuthSso1763700000301',
      `CREATE TABLE auth.sso_providers (
        id uuid PRIMARY KEY,
        name text NOT NULL,
        issuer text NOT NULL,
        client_id text NOT NULL,
        client_secret text NOT NULL,
        tenant_id uuid,
        domains jsonb NOT NULL,
        jit_enabled boolean NOT NULL,
        default_roles text[] NOT NULL,
        redirect_uris text[] NOT NULL,
        enabled boolean NOT NULL,
        created_at timestamptz NOT NULL,
        updated_at timestamptz NOT NULL
      )`,
      `CREATE TABLE auth.sso_identities (
        issuer text NOT NULL,
        subject text NOT NULL,
        user_id uuid NOT NULL,
        created_at timestamptz NOT NULL,
        PRIMARY KEY (issuer, subject)
      )`,
      'CREATE INDEX sso_identities_user_id ON auth.sso_identities (user_id)',
    ),
    migration(
      'AuthPasskeys1763700000020',
      `CREATE TABLE auth.passkeys (
        id uuid PRIMARY KEY,
        user_id uuid NOT NULL,
        credential_id text NOT NULL UNIQUE,
        public_key bytea NOT NULL,
        counter bigint NOT NULL,
        name text,
        aaguid uuid NOT NULL,
        transports text[] NOT NULL,
        backup_eligible boolean NOT NULL,
        backed_up boolean NOT NULL,
        created_at timestamptz NOT NULL,
        last_used_at timestamptz
      )`,
      'CREATE INDEX passkeys_user_id ON auth.passkeys (user_id)',
    ),
    migration(
      'AuthApiKeys1763700000401',
      `CREATE TABLE auth.api_keys (
        id uuid PRIMARY KEY,
        user_id uuid NOT NULL,
        tenant_id uuid,
        name text NOT NULL,
        scopes text[] NOT NULL,
        hash text NOT NULL,
        created_at timestamptz NOT NULL,
        expires_at timestamptz NOT NULL,
        days int4 NOT NULL,
        last_used_at timestamptz
      )`,
      'CREATE INDEX api_keys_user_id ON auth.api_keys (user_id)',
    ),
    migration(
      'AuthSessionsByLastUse1763700000501',
      'CREATE INDEX sessions_last_used ON auth.sessions (user_id, last_used_at)',
      'DROP INDEX auth.sessions_user_id',
    ),
    migration(
      'AuthInvitations1763700000502',
      `CREATE TABLE auth.invitations (
        id uuid PRIMARY KEY,
        tenant_id uuid NOT NULL,
        user_id uuid NOT NULL,
        tenant_name text NOT NULL,
        token_hash text NOT NULL,
        invited_by text NOT NULL,
        created_at timestamptz NOT NULL,
        expires_at timestamptz NOT NULL,
        used_at timestamptz
      )`,
      'CREATE UNIQUE INDEX invitations_member ON auth.invitations (user_id, tenant_id)',
      'CREATE UNIQUE INDEX invitations_token_hash ON auth.invitations (token_hash)',
    ),
    migration(
      'AuthServiceAccountKeys1763700000602',
      'ALTER TABLE auth.api_keys ALTER COLUMN user_id DROP NOT NULL',
      'ALTER TABLE auth.api_keys ADD COLUMN service_account_id uuid',
      'ALTER TABLE auth.api_keys ADD CONSTRAINT api_keys_one_owner CHECK (num_nonnulls(user_id, service_account_id) = 1)',
      'CREATE INDEX api_keys_service_account_id ON auth.api_keys (service_account_id)',
    ),
    migration(
      'AuthSessionsByMethod1763700000603',
      // Of the sessions that are open already nobody knows it, so they count as the weakest. So do
      // those that a node makes which has not been restarted with this yet.
      `ALTER TABLE auth.sessions ADD COLUMN method text NOT NULL DEFAULT 'password'`,
    ),
    migration(
      'AuthRetention1764100000001',
      'CREATE INDEX sessions_end ON auth.sessions ((LEAST(revoked_at, expires_at)))',
      'CREATE INDEX invitations_expiry ON auth.invitations (expires_at)',
      `CREATE TABLE auth.last_used_tenants (
        user_id uuid NOT NULL,
        tenant_id uuid NOT NULL,
        last_used_at timestamptz NOT NULL,
        PRIMARY KEY (user_id, tenant_id)
      )`,
    ),
    migration(
      'AuthUnannouncedAdmin1763700000604',
      'CREATE TABLE auth.unannounced_admin (user_id uuid PRIMARY KEY, password_hash text NOT NULL)',
    ),
    migration(
      'AuthApiKeyMakers1764300000001',
      'ALTER TABLE auth.api_keys ADD COLUMN made_by text',
      // Who made the keys of service accounts nobody knows any more.
      'UPDATE auth.api_keys SET made_by = user_id::text WHERE user_id IS NOT NULL',
    ),
    migration(
      'AuthNamesOfAccounts1764300000002',
      // Of accounts from before; from now on a sign-in notes them. A tenant learns the names of
      // those who have accepted.
      `INSERT INTO strata.actor_names (realm, actor_id, name, address)
       SELECT 'platform', id::text, left(coalesce(display_name, email), 200), email FROM auth.users ON CONFLICT DO NOTHING`,
      `DO $$ BEGIN
         IF to_regclass('tenant_config.members') IS NOT NULL THEN
           INSERT INTO strata.actor_names (realm, actor_id, name, address)
           SELECT m.tenant_id::text, u.id::text, left(coalesce(u.display_name, u.email), 200), u.email
           FROM tenant_config.members m JOIN auth.users u ON u.id = m.user_id
           WHERE m.status = 'active' ON CONFLICT DO NOTHING;
           INSERT INTO strata.actor_names (realm, actor_id, name)
           SELECT tenant_id::text, id::text, name FROM tenant_config.service_accounts ON CONFLICT DO NOTHING;
         END IF;
       END $$`,
    ),
    migration(
      'AuthErasure1764400000001',
      'ALTER TABLE auth.users ADD COLUMN erasing_since timestamptz',
      'CREATE INDEX users_erasing ON auth.users (erasing_since) WHERE erasing_since IS NOT NULL',
    ),
    migration(
      'AuthConfinedCredentials1764900000001',
      'ALTER TABLE auth.sessions ADD COLUMN provider_id uuid, ADD COLUMN confined_to uuid',
      'ALTER TABLE auth.passkeys ADD COLUMN confined_to uuid',
      'ALTER TABLE auth.api_keys ADD COLUMN confined_to uuid',
      // Of the sessions through providers that are open already nobody knows through which.
      "UPDATE auth.sessions SET revoked_at = now() WHERE method = 'sso' AND revoked_at IS NULL",
    ),
    migration(
      'AuthKeysMadeWith1765000000001',
      'ALTER TABLE auth.api_keys ADD COLUMN made_with text',
      'CREATE INDEX api_keys_tenant_id ON auth.api_keys (tenant_id, id)',
    ),
    migration('AuthUsage1765000000003', ...countedBy('api_keys', 'auth.api_keys')),
    migration(
      'AuthTakenValues1765200000001',
      // Of what may be taken once: see stores/taken-once.ts.
      'CREATE TABLE auth.taken_values (id uuid PRIMARY KEY, until timestamptz NOT NULL)',
    ),
    migration('AuthStatusHistory1765600000002', ...statusHistoryTable),
    migration(
      'AuthWorkloads1765900000001',
      `CREATE TABLE auth.workload_trust (
        account_id uuid PRIMARY KEY,
        tenant_id uuid NOT NULL,
        revision bigint NOT NULL,
        rules jsonb NOT NULL
      )`,
      'CREATE INDEX workload_trust_tenant_id ON auth.workload_trust (tenant_id)',
      `CREATE TABLE auth.workload_issuers (
        id int4 PRIMARY KEY,
        revision bigint NOT NULL,
        issuers jsonb NOT NULL
      )`,
    ),
    migration(
      'AuthNarrowKeys1766000000001',
      'ALTER TABLE auth.api_keys ADD COLUMN narrowed_to jsonb',
    ),
  ],
};
