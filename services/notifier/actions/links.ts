/**
 * The links in mails, by which a recipient decides without signing in, for as long as the recipient
 * could decide otherwise. Opening a link only shows what it would decide; deciding is a second
 * request, because mail scanners open links.
 */
import type { Static } from 'typebox';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { accountKey } from '../../../shared/contracts/auth.ts';
import { LinkView } from '../../../shared/contracts/notifier.ts';
import { StrataError } from '../../../shared/errors.ts';
import { viewBy } from '../../../shared/schema/view.ts';
import { approvalView, type Approval } from '../rules/approval.ts';
import { groupsAsked, requireRight, type Candidate } from '../rules/approval-policy.ts';
import type { DecisionLink, DecisionLinks } from '../rules/decision-links.ts';
import type { FrozenConfig } from '../rules/frozen-config.ts';
import { overlap } from '../rules/principals.ts';
import { databaseTime } from '../stores/clock.ts';
import { findApproval } from '../stores/approvals.ts';
import type { ApprovalRow } from '../schema.ts';
import { askedOf, decide, withValidApprovals, type ApprovalOptions } from './deciding.ts';

/** The addresses that decide without an account, which none does once a group could have. */
const recipientsOf = (
  { recipients = [], groups_with_deciders: staffed = [] }: FrozenConfig,
  groups: readonly string[],
): string[] => (groups.some((group) => staffed.includes(group)) ? [] : [...recipients]);

export function linkActions(options: ApprovalOptions, decisionLinks: () => DecisionLinks) {
  const { db, vault } = options;

  /**
   * Only the database's clock says whether a link has expired. A made-up token, known by its
   * signature, costs no query.
   */
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

  /** In whose name an address decides now: a member's, or its own where it has no account. */
  async function candidateOf(
    { tenantId, recipient }: Pick<DecisionLink, 'tenantId' | 'recipient'>,
    row: ApprovalRow,
    { call }: Request,
    via: 'link' | 'slack' = 'link',
  ): Promise<{ readonly candidate: Candidate; readonly tenantName: string }> {
    const found = await call('tenant-config.members.decider', {
      tenant_id: tenantId,
      email: recipient,
      ...askedOf(row),
      recipients: recipientsOf(vault.open(row.frozen, tenantId), groupsAsked(row.chain, row.hop)),
    });
    const { decider, why_not: whyNot, revisions, tenant_name: tenantName } = found;
    const { id = recipient, name = recipient, right = null } = decider ?? {};
    const known = { type: 'user', api_key: null, via, isMachine: false } as const;
    const candidate = {
      ...known,
      id,
      name,
      email: recipient,
      right,
      whyNot,
      revisions,
      // Any account may come to be that of an address without one.
      ...(right !== 'recipient' && { identities: [accountKey({ user_id: id })] }),
    };
    return { candidate, tenantName };
  }

  /**
   * Refuses whoever could not decide, so that nobody reads more in it than they could otherwise.
   */
  async function openLink(token: string, request: Request) {
    const link = await openToken(token);
    const row = await findApproval(db.manager, link.tenantId, link.approvalId);
    const found = await candidateOf(link, row, request);
    requireRight(row, found.candidate);
    return { link, row, ...found };
  }

  return {
    async 'notifier.links.show'({ token }, request) {
      const { link, row: found, candidate, tenantName } = await openLink(token, request);
      const row = await withValidApprovals(found, request);
      const hasApproved = (row.approved_by ?? []).some((each) => overlap(each, candidate));
      return viewOf(link, approvalView(row), tenantName, hasApproved);
    },

    /** Whoever holds a link that approves has been asked, and may as well refuse. */
    async 'notifier.links.decide'({ token, body = {} }, request) {
      const { link, tenantName } = await openLink(token, request);
      const { tenantId, approvalId } = link;
      const { decision = link.decision } = body;
      const said = body.comment?.trim() ?? '';
      if (decision === 'approve' && link.decision === 'deny')
        throw new StrataError(
          'insufficient_scope',
          'This link denies. The other one in the mail approves.',
        );
      const find = async (row: ApprovalRow): Promise<Candidate> => {
        const { candidate } = await candidateOf(link, row, request);
        return candidate;
      };
      const given = { decision, ...(said !== '' && { comment: said }) };
      const decided = await decide(options, tenantId, approvalId, given, find, request);
      return viewOf(link, decided, tenantName, decision === 'approve');
    },
    /** The channel of the question gives nothing: the rights are those of the address. */
    async 'notifier.slack.decide'(
      { tenant_id: tenantId, approval_id: id, email, decision, revision },
      request,
    ) {
      const find = async (row: ApprovalRow): Promise<Candidate> => {
        const who = { tenantId, recipient: email };
        const { candidate } = await candidateOf(who, row, request, 'slack');
        // After the right was read, so that a change since then is seen under the row's lock.
        const now = await request.call('tenant-config.notifications.open', {
          tenant_id: tenantId,
        });
        if (now.revision !== revision)
          throw new StrataError('conflict', 'The notification_config has just changed. Try again.');
        refuseOtherSlack(vault.open(row.frozen, tenantId), now.config.slack);
        return candidate;
      };
      const {
        state,
        policy,
        approved_by: approvers,
      } = await decide(options, tenantId, id, { decision }, find, request);
      return { left: state === 'pending' ? policy.required - approvers.length : 0 };
    },
  } satisfies Handlers;
}

/**
 * Whoever holds an app of Slack says who clicks there. So it must be the one by which it was asked,
 * and not the requester's doing.
 */
function refuseOtherSlack(
  { config: { slack: asked }, slack_counts: counts }: FrozenConfig,
  now: FrozenConfig['config']['slack'],
): void {
  if (asked?.app_token !== now?.app_token || asked?.bot_token !== now?.bot_token)
    throw new StrataError(
      'insufficient_role',
      'The tokens of Slack were changed after this was asked for. Decide in Strata.',
    );
  if (counts !== true)
    throw new StrataError(
      'approval_decider_added_by_requester',
      'The requester set up Slack in the last 24 hours. Decide in Strata.',
    );
}

/** What the page of a link shows: what somebody needs to decide. */
const viewOf = (
  { decision }: DecisionLink,
  approval: Approval,
  tenantName: string,
  hasApproved: boolean,
): Static<typeof LinkView> => ({
  ...viewBy(LinkView, approval),
  decision,
  tenant_name: tenantName,
  required: approval.policy.required,
  approved_by: approval.approved_by.map(({ name, at, comment }) => ({ name, at, comment })),
  has_approved: hasApproved,
  metadata: approval.metadata,
});
