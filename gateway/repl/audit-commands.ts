/** Commands about the audit. */
import { setTimeout as delay } from 'node:timers/promises';
import type { ResultOf } from '../../shared/contracts/index.ts';
import type { Command } from './command.ts';
import type { Session } from './session.ts';
import { countOf, given, textOf } from './typed.ts';

type Event = ResultOf<'audit.events.list'>['items'][number];

const minuteMs = 60_000;
const followMs = 1000;
/** An event may be recorded this much later than it happened, so following looks back. */
const lateMs = 10_000;
/** How far following looks back at most, so that what it reads each second stays short. */
const lookBackMs = minuteMs;

const lineOf = ({ occurred_at, action, actor, tenant_id, target, request_id }: Event): string =>
  [
    occurred_at,
    action,
    `${actor.type}:${actor.id}`,
    tenant_id ?? 'platform',
    target ?? '-',
    request_id ?? '-',
  ].join('  ');

/** Reads events since a moment, oldest first, each only once however often it is called. */
function newEvents(session: Session, filter: object, signal: AbortSignal) {
  const seen = new Set<string>();
  return async (since: number): Promise<Event[]> => {
    const found: Event[] = [];
    let cursor: string | null | undefined;
    do {
      const page = await session.call(
        'audit.events.list',
        given({ ...filter, since: new Date(since).toISOString(), limit: 200, cursor }),
      );
      found.push(...page.items.filter(({ id }) => !seen.has(id)));
      cursor = page.next_cursor;
    } while (cursor !== null && !signal.aborted);
    for (const { id } of found) seen.add(id);
    return found;
  };
}

const tail: Command = {
  name: 'audit tail',
  parameters: '',
  summary: 'the newest audit events: time, action, actor, tenant, target, request',
  flags: {
    tenant: { type: 'string', summary: 'only this tenant' },
    actor: { type: 'string', summary: 'only this actor id' },
    action: { type: 'string', summary: 'only this action' },
    minutes: { type: 'string', summary: 'how far back, 60 unless told' },
    limit: { type: 'string', summary: 'how many, 20 unless told' },
    follow: { type: 'boolean', summary: 'go on until Ctrl-C' },
  },
  async run({ session, flags, print, signal }) {
    const filter = {
      tenant_id: textOf(flags.tenant),
      actor: textOf(flags.actor),
      action: textOf(flags.action),
    };
    const eventsSince = newEvents(session, filter, signal);
    const began = Date.now();
    const recent = await eventsSince(began - countOf(flags.minutes, 60) * minuteMs);
    for (const event of recent.slice(-countOf(flags.limit, 20))) print(lineOf(event));

    while (flags.follow && !signal.aborted) {
      await delay(followMs, undefined, { signal }).catch(() => {});
      const since = Math.max(began - lateMs, Date.now() - lookBackMs);
      for (const event of await eventsSince(since)) print(lineOf(event));
    }
  },
};

export const auditCommands: readonly Command[] = [tail];
