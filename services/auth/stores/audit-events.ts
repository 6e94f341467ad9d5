/** Audit events of sign-in. They are committed with the change they tell of, or alone where nothing else changes. */
import type { EntityManager } from 'typeorm';
import {
  auditFacts,
  recordEvents,
  type Committing,
  type EventDraft,
} from '../../../shared/commits/commit.ts';

/** Something that the owner of an account did to it, whether or not the request had a caller yet. */
export const accountEvent = (
  action: string,
  userId: string,
  tenantId: string | null,
  payload: unknown,
): EventDraft => ({
  action,
  tenant_id: tenantId,
  target: userId,
  payload,
  actor: { type: 'user', id: userId },
});

/** Something that someone tried without proving who they are. `userId` is the account it was about, null where that is unknown. */
export const anonymousEvent = (
  action: string,
  userId: string | null,
  payload: unknown,
): EventDraft => ({
  action,
  tenant_id: null,
  target: userId,
  payload,
  actor: { type: 'system', id: 'auth' },
});

export const recordEvent = (
  manager: EntityManager,
  event: EventDraft,
  request: Committing,
): Promise<void> => recordEvents(manager, [auditFacts(event, request)]);
