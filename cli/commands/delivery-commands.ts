/** Commands about deliveries: which notice went where, and what became of it. */
import type { ResultOf } from '../../shared/contracts/index.ts';
import { channels } from '../../shared/contracts/notifier.ts';
import type { Command } from '../command.ts';
import { columns } from '../output.ts';
import { countOf, given, textOf } from '../typed.ts';

type Delivery = ResultOf<'notifier.deliveries.list'>['items'][number];

const rowOf = ({ id, target, channel, type, state, attempts, reason, created_at }: Delivery) => ({
  id,
  target,
  channel,
  notice: type.replace('approval.', ''),
  state,
  attempts,
  when: created_at,
  reason,
});

const list: Command = {
  name: 'deliveries list',
  parameters: '<tenant>',
  summary: 'newest first',
  flags: {
    state: { type: 'string', summary: 'only pending, delivered, failed or cancelled' },
    channel: { type: 'string', summary: `only of one channel: ${channels.join(', ')}` },
    approval: { type: 'string', summary: 'only of this approval' },
    limit: { type: 'string', summary: 'how many, 20 by default' },
  },
  async run({ session, args: { tenant }, flags, answer }) {
    const page = await session.call(
      'notifier.deliveries.list',
      given({
        tenant_id: tenant,
        state: textOf(flags.state),
        channel: textOf(flags.channel),
        approval_id: textOf(flags.approval),
        limit: countOf(flags.limit, 20),
      }),
    );
    answer(page, () => columns(page.items.map(rowOf)));
  },
};

const show: Command = {
  name: 'deliveries show',
  parameters: '<tenant> <delivery>',
  summary: 'one of them, with every attempt',
  async run({ session, args: { tenant, delivery }, answer }) {
    const params = { tenant_id: tenant, delivery_id: delivery };
    answer(await session.call('notifier.deliveries.get', params));
  },
};

const replay: Command = {
  name: 'deliveries replay',
  parameters: '<tenant> <delivery>',
  summary: 'send a notice again, under the same webhook-id',
  async run({ session, args: { tenant, delivery }, answer }) {
    const params = { tenant_id: tenant, delivery_id: delivery };
    const again = await session.call('notifier.deliveries.replay', params);
    answer(again, () => columns([rowOf(again)]));
  },
};

export const deliveryCommands: readonly Command[] = [list, show, replay];
