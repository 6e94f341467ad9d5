import { createHash, randomUUID } from 'node:crypto';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import type { NoticeType } from '../../../shared/contracts/notifier.ts';
import type { EffectiveNotifications } from '../../../shared/contracts/notification-config.ts';
import type { ApprovalRow, DeliveryRow } from '../schema.ts';
import { approvalView, groupAt } from './approval.ts';

type Approver = ResultOf<'tenant-config.members.approvers'>['admins'][number];

/** What is kept of the configuration when an approval is made, sealed: later changes don't reach it. */
export interface Frozen {
  readonly config: Pick<EffectiveNotifications, 'webhook' | 'email' | 'chat'>;
  /** Revision of the configuration. */
  readonly revision: number;
  readonly groups: Readonly<Record<string, readonly Approver[]>>;
  readonly admins: readonly Approver[];
}
/** Where a notice goes: `place` finds it in the frozen configuration. */
export type Target = Pick<DeliveryRow, 'channel' | 'place' | 'target' | 'endpoint_key'>;
export type Draft = Pick<DeliveryRow, 'id' | 'type' | 'hop' | 'body'> & Target;

const digest = (text: string): string =>
  createHash('sha256').update(text).digest('base64url').slice(0, 22);

export const webhookTarget = (tenantId: string, url: string, index: number): Target => ({
  channel: 'webhook',
  place: String(index),
  target: URL.parse(url)?.origin ?? 'not a URL',
  endpoint_key: `webhook ${tenantId} ${digest(url)}`,
});
export const chatTarget = (tenantId: string, url: string): Target => ({
  channel: 'chat',
  place: 'google_chat',
  target: URL.parse(url)?.origin ?? 'not a URL',
  endpoint_key: `chat ${tenantId} ${digest(url)}`,
});
export const emailTarget = (tenantId: string, address: string): Target => ({
  channel: 'email',
  place: address.toLowerCase(),
  target: address,
  endpoint_key: `email ${tenantId}`,
});

/** Webhooks and chat get every hop; mail goes to the members of the hop's group, else to the first list that names anybody. */
export function targetsOf(
  approval: Pick<ApprovalRow, 'tenant_id' | 'chain'>,
  { config, groups, admins }: Frozen,
  hop: number,
): Target[] {
  const { tenant_id: tenant } = approval;
  const group = groupAt(approval.chain, hop);
  const members = group === null ? [] : (groups[group] ?? []);
  const lists = [
    members.map(({ email }) => email),
    config.email.approval_recipients,
    config.email.default_recipients,
  ];
  const addresses = lists.find(({ length }) => length > 0) ?? [];
  const chat = config.chat?.google_chat?.webhook_url;
  const targets = [
    ...config.webhook.endpoints.map(({ url }, index) => webhookTarget(tenant, url, index)),
    ...(chat === undefined ? [] : [chatTarget(tenant, chat)]),
    ...addresses.map((address) => emailTarget(tenant, address)),
  ];
  // Nobody would hear of it: then the administrators do.
  const all = targets.length > 0 ? targets : admins.map(({ email }) => emailTarget(tenant, email));
  return [...new Map(all.map((target) => [`${target.channel} ${target.place}`, target])).values()];
}

/** One notice to each target. The body is made once and the same in every attempt; its id is the receiver's key for duplicates. */
export const noticesOf = (
  approval: ApprovalRow,
  type: NoticeType,
  targets: readonly Target[],
  now: Date,
): Draft[] => {
  const { id: approvalId, ...data } = approvalView(approval);
  return targets.map((target) => {
    const id = randomUUID();
    const body = {
      type,
      id: webhookId(id),
      timestamp: now.toISOString(),
      data: { approval_id: approvalId, ...data },
    };
    return { id, type, hop: approval.hop, body: JSON.stringify(body), ...target };
  });
};

export const webhookId = (deliveryId: string): string => `ntf_${deliveryId.replaceAll('-', '')}`;
