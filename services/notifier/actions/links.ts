/**
 * The links in mails, by which a recipient decides without signing in, for as long as the recipient could decide otherwise. Opening a
 * link only shows what it would decide; deciding is a second request, because mail scanners open links.
 */
import type { Handlers, Request } from '../../../shared/cluster/request.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { StrataError } from '../../../shared/errors.ts';
import { approvalView, type Approval } from '../rules/approval.ts';
import type { DecisionLink, DecisionLinks } from '../rules/decision-links.ts';
import type { ApprovalRow } from '../schema.ts';
import { databaseTime } from '../stores/clock.ts';
import { decide, findApproval, type ApprovalOptions } from './approvals.ts';

type LinkView = ResultOf<'notifier.links.show'>;

/** A link that holds now. */
interface HeldLink {
  readonly link: DecisionLink;
  readonly row: ApprovalRow;
  /** In whose name it decides: the id of a member, or the address of a recipient without an account. */
  readonly by: string;
}

export function linkActions(options: ApprovalOptions, decisionLinks: () => DecisionLinks) {
  const { db } = options;

  /** Only the database's clock says whether a link has expired. A made-up token, known by its signature, costs no query. */
  async function openToken(token: string): Promise<DecisionLink> {
    const links = decisionLinks();
    const bySignature = links.open(token, new Date());
    if ('problem' in bySignature && bySignature.problem === 'invalid')
      throw new StrataError('not_found', 'This link is not valid.');
    const now = await databaseTime(db.manager);
    const opened = links.open(token, now);
    if ('link' in opened) return opened.link;
    throw new StrataError('conflict', 'This link has expired.');
  }

  /**
   * Refuses a link that is not ours, has expired, or was sent to somebody who may not decide now: with the same answer whatever the
   * reason, since whoever holds a mail need not learn what has changed in the tenant.
   */
  async function openLink(token: string, request: Request): Promise<HeldLink> {
    const link = await openToken(token);
    const row = await findApproval(db.manager, link.tenantId, link.approvalId);
    const { decider } = await request.call('tenant-config.members.decider', {
      tenant_id: link.tenantId,
      email: link.recipient,
      chain: row.chain,
    });
    if (decider === null)
      throw new StrataError(
        'insufficient_role',
        'Whoever this link was sent to may not decide this approval.',
      );
    return { link, row, by: decider };
  }

  return {
    async 'notifier.links.show'({ token }, request) {
      const { link, row } = await openLink(token, request);
      return viewOf(link, approvalView(row));
    },

    async 'notifier.links.decide'({ token }, request) {
      const { link, by } = await openLink(token, request);
      const decided = await decide(
        options,
        link.tenantId,
        link.approvalId,
        { decision: link.decision },
        { by, via: 'link', actor: { type: 'user', id: by } },
        request,
      );
      return viewOf(link, decided);
    },
  } satisfies Handlers;
}

/** What the page of a link shows: no more than its mail did. */
const viewOf = ({ decision }: DecisionLink, approval: Approval): LinkView => ({
  decision,
  title: approval.title,
  action: approval.action,
  risk_level: approval.risk_level,
  description: approval.description,
  state: approval.state,
  expires_at: approval.expires_at,
});
