/** A session as people see it. */
import type { ResultOf } from '../../../../shared/contracts/index.ts';
import type { SessionRow } from '../../schema.ts';

type SessionView = ResultOf<'auth.sessions.list'>['items'][number];

export const sessionView = (row: SessionRow, currentId: string | undefined): SessionView => ({
  id: row.id,
  tenant_id: row.tenant_id,
  method: row.method,
  confined_to: row.confined_to,
  created_at: row.created_at.toISOString(),
  last_used_at: row.last_used_at.toISOString(),
  expires_at: row.expires_at.toISOString(),
  ip: row.ip,
  user_agent: row.user_agent,
  current: row.id === currentId,
});
