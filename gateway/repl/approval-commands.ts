/** Commands about approvals. */
import { approvalStates } from '../../shared/contracts/notifier.ts';
import { Misused, type Command } from './command.ts';
import { columns, json } from './output.ts';
import { countOf, given, tenantIds, textOf } from './typed.ts';

const list: Command = {
  name: 'approvals list',
  parameters: '<tenant>',
  summary: 'newest first',
  complete: { tenant: tenantIds },
  flags: {
    state: { type: 'string', summary: `only ${approvalStates.join(', ')}` },
    limit: { type: 'string', summary: 'how many, 20 unless told' },
  },
  async run({ session, args, flags, print }) {
    const { items } = await session.call(
      'notifier.approvals.list',
      given({
        tenant_id: args.tenant,
        state: textOf(flags.state),
        limit: countOf(flags.limit, 20),
      }),
    );
    const rows = items.map(
      ({ id, state, risk_level, action, current_group, expires_at, title }) => ({
        id,
        state,
        risk: risk_level,
        action,
        group: current_group,
        expires: expires_at,
        title,
      }),
    );
    print(columns(rows));
  },
};

const show: Command = {
  name: 'approvals show',
  parameters: '<tenant> <approval>',
  summary: 'one approval',
  complete: { tenant: tenantIds },
  async run({ session, args: { tenant, approval }, print }) {
    const params = { tenant_id: tenant, approval_id: approval };
    print(json(await session.call('notifier.approvals.get', params)));
  },
};

const decide: Command = {
  name: 'approvals decide',
  parameters: '<tenant> <approval> <decision>',
  summary: 'approve or deny',
  complete: { tenant: tenantIds, decision: async () => ['approve', 'deny'] },
  flags: { comment: { type: 'string', summary: 'kept with the decision' } },
  async run({ session, args: { tenant, approval, decision }, flags, print }) {
    if (decision !== 'approve' && decision !== 'deny')
      throw new Misused('the decision is approve or deny');
    const answer = await session.call('notifier.approvals.decide', {
      tenant_id: tenant,
      approval_id: approval,
      body: given({ decision, comment: textOf(flags.comment) }),
    });
    print(json(answer));
  },
};

export const approvalCommands: readonly Command[] = [list, show, decide];
