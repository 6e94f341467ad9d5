/** Events of memberships, as the audit has them. */
import type { EventDraft } from '../../../shared/commits/commit.ts';

export const memberEvent = (
  action: 'invited' | 'joined' | 'declined' | 'added' | 'updated' | 'removed',
  tenantId: string,
  userId: string,
  payload: unknown,
): EventDraft => ({
  action: `tenant.member_${action}`,
  tenant_id: tenantId,
  target: userId,
  payload,
});

/** The person is the actor of what they decided themselves, whichever service asks for it. */
export const byThemselves = (event: EventDraft, userId: string): EventDraft => ({
  ...event,
  actor: { type: 'user', id: userId },
});
