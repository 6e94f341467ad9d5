/**
 * The body of a notice: what webhooks receive byte for byte (docs/webhooks.md), and what chat
 * messages and mails are made from. It is made once, when the notice is queued, and is the same in
 * every attempt.
 */
import { hash, randomUUID } from 'node:crypto';
import type { Static } from 'typebox';
import type { BudgetNotice } from '../../../shared/contracts/budget-usage.ts';
import type {
  ChangeSetNotice,
  ChangeSetStep,
} from '../../../shared/contracts/change-set-notices.ts';
import {
  budgetNoticeType,
  isOfChangeSet,
  type ChangeSetNoticeType,
  type Notice,
  type NoticeType,
} from '../../../shared/contracts/notifier.ts';
import type { ApprovalRow, DeliveryRow, Destination } from '../schema.ts';
import { approvalView } from './approval.ts';

/**
 * A delivery before it is queued. The bodies of notices that go to thousands are made one after the
 * other, as they are queued: together they may be more than memory has room for.
 */
export type NewDelivery = Pick<DeliveryRow, 'id' | 'type' | 'hop' | 'body'> & Destination;

/** Type of the notice that an administrator sends to try a channel; nothing is asked by it. */
export const testNotice = 'notification.test';

type ApprovalData = Static<typeof Notice>['data'];
type TestData = Pick<
  ApprovalData,
  | 'approval_id'
  | 'tenant_id'
  | 'state'
  | 'action'
  | 'risk_level'
  | 'title'
  | 'hop'
  | 'max_hops'
  | 'chain'
  | 'current_group'
  | 'expires_at'
>;
export type NoticeBody =
  | { readonly type: NoticeType; readonly data: ApprovalData }
  | Pick<BudgetNotice, 'type' | 'data'>
  | Pick<ChangeSetNotice, 'type' | 'data'>
  | { readonly type: typeof testNotice; readonly data: TestData };

/** Whether a notice asks its reader to decide; the others say how an approval ended. */
export const asksForDecision = (type: NoticeBody['type']): boolean =>
  type === 'approval.requested' || type === 'approval.escalated' || type === 'approval.reminded';

export const tellsOfChangeSet = <Of extends { readonly type: string }>(
  notice: Of,
): notice is Extract<Of, { readonly type: ChangeSetNoticeType }> => isOfChangeSet(notice.type);

/** Names the notice in every attempt: the receivers' key for duplicates. */
export const webhookId = (deliveryId: string): string => `ntf_${deliveryId.replaceAll('-', '')}`;

const bodyText = ({ type, data }: NoticeBody, id: string, timestamp: string): string =>
  JSON.stringify({ type, id, timestamp, data });

/** A body that was made here; since nobody else writes bodies, its shape is known. */
export const parseBody = (body: string): NoticeBody => JSON.parse(body) as NoticeBody;

/** One notice to each destination. */
export function noticesOf(
  approval: ApprovalRow,
  type: NoticeType,
  destinations: readonly Destination[],
  now: Date,
): NewDelivery[] {
  const { id: approvalId, revision: _revision, ...view } = approvalView(approval);
  const data = { approval_id: approvalId, ...view };
  return destinations.map((destination) => {
    const id = randomUUID();
    return {
      id,
      type,
      hop: approval.hop,
      ...destination,
      get body() {
        return bodyText({ type, data }, webhookId(id), now.toISOString());
      },
    };
  });
}

/** That a budget has come to its `warn_at`, one notice to each destination. */
export const budgetNoticesOf = (
  data: BudgetNotice['data'],
  destinations: readonly Destination[],
  now: Date,
): NewDelivery[] =>
  destinations.map((destination) => {
    const id = randomUUID();
    const body = bodyText({ type: budgetNoticeType, data }, webhookId(id), now.toISOString());
    return { id, type: budgetNoticeType, hop: 0, body, ...destination };
  });

/** A step of a change set. Each destination's has an id by both, so that it is queued once. */
export const changeSetNoticesOf = (
  { id: stepId, type, timestamp, data }: ChangeSetStep,
  destinations: readonly Destination[],
): NewDelivery[] =>
  destinations.map((destination) => {
    const id = uuidOf(`${stepId} ${destination.channel} ${destination.place}`);
    const body = bodyText({ type, data }, webhookId(id), timestamp);
    return { id, type, hop: 0, body, ...destination };
  });

/** A UUID of version 8 (RFC 9562), by a hash. */
function uuidOf(name: string): string {
  const hex = hash('sha256', name, 'hex');
  const parts = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ];
  return parts.join('-');
}

/** `id` names the test notice, and stands for the approval that there is not. */
export function testBody(id: string, tenantId: string, timestamp: string): string {
  const data: TestData = {
    state: 'pending',
    action: 'test',
    risk_level: 'low',
    title: 'Test notice',
    hop: 0,
    max_hops: 0,
    chain: [],
    current_group: null,
    approval_id: id,
    tenant_id: tenantId,
    expires_at: timestamp,
  };
  return bodyText({ type: testNotice, data }, id, timestamp);
}
