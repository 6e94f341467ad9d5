/**
 * Who set each key of a document, and when: the last change of its history that left the key with
 * another value than before. Kept as rows of `key_changes`, one for each key that a write changes,
 * so that a reader finds them in the index, however long the history is.
 *
 * A trigger on the history writes them: so they hold for every write that leaves a row there, a
 * rollback, a seeding and that of a node of an earlier release included.
 */
import type { EntityManager } from 'typeorm';
import type { ResultOf } from '../contracts/index.ts';

/** The columns that say whose history it is: those of a tenant's, or none of the platform's. */
type Owner = '' | 'tenant_id';

/**
 * The keys of a document with their JSON Pointers, as the layers of effective configurations have
 * them. `jsonb` compares values and not how they are written. In PL/pgSQL, which keeps the plan for
 * the connection: PostgreSQL plans a function in SQL again for each row, eight times the cost.
 */
const keysOf = (schema: string): string => `
  CREATE FUNCTION ${schema}.keys_of(config_type text, document json) RETURNS TABLE (path text, value jsonb)
  LANGUAGE plpgsql IMMUTABLE ROWS 20 AS $$
  #variable_conflict use_column
  BEGIN
    RETURN QUERY WITH overrides AS (
      SELECT json_each.key, json_each.value FROM json_each(CASE
        WHEN config_type = 'tenant_risk_config' AND json_typeof(document -> 'service_overrides') = 'object'
        THEN document -> 'service_overrides' END)
    ), parts (prefix, part) AS (
      SELECT '', document WHERE config_type <> 'tenant_risk_config'
      UNION ALL
      SELECT '/' || name, document -> name FROM unnest(ARRAY['global_settings']) AS name
      WHERE config_type = 'tenant_risk_config'
      UNION ALL
      SELECT '/service_overrides/' || replace(replace(key, '~', '~0'), '/', '~1'), value FROM overrides
      UNION ALL
      SELECT '/' || name, document -> name FROM unnest(ARRAY['default_settings', 'scaling_limits']) AS name
      WHERE config_type = 'service_type_config'
    )
    SELECT prefix || '/' || replace(replace(each.key, '~', '~0'), '/', '~1'), each.value::jsonb
    FROM parts, json_each(CASE WHEN json_typeof(part) = 'object' THEN part END) AS each;
  END $$`;

/** Paths may be too long for an index. */
const digestOf = (path: string): string => `sha256(convert_to(${path}, 'UTF8'))`;

/** The keys that the entry `h` of the history left with another value. */
const changedBy = (schema: string, owner: Owner): string => `
  INSERT INTO ${schema}.key_changes
  SELECT ${owner && `h.${owner}, `}h.config_type, h.resource_id, ${digestOf('n.path')}, h.revision, h.changed_by, h.changed_at
  FROM h CROSS JOIN LATERAL ${schema}.keys_of(h.config_type, h.after) n
  LEFT JOIN LATERAL ${schema}.keys_of(h.config_type, h.before) b ON b.path = n.path
  WHERE h.config_type IN (${layeredTypes}) AND b.value IS DISTINCT FROM n.value
  ON CONFLICT DO NOTHING`;

const layeredTypes = [
  'tenant_risk_config',
  'agent_config',
  'service_config',
  'bounds_config',
  'global_config',
  'service_type_config',
]
  .map((name) => `'${name}'`)
  .join(', ');

/** The statements of a migration: the table, and what fills it from now on. */
export function keyChangesTable(schema: string, owner: Owner): string[] {
  const key = `${owner && `${owner}, `}config_type, resource_id, path, revision`;
  return [
    `CREATE TABLE ${schema}.key_changes (
      ${owner && `${owner} uuid NOT NULL, `}config_type text NOT NULL, resource_id text NOT NULL, path bytea NOT NULL,
      revision int8 NOT NULL, changed_by text NOT NULL, changed_at timestamptz NOT NULL, PRIMARY KEY (${key})
    )`,
    keysOf(schema),
    `CREATE FUNCTION ${schema}.note_key_changes() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      WITH h AS (SELECT NEW.*) ${changedBy(schema, owner)};
      RETURN NULL;
    END $$`,
    `CREATE TRIGGER key_changes AFTER INSERT ON ${schema}.configuration_history
     FOR EACH ROW EXECUTE FUNCTION ${schema}.note_key_changes()`,
  ];
}

/**
 * What the history says already. A migration after that of the table: writes continue meanwhile, since
 * nothing locks them out.
 */
export const keyChangesOfHistory = (schema: string, owner: Owner): string =>
  `WITH h AS (SELECT * FROM ${schema}.configuration_history) ${changedBy(schema, owner)}`;

/** A value inside a document. */
export interface Place {
  readonly config_type: string;
  readonly resource_id: string;
  /** JSON Pointer. */
  readonly path: string;
}

export type KeyAuthor = NonNullable<ResultOf<'global-config.layers.authors'>['authors'][number]>;

interface Row {
  readonly place: number;
  readonly revision: number;
  readonly updated_by: string;
  readonly updated_at: Date;
}

/**
 * Who set what stood at these places at a revision, in their order; null where the history does not
 * say. `candidates` is SQL: of the place `p` the rows `revision`, `changed_by`, `changed_at`, of
 * which the newest counts; its parameters begin at $4.
 */
export async function authorsOf(
  manager: EntityManager,
  places: readonly Place[],
  candidates: string,
  parameters: readonly unknown[],
): Promise<(KeyAuthor | null)[]> {
  const rows = await manager.query<Row[]>(
    `SELECT p.place::int AS place, k.revision, k.changed_by AS updated_by, k.changed_at AS updated_at
     FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS p (config_type, resource_id, path, place)
     CROSS JOIN LATERAL (SELECT * FROM (${candidates}) AS c ORDER BY revision DESC LIMIT 1) AS k`,
    [
      places.map(({ config_type: type }) => type),
      places.map(({ resource_id: id }) => id),
      places.map(({ path }) => path),
      ...parameters,
    ],
  );
  const found = new Map(rows.map((row) => [row.place, row]));
  return places.map((_place, index) => {
    const row = found.get(index + 1);
    if (!row) return null;
    const { revision, updated_by, updated_at: at } = row;
    return { revision, updated_by, updated_at: at.toISOString() };
  });
}

/** In `candidates`, of the place `p`: its changes. */
export const changesOfPlace = (schema: string): string =>
  `${schema}.key_changes WHERE config_type = p.config_type AND resource_id = p.resource_id
   AND path = ${digestOf('p.path')}`;
