/**
 * Audit events of sign-in. They are committed with the change they tell of, or alone where nothing
 * else changes.
 *
 * | Made by | Chain | Tells |
 * |---|---|---|
 * | `identityEvent` | the platform's | what somebody does with their own account |
 * | `anonymousEvent` | the platform's | what somebody tried before anyone knew who they are |
 * | `entryEvent` | that of the tenant, else the platform's | that somebody came into it |
 *
 * So a tenant's administrators learn of a person who comes in, and nothing else of that person; no
 * event names another tenant. The target is always the account, by which `GET /auth/activity` finds
 * them.
 */
import type { EntityManager } from 'typeorm';
import {
  auditFacts,
  recordEvents,
  type Committing,
  type EventDraft,
} from '../../../shared/commits/commit.ts';

/**
 * Something that the owner of an account did to it, whether or not the request had a caller yet.
 */
export const identityEvent = (action: string, userId: string, payload: unknown): EventDraft => ({
  action,
  tenant_id: null,
  target: userId,
  payload,
  actor: { type: 'user', id: userId },
});

/** A session that is for this tenant from now on; null for one without a tenant. */
export const entryEvent = (
  action: 'auth.login_succeeded' | 'auth.tenant_switched',
  userId: string,
  tenantId: string | null,
  payload: unknown,
): EventDraft => ({ ...identityEvent(action, userId, payload), tenant_id: tenantId });

/**
 * Something that someone tried without proving who they are. `userId` is the account it was about,
 * null where that is unknown.
 */
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
