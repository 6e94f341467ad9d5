/** Parts of overviews: what waits, which limits are near or hold now, and what changed. */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf, ofTenant } from '../address.ts';
import { withQuery } from '../api.ts';
import { nameBeside } from '../format.ts';
import { Table, Waiting } from '../lists.tsx';
import { useLive, useLoaded, useGet } from '../loading.ts';
import { Link, Risk, Said, Time, Who } from '../inline.tsx';
import { Empty, Section } from '../parts.tsx';
import { keyOf, unitOf, type Usage } from './budget-usage.ts';
import { sentenceOf } from './change-sentence.ts';
import { documentKinds } from './document-kinds.ts';
import type { ShownFreeze } from './freeze-calendar.tsx';
import { authorsSince, shareUsed } from './overview-counts.ts';
import { platformKinds } from './platform-kinds.ts';
import { nameOfDocument, type Entry, type History } from './take-back.tsx';

type Approval = ResultOf<'notifier.approvals.list'>['items'][number];
type Effective = ResultOf<'config-resolver.resolve'>;

/** More are behind the link. */
const mostListed = 5;

/** The link below a list to all of it. */
const All = ({ href, children }: { readonly href: string; readonly children: string }): VNode => (
  <p class="acts">
    <a href={hrefOf(href)}>{children}</a>
  </p>
);

export function WaitingApprovals({
  pending,
}: {
  readonly pending: readonly Approval[] | undefined;
}): VNode {
  const soonest = pending?.toSorted(
    (one, other) => Date.parse(one.expires_at) - Date.parse(other.expires_at),
  );
  return (
    <Section title="Waiting for approval">
      {soonest?.length === 0 && <Empty>Nothing waits for a decision.</Empty>}
      <ul class="plain-list">
        {soonest?.slice(0, mostListed).map((each) => (
          <li key={each.id}>
            <Link to={ofTenant(`/approvals/${each.id}`)}>{each.title}</Link>{' '}
            <Risk level={each.risk_level} />{' '}
            <span class="fine">
              expires <Time at={each.expires_at} />
            </span>
          </li>
        ))}
      </ul>
      <All href={ofTenant('/approvals')}>All approvals</All>
    </Section>
  );
}

export const BudgetsNearTheirEnd = ({
  near,
}: {
  readonly near: readonly Usage[] | undefined;
}): VNode => (
  <Section title="Budgets near their end">
    {near?.length === 0 && <Empty>Every budget has enough left.</Empty>}
    <ul class="plain-list">
      {near
        ?.toSorted((one, other) => shareUsed(other) - shareUsed(one))
        .slice(0, mostListed)
        .map((each) => (
          <li key={keyOf(each)}>
            <Link to={withQuery(ofTenant('/budgets'), { budget: keyOf(each) })}>{each.name}</Link>{' '}
            <span class="number">{each.remaining}</span> of{' '}
            <span class="number">{each.amount}</span> {unitOf(each)} left{' '}
            <span class="fine">
              until <Time at={each.resets_at} />
            </span>
          </li>
        ))}
    </ul>
    <All href={ofTenant('/budgets')}>All budgets</All>
  </Section>
);

interface FreezeNow extends ShownFreeze {
  /** Null where no end of it is known. */
  readonly until: number | null;
}

/** Those that hold now where automation acts; undefined until it is known. */
export function useFreezesNow(effective: Effective | undefined): readonly FreezeNow[] | undefined {
  const freezes = effective?.over_time?.freezes ?? [];
  const { data } = useLoaded(
    `freezes ${effective === undefined ? '' : JSON.stringify(freezes)}`,
    async (): Promise<FreezeNow[]> => {
      if (freezes.length === 0) return [];
      const { stretchOfAll } = await import('../../shared/budgets/windows.ts');
      const now = Date.now();
      return freezes.flatMap((freeze) => {
        const { during, only_within: isOnly = false } = freeze.rule;
        const { isWithin, until } = stretchOfAll(during, now);
        return isWithin === isOnly || isOverridden(freeze, now) ? [] : [{ ...freeze, until }];
      });
    },
  );
  return effective && data;
}

/** For all that it is about. */
const isOverridden = ({ rule: { overrides = {} } }: ShownFreeze, now: number): boolean =>
  Object.values(overrides).some(
    ({ from, until, match }) =>
      match === undefined &&
      (from === undefined || Date.parse(from) <= now) &&
      Date.parse(until) > now,
  );

export const FreezesNow = ({ freezes }: { readonly freezes: readonly FreezeNow[] }): VNode => (
  <Section title="Freezes now">
    <ul class="plain-list">
      {freezes.map(({ by, name, rule, until }) => (
        <li key={`${by}/${name}`}>
          <bdi>{name}</bdi> {by === 'platform' && <span class="tag">of the platform</span>}{' '}
          {rule.mode === 'warn' && <span class="tag">only warns</span>}{' '}
          {rule.match && <span class="tag">for some automations</span>}{' '}
          <span class="fine">
            {until === null ? (
              'without an end'
            ) : (
              <>
                until <Time at={new Date(until).toISOString()} />
              </>
            )}
          </span>
        </li>
      ))}
    </ul>
    <All href={ofTenant('/freezes')}>All freezes</All>
  </Section>
);

const mostChanges = 8;
const newestChanges = '100';
const weekMs = 7 * 86_400_000;

/** The newest changes of a history in sentences, and who made those of a week. */
export function LastChanges({
  screens,
  address,
}: {
  /** Of the console, before `/history`. */
  readonly screens: string;
  /** Of the API. */
  readonly address: string;
}): VNode {
  const { data, problem, reload } = useGet<History>(withQuery(address, { limit: newestChanges }));
  useLive(reload);
  const changes = data?.items ?? [];
  const kinds = screens === '/platform' ? platformKinds : documentKinds;
  const authors = authorsSince(changes, Date.now() - weekMs);
  return (
    <section aria-label="Last changes">
      <div class="heading">
        <h2>Last changes</h2>
        <a href={hrefOf(`${screens}/history`)}>History</a>
      </div>
      <Waiting data={data} problem={problem} retry={reload} />
      {authors.length > 0 && (
        <p class="fine">
          In the last 7 days:{' '}
          {authors.slice(0, mostListed).map(({ newest, count }, index) => (
            <span key={newest.changed_by}>
              {index > 0 && ', '}
              <a href={hrefOf(withQuery(`${screens}/history`, { by: newest.changed_by }))}>
                <Author of={newest} />
              </a>{' '}
              <span class="number">{count}</span>
            </span>
          ))}
          {authors.length > mostListed && ` and ${authors.length - mostListed} more`}
        </p>
      )}
      <Table
        label="Last changes"
        look="lines"
        items={data && changes.slice(0, mostChanges)}
        keyOf={({ revision }) => revision}
        empty="Nothing has been changed yet."
        columns={[
          [
            'What',
            (entry) => (
              <Link to={withQuery(`${screens}/history`, { open: String(entry.revision) })}>
                {nameOfDocument(entry, { kinds })}
              </Link>
            ),
          ],
          ['Change', sentencesOf],
          ['By', (entry) => <Author of={entry} />],
          ['When', ({ changed_at: at }) => <Time at={at} />],
        ]}
      />
    </section>
  );
}

export const Author = ({ of }: { readonly of: Entry }): VNode => (
  <Who id={of.changed_by} name={nameBeside(of, 'changed_by')} />
);

/** The rest of one with more is in the history. */
const mostSentences = 2;

function sentencesOf({ action, changes, reason }: Entry): VNode {
  const said = changes.slice(0, mostSentences).map(sentenceOf).join('; ');
  const more = changes.length - mostSentences;
  return (
    <>
      <bdi>{said === '' ? action : said}</bdi>
      {more > 0 && <span class="muted"> and {more} more</span>}
      <Said>{reason}</Said>
    </>
  );
}
