/** What a budget has spent on each of the last days, as a chart and as a table, and on what. */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { ofTenant, query, setQuery } from '../address.ts';
import { withQuery } from '../api.ts';
import { BarsByDay, dateText } from '../bars-by-day.tsx';
import { ShowMore, Table, Waiting } from '../lists.tsx';
import { lookAgainMs, useEvery, useGet } from '../loading.ts';
import { usePages } from '../pages.ts';
import { Button, Code, State, Time, Who } from '../inline.tsx';
import { counts, unitOf, type Automation, type Usage } from './budget-usage.ts';

type Day = ResultOf<'notifier.budgets.days'>['items'][number];

const days = 31;
const totalOf = ({ spent, held }: Day): number => Number(spent) + Number(held);

export function SpendingByDay({ usage }: { readonly usage: Usage }): VNode {
  const { by, name } = usage;
  const { data, problem, reload } = useGet<ResultOf<'notifier.budgets.days'>>(
    withQuery(ofTenant('/budgets/days'), { by, name, days: `${days}` }),
  );
  useEvery(lookAgainMs, reload);
  const chosen = data?.items.find(({ date }) => date === query.value.get('day'));
  const unit = unitOf(usage);
  return (
    <section aria-label="Spending by day">
      <h2>
        Spending of <bdi>{name}</bdi> by day
      </h2>
      <Waiting data={data} problem={problem} retry={reload} />
      {data && (
        <>
          <BarsByDay
            label={`Spending of ${name} in the last ${days} days`}
            unit={unit}
            empty={`Nothing was spent in the last ${days} days.`}
            parts={[
              { title: 'spent', look: 'spent' },
              { title: 'held', look: 'held' },
            ]}
            bars={data.items.map(({ date, spent, held }) => ({
              date,
              values: [Number(spent), Number(held)],
              says: `${spent} spent, ${held} held`,
            }))}
            chosen={chosen?.date}
            onChoose={(day) => setQuery({ day })}
          />
          <details>
            <summary>As a table</summary>
            <Table
              label={`Spending of ${name} by day`}
              items={data.items.filter((day) => totalOf(day) > 0).toReversed()}
              keyOf={(day) => day.date}
              columns={[
                [
                  'Day',
                  (day) => (
                    <Button
                      class="link"
                      says={dateText(day.date)}
                      aria-pressed={day === chosen}
                      onClick={() => setQuery({ day: day.date })}
                    />
                  ),
                ],
                [{ number: `Spent, ${unit}` }, (day) => day.spent],
                [{ number: `Held, ${unit}` }, (day) => day.held],
              ]}
            />
          </details>
        </>
      )}
      {chosen && <Behind key={chosen.date} usage={usage} day={chosen} />}
    </section>
  );
}

/** The automations that started on the day and that the budget counts. */
function Behind({
  usage,
  day: { date, from, until },
}: {
  readonly usage: Usage;
  readonly day: Day;
}): VNode {
  const address = withQuery(ofTenant('/automations'), {
    started_from: from,
    started_until: until,
  });
  const { items, isComplete, problem, more, reload } = usePages<Automation>(address);
  const counted = items?.filter((each) => counts(usage, each));
  const { project_ids: projects, environments } = usage.rule.match ?? {};
  return (
    <section aria-label="Behind the bar">
      <h3>Automations that started on {dateText(date)}</h3>
      <Waiting data={items} problem={problem} retry={reload} />
      {(projects ?? environments) && (
        <p class="fine">Of which project each instance is, the list does not know.</p>
      )}
      <Table
        label="Behind the bar"
        look="lines"
        items={counted}
        empty={isComplete && 'None that this budget counts.'}
        columns={[
          [
            'Action',
            (each) => (
              <>
                <Code>{each.action}</Code>{' '}
                <bdi class="fine">{each.service_id ?? each.service_type ?? ''}</bdi>
              </>
            ),
          ],
          ['State', (each) => <State state={each.state} />],
          ['Who', (each) => <Who id={each.requested_by.id} />],
          ['Since', (each) => <Time at={each.started_at} />],
          [{ number: 'Asked' }, (each) => each.cost_impact ?? '–'],
          [{ number: 'Cost' }, (each) => each.actual_cost ?? '–'],
        ]}
      />
      {items && !isComplete && <ShowMore onClick={more} />}
    </section>
  );
}
