/** The command that asks whether automation may act. */
import type { TakesBack } from '../../shared/contracts/decide.ts';
import { exitCodes, type Command } from '../command.ts';
import { intentFlags, intentOf, numberOf } from '../intent.ts';
import { columns, valueShown } from '../output.ts';
import { given, textOf } from '../typed.ts';

export const decideCommand: Command = {
  name: 'decide',
  parameters: '<tenant> <action>',
  summary: `whether automation may do it now; ends with ${exitCodes.refused} where it may not, or not without approval`,
  flags: {
    ...intentFlags,
    scaling: { type: 'string', summary: 'the factor by which it scales' },
    'takes-back': {
      type: 'string',
      summary: 'the automation, or the revision, that it takes back',
    },
    record: { type: 'boolean', summary: 'record it, whatever the tenant records' },
    at: { type: 'string', summary: 'at this time, such as 2027-01-31T18:00:00Z' },
  },
  async run({ session, args: { tenant, action }, flags, answer }) {
    const body = given({
      ...intentOf(action!, flags),
      resource_scaling: numberOf('scaling', flags),
      takes_back: takenBack(textOf(flags['takes-back'])),
      at: textOf(flags.at),
      record: flags.record === true ? true : undefined,
    });
    const decided = await session.call('config-resolver.decide', { tenant_id: tenant, body });
    answer(decided, () => {
      const rows = decided.reasons.map(({ rule, name, limit, asked, layer, source }) => ({
        rule: name === undefined ? rule : `${rule} ${name}`,
        limit: valueShown(limit),
        asked: valueShown(asked),
        layer,
        source,
      }));
      const later = decided.retry_at === undefined ? '' : `, again at ${decided.retry_at}`;
      const reasons = rows.length === 0 ? [] : [columns(rows)];
      const warnings = (decided.warnings ?? []).map(({ path, message }) => `${path}: ${message}`);
      return [`${decided.decision}${later}`, ...warnings, ...reasons].join('\n');
    });
    return decided.decision === 'allow' ? 0 : exitCodes.refused;
  },
};

const takenBack = (named: string | undefined): TakesBack | undefined => {
  if (named === undefined) return undefined;
  return /^[0-9]{1,15}$/.test(named) ? { revision: Number(named) } : { automation_id: named };
};
