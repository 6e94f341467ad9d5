/** Change sets: a list of them, for a tenant and for the platform. */
import type { VNode } from 'preact';
import { parameter, tenantShown, wantedText } from '../address.ts';
import { withQuery } from '../api.ts';
import { anyOf, FilterField, Filters, fitting, SelectField } from '../fields.tsx';
import { changeSetStates } from '../known-values.ts';
import { ShowMore, Table, Waiting } from '../lists.tsx';
import { useEvery, useLive } from '../loading.ts';
import { usePages } from '../pages.ts';
import { Named, State, Time } from '../inline.tsx';
import { Heading } from '../parts.tsx';
import { OneChangeSet } from './change-set.tsx';
import { Emergency } from './emergency-badge.tsx';
import {
  nameIn,
  screenOfSet,
  ownerOf,
  titleOfSet,
  type ChangeSet,
  type Owner,
} from './change-sets.ts';
import type { ScreenProperties } from './screen.ts';

/** Others propose and decide without a stream that says so. */
const listAgainMs = 15_000;

export function ChangeSets({ rest: [id] }: ScreenProperties): VNode {
  const owner = ownerOf(tenantShown.value);
  return id === undefined ? (
    <List owner={owner} />
  ) : (
    <OneChangeSet key={id} owner={owner} id={id} />
  );
}

function List({ owner }: { readonly owner: Owner }): VNode {
  const state = parameter('state');
  const wanted = wantedText();
  const address = withQuery(owner.address, { state });
  const { items, isComplete, problem, more, reload } = usePages<ChangeSet>(address, wanted !== '');
  useLive(reload);
  useEvery(listAgainMs, reload);
  const shown = fitting(items, ({ title, reason, authors }) =>
    [title, reason, ...authors.map(({ name }) => name ?? '')].join('\n'),
  );
  return (
    <section>
      <Heading
        title={owner.tenantId === '' ? 'Change sets of the platform' : 'Change sets'}
        about="Changes that others approve before they are made"
      />
      <Filters class="question two">
        <SelectField name="state" label="State" options={anyOf(changeSetStates, 'all')} />
        <FilterField placeholder="title, reason or person" />
      </Filters>
      <Waiting data={items} problem={problem} retry={reload} />
      <SetTable
        owner={owner}
        sets={shown}
        empty={
          isComplete &&
          (state === '' && wanted === ''
            ? 'No change set yet. Where a change policy asks for approval, the review of a change offers to propose it, and it waits here for somebody else.'
            : 'No change set fits.')
        }
      />
      {items && !isComplete && <ShowMore onClick={more} />}
    </section>
  );
}

export const SetTable = ({
  owner,
  sets,
  empty = false,
}: {
  readonly owner: Owner;
  readonly sets: readonly ChangeSet[] | undefined;
  readonly empty?: string | false;
}): VNode => (
  <Table
    label="Change sets"
    empty={empty}
    items={sets}
    columns={[
      [
        'Change',
        (set) => (
          <Named to={screenOfSet(owner, set.id)} below={set.reason}>
            {titleOfSet(set, owner)}
          </Named>
        ),
      ],
      ['By', (set) => <bdi>{set.authors.map(({ id }) => nameIn(set, id)).join(', ')}</bdi>],
      ['Approvals', (set) => `${set.approved_by.length} of ${set.required}`],
      [
        'State',
        (set) => (
          <>
            <State state={set.state} /> <Emergency set={set} />
          </>
        ),
      ],
      ['Changed', (set) => <Time at={set.updated_at} />],
    ]}
  />
);
