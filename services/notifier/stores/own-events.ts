/** The audit of what the notifier does by itself. */
import { serviceCaller } from '../../../shared/access.ts';
import {
  auditFacts,
  type AuditEventFacts,
  type EventDraft,
} from '../../../shared/commits/commit.ts';

export const ownFacts = (draft: EventDraft, requestId: string): AuditEventFacts =>
  auditFacts(
    { ...draft, actor: { type: 'system', id: 'notifier' } },
    { caller: serviceCaller('notifier'), requestId },
  );
