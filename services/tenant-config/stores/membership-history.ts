/**
 * Who was in a tenant when: a row for each change of a membership or a service account, which
 * triggers write with the change itself, so that no writer forgets it, nor a node of an earlier
 * release.
 *
 * | Danger | Bounded by |
 * |---|---|
 * | a clock that was set back | no row of somebody is from before the previous one |
 * | a change that commits after a reader has looked, from before the moment asked for | readers hold the scopes of the tenant, so that writers have ended |
 * | changes from before there were rows | `memberships_known_since` of the tenant |
 */
import type { EntityManager } from 'typeorm';
import type { TenantRole } from '../../../shared/contracts/roles.ts';

/** The statements of the migration. */
export const membershipHistoryTable: readonly string[] = [
  `CREATE TABLE tenant_config.membership_history (
    seq int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant_id uuid NOT NULL, kind text NOT NULL,
    id uuid NOT NULL, name text, roles text[], groups text[], status text, changed_at timestamptz NOT NULL
  )`,
  'CREATE INDEX membership_history_of ON tenant_config.membership_history (tenant_id, kind, id, seq)',
  `CREATE FUNCTION tenant_config.note_membership(tenant uuid, kind text, id uuid, name text, roles text[], groups text[], status text)
   RETURNS void LANGUAGE sql AS $$
     INSERT INTO tenant_config.membership_history (tenant_id, kind, id, name, roles, groups, status, changed_at)
     SELECT $1, $2, $3, $4, $5, $6, $7, GREATEST(clock_timestamp(), (
       SELECT h.changed_at FROM tenant_config.membership_history h
       WHERE h.tenant_id = $1 AND h.kind = $2 AND h.id = $3 ORDER BY h.seq DESC LIMIT 1))
   $$`,
  // Without roles and status: they are gone.
  `CREATE FUNCTION tenant_config.note_member() RETURNS trigger LANGUAGE plpgsql AS $$
   BEGIN
     IF TG_OP = 'DELETE' THEN
       PERFORM tenant_config.note_membership(OLD.tenant_id, 'user', OLD.user_id, NULL, NULL, NULL, NULL);
     ELSE
       PERFORM tenant_config.note_membership(NEW.tenant_id, 'user', NEW.user_id, NULL, NEW.roles, NEW.groups, NEW.status);
     END IF;
     RETURN NULL;
   END $$`,
  `CREATE FUNCTION tenant_config.note_service_account() RETURNS trigger LANGUAGE plpgsql AS $$
   BEGIN
     IF TG_OP = 'DELETE' THEN
       PERFORM tenant_config.note_membership(OLD.tenant_id, 'service_account', OLD.id, NULL, NULL, NULL, NULL);
     ELSE
       PERFORM tenant_config.note_membership(NEW.tenant_id, 'service_account', NEW.id, NEW.name, NEW.roles, '{}', NEW.status);
     END IF;
     RETURN NULL;
   END $$`,
  `CREATE TRIGGER members_noted AFTER INSERT OR DELETE ON tenant_config.members
   FOR EACH ROW EXECUTE FUNCTION tenant_config.note_member()`,
  `CREATE TRIGGER members_changed AFTER UPDATE ON tenant_config.members
   FOR EACH ROW WHEN ((OLD.roles, OLD.groups, OLD.status) IS DISTINCT FROM (NEW.roles, NEW.groups, NEW.status))
   EXECUTE FUNCTION tenant_config.note_member()`,
  `CREATE TRIGGER service_accounts_noted AFTER INSERT OR DELETE ON tenant_config.service_accounts
   FOR EACH ROW EXECUTE FUNCTION tenant_config.note_service_account()`,
  `CREATE TRIGGER service_accounts_changed AFTER UPDATE ON tenant_config.service_accounts
   FOR EACH ROW WHEN ((OLD.name, OLD.roles, OLD.status) IS DISTINCT FROM (NEW.name, NEW.roles, NEW.status))
   EXECUTE FUNCTION tenant_config.note_service_account()`,
  // Of the tenants that there are: what was before nobody knows.
  'ALTER TABLE tenant_config.tenants ADD COLUMN memberships_known_since timestamptz',
  'UPDATE tenant_config.tenants SET memberships_known_since = clock_timestamp()',
  `INSERT INTO tenant_config.membership_history (tenant_id, kind, id, name, roles, groups, status, changed_at)
   SELECT tenant_id, 'user', user_id, NULL, roles, groups, status, clock_timestamp() FROM tenant_config.members
   UNION ALL
   SELECT tenant_id, 'service_account', id, name, roles, '{}', status, clock_timestamp() FROM tenant_config.service_accounts`,
];

export interface Membership {
  readonly kind: 'user' | 'service_account';
  readonly id: string;
  /** Of a service account. */
  readonly name: string | null;
  readonly roles: TenantRole[];
  readonly groups: string[];
  readonly status: 'invited' | 'active' | 'disabled';
}

/** Who was in the tenant, as far as the rows tell. */
export const membershipsAt = (
  manager: EntityManager,
  tenantId: string,
  at: Date,
): Promise<Membership[]> =>
  manager.query(
    `SELECT kind, id, name, roles, groups, status FROM (
       SELECT DISTINCT ON (kind, id) * FROM tenant_config.membership_history
       WHERE tenant_id = $1 AND changed_at <= $2 ORDER BY kind, id, seq DESC) AS latest
     WHERE status IS NOT NULL`,
    [tenantId, at],
  );

/** Whether the person has been a member, as far as the rows tell: not only invited. */
export async function hasBeenMember(
  manager: EntityManager,
  tenantId: string,
  userId: string,
): Promise<boolean> {
  const [found] = await manager.query<unknown[]>(
    `SELECT FROM tenant_config.membership_history
     WHERE tenant_id = $1 AND kind = 'user' AND id = $2 AND status = 'active' LIMIT 1`,
    [tenantId, userId],
  );
  return found !== undefined;
}

/**
 * Whether any of these people became an administrator after a moment and is none any more, as far as
 * the rows tell: what their right was given by went with it.
 */
export async function wereNewAdministrators(
  manager: EntityManager,
  tenantId: string,
  userIds: readonly string[],
  after: Date,
): Promise<boolean> {
  const [found] = await manager.query<unknown[]>(
    `SELECT FROM tenant_config.membership_history h
     WHERE h.tenant_id = $1 AND h.kind = 'user' AND h.id = ANY($2::uuid[]) AND h.changed_at > $3
       AND h.status = 'active' AND 'tenant_admin' = ANY(h.roles)
       AND NOT EXISTS (
         SELECT FROM tenant_config.members m WHERE m.tenant_id = $1 AND m.user_id = h.id
           AND m.status = 'active' AND 'tenant_admin' = ANY(m.roles))
       AND NOT COALESCE(
         (SELECT p.status = 'active' AND 'tenant_admin' = ANY(p.roles)
          FROM tenant_config.membership_history p
          WHERE p.tenant_id = $1 AND p.kind = 'user' AND p.id = h.id AND p.changed_at <= $3
          ORDER BY p.seq DESC LIMIT 1),
         (SELECT t.memberships_known_since > $3 FROM tenant_config.tenants t WHERE t.id = $1),
         false)
     LIMIT 1`,
    [tenantId, userIds, after],
  );
  return found !== undefined;
}
