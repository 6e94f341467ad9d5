/**
 * Tables of sign-in: their entities, and the migrations that make them. A test compares the columns
 * of both.
 */
import type { KeyScope, TenantRole } from '../../shared/contracts/roles.ts';
import type { TrustRule, WorkloadIssuer } from '../../shared/contracts/auth-workload.ts';
import type { NarrowedTo } from '../../shared/contracts/narrow-keys.ts';
import type { SignInMethod } from '../../shared/contracts/sign-in-policy.ts';
import { countedBy } from '../../shared/commits/usage.ts';
import { migration, type Schema } from '../../shared/database/open.ts';
import {
  arrayOf,
  bytea,
  flag,
  int4,
  int8,
  jsonb,
  nullable,
  primary,
  text,
  textOf,
  time,
  uuid,
  tablesOf,
  type RowOf,
} from '../../shared/database/table.ts';
import { statusHistoryTable } from './accounts/stores/status-history.ts';

const schema = 'auth';
const { table, entities } = tablesOf(schema);

export const UserEntity = table('users', {
  id: primary(uuid),
  /** As `addressOf` gives it. */
  email: text,
  /** The person has proved that the address is theirs. */
  email_verified: flag,
  display_name: nullable(text),
  /** argon2id in PHC string form; null where the person signs in without a password. */
  password_hash: nullable(text),
  status: textOf<'active' | 'disabled'>(),
  created_at: time,
  /** Since when it is being erased: all that is left is the id, for whoever finishes that. */
  erasing_since: nullable(time),
  /** When everything that it was entered with ended last, with the links that reset its password. */
  credentials_ended_at: nullable(time),
});
export type UserRow = RowOf<typeof UserEntity>;

export const SessionEntity = table('sessions', {
  id: primary(uuid),
  user_id: uuid,
  /** What the session is for; null for a platform administrator without a tenant. */
  tenant_id: nullable(uuid),
  created_at: time,
  /**
   * When its person last proved who they are: some actions want that recent. Through a provider it
   * is what the provider says (`auth_time`), or long ago where it says nothing.
   */
  authenticated_at: time,
  method: { ...textOf<SignInMethod>(), default: 'password' },
  /** Through which provider; null for other methods. */
  provider_id: nullable(uuid),
  /**
   * The tenant that it is good for and no other, because it goes back to that tenant's provider,
   * which may say of anybody that they signed in; null for one that is good for all.
   */
  confined_to: nullable(uuid),
  last_used_at: time,
  expires_at: time,
  revoked_at: nullable(time),
  user_agent: nullable(text),
  ip: nullable(text),
});
export type SessionRow = RowOf<typeof SessionEntity>;

export const RefreshEntity = table('refresh_tokens', {
  /** SHA-256 of the token, as hex: the token itself is not stored. */
  hash: primary(text),
  session_id: uuid,
  created_at: time,
  used_at: nullable(time),
  /** Hash of the token that it was exchanged for. */
  successor: nullable(text),
});
export type RefreshRow = RowOf<typeof RefreshEntity>;

export const PasskeyEntity = table('passkeys', {
  id: primary(uuid),
  user_id: uuid,
  /** base64url, as the browser gives it. */
  credential_id: text,
  /** COSE_Key (RFC 9052, 7). */
  public_key: bytea,
  /** The signature counter of its last use. */
  counter: int8,
  name: nullable(text),
  /** The model of the authenticator. */
  aaguid: uuid,
  transports: arrayOf(text),
  /** May be synchronized between devices; fixed when it is made. */
  backup_eligible: flag,
  backed_up: flag,
  /** As of the session that registered it: it signs in to no more than that session could. */
  confined_to: nullable(uuid),
  created_at: time,
  last_used_at: nullable(time),
});
export type PasskeyRow = RowOf<typeof PasskeyEntity>;

/**
 * What a person was asked: to join a tenant. There is one for each membership that is not accepted
 * yet.
 */
export const InvitationEntity = table('invitations', {
  id: primary(uuid),
  tenant_id: uuid,
  user_id: uuid,
  /** As it was when the mail was sent. */
  tenant_name: text,
  /** SHA-256 of the mailed token, as hex: the token itself is not stored. */
  token_hash: text,
  /** Whoever sent it: a user id, or the name of a service or operator. */
  invited_by: text,
  created_at: time,
  expires_at: time,
  /** When the mailed link was used. */
  used_at: nullable(time),
});
export type InvitationRow = RowOf<typeof InvitationEntity>;

export const SsoProviderEntity = table('sso_providers', {
  id: primary(uuid),
  name: text,
  issuer: text,
  client_id: text,
  /** Sealed. */
  client_secret: text,
  /** The tenant whose people it signs in; null for the platform's own. */
  tenant_id: nullable(uuid),
  domains: jsonb<{ domain: string; verified: boolean }[]>(),
  /** Whether it may make accounts at their first sign-in, and with which roles in the tenant. */
  jit_enabled: flag,
  default_roles: arrayOf(textOf<TenantRole>()),
  redirect_uris: arrayOf(text),
  enabled: flag,
  created_at: time,
  updated_at: time,
});
export type SsoProviderRow = RowOf<typeof SsoProviderEntity>;

/** Who somebody is at an issuer. */
export const SsoIdentityEntity = table('sso_identities', {
  issuer: primary(text),
  subject: primary(text),
  user_id: uuid,
  created_at: time,
});

export const ApiKeyEntity = table('api_keys', {
  id: primary(uuid),
  /** The person whose it is; null where it is a service account's. */
  user_id: nullable(uuid),
  service_account_id: nullable(uuid),
  tenant_id: nullable(uuid),
  /** User id; null for keys from before it was kept. */
  made_by: nullable(text),
  /** As of the session that made it: a confined key has no right on the platform. */
  confined_to: nullable(uuid),
  /** How the session that gave it its secret was signed in; null for keys from before it was kept. */
  made_with: nullable(textOf<SignInMethod>()),
  name: text,
  scopes: arrayOf(textOf<KeyScope>()),
  /** Null: it is for all that its scopes open. */
  narrowed_to: nullable(jsonb<NarrowedTo>()),
  /** HMAC-SHA-256 of the secret, as hex. */
  hash: text,
  created_at: time,
  expires_at: time,
  /** Lifetime that was asked for; a rotation begins it again. */
  days: int4,
  last_used_at: nullable(time),
});
export type ApiKeyRow = RowOf<typeof ApiKeyEntity>;

/** Whose tokens stand for a service account. */
export const WorkloadTrustEntity = table('workload_trust', {
  account_id: primary(uuid),
  tenant_id: uuid,
  revision: int8,
  rules: jsonb<TrustRule[]>(),
});
export type WorkloadTrustRow = RowOf<typeof WorkloadTrustEntity>;

/** The issuers that rules may name, in one row. */
export const WorkloadIssuersEntity = table('workload_issuers', {
  id: primary(int4),
  revision: int8,
  issuers: jsonb<WorkloadIssuer[]>(),
});

export const authSchema: Schema = {
  schema,
  entities,
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
      // Where a person was last, of sessions that are removed already: stores/retention.ts writes it,
      // a sign-in lands there.
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
    migration(
      'AuthCredentialsEnded1766700000001',
      'ALTER TABLE auth.users ADD COLUMN credentials_ended_at timestamptz',
    ),
  ],
};
