/**
 * The statements of PUT …/config/risk, by hand through pg:
 * `bare-sql.ts <database> <clients> <seconds> <body> <tenant>…`. Prints transactions per second.
 * Tenants are taken by turns; each has its risk row.
 */
import { randomUUID } from 'node:crypto';
import pg from 'pg';

const [url, clients, seconds, body, ...tenants] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  ...string[],
];
const pool = new pg.Pool({ connectionString: url, max: 10 });
const document = JSON.parse(body) as { global_settings: { max_concurrent_automations: number } };

async function put(tenant: string, turn: number): Promise<void> {
  document.global_settings.max_concurrent_automations = turn;
  const after = JSON.stringify(document);
  const client = await pool.connect();
  try {
    await client.query('START TRANSACTION');
    const counter = await client.query<{ revision: string }>(
      `INSERT INTO strata.revisions AS r (scope, revision) VALUES ($1, 1) ON CONFLICT (scope) DO UPDATE SET revision = r.revision + 1 RETURNING revision`,
      [`tenant:${tenant}`],
    );
    const { revision } = counter.rows[0]!;
    const current = await client.query<{ document: unknown }>(
      'SELECT document, revision, updated_by, updated_at FROM tenant_config.tenant_risk_configurations WHERE tenant_id = $1 AND id = $2',
      [tenant, tenant],
    );
    await client.query('SELECT 1 FROM tenant_config.tenants WHERE id = $1 LIMIT 1', [tenant]);
    await client.query(
      `INSERT INTO tenant_config.tenant_risk_configurations (tenant_id, id, document, revision, updated_by, updated_at) VALUES ($1, $2, $3, $4, $5, $6)
       ON CONFLICT (tenant_id, id) DO UPDATE SET document = excluded.document, revision = excluded.revision, updated_by = excluded.updated_by, updated_at = excluded.updated_at`,
      [tenant, tenant, after, revision, 'bench', new Date()],
    );
    await client.query(
      `INSERT INTO tenant_config.configuration_history (tenant_id, revision, config_type, resource_id, action, changed_by, changed_at, before, after)
       VALUES ($1, $2, 'tenant_risk_config', $3, 'update', 'bench', $4, $5, $6)`,
      [tenant, revision, tenant, new Date(), JSON.stringify(current.rows[0]?.document), after],
    );
    const event = {
      id: randomUUID(),
      action: 'config.risk.updated',
      tenant_id: tenant,
      payload: { revision },
    };
    await client.query(
      `WITH events AS (
         INSERT INTO strata.outbox (event_id, event, created_at) SELECT (e->>'id')::uuid, e, clock_timestamp() FROM json_array_elements($4::json) e
       )
       INSERT INTO strata.changes (id, scope, revision, keys, created_at) VALUES (pg_current_xact_id(), $1, $2, $3, clock_timestamp()) RETURNING id::text`,
      [`tenant:${tenant}`, revision, [`risk_config_${tenant}`], JSON.stringify([event])],
    );
    await client.query('COMMIT');
  } finally {
    client.release();
  }
}

let done = 0;
const began = performance.now();
const until = began + Number(seconds) * 1000;
await Promise.all(
  Array.from({ length: Number(clients) }, async (_each, client) => {
    for (let turn = client; performance.now() < until; turn += 1) {
      await put(tenants[turn % tenants.length]!, 100 + (turn % 900));
      done += 1;
    }
  }),
);
process.stdout.write(`${done / ((performance.now() - began) / 1000)}\n`);
await pool.end();
