import type { Handlers, Request } from '../../../shared/cluster/request.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { codeOf, StrataError } from '../../../shared/errors.ts';
import type { Approval } from '../rules/approval.ts';
import type { DecisionLink, DecisionLinks } from '../rules/decision-links.ts';
import { approvalView } from '../rules/approval.ts';
import { decide, findApproval, type ApprovalOptions } from './approvals.ts';

type View = ResultOf<'notifier.links.show'>;
const viewOf = (
  { decision }: DecisionLink,
  { title, action, risk_level, description, state, expires_at }: Approval,
): View => ({ decision, title, action, risk_level, description, state, expires_at });

/** Opening a link shows what it would decide; deciding is a second request, since mail scanners open links. */
export function linkActions(options: ApprovalOptions, links: () => DecisionLinks) {
  const { db, vault } = options;

  async function read(token: string): Promise<{ link: DecisionLink; view: View }> {
    const [clock] = await db.query<{ now: Date }[]>('SELECT now() AS now');
    const opened = links().open(token, clock!.now);
    if ('problem' in opened) {
      throw opened.problem === 'expired'
        ? new StrataError('conflict', 'This link has expired.')
        : new StrataError('not_found', 'This link is not valid.');
    }
    const { link } = opened;
    return {
      link,
      view: viewOf(
        link,
        approvalView(await findApproval(db.manager, link.tenantId, link.approvalId)),
      ),
    };
  }

  /** Whoever was asked as a member must still be one, with an account that may sign in; the id is that of the member, or the address of who is none. */
  async function deciderOf(
    { tenantId, approvalId, recipient }: DecisionLink,
    request: Request,
  ): Promise<string> {
    const { frozen } = await findApproval(db.manager, tenantId, approvalId);
    const { groups, admins } = vault.open(frozen, tenantId);
    const member = [...Object.values(groups).flat(), ...admins].find(
      ({ email }) => email.toLowerCase() === recipient.toLowerCase(),
    );
    if (!member) return recipient;
    const membership = await request
      .call('tenant-config.members.resolve', { tenant_id: tenantId, user_id: member.user_id })
      .catch((error: unknown) => {
        throw codeOf(error) === 'not_found'
          ? new StrataError(
              'tenant_mismatch',
              'Whoever this link was sent to is no member of the tenant any more.',
            )
          : error;
      });
    if (membership.tenant_status === 'disabled') throw new StrataError('auth_tenant_disabled');
    const [account] = await request.call('auth.users.get', { user_ids: [member.user_id] });
    if (account?.status !== 'active')
      throw new StrataError(
        'tenant_mismatch',
        'Whoever this link was sent to has no account any more.',
      );
    return member.user_id;
  }

  return {
    'notifier.links.show': async ({ token }) => (await read(token)).view,

    async 'notifier.links.decide'({ token }, request) {
      const { link } = await read(token);
      const by = await deciderOf(link, request);
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
