/** A month of freezes, in the time zone of whoever looks. */
import type { VNode } from 'preact';
import type { Span } from '../../shared/budgets/windows.ts';
import type { Freeze } from '../../shared/contracts/freezes.ts';
import { query, setQuery } from '../address.ts';
import { localDate } from '../format.ts';
import { useLoaded } from '../loading.ts';
import { Button } from '../inline.tsx';
import { ProblemBox, TableRegion } from '../parts.tsx';
import { ownZone } from './freeze-windows.ts';

export interface ShownFreeze {
  readonly by: 'platform' | 'tenant';
  readonly name: string;
  readonly rule: Freeze;
}

interface Frozen {
  readonly freeze: ShownFreeze;
  readonly spans: readonly Span[];
}

/** Of the days that are shown and of the windows, whichever the reader's own calendar is. */
const calendar = 'gregory';
const titleFormat = new Intl.DateTimeFormat(undefined, {
  calendar,
  month: 'long',
  year: 'numeric',
});
const dayFormat = new Intl.DateTimeFormat(undefined, { calendar, dateStyle: 'full' });
const weekdayFormat = new Intl.DateTimeFormat(undefined, { weekday: 'short' });
const timeFormat = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });
/** A Monday. */
const weekdayNames = Array.from({ length: 7 }, (_each, index) =>
  weekdayFormat.format(new Date(2024, 0, 1 + index)),
);

/** The first of the month that the address names; that of now by default. */
function monthShown(): Date {
  const [, year, month] = /^(20\d\d)-(0[1-9]|1[0-2])$/.exec(query.value.get('month') ?? '') ?? [];
  const now = new Date();
  return year === undefined
    ? new Date(now.getFullYear(), now.getMonth())
    : new Date(Number(year), Number(month) - 1);
}
const monthOf = (date: Date): string => localDate(date).slice(0, 7);
const monthsLater = (first: Date, months: number): Date =>
  new Date(first.getFullYear(), first.getMonth() + months);

export function FreezeCalendar({ freezes }: { readonly freezes: readonly ShownFreeze[] }): VNode {
  const first = monthShown();
  const next = monthsLater(first, 1);
  const {
    data = [],
    problem,
    reload,
  } = useLoaded(JSON.stringify([monthOf(first), freezes]), async (): Promise<Frozen[]> => {
    if (freezes.length === 0) return [];
    const { frozenWithin } = await import('../../shared/budgets/windows.ts');
    const month = { from: first.getTime(), until: next.getTime() };
    return freezes.map((freeze) => ({ freeze, spans: frozenWithin(freeze.rule, month) }));
  });
  const move = (months: number): void => setQuery({ month: monthOf(monthsLater(first, months)) });
  const title = titleFormat.format(first);
  return (
    <section aria-label="Calendar">
      <div class="heading">
        <h2 aria-live="polite">{title}</h2>
        <Button class="small" says="‹" aria-label="Previous month" onClick={() => move(-1)} />
        <Button class="small" says="›" aria-label="Next month" onClick={() => move(1)} />
        <p class="fine">In your time, {ownZone()}; overrides are said below.</p>
      </div>
      <ProblemBox problem={problem} retry={reload} />
      <TableRegion label={`Freezes in ${title}`}>
        <table class="month">
          <thead>
            <tr>
              {weekdayNames.map((name) => (
                <th scope="col" key={name}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {weeksOf(first).map((week) => (
              <tr key={week[0]!.getTime()}>
                {week.map((day) => (
                  <DayCell
                    key={day.getTime()}
                    day={day}
                    isOutside={day.getMonth() !== first.getMonth()}
                    frozen={data}
                  />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </TableRegion>
    </section>
  );
}

/** Whole weeks, from Monday. */
function weeksOf(first: Date): Date[][] {
  const before = (first.getDay() + 6) % 7;
  const length = new Date(first.getFullYear(), first.getMonth() + 1, 0).getDate();
  return Array.from({ length: Math.ceil((before + length) / 7) }, (_week, week) =>
    Array.from(
      { length: 7 },
      (_day, day) => new Date(first.getFullYear(), first.getMonth(), 1 - before + week * 7 + day),
    ),
  );
}

function DayCell({
  day,
  isOutside,
  frozen,
}: {
  readonly day: Date;
  readonly isOutside: boolean;
  readonly frozen: readonly Frozen[];
}): VNode {
  if (isOutside) return <td class="outside"></td>;
  const [begin, end] = [
    day.getTime(),
    new Date(day.getFullYear(), day.getMonth(), day.getDate() + 1).getTime(),
  ];
  const parts = frozen.flatMap(({ freeze, spans }) => {
    const own = spans.filter(({ from, until }) => from < end && until > begin);
    return own.length === 0 ? [] : [{ freeze, times: own.map((span) => partOf(span, begin, end)) }];
  });
  const isToday = new Date().toDateString() === day.toDateString();
  const holds = parts.some(({ freeze }) => freeze.rule.mode !== 'warn');
  return (
    <td class={`${holds ? 'frozen' : ''} ${isToday ? 'today' : ''}`}>
      <time datetime={localDate(day)}>
        <span aria-hidden="true">{day.getDate()}</span>
        <span class="unseen">{dayFormat.format(day)}</span>
      </time>
      {parts.length > 0 && (
        <ul>
          {parts.map(({ freeze: { by, name, rule }, times }) => (
            <li key={`${by}/${name}`} class={rule.mode === 'warn' ? 'warns' : ''}>
              <bdi>{name}</bdi> <span class="times">{times.join(', ')}</span>
            </li>
          ))}
        </ul>
      )}
    </td>
  );
}

/** Empty for the whole day. */
function partOf({ from, until }: Span, begin: number, end: number): string {
  if (from <= begin && until >= end) return '';
  const time = (at: number): string => timeFormat.format(new Date(at));
  return `${from <= begin ? '' : time(from)}–${until >= end ? '' : time(until)}`;
}
