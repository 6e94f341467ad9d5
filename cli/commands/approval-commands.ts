/** Commands about approvals. */
import type { ResultOf } from '../../shared/contracts/index.ts';
import { approvalStates, longestWait } from '../../shared/contracts/notifier.ts';
import { exitCodes, type Command, type Input } from '../command.ts';
import { intentFlags, intentOf } from '../intent.ts';
import { throughOutages } from '../outages.ts';
import { columns } from '../output.ts';
import { countOf, given, jsonOf, textOf } from '../typed.ts';

type Approval = ResultOf<'notifier.approvals.get'>;

const rowOf = ({ id, state, risk_level, action, current_group, expires_at, title }: Approval) => ({
  id,
  state,
  risk: risk_level,
  action,
  group: current_group,
  expires: expires_at,
  title,
});

const list: Command = {
  name: 'approvals list',
  parameters: '<tenant>',
  summary: 'newest first',
  flags: {
    state: { type: 'string', summary: `only ${approvalStates.join(', ')}` },
    limit: { type: 'string', summary: 'how many, 20 by default' },
  },
  async run({ session, args, flags, answer }) {
    const page = await session.call(
      'notifier.approvals.list',
      given({
        tenant_id: args.tenant,
        state: textOf(flags.state),
        limit: countOf(flags.limit, 20),
      }),
    );
    answer(page, () => columns(page.items.map(rowOf)));
  },
};

const show: Command = {
  name: 'approvals show',
  parameters: '<tenant> <approval>',
  summary: 'one approval',
  async run({ session, args: { tenant, approval }, answer }) {
    const params = { tenant_id: tenant, approval_id: approval };
    answer(await session.call('notifier.approvals.get', params));
  },
};

const request: Command = {
  name: 'approvals request',
  parameters: '<tenant> <action> <title>',
  summary: 'ask for approval of an action; the title says to people what it is about',
  flags: {
    ...intentFlags,
    resource: { type: 'string', summary: 'what would be changed' },
    description: { type: 'string', summary: 'more than the title says' },
    expires: { type: 'string', summary: 'when it ends undecided, such as 2027-01-31T18:00:00Z' },
    metadata: { type: 'string', summary: 'a JSON object that is kept with it' },
    'idempotency-key': { type: 'string', summary: 'asked again with it: the same approval' },
  },
  async run({ session, args: { tenant, action, title }, flags, answer }) {
    const metadata = textOf(flags.metadata);
    const body = given({
      ...intentOf(action!, flags),
      title,
      resource: textOf(flags.resource),
      description: textOf(flags.description),
      expires_at: textOf(flags.expires),
      metadata: metadata === undefined ? undefined : jsonOf(metadata),
      idempotency_key: textOf(flags['idempotency-key']),
    });
    const made = await session.call('notifier.approvals.request', { tenant_id: tenant, body });
    answer(made, () => columns([rowOf(made)]));
  },
};

async function decide(
  { session, args: { tenant, approval }, flags, answer }: Input,
  decision: 'approve' | 'deny',
): Promise<void> {
  const decided = await session.call('notifier.approvals.decide', {
    tenant_id: tenant,
    approval_id: approval,
    body: given({ decision, comment: textOf(flags.comment) }),
  });
  answer(decided, () => columns([rowOf(decided)]));
}
const comment = { comment: { type: 'string', summary: 'kept with the decision' } } as const;

const approve: Command = {
  name: 'approvals approve',
  parameters: '<tenant> <approval>',
  summary: 'decide that it may be done',
  flags: comment,
  run: (input) => decide(input, 'approve'),
};

const deny: Command = {
  name: 'approvals deny',
  parameters: '<tenant> <approval>',
  summary: 'decide that it may not be done',
  flags: comment,
  run: (input) => decide(input, 'deny'),
};

const wait: Command = {
  name: 'approvals wait',
  parameters: '<tenant> <approval>',
  summary: `until it is decided; ends with ${exitCodes.refused} where it is not granted`,
  flags: { timeout: { type: 'string', summary: 'for so many minutes at most, 1 to 999' } },
  async run({ session, args: { tenant, approval }, flags, answer, signal }) {
    const minutes = flags.timeout === undefined ? Infinity : countOf(flags.timeout, 1);
    const until = Date.now() + minutes * 60_000;
    const address = { tenant_id: tenant, approval_id: approval };
    let found = await session.call('notifier.approvals.get', address);
    while (found.state === 'pending' && Date.now() < until && !signal.aborted) {
      const seconds = Math.min(longestWait, Math.ceil((until - Date.now()) / 1000), 30);
      const params = { ...address, revision: found.revision ?? undefined, wait: seconds };
      const ask = () => session.call('notifier.approvals.get', given(params));
      found = await throughOutages(ask, { until, signal });
    }
    answer(found, () => columns([rowOf(found)]));
    return found.state === 'approved' ? 0 : exitCodes.refused;
  },
};

export const approvalCommands: readonly Command[] = [list, show, request, approve, deny, wait];
