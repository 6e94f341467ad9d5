/** Decisions that were made: how often each rule did, and those that were recorded, one by one. */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf, ofTenant, parameter, setQuery } from '../address.ts';
import { withQuery, type Page } from '../api.ts';
import { dateText } from '../bars-by-day.tsx';
import { anyOf, SelectField, Filters } from '../fields.tsx';
import { contextText } from '../format.ts';
import { automationDecisions } from '../known-values.ts';
import { Pager, Table, Waiting } from '../lists.tsx';
import { useGet } from '../loading.ts';
import { Below, Button, Code, Risk, State, Time } from '../inline.tsx';
import { Empty, Fact, Heading } from '../parts.tsx';
import { isVisiting } from '../session.ts';
import { LimitTable } from './limit-table.tsx';
import { ReasonTable } from './reasons.tsx';
import { decisionTitles, type DecidedOn } from './decided.ts';
import { DecisionsByDay } from './decisions-by-day.tsx';
import type { ScreenProperties } from './screen.ts';

type Counts = ResultOf<'notifier.decisions.counts'>;
type Count = Counts['items'][number];
type Decision = Omit<ResultOf<'config-resolver.decisions.get'>, 'explain' | 'not_explained'>;

const days = 30;
const dayMs = 86_400_000;

export const Decisions = ({ rest: [id] }: ScreenProperties): VNode =>
  id === undefined ? <Made /> : <OneDecision key={id} id={id} />;

function Made(): VNode {
  const { data, problem, reload } = useGet<Counts>(ofTenant('/decisions/counts'));
  const isEmpty = data?.items.length === 0;
  const rules = [...new Set(data?.items.map(({ rule }) => rule))].toSorted();
  const wanted = parameter('rule');
  const options = anyOf(
    wanted === '' || rules.includes(wanted as Count['rule']) ? rules : [...rules, wanted],
  );
  const shown = data?.items.filter(
    ({ rule, decision }) =>
      (wanted === '' || rule === wanted) &&
      (parameter('decision') === '' || decision === parameter('decision')),
  );
  return (
    <section>
      <Heading title="Decisions" about="What automation was allowed, and which rule decided" />
      <Waiting data={data} problem={problem} retry={reload} />
      {isEmpty && (
        <Empty>
          Automation has asked for nothing in the last {days} days. Programs ask before they act,
          and the answers they get show here.{' '}
          {!isVisiting.value && <a href={hrefOf(ofTenant('/what-if'))}>Ask as one would</a>}
        </Empty>
      )}
      {data && shown && !isEmpty && (
        <>
          <Filters class="question">
            <SelectField name="rule" label="Rule" options={options} />
            <SelectField name="decision" label="Decision" options={anyOf(automationDecisions)} />
          </Filters>
          <ByDay counts={shown} until={data.until} />
        </>
      )}
      <Recorded />
    </section>
  );
}

const ByDay = ({
  counts,
  until,
}: {
  readonly counts: readonly Count[];
  readonly until: string;
}): VNode => (
  <section aria-label="By day">
    <p class="fine">Days in UTC.</p>
    <DecisionsByDay
      label={`Decisions in the last ${days} days`}
      empty={`None in the last ${days} days.`}
      byDay={byDayOf(counts, until)}
      chosen={parameter('day')}
      onChoose={(day) => setQuery({ day, cursor: '' })}
    />
    <details>
      <summary>As a table</summary>
      <Table
        label="Decisions by rule"
        items={[...Map.groupBy(counts, ({ rule }) => rule)]}
        keyOf={([rule]) => rule}
        columns={[
          [
            'Rule',
            ([rule]) => (
              <Button class="link" says={rule} onClick={() => setQuery({ rule, cursor: '' })} />
            ),
          ],
          [{ number: 'Allowed' }, ([, own]) => sumOf(own, 'allow')],
          [{ number: 'Asked people' }, ([, own]) => sumOf(own, 'approval_required')],
          [{ number: 'Denied' }, ([, own]) => sumOf(own, 'deny')],
        ]}
      />
    </details>
  </section>
);

const sumOf = (counts: readonly Count[], decision: Count['decision']): number =>
  counts.reduce((sum, each) => sum + (each.decision === decision ? each.count : 0), 0);

/** Of each day, also of those on which nothing was decided. */
function byDayOf(counts: readonly Count[], until: string): DecidedOn[] {
  const byDay = Map.groupBy(counts, ({ from }) => from.slice(0, 10));
  const last = Date.parse(until);
  return Array.from({ length: days + 1 }, (_, index) => {
    const date = new Date(last - (days - index) * dayMs).toISOString().slice(0, 10);
    const own = byDay.get(date) ?? [];
    return {
      date,
      allow: sumOf(own, 'allow'),
      approval_required: sumOf(own, 'approval_required'),
      deny: sumOf(own, 'deny'),
    };
  });
}

function Recorded(): VNode {
  const cursor = parameter('cursor');
  const start = Date.parse(`${parameter('day')}T00:00:00Z`);
  // A link that was cut names no day.
  const day = Number.isNaN(start) ? '' : parameter('day');
  const address = withQuery(ofTenant('/decisions'), {
    rule: parameter('rule'),
    decision: parameter('decision'),
    ...(day !== '' && {
      from: new Date(start).toISOString(),
      until: new Date(start + dayMs).toISOString(),
    }),
    cursor,
    limit: '100',
  });
  const { data, problem, reload } = useGet<Page<Decision>>(address);
  return (
    <section aria-label="Recorded decisions">
      <h2>Recorded{day !== '' && ` on ${dateText(day)}, UTC`}</h2>
      {day !== '' && (
        <p>
          <Button class="small" says="All days" onClick={() => setQuery({ day: '', cursor: '' })} />
        </p>
      )}
      <Waiting data={data} problem={problem} retry={reload} />
      <RecordedTable items={data?.items} />
      <Pager cursor={cursor} next={data?.next_cursor} />
    </section>
  );
}

const states = { allow: 'approved', approval_required: 'pending', deny: 'denied' } as const;

const Decided = ({ decision }: { readonly decision: Decision['decision'] }): VNode => (
  <State state={states[decision]} says={decisionTitles[decision]} />
);

const RecordedTable = ({ items }: { readonly items: readonly Decision[] | undefined }): VNode => (
  <Table
    label="Recorded decisions"
    look="lines"
    empty={
      <>
        None. The risk limit <code>record_decisions</code> says which are recorded;{' '}
        <a href={hrefOf(ofTenant('/automations?state=denied'))}>automations that were denied</a> say
        why in any case.
      </>
    }
    items={items}
    keyOf={(each) => each.decision_id}
    columns={[
      [
        'Action',
        (each) => (
          <>
            <a href={hrefOf(ofTenant(`/decisions/${each.decision_id}`))}>
              <Code>{each.intent.action}</Code>
            </a>{' '}
            <Risk level={each.intent.risk_level} />
            <Below>{contextText(each.intent)}</Below>
          </>
        ),
      ],
      ['Decision', (each) => <Decided decision={each.decision} />],
      ['Rule', (each) => <code>{each.reasons[0]?.rule ?? 'none'}</code>],
      [{ number: 'Cost' }, (each) => each.intent.cost_impact ?? '–'],
      ['When', (each) => <Time at={each.decided_at} />],
    ]}
  />
);

function OneDecision({ id }: { readonly id: string }): VNode {
  const address = ofTenant(`/decisions/${id}`);
  const { data, problem, reload } = useGet<ResultOf<'config-resolver.decisions.get'>>(address);
  return (
    <section>
      <Heading title="Decision">
        <p>
          <a href={hrefOf(ofTenant('/decisions'))}>All decisions</a>
        </p>
      </Heading>
      <Waiting data={data} problem={problem} retry={reload} />
      {data && (
        <>
          <dl class="facts">
            <Fact name="Action">
              <Code>{data.intent.action}</Code> <Risk level={data.intent.risk_level} />
            </Fact>
            <Fact
              name="For"
              says={<bdi>{contextText(data.intent) || 'no agent and no service'}</bdi>}
            />
            <Fact name="Cost" says={data.intent.cost_impact ?? '–'} />
            <Fact name="Decision" says={<Decided decision={data.decision} />} />
            <Fact name="Decided" says={<Time at={data.decided_at} />} />
            <Fact name="By revisions">
              {data.revision.tenant} of the tenant, {data.revision.platform} of the platform
            </Fact>
          </dl>
          <h2>Rules that applied</h2>
          <ReasonTable
            label="Rules that applied"
            reasons={data.reasons}
            place={data.intent}
            empty="None, so it was allowed."
          />
          <h2>Limits as they were</h2>
          {data.explain === null ? (
            <Empty>{data.not_explained}</Empty>
          ) : (
            <LimitTable label="Limits as they were" limits={Object.entries(data.explain)} />
          )}
        </>
      )}
    </section>
  );
}
