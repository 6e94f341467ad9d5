import { setTimeout as delay } from 'node:timers/promises';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { approvalStates } from '../../shared/contracts/notifier.ts';
import { columns, count, given, json, Misused, tenantIds, text, type Command } from './command.ts';

type Event = ResultOf<'audit.events.list'>['items'][number];

const minutes = 60_000;
/** An event may be recorded this much later than it happened, so following looks back. */
const lateMs = 10_000;
const line = ({
  occurred_at: at,
  action,
  actor,
  tenant_id: tenant,
  target,
  request_id: request,
}: Event): string =>
  [
    at,
    action,
    `${actor.type}:${actor.id}`,
    tenant ?? 'platform',
    target ?? '-',
    request ?? '-',
  ].join('  ');

export const auditCommands: readonly Command[] = [
  {
    name: 'audit tail',
    takes: '',
    says: 'the newest audit events: time, action, actor, tenant, target, request',
    flags: {
      tenant: { type: 'string', says: 'only this tenant' },
      actor: { type: 'string', says: 'only this actor id' },
      action: { type: 'string', says: 'only this action' },
      minutes: { type: 'string', says: 'how far back, 60 unless told' },
      limit: { type: 'string', says: 'how many, 20 unless told' },
      follow: { type: 'boolean', says: 'go on until Ctrl-C' },
    },
    async run({ session, flags, print, signal }) {
      const filter = given({
        tenant_id: text(flags.tenant),
        actor: text(flags.actor),
        action: text(flags.action),
      });
      const seen = new Set<string>();
      async function fresh(since: number): Promise<Event[]> {
        const found: Event[] = [];
        for (let cursor: string | null | undefined; cursor !== null && !signal.aborted;) {
          const page = await session.call(
            'audit.events.list',
            given({ ...filter, since: new Date(since).toISOString(), limit: 200, cursor }) as never,
          );
          found.push(...page.items.filter(({ id }) => !seen.has(id)));
          cursor = page.next_cursor;
        }
        for (const { id } of found) seen.add(id);
        return found;
      }
      const began = Date.now();
      for (const event of (await fresh(began - count(flags.minutes, 60) * minutes)).slice(
        -count(flags.limit, 20),
      ))
        print(line(event));
      for (
        let since = began - lateMs;
        flags.follow && !signal.aborted;
        since = Math.max(since, Date.now() - 6 * lateMs)
      ) {
        await delay(1000, undefined, { signal }).catch(() => {});
        for (const event of await fresh(since)) print(line(event));
      }
    },
  },
];

export const approvalCommands: readonly Command[] = [
  {
    name: 'approvals list',
    takes: '<tenant>',
    says: 'newest first',
    complete: { tenant: tenantIds },
    flags: {
      state: { type: 'string', says: `only ${approvalStates.join(', ')}` },
      limit: { type: 'string', says: 'how many, 20 unless told' },
    },
    async run({ session, words, flags, print }) {
      const { items } = await session.call(
        'notifier.approvals.list',
        given({
          tenant_id: words.tenant!,
          state: text(flags.state),
          limit: count(flags.limit, 20),
        }) as never,
      );
      print(
        columns(
          items.map(
            ({
              id,
              state,
              risk_level: risk,
              action,
              current_group: group,
              expires_at: expires,
              title,
            }) => ({ id, state, risk, action, group, expires, title }),
          ),
        ),
      );
    },
  },
  {
    name: 'approvals show',
    takes: '<tenant> <approval>',
    says: 'one approval',
    complete: { tenant: tenantIds },
    run: async ({ session, words, print }) =>
      print(
        json(
          await session.call('notifier.approvals.get', {
            tenant_id: words.tenant!,
            approval_id: words.approval!,
          }),
        ),
      ),
  },
  {
    name: 'approvals decide',
    takes: '<tenant> <approval> <decision>',
    says: 'approve or deny',
    complete: { tenant: tenantIds, decision: async () => ['approve', 'deny'] },
    flags: { comment: { type: 'string', says: 'kept with the decision' } },
    async run({ session, words: { tenant, approval, decision }, flags, print }) {
      if (decision !== 'approve' && decision !== 'deny')
        throw new Misused('the decision is approve or deny');
      print(
        json(
          await session.call('notifier.approvals.decide', {
            tenant_id: tenant!,
            approval_id: approval!,
            body: given({ decision, comment: text(flags.comment) }) as never,
          }),
        ),
      );
    },
  },
];
