/** The emergency stop: a guardrail that holds `automation_enabled` at false over every layer. */
import { Bound } from '../../shared/contracts/bounds.ts';
import { columns } from '../output.ts';
import { Misused, type Command, type Input } from '../command.ts';
import { given, ownerIds, platformWord, textOf } from '../typed.ts';
import { answerWritten, guardFlags, guardOptions } from './config-commands.ts';

const complete = { tenant: ownerIds };

/** A guardrail that was there may only warn, or hold for some service types: a stop is for all. */
const withoutLimits = Object.fromEntries(Object.keys(Bound.properties).map((name) => [name, null]));

async function hold(
  { session, args: { tenant }, flags, answer }: Input,
  bound: object | null,
  reason: string | undefined,
): Promise<void> {
  const body = { automation_enabled: bound };
  const isOfAll = tenant === platformWord;
  const options = given({ reason, ...guardOptions(flags) });
  const written = isOfAll
    ? await session.call('global-config.bounds.patch', { body, ...options })
    : await session.call('tenant-config.bounds.patch', { tenant_id: tenant, body, ...options });
  if ('change_set' in written) {
    answerWritten(answer, written);
    return;
  }
  const rows = [
    { of: isOfAll ? 'every tenant' : tenant, automation: bound ? 'stopped' : 'as the layers say' },
  ];
  answer(written, () => columns(rows));
}

const stop: Command = {
  name: 'stop',
  parameters: '<tenant>',
  summary: 'refuse every automation from now on; --reason is shown with each refusal',
  complete,
  flags: { reason: { type: 'string', summary: 'why; needed' }, ...guardFlags },
  async run(input) {
    const reason = textOf(input.flags.reason)?.trim();
    if (!reason) throw new Misused('--reason is missing: each refusal shows it');
    await hold(input, { ...withoutLimits, const: false, reason }, reason);
  },
};

const resume: Command = {
  name: 'resume',
  parameters: '<tenant>',
  summary: 'lift the emergency stop: layers and other guardrails hold again',
  complete,
  flags: { reason: { type: 'string', summary: 'why, for the history' }, ...guardFlags },
  run: (input) => hold(input, null, textOf(input.flags.reason)),
};

export const stopCommands: readonly Command[] = [stop, resume];
