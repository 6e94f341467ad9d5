/** Notices by mail: one mail to one recipient, with links of the recipient's own. */
import { basename } from 'node:path';
import { MailError } from '../../../shared/mail/mail-error.ts';
import type { Mailer, SentMail } from '../../../shared/mail/mailer.ts';
import { renderApprovalMail } from '../rules/approval-mail.ts';
import type { DecisionLinks } from '../rules/decision-links.ts';
import {
  defaultColor,
  layOut,
  type DecisionUrls,
  type RenderedMail,
} from '../rules/mail-layout.ts';
import { parseBody, testNotice } from '../rules/notice.ts';
import type { NoticeChannel, Outcome, OutgoingNotice } from './channel.ts';

export interface EmailOptions {
  readonly mailer: Mailer;
  readonly decisionLinks: () => DecisionLinks;
  /** Where links in mails lead: the gateway, as people reach it. */
  readonly baseUrl: () => string;
}

const testMail = layOut({
  subject: 'Test notice of Strata',
  says: 'Somebody tests where notices of approvals go. Nothing is asked of you.',
  title: 'Test notice',
  rows: [],
  description: '',
  links: undefined,
  branding: { above: '', below: [], color: defaultColor, logo: '' },
});

export function emailChannel({ mailer, decisionLinks, baseUrl }: EmailOptions): NoticeChannel {
  function decisionUrls(
    approval: { readonly id: string; readonly tenant_id: string },
    { target: recipient, expires_at: expiresAt }: OutgoingNotice,
  ): DecisionUrls {
    const links = decisionLinks();
    const urlOf = (decision: 'approve' | 'deny'): string => {
      const { id: approvalId, tenant_id: tenantId } = approval;
      const token = links.issue({ approvalId, tenantId, decision, recipient, expiresAt });
      return `${baseUrl()}/approvals/decision?token=${token}`;
    };
    return { approve_url: urlOf('approve'), deny_url: urlOf('deny') };
  }

  return {
    async send(notice, { email }) {
      const { from_email: from, template_overrides: overrides } = email;
      const { id, target: to } = notice;
      const body = parseBody(notice.body);
      if (body.type === testNotice) return sendEmail(mailer, { id, to, from, mail: testMail });

      const approval = { ...body.data, id: body.data.approval_id };
      const links = decisionUrls(approval, notice);
      const mail = renderApprovalMail(body.type, approval, { links, overrides });
      return sendEmail(mailer, { id, to, from, mail });
    },
  };
}

export interface EmailRequest {
  /** Message-ID is made from it, so that a mailbox can tell a repeated mail. */
  readonly id: string;
  readonly to: string;
  readonly from: string;
  readonly mail: RenderedMail;
}

/** Sends one mail to one recipient. */
export async function sendEmail(
  mailer: Mailer,
  { id, to, from, mail }: EmailRequest,
): Promise<Outcome> {
  const began = performance.now();
  const attempted = () => ({ duration_ms: performance.now() - began, status: null });
  try {
    const sent = await mailer.send({ ...mail, to: [to], messageId: id, from });
    return { result: 'delivered', ...attempted(), answer: whereItWent(sent), error: null };
  } catch (error) {
    if (!(error instanceof MailError)) throw error;
    const result = error.retry ? 'retry' : 'final';
    return { result, ...attempted(), answer: null, error: error.message };
  }
}

const whereItWent = ({ messageId, file }: SentMail): string =>
  file === undefined ? `accepted as ${messageId}` : `written to ${basename(file)}`;
