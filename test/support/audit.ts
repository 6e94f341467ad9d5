/** Audit events as tests wait for them: they reach the audit service through the outbox, a moment after the answer. */
import { eventually } from './cluster.ts';
import type { Client } from './strata.ts';

export interface AuditEvent {
  readonly action: string;
  readonly actor: unknown;
  readonly target: string | null;
  readonly tenant_id: string | null;
  readonly payload: Record<string, unknown>;
  readonly request_id: string;
}

/** The newest 200 events of an action, as `reader` may see them. */
export async function auditEvents(reader: Client, action: string): Promise<AuditEvent[]> {
  const { body } = await reader.get(`/audit/events?action=${action}&limit=200`);
  return body.items;
}

/** The event of this action that fits, waiting for it up to 15 s. */
export const audited = (
  reader: Client,
  action: string,
  fits: (event: AuditEvent) => boolean,
): Promise<AuditEvent> =>
  eventually(async () => {
    const events = await auditEvents(reader, action);
    const found = events.find(fits);
    if (!found) throw new Error(`no such event ${action}`);
    return found;
  });
