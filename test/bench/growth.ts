/** What a read costs that memory does not answer, in tenants with few and with many rows. */
import type { Database } from '../support/postgres.ts';
import { createTenant, type Answer, type Client } from '../support/strata.ts';
import { serverCore } from './machine.ts';
import { median, type Comparison, type Group } from './report.ts';
import { platformAdmin, startStage } from './stage.ts';

const sizes = [100, 10_000, 1_000_000] as const;
const readsPerRound = 100;

/** A tenant with so many rows, in a database and on a node of its own. */
interface Place {
  readonly rows: number;
  readonly tenantId: string;
  readonly admin: Client;
}
interface Read {
  readonly what: string;
  readonly path: (place: Place, index: number) => string;
  readonly expect: (body: Answer['body'], place: Place, index: number) => boolean;
}

const reads: readonly Read[] = [
  {
    what: 'a service instance',
    path: ({ tenantId }, index) => `/tenants/${tenantId}/services/service-${index}`,
    expect: (body: { service_id: string; max_instances: number }, _place, index) =>
      body.service_id === `service-${index}` && body.max_instances === index % 50,
  },
  {
    what: 'effective configuration',
    path: ({ tenantId }, index) =>
      `/tenants/${tenantId}/config/effective?service_id=service-${index}`,
    expect: (body: { values: { max_instances: number } }, _place, index) =>
      body.values.max_instances === index % 50,
  },
  {
    what: 'a page of 50 instances',
    path: ({ tenantId }) => `/tenants/${tenantId}/services?limit=50`,
    expect: (body: { items: unknown[] }) => body.items.length === 50,
  },
  {
    what: 'a page of 50 of the history',
    path: ({ tenantId }) => `/tenants/${tenantId}/config/history?limit=50`,
    expect: (body: { items: { revision: number }[] }, { rows }) =>
      body.items.length === 50 && body.items[0]!.revision === rows + 1,
  },
];

/**
 * So many service instances with an entry each in the history, as if every one had been written
 * once.
 */
async function fill({ query }: Database, tenantId: string, rows: number): Promise<void> {
  await query(
    `INSERT INTO tenant_config.service_configurations SELECT $1::uuid, 'service-' || n,
       json_build_object('service_id', 'service-' || n, 'service_type', 'cloud_run', 'min_instances', 0, 'max_instances', n % 50), n + 1, 'bench', now()
     FROM generate_series(1, $2::int) n`,
    [tenantId, rows],
  );
  await query(
    `INSERT INTO tenant_config.configuration_history (tenant_id, revision, config_type, resource_id, action, changed_by, changed_at, before, after)
     SELECT $1::uuid, n + 1, 'service_config', 'service-' || n, 'create', 'bench', now(), NULL,
       json_build_object('service_id', 'service-' || n, 'service_type', 'cloud_run', 'min_instances', 0, 'max_instances', n % 50)
     FROM generate_series(1, $2::int) n`,
    [tenantId, rows],
  );
  await query('UPDATE strata.revisions SET revision = $2 WHERE scope = $1', [
    `tenant:${tenantId}`,
    rows + 1,
  ]);
  await query('VACUUM ANALYZE');
}

export const growth: Group = async ({ rounds }) => {
  const stage = await startStage();
  try {
    const places: Place[] = [];
    for (const rows of sizes) {
      const database = await stage.anotherDatabase();
      const { url } = await stage.start([], serverCore, {
        ...stage.alone,
        DATABASE_URL: database.url,
      });
      const { id: tenantId, admin } = await createTenant(url, await platformAdmin(url), 'Bench');
      await fill(database, tenantId, rows);
      places.push({ rows, tenantId, admin });
    }
    const comparisons: Comparison[] = [];
    for (const read of reads) {
      const millis: number[][] = [];
      for (let round = 0; round <= rounds; round += 1) millis.push(await cold(read, places, round));
      // The first round is not counted: code is not compiled yet.
      const millisAt = (place: number): number[] =>
        millis.slice(1).map((medians) => medians[place]!);
      for (const [place, { rows }] of places.entries()) {
        if (place === 0) continue;
        comparisons.push({
          what: `${read.what}, not cached, at ${rows.toLocaleString('en')} stored rows`,
          peer: `at ${sizes[0]} rows`,
          unit: 'ms',
          goal: { atMost: 1.2 },
          strata: millisAt(place),
          baseline: millisAt(0),
        });
      }
    }
    return { rows: comparisons };
  } finally {
    await stage.stop();
  }
};

/**
 * The median of one round's reads at each place, in milliseconds. The places take turns read by
 * read. Every read is of another row, and nothing of the tenants is cached before.
 */
async function cold(
  { path, expect }: Read,
  places: readonly Place[],
  round: number,
): Promise<number[]> {
  for (const { admin } of places) {
    const dropped = await admin.post('/configurations/cache/invalidate', {});
    if (dropped.status !== 200) throw new Error(dropped.text);
  }
  const took = places.map(() => [] as number[]);
  for (let read = 0; read < readsPerRound; read += 1) {
    const turns = [...places.entries()];
    for (const [each, place] of read % 2 === 0 ? turns : turns.toReversed()) {
      // Primes, so that the rows are spread and no round repeats one of another.
      const index = 1 + ((read * 7919 + round * 104_729) % place.rows);
      const began = performance.now();
      const { status, body, text } = await place.admin.get(path(place, index));
      took[each]!.push(performance.now() - began);
      if (status !== 200 || !expect(body, place, index))
        throw new Error(`${place.rows} rows, ${path(place, index)}: ${status} ${text}`);
    }
  }
  return took.map(median);
}
