/** Notices by mail: one mail to one recipient, with links of the recipient's own. */
import { approvalAddress } from '../../../shared/mail/console-links.ts';
import { basename } from 'node:path';
import { budgetNoticeType } from '../../../shared/contracts/notifier.ts';
import { MailError } from '../../../shared/mail/mail-error.ts';
import type { Mailer, SentMail } from '../../../shared/mail/mailer.ts';
import { senderInUse } from '../../../shared/mail/sender.ts';
import { budgetMail } from '../rules/budget-notice.ts';
import { renderApprovalMail } from '../rules/approval-mail.ts';
import { createDecisionLinks } from '../rules/decision-links.ts';
import {
  defaultColor,
  layOut,
  type DecisionUrls,
  type RenderedMail,
} from '../rules/mail-layout.ts';
import { parseBody, tellsOfChangeSet, testNotice } from '../rules/notice.ts';
import type { Outcome } from '../../../shared/outgoing/send-result.ts';
import type { ChannelOptions, DestinationsOf, NoticeChannel, OutgoingNotice } from './channel.ts';

export const emailDestinations: DestinationsOf = (tenantId, _config, addresses) =>
  addresses.map((address) => ({
    channel: 'email',
    place: address.toLowerCase(),
    target: address,
    endpoint_key: `email ${tenantId}`,
  }));

const testMail = layOut({
  subject: 'Test notice of Strata',
  says: 'This is a test of where notices of approvals are sent. There is nothing to do.',
  title: 'Test notice',
  rows: [],
  description: '',
  links: undefined,
  branding: { above: '', below: [], color: defaultColor, logo: '' },
});

export function emailChannel({ mailer, settings, verifiedDomains }: ChannelOptions): NoticeChannel {
  function decisionUrls(
    approval: { readonly id: string; readonly tenant_id: string },
    { target: recipient, expires_at: expiresAt }: OutgoingNotice,
  ): DecisionUrls {
    const links = createDecisionLinks(settings());
    if (!expiresAt) throw new Error(`the approval ${approval.id} has no end`);
    const urlOf = (decision: 'approve' | 'deny'): string => {
      const { id: approvalId, tenant_id: tenantId } = approval;
      const token = links.issue({ approvalId, tenantId, decision, recipient, expiresAt });
      return `${settings().base_url}/approvals/decision?token=${token}`;
    };
    return {
      approve_url: urlOf('approve'),
      deny_url: urlOf('deny'),
      console_url: approvalAddress(settings(), approval.tenant_id, approval.id),
    };
  }

  /**
   * The sender that is vouched for now, whatever was when it was saved. A mail does not wait for
   * that to be known: where `auth` does not answer, it goes out from FROM_EMAIL.
   */
  async function senderFor(wanted: string, tenantId: string): Promise<string> {
    try {
      return await senderInUse(wanted, settings(), () => verifiedDomains(tenantId));
    } catch {
      return settings().from_email;
    }
  }

  return {
    async send(notice, { email }) {
      const { from_email: wanted, template_overrides: overrides } = email;
      const { id, target: to } = notice;
      const body = parseBody(notice.body);
      const { tenant_id: tenantId } = body.data;
      const from = await senderFor(wanted, tenantId);
      const send = (mail: RenderedMail): Promise<Outcome> =>
        sendEmail(mailer, { id, to, from, wanted, tenantId, mail });
      if (body.type === testNotice) return send(testMail);

      if (body.type === budgetNoticeType) return send(budgetMail(body.data));

      if (tellsOfChangeSet(body)) throw new Error(`${body.type} is no notice for a mail`);
      const approval = { ...body.data, id: body.data.approval_id };
      const links = decisionUrls(approval, notice);
      return send(renderApprovalMail(body.type, approval, { links, overrides }));
    },
  };
}

export interface EmailRequest {
  /** Message-ID is made from it, so that a mailbox can tell a repeated mail. */
  readonly id: string;
  readonly to: string;
  readonly from: string;
  /** The sender that the tenant wants; `from`, where absent. */
  readonly wanted?: string;
  readonly tenantId?: string | null;
  readonly mail: RenderedMail;
}

/** Sends one mail to one recipient. */
export async function sendEmail(
  mailer: Mailer,
  { id, to, from, wanted = from, tenantId = null, mail }: EmailRequest,
): Promise<Outcome> {
  const began = performance.now();
  const attempted = () => ({ duration_ms: performance.now() - began, status: null });
  try {
    const sent = await mailer.send({ ...mail, to, messageId: id, from, tenantId });
    return {
      result: 'delivered',
      ...attempted(),
      answer: whereItWent(sent) + senderNote(from, wanted),
      error: null,
    };
  } catch (error) {
    if (!(error instanceof MailError)) throw error;
    const result = error.retry ? 'retry' : 'final';
    return { result, ...attempted(), answer: null, error: error.message };
  }
}

const whereItWent = ({ messageId, file }: SentMail): string =>
  file === undefined ? `accepted as ${messageId}` : `written to ${basename(file)}`;

/** For the delivery log, where the mail is not from whom the tenant wants it to be. */
const senderNote = (from: string, wanted: string): string =>
  from === wanted ? '' : `; sent from ${from}: no one has verified the domain of ${wanted}`;
