/**
 * The links in mails, by which a recipient decides without signing in. Opening a link only shows what it would decide; deciding is a
 * second request, because mail scanners open links.
 */
import type { Handlers, Request } from '../../../shared/cluster/request.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { codeOf, StrataError } from '../../../shared/errors.ts';
import { approvalView, type Approval } from '../rules/approval.ts';
import type { DecisionLink, DecisionLinks } from '../rules/decision-links.ts';
import { databaseTime } from '../stores/clock.ts';
import { decide, findApproval, type ApprovalOptions } from './approvals.ts';

type LinkView = ResultOf<'notifier.links.show'>;

export function linkActions(options: ApprovalOptions, decisionLinks: () => DecisionLinks) {
  const { db } = options;

  /** Refuses a link that is not ours, or has expired. */
  async function openLink(token: string): Promise<DecisionLink> {
    const now = await databaseTime(db.manager);
    const opened = decisionLinks().open(token, now);
    if ('link' in opened) return opened.link;
    throw opened.problem === 'expired'
      ? new StrataError('conflict', 'This link has expired.')
      : new StrataError('not_found', 'This link is not valid.');
  }

  return {
    async 'notifier.links.show'({ token }) {
      const link = await openLink(token);
      const row = await findApproval(db.manager, link.tenantId, link.approvalId);
      return viewOf(link, approvalView(row));
    },

    async 'notifier.links.decide'({ token }, request) {
      const link = await openLink(token);
      const by = await deciderOf(options, link, request);
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

/**
 * In whose name the link decides: the id of the member it was sent to, or the address of a recipient who is no member. Whoever was
 * asked as a member must still be one, with an account that may sign in.
 */
async function deciderOf(
  { db, vault }: ApprovalOptions,
  { tenantId, approvalId, recipient }: DecisionLink,
  request: Request,
): Promise<string> {
  const { frozen } = await findApproval(db.manager, tenantId, approvalId);
  const { groups, admins } = vault.open(frozen, tenantId);
  const asked = [...Object.values(groups).flat(), ...admins];
  const address = recipient.toLowerCase();
  const member = asked.find(({ email }) => email.toLowerCase() === address);
  if (!member) return recipient;

  await requireMember(tenantId, member.user_id, request);
  const [account] = await request.call('auth.users.get', { user_ids: [member.user_id] });
  if (account?.status !== 'active')
    throw new StrataError(
      'tenant_mismatch',
      'Whoever this link was sent to has no account any more.',
    );
  return member.user_id;
}

async function requireMember(tenantId: string, userId: string, request: Request): Promise<void> {
  try {
    const membership = await request.call('tenant-config.members.resolve', {
      tenant_id: tenantId,
      user_id: userId,
    });
    if (membership.tenant_status === 'disabled') throw new StrataError('auth_tenant_disabled');
  } catch (error) {
    if (codeOf(error) !== 'not_found') throw error;
    throw new StrataError(
      'tenant_mismatch',
      'Whoever this link was sent to is no member of the tenant any more.',
    );
  }
}
