/**
 * What tenants' documents say of some keys, for whoever needs them of all tenants: a page in one
 * statement, cut down in the database to those keys, so that neither memory nor the wire holds
 * whole documents.
 */
import type { EntityManager } from 'typeorm';
import type { TenantSaid } from '../../../shared/contracts/layers.ts';
import { StrataError } from '../../../shared/errors.ts';

export interface Asked {
  readonly keys: readonly string[];
  /** Tenants after this one, by id. */
  readonly after?: string;
  /** This tenant alone. */
  readonly tenant_id?: string;
}

const tenantsOfPage = 250;
/** Bytes of JSON after which a page ends, unless its first tenant alone has more. */
const pageBytes = 2 * 1024 * 1024;
const maxTenantMebibytes = 32;

/**
 * The members of an object that are among the keys; null where there are none. Most documents
 * mention none, which their text shows.
 */
const saidBy = (json: string): string =>
  `CASE WHEN (${json})::text LIKE ANY ($2::text[]) THEN (
     SELECT json_object_agg(member.key, member.value) FROM json_each(${json}) member WHERE member.key = ANY ($1::text[])
   ) END`;

const statement = `
  WITH page AS (
    SELECT id, name FROM tenant_config.tenants
    WHERE erasing_since IS NULL AND ($3::uuid IS NULL OR id > $3) AND ($4::uuid IS NULL OR id = $4) ORDER BY id LIMIT $5
  ), said AS (
    SELECT page.id, page.name, risk.limits, risk.overrides, bounds.rules, agents.list AS agents, services.list AS services,
      (SELECT changed_at FROM strata.revisions WHERE scope = 'tenant:' || page.id::text) AS changed_at
    FROM page
    LEFT JOIN LATERAL (
      SELECT ${saidBy(`d.document->'global_settings'`)} AS limits, (
        SELECT json_object_agg(o.type, o.said) FROM (
          SELECT override.key AS type, ${saidBy('override.value')} AS said
          FROM json_each(d.document->'service_overrides') override
        ) o WHERE o.said IS NOT NULL
      ) AS overrides
      FROM tenant_config.tenant_risk_configurations d WHERE d.tenant_id = page.id
    ) risk ON true
    LEFT JOIN LATERAL (
      SELECT ${saidBy('d.document')} AS rules FROM tenant_config.bounds d WHERE d.tenant_id = page.id
    ) bounds ON true
    LEFT JOIN LATERAL (
      SELECT json_agg(json_build_object('agent_type', d.id, 'values', ${saidBy('d.document')}) ORDER BY d.id) AS list
      FROM tenant_config.agent_configurations d WHERE d.tenant_id = page.id
    ) agents ON true
    LEFT JOIN LATERAL (
      SELECT json_agg(json_build_object('service_id', d.id, 'service_type', d.document->>'service_type',
        'values', ${saidBy('d.document')}) ORDER BY d.id) AS list
      FROM tenant_config.service_configurations d WHERE d.tenant_id = page.id
    ) services ON true
  ), measured AS (
    SELECT said.*, row_number() OVER by_id AS place, sum(
      COALESCE(octet_length(limits::text), 0) + COALESCE(octet_length(overrides::text), 0) + COALESCE(octet_length(rules::text), 0)
      + COALESCE(octet_length(agents::text), 0) + COALESCE(octet_length(services::text), 0)
    ) OVER by_id AS bytes
    FROM said WINDOW by_id AS (ORDER BY id)
  ), fitting AS (
    SELECT *, bytes > $7 AS is_too_large FROM measured WHERE place = 1 OR bytes <= $6
  )
  SELECT id, name, changed_at, is_too_large, (SELECT count(*) FROM page) AS found,
    CASE WHEN NOT is_too_large THEN limits END AS limits, CASE WHEN NOT is_too_large THEN overrides END AS overrides,
    CASE WHEN NOT is_too_large THEN rules END AS rules, CASE WHEN NOT is_too_large THEN agents END AS agents,
    CASE WHEN NOT is_too_large THEN services END AS services
  FROM fitting ORDER BY id`;

interface MentionsRow {
  readonly id: string;
  readonly name: string;
  readonly changed_at: Date | null;
  readonly is_too_large: boolean;
  /** How many tenants the page would have without a bound on its bytes. */
  readonly found: number;
  readonly limits: TenantSaid['global_settings'];
  readonly overrides: TenantSaid['service_overrides'] | null;
  readonly rules: TenantSaid['bounds'];
  readonly agents: TenantSaid['agents'] | null;
  readonly services: TenantSaid['services'] | null;
}

/** A key as it is in the text of a document, for LIKE. */
const patternOf = (key: string): string =>
  `%${JSON.stringify(key).replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;

/** Throws 413 for a tenant that says more of these keys than can be held. */
export async function readValuesByKey(
  manager: EntityManager,
  { keys, after, tenant_id: tenantId }: Asked,
): Promise<{ tenants: TenantSaid[]; next: string | null }> {
  const rows = await manager.query<MentionsRow[]>(statement, [
    keys,
    keys.map(patternOf),
    after ?? null,
    tenantId ?? null,
    tenantsOfPage,
    pageBytes,
    maxTenantMebibytes * 1024 * 1024,
  ]);
  const [first] = rows;
  if (first?.is_too_large)
    throw new StrataError(
      'payload_too_large',
      `The documents of the tenant ${first.name} (${first.id}) say more than ${maxTenantMebibytes} MiB of these keys.`,
    );
  const isCut = first !== undefined && rows.length < first.found;
  const isFull = rows.length === tenantsOfPage;
  return {
    tenants: rows.map(tenantSaid),
    next: isCut || isFull ? rows.at(-1)!.id : null,
  };
}

const tenantSaid = (row: MentionsRow): TenantSaid => ({
  tenant_id: row.id,
  tenant_name: row.name,
  changed_at: row.changed_at && row.changed_at.toISOString(),
  global_settings: row.limits,
  service_overrides: row.overrides ?? {},
  bounds: row.rules,
  agents: row.agents ?? [],
  services: row.services ?? [],
});
