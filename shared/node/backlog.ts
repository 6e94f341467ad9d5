/** What a node knows of work that is not done yet. */
import type { Registry } from 'prom-client';
import type { Backlog } from '../contracts/cluster.ts';

/**
 * Each part of the backlog is a metric that the node measures anyway. Those of a role that it does
 * not host, or that the database does not give in time, are null.
 */
const gauges = {
  audit_events: 'strata_outbox_events',
  notices: 'strata_deliveries_pending',
  sending: 'strata_deliveries_in_flight',
} as const satisfies Record<keyof Backlog, string>;

export async function readBacklog(metrics: Registry): Promise<Backlog> {
  const [auditEvents, notices, sending] = await Promise.all([
    gaugeValue(metrics, gauges.audit_events),
    gaugeValue(metrics, gauges.notices),
    gaugeValue(metrics, gauges.sending),
  ]);
  return { audit_events: auditEvents, notices, sending };
}

async function gaugeValue(metrics: Registry, name: string): Promise<number | null> {
  const read = await metrics.getSingleMetric(name)?.get();
  return read?.values[0]?.value ?? null;
}
