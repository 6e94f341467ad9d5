/** Commands about event destinations: how far each has come, sending again, and trying one. */
import type { ResultOf } from '../../shared/contracts/index.ts';
import type { Command } from '../command.ts';
import { columns } from '../output.ts';
import { eventNumberOf, ownerIds, platformWord, textOf } from '../typed.ts';

type State = ResultOf<'audit.destinations.replay'>;

const complete = { tenant: ownerIds };

const rowOf = ({ name, target, state, seq, head, lag_seconds, failures, error }: State) => ({
  name,
  target,
  state,
  seq,
  head,
  lag: `${Math.round(lag_seconds)} s`,
  failures,
  error,
});

const list: Command = {
  name: 'destinations list',
  parameters: '<tenant>',
  summary: `how far each event destination has come, also of the ${platformWord}`,
  complete,
  async run({ session, args: { tenant }, answer }) {
    const states =
      tenant === platformWord
        ? await session.call('audit.platform-destinations.list', {})
        : await session.call('audit.destinations.list', { tenant_id: tenant });
    answer(states, () => columns(states.items.map(rowOf)));
  },
};

const replay: Command = {
  name: 'destinations replay',
  parameters: '<tenant> <name>',
  summary: 'send a destination its events again, the first of the chain first',
  complete,
  flags: { from: { type: 'string', summary: 'the number of the first event; 1 by default' } },
  async run({ session, args: { tenant, name }, flags, answer }) {
    const body = { from_seq: eventNumberOf(textOf(flags.from) ?? '1') };
    const params = { name, body };
    const state =
      tenant === platformWord
        ? await session.call('audit.platform-destinations.replay', params)
        : await session.call('audit.destinations.replay', { tenant_id: tenant, ...params });
    answer(state, () => columns([rowOf(state)]));
  },
};

const test: Command = {
  name: 'destinations test',
  parameters: '<tenant> <name>',
  summary: 'send a destination a test; ends with 1 where it did not arrive',
  complete,
  async run({ session, args: { tenant, name }, answer }) {
    const outcome =
      tenant === platformWord
        ? await session.call('audit.platform-destinations.test', { name })
        : await session.call('audit.destinations.test', { tenant_id: tenant, name });
    answer(outcome, () => columns([outcome]));
    return outcome.delivered ? 0 : 1;
  },
};

export const destinationCommands: readonly Command[] = [list, replay, test];
