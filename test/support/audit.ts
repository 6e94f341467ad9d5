/**
 * Audit events as tests wait for them: they reach the audit service through the outbox, a moment
 * after the answer.
 */
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

/** The oldest 200 events of an action, as `reader` may see them. */
export async function auditEvents(reader: Client, action: string): Promise<AuditEvent[]> {
  const { body } = await reader.get(`/audit/events?action=${action}&limit=200`);
  // The filter finds longer names, too.
  return body.items.filter((event: AuditEvent) => event.action === action);
}

/** Throws unless every chain that the reader sees is proved to its end. */
export async function requireProvedAudit(reader: Client): Promise<void> {
  let query = '';
  for (;;) {
    const { status, body, text } = await reader.get(`/audit/verify${query}`);
    if (status !== 200 || body.valid === false) throw new Error(`${status} ${text}`);
    if (body.next_cursor === null) return;
    query = `?cursor=${body.next_cursor}`;
  }
}

/** The event of this action that fits, waiting for it for a while. */
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
