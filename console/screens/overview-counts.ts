/** What the overview says, from lists of the API as they are. */
import { localDate } from '../format.ts';
import type { Automation, Usage } from './budget-usage.ts';
import type { DecidedOn } from './decided.ts';

type Asked = Pick<
  Automation,
  'created_at' | 'started_at' | 'decision' | 'cost_impact' | 'actual_cost'
>;

export type DayCounts = DecidedOn & {
  /** Of what started on the day: what it cost, or what it said it would. */
  readonly cost: number;
};

/** The last days, by the clock of whoever reads, the oldest first. */
export function datesUntil(now: Date, days: number): string[] {
  const [year, month, day] = [now.getFullYear(), now.getMonth(), now.getDate()];
  return Array.from({ length: days }, (_each, index) =>
    localDate(new Date(year, month, day - days + 1 + index)),
  );
}

/** What became of what automation asked for on each day. */
export function countsByDay(automations: readonly Asked[], dates: readonly string[]): DayCounts[] {
  const empty = { allow: 0, approval_required: 0, deny: 0, cost: 0 };
  const byDate = new Map(dates.map((date) => [date, { date, ...empty }]));
  for (const each of automations) {
    const asked = byDate.get(localDate(new Date(each.created_at)));
    if (asked) asked[each.decision] += 1;
    if (each.started_at === null) continue;
    const started = byDate.get(localDate(new Date(each.started_at)));
    if (started) started.cost += each.actual_cost ?? each.cost_impact ?? 0;
  }
  return [...byDate.values()];
}

interface Decided {
  readonly created_at: string;
  readonly decision: { readonly at: string } | null;
}

/** In minutes, of those that people decided; undefined where they decided none. */
export function medianMinutes(approvals: readonly Decided[]): number | undefined {
  const minutes = approvals
    .flatMap(({ created_at: asked, decision }) =>
      decision ? [(Date.parse(decision.at) - Date.parse(asked)) / 60_000] : [],
    )
    .toSorted((one, other) => one - other);
  const middle = minutes.length / 2;
  if (minutes.length === 0) return undefined;
  return minutes.length % 2 === 1
    ? minutes[Math.floor(middle)]
    : (minutes[middle - 1]! + minutes[middle]!) / 2;
}

/** Of a budget that says nothing itself. */
const nearShare = 0.8;

/** How much of it is spent or held, as a share. */
export const shareUsed = ({ amount, spent, held }: Usage): number =>
  Number(amount) > 0 ? (Number(spent) + Number(held)) / Number(amount) : 1;

export const isNearItsEnd = (usage: Usage): boolean =>
  shareUsed(usage) >= (usage.rule.warn_at ?? nearShare);

interface Change {
  readonly changed_by: string;
  readonly changed_at: string;
}

/** Who made how many of the changes since a moment, the busiest first. */
export function authorsSince<Of extends Change>(
  changes: readonly Of[],
  since: number,
): { readonly newest: Of; readonly count: number }[] {
  const authors = new Map<string, { newest: Of; count: number }>();
  for (const change of changes) {
    if (Date.parse(change.changed_at) < since) continue;
    const known = authors.get(change.changed_by);
    if (known) known.count += 1;
    else authors.set(change.changed_by, { newest: change, count: 1 });
  }
  return [...authors.values()].toSorted((one, other) => other.count - one.count);
}
