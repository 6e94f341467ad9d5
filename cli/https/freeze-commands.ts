/** Commands about freezes: to make one of a calendar of holidays. */
import { readFileSync, statSync } from 'node:fs';
import { Temporal } from 'temporal-polyfill';
import { Misused, type Command } from '../command.ts';
import { answerWritten, guardFlags, guardOptions } from '../commands/config-commands.ts';
import { Failed } from '../session.ts';
import { given, platformWord, textOf } from '../typed.ts';
import type { HttpSession } from './http-session.ts';

/** The file, unless it is larger than a calendar may be; then nobody reads it. */
function textIn(file: string, largest: number): string {
  if (statSync(file).size > largest)
    throw new Failed('bad_file', `${file} is larger than ${largest / 1024} KiB`);
  return readFileSync(file, 'utf8');
}

function zoneNamed(zone: string | undefined): string {
  if (zone === undefined)
    throw new Misused('--timezone is needed: in which zone whole days are, such as Europe/Rome');
  try {
    return Temporal.Now.zonedDateTimeISO(zone).timeZoneId;
  } catch {
    throw new Misused(`${zone} is no IANA time zone`);
  }
}

const importFreeze: Command<HttpSession> = {
  name: 'freezes import',
  parameters: '<tenant> <name> <file>',
  summary: `make the windows of a freeze those of a calendar (iCalendar), of a tenant or of the ${platformWord}`,
  flags: {
    timezone: { type: 'string', summary: 'of whole days, and of times that name none' },
    'dry-run': { type: 'boolean', summary: 'show the changes, write nothing' },
    reason: { type: 'string', summary: 'why, kept in the history' },
    ...guardFlags,
  },
  async run({ session, args: { tenant, name, file }, flags, answer }) {
    const timezone = zoneNamed(textOf(flags.timezone));
    // Loaded by this command alone.
    const { largestCalendar, UnusableCalendar, windowsOf } =
      await import('../../shared/budgets/calendar.ts');
    const text = textIn(file!, largestCalendar);
    try {
      const during = windowsOf(text, { timezone, now: Temporal.Now.instant() });
      const written = {
        // What else the freeze says stays, as in any merge patch.
        body: { [name!]: { during } },
        ...given({
          dry_run: flags['dry-run'],
          reason: textOf(flags.reason),
          ...guardOptions(flags),
        }),
      };
      answerWritten(
        answer,
        tenant === platformWord
          ? await session.call('global-config.freezes.patch', written)
          : await session.call('tenant-config.freezes.patch', { tenant_id: tenant!, ...written }),
      );
    } catch (error) {
      if (error instanceof UnusableCalendar)
        throw new Failed('bad_file', `${file} ${error.message}`);
      throw error;
    }
  },
};

export const freezeCommands: readonly Command<HttpSession>[] = [importFreeze];
