/** What automation asked for in the last days, what became of it, and what it cost. */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { ofTenant } from '../address.ts';
import { get, withQuery } from '../api.ts';
import { BarsByDay, dateText } from '../bars-by-day.tsx';
import { automationDecisions } from '../known-values.ts';
import { Table, Waiting } from '../lists.tsx';
import { useEvery, useLoaded } from '../loading.ts';
import { Section } from '../parts.tsx';
import type { Automation, Usage } from './budget-usage.ts';
import { DecisionsByDay } from './decisions-by-day.tsx';
import { datesUntil, countsByDay, type DayCounts } from './overview-counts.ts';

const days = 14;
const lookAgainMs = 60_000;
const pageSize = '200';
/** A page of figures needs no more; of a busier tenant the newest count. */
const mostAutomations = 1000;

async function recent(address: string, since: Date, aborted: AbortSignal) {
  const items: Automation[] = [];
  let cursor: string | null = null;
  do {
    const page: ResultOf<'notifier.automations.list'> = await get(
      withQuery(address, { limit: pageSize, cursor: cursor ?? undefined }),
      aborted,
    );
    const fitting = page.items.filter(({ created_at: at }) => new Date(at) >= since);
    items.push(...fitting);
    cursor = fitting.length < page.items.length ? null : page.next_cursor;
  } while (cursor !== null && items.length < mostAutomations);
  // Cut where there are older ones in these days, which were not read.
  return { items, isCut: cursor !== null };
}

export function Decisions({ usage }: { readonly usage: readonly Usage[] }): VNode {
  const address = ofTenant('/automations');
  const { data, problem, reload } = useLoaded(`recent ${address}`, async (aborted) => {
    const dates = datesUntil(new Date(), days);
    const { items, isCut } = await recent(address, new Date(`${dates[0]}T00:00`), aborted);
    return { byDay: countsByDay(items, dates), count: items.length, isCut };
  });
  useEvery(lookAgainMs, reload);
  // A tenant counts in one currency.
  const currency = usage.find(({ rule }) => rule.currency !== undefined)?.rule.currency ?? '';
  return (
    <div>
      <Waiting data={data} problem={problem} retry={reload} />
      {data && (
        <>
          <div class="panels charts">
            <Section title="Decisions by day">
              <DecisionsByDay
                label={`Decisions on automations in the last ${days} days`}
                empty={`Automation asked for nothing in the last ${days} days.`}
                byDay={data.byDay}
              />
            </Section>
            <CostByDay byDay={data.byDay} currency={currency} />
          </div>
          {data.isCut && (
            <p class="fine">
              Only of the newest {data.count.toLocaleString()} automations: there are more in these{' '}
              {days} days.
            </p>
          )}
          <details class="figures">
            <summary>Both as a table</summary>
            <CountsTable byDay={data.byDay} currency={currency} />
          </details>
        </>
      )}
    </div>
  );
}

const CostByDay = ({
  byDay,
  currency,
}: {
  readonly byDay: readonly DayCounts[];
  readonly currency: string;
}): VNode => (
  <section aria-label="Cost by day">
    <h2>Cost by day{currency !== '' && `, ${currency}`}</h2>
    <BarsByDay
      label={`Cost of automations in the last ${days} days`}
      unit={currency}
      empty={`Nothing that started in the last ${days} days had a cost.`}
      parts={[{ title: 'of what started', look: 'spent' }]}
      bars={byDay.map(({ date, cost }) => ({
        date,
        values: [cost],
        says: costText(cost, currency),
      }))}
    />
  </section>
);

const costFormat = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 });
const costText = (cost: number, currency: string): string =>
  `${costFormat.format(cost)} ${currency}`.trim();

const CountsTable = ({
  byDay,
  currency,
}: {
  readonly byDay: readonly DayCounts[];
  readonly currency: string;
}): VNode => (
  <Table
    label="Decisions and cost by day"
    items={byDay
      .filter(({ cost, ...day }) => cost > 0 || automationDecisions.some((each) => day[each] > 0))
      .toReversed()}
    keyOf={({ date }) => date}
    columns={[
      ['Day', ({ date }) => dateText(date)],
      [{ number: 'Allowed' }, ({ allow }) => allow],
      [{ number: 'Asked people' }, (day) => day.approval_required],
      [{ number: 'Denied' }, ({ deny }) => deny],
      [
        { number: currency === '' ? 'Cost' : `Cost, ${currency}` },
        ({ cost }) => costFormat.format(cost),
      ],
    ]}
  />
);
