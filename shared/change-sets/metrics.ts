/** Figures of change sets that wait for somebody, of tenants and of the platform. */
import type { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import { askedOfDatabase, addMetric, type Sample } from '../telemetry/metric.ts';
import { tableOf, type Of } from './store.ts';

interface Waiting {
  readonly pending: number;
  readonly missed: number;
  readonly unreviewed: number;
}
interface Source {
  readonly scope: 'tenants' | 'platform';
  readonly read: () => Promise<Waiting | undefined>;
}

async function readWaiting(db: DataSource, entity: Of['entity']): Promise<Waiting> {
  const table = tableOf(entity);
  const secondsSince = (earliest: string): string =>
    `coalesce(extract(epoch FROM now() - min((${earliest})::timestamptz)), 0)::float8`;
  const [row] = await db.query<[Waiting]>(
    `SELECT
       (SELECT ${secondsSince('at')} FROM (SELECT content->>'submitted_at' AS at FROM ${table}
         WHERE state = 'pending' ORDER BY content->>'submitted_at' LIMIT 1) AS first) AS pending,
       (SELECT count(*)::int FROM ${table} WHERE state = 'suspended'
          AND json_typeof(content->'apply') = 'object' AND updated_at > now() - interval '1 day') AS missed,
       (SELECT ${secondsSince(`content->'break_glass'->>'at'`)} FROM ${table}
        WHERE state = 'applied' AND content->'break_glass'->>'at' IS NOT NULL
          AND content->'break_glass'->>'reviewed_by' IS NULL) AS unreviewed`,
  );
  return row;
}

/** One node may host both services: a metric has what each of them knows. */
const shown = new WeakMap<Registry, Source[]>();

export function showChangeSets(
  metrics: Registry,
  scope: Source['scope'],
  db: DataSource,
  entity: Of['entity'],
): void {
  const source = { scope, read: askedOfDatabase(() => readWaiting(db, entity)) };
  const known = shown.get(metrics);
  if (known) {
    known.push(source);
    return;
  }
  const sources: Source[] = [source];
  shown.set(metrics, sources);
  const show = (name: string, help: string, of: keyof Waiting): void =>
    addMetric(metrics, {
      name,
      help,
      labelNames: ['scope'],
      async read() {
        const samples = await Promise.all(
          sources.map(async (each): Promise<Sample[]> => {
            const waiting = await each.read();
            return waiting ? [{ labels: { scope: each.scope }, value: waiting[of] }] : [];
          }),
        );
        return samples.flat();
      },
    });
  show(
    'strata_change_sets_pending_seconds',
    'For how long the change set that waits longest for approval has waited',
    'pending',
  );
  show(
    'strata_change_sets_missed',
    'Change sets that could not be applied at their time within the last day, and still wait',
    'missed',
  );
  show(
    'strata_break_glass_unreviewed_seconds',
    'For how long the emergency that waits longest for its review has waited',
    'unreviewed',
  );
}
