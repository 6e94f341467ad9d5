/** Commands about decisions that were recorded, and what they would be under a proposal. */
import type { ParamsOf, ResultOf } from '../../shared/contracts/index.ts';
import { Misused, type Command, type Flags } from '../command.ts';
import { columns } from '../output.ts';
import type { Session } from '../session.ts';
import { countOf, given, jsonOf, textOf } from '../typed.ts';

type Listed = ResultOf<'notifier.decisions.list'>['items'][number];
type Replay = ResultOf<'config-resolver.decisions.replay'>;
type Asked = ParamsOf<'config-resolver.decisions.replay'>['body'];

const span = {
  from: { type: 'string', summary: 'from this time on, such as 2027-01-31T18:00:00Z' },
  until: { type: 'string', summary: 'until before this time' },
} as const;

const rowOf = (decision: Listed) =>
  'path' in decision
    ? { id: decision.decision_id, when: decision.timestamp, decision: decision.result.decision }
    : {
        id: decision.decision_id,
        when: decision.decided_at,
        decision: decision.decision,
        rule: decision.reasons[0]?.rule,
        action: decision.intent.action,
        service: decision.intent.service_id,
      };

const list: Command = {
  name: 'decisions list',
  parameters: '<tenant>',
  summary: 'recorded decisions, newest first',
  flags: {
    ...span,
    rule: { type: 'string', summary: 'only those that this rule decided; none: no rule' },
    decision: { type: 'string', summary: 'only allow, approval_required or deny' },
    service: { type: 'string', summary: 'only those for this service instance' },
    format: { type: 'string', summary: "opa: by the names of OPA's decision logs" },
    limit: { type: 'string', summary: 'how many, 20 by default' },
  },
  async run({ session, args: { tenant }, flags, answer }) {
    const page = await session.call(
      'notifier.decisions.list',
      given({
        tenant_id: tenant,
        from: textOf(flags.from),
        until: textOf(flags.until),
        rule: textOf(flags.rule),
        decision: textOf(flags.decision),
        service_id: textOf(flags.service),
        format: textOf(flags.format),
        limit: countOf(flags.limit, 20),
      }),
    );
    answer(page, () => columns(page.items.map(rowOf)));
  },
};

const show: Command = {
  name: 'decisions show',
  parameters: '<tenant> <decision>',
  summary: 'one of them, with the limits as they were for it',
  async run({ session, args: { tenant, decision }, answer }) {
    const params = { tenant_id: tenant, decision_id: decision };
    answer(await session.call('config-resolver.decisions.get', params));
  },
};

const replay: Command = {
  name: 'decisions replay',
  parameters: '<tenant>',
  summary: 'what decisions and automations of the past would be under a proposal',
  flags: {
    ...span,
    changeset: { type: 'string', summary: 'under this change set' },
    items: { type: 'string', summary: 'under these writes: JSON, as a change set has them' },
    'as-of': { type: 'string', summary: 'under the configuration of this time' },
    limit: { type: 'string', summary: 'how many that change are shown, 20 by default' },
  },
  async run({ session, args: { tenant }, flags, answer }) {
    const from = textOf(flags.from);
    if (from === undefined) throw new Misused('--from is missing: a time');
    const body = given({
      from,
      until: textOf(flags.until),
      proposed: proposedBy(flags),
      limit: countOf(flags.limit, 20),
    }) as Asked;
    const found = await replayed(session, tenant!, body);
    answer(found, () => textOfReplay(found));
  },
};

/** Throws Misused unless it is exactly one. */
function proposedBy(flags: Flags): object {
  const items = textOf(flags.items);
  const proposed = given({
    changeset_id: textOf(flags.changeset),
    as_of: textOf(flags['as-of']),
    items: items === undefined ? undefined : jsonOf(items),
  });
  if (Object.keys(proposed).length !== 1)
    throw new Misused('one of --changeset, --items and --as-of says what is proposed');
  return proposed;
}

/** To the end, however many answers that takes. */
async function replayed(session: Session, tenant: string, body: Asked): Promise<Replay> {
  const items: Replay['items'] = [];
  let leftOut = 0;
  let cursor: string | undefined;
  for (;;) {
    const found = await session.call('config-resolver.decisions.replay', {
      tenant_id: tenant,
      body: { ...body, ...(cursor !== undefined && { cursor }) },
    });
    const room = (body.limit ?? 20) - items.length;
    items.push(...found.items.slice(0, room));
    leftOut += found.items_left_out + Math.max(0, found.items.length - room);
    if (found.cursor === null) return { ...found, items, items_left_out: leftOut };
    ({ cursor } = found);
  }
}

function textOfReplay(found: Replay): string {
  const { total, same, changed, cost, unknown, items } = found;
  const counts = [
    `${total} decisions, ${same} the same`,
    ...Object.entries(changed).map(([change, count]) => `${change}: ${count}`),
    `cost of what is allowed: ${cost.before} → ${cost.after}`,
    ...Object.entries(unknown).map(([reason, count]) => `not known, ${reason}: ${count}`),
    ...(found.baseline_differs > 0
      ? [`not as recorded by the configuration at that time: ${found.baseline_differs}`]
      : []),
    ...(found.items_left_out > 0 ? [`changed and not shown: ${found.items_left_out}`] : []),
  ];
  const rows = items.map(({ decided_at: when, intent, before, after }) => ({
    when,
    action: intent.action,
    service: intent.service_id,
    before: `${before.decision} (${before.rule})`,
    after: `${after.decision} (${after.rule})`,
  }));
  return [...counts, ...(rows.length === 0 ? [] : [columns(rows)])].join('\n');
}

export const decisionCommands: readonly Command[] = [list, show, replay];
