import type { EffectiveNotifications } from '../../../shared/contracts/notification-config.ts';
import type { Mailer } from '../../../shared/mail/mailer.ts';
import type { HttpClient } from '../../../shared/outgoing/http-client.ts';
import type { Settings } from '../../../shared/settings.ts';
import { chatChannel } from '../channels/chat.ts';
import { sendEmail } from '../channels/email.ts';
import type { Outcome } from '../channels/outcome.ts';
import { webhookChannel } from '../channels/webhook.ts';
import type { Approval } from '../rules/approval.ts';
import { renderApprovalMail } from '../rules/approval-mail.ts';
import { waitBefore } from '../rules/backoff.ts';
import type { ChatNotice } from '../rules/chat-message.ts';
import { createDecisionLinks } from '../rules/decision-links.ts';
import { layOut, type DecisionUrls } from '../rules/mail-layout.ts';
import { webhookId, type Frozen, type Target } from '../rules/notice.ts';
import type { Claimed } from '../stores/claims.ts';

export interface Sending {
  readonly settings: () => Settings;
  readonly http: HttpClient;
  readonly mailer: Mailer;
}
export type Sender = ReturnType<typeof createSender>;
type Config = Pick<EffectiveNotifications, 'webhook' | 'email' | 'chat'>;
type Post = Pick<Target, 'channel' | 'place'> & { readonly body: string };

const testMail = layOut({
  subject: 'Test notice of Strata',
  says: 'Somebody tests where notices of approvals go. Nothing is asked of you.',
  title: 'Test notice',
  rows: [],
  description: '',
  links: undefined,
  branding: { above: '', below: [], color: '#1f4fbf', logo: '' },
});

export function createSender({ settings, http, mailer }: Sending) {
  function linksFor({
    approval_id: approvalId,
    tenant_id: tenantId,
    target: recipient,
    expires_at: expiresAt,
  }: Claimed): DecisionUrls {
    const links = createDecisionLinks(settings());
    const url = (decision: 'approve' | 'deny'): string =>
      `${settings().base_url}/approvals/decision?token=${links.issue({ approvalId, tenantId, decision, recipient, expiresAt })}`;
    return { approve_url: url('approve'), deny_url: url('deny') };
  }

  const webhook = webhookChannel(http);
  const chat = chatChannel(http);
  /** A webhook gets the body as it is, a chat space a message made from it. */
  function post({ channel, place, body }: Post, id: string, config: Config): Promise<Outcome> {
    if (channel === 'webhook')
      return webhook({ id, body, endpoint: config.webhook.endpoints[Number(place)]! });
    const notice = JSON.parse(body) as ChatNotice & { data: { tenant_id: string } };
    const { webhook_url: url, include_links: wanted } = config.chat!.google_chat!;
    const page = `${settings().frontend_origin}/tenants/${notice.data.tenant_id}/approvals/${notice.data.approval_id}`;
    return chat({
      googleChat: { webhook_url: url!, include_links: wanted },
      notice,
      links: [{ label: 'Open', url: page }],
    });
  }

  return {
    /** One attempt. The body stands; signatures and links are made afresh. */
    async send(claimed: Claimed, { config }: Frozen): Promise<Outcome> {
      const id = webhookId(claimed.id);
      if (claimed.channel !== 'email') return post(claimed, id, config);
      const { from_email: from, template_overrides: overrides = {} } = config.email;
      const { data } = JSON.parse(claimed.body) as { data: Approval };
      const mail = renderApprovalMail(
        claimed.type,
        { ...data, id: claimed.approval_id },
        { links: linksFor(claimed), overrides },
      );
      return sendEmail(mailer, { id, to: claimed.target, from, mail });
    },

    test: (
      target: Target & { readonly body: string },
      id: string,
      config: Config,
    ): Promise<Outcome> =>
      target.channel === 'email'
        ? sendEmail(mailer, {
            id,
            to: target.target,
            from: config.email.from_email,
            mail: testMail,
          })
        : post(target, id, config),

    /** Webhooks as their endpoint says, the others as the process defaults say. */
    waits({ channel, place }: Claimed, { config }: Frozen) {
      const current = settings();
      const { retry_attempts: retries, backoff } =
        channel === 'webhook'
          ? config.webhook.endpoints[Number(place)]!
          : {
              retry_attempts: current.approval_webhook_retry_attempts,
              backoff: {
                initial_seconds: current.approval_webhook_backoff_initial_seconds,
                factor: current.approval_webhook_backoff_factor,
                max_seconds: current.approval_webhook_backoff_max_seconds,
              },
            };
      return { retries, waitMs: (round: number) => waitBefore(round, backoff) };
    },
  };
}
