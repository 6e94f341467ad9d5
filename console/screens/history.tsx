/**
 * The history of a tenant's configuration, or of the platform's: who changed what, when and why;
 * and taking a change back.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { csvLine } from '../../shared/schema/csv.ts';
import { hrefOf, parameter, setQuery, tenantShown, wantedText } from '../address.ts';
import { useAction } from '../action.ts';
import { withQuery } from '../api.ts';
import { nameBeside } from '../format.ts';
import { useLive, useGet } from '../loading.ts';
import { type Cells, OpenTable, Pager, Waiting } from '../lists.tsx';
import { saveText } from '../files.ts';
import { Button, Ends, Link, Said, State, Time, Who } from '../inline.tsx';
import { Changes, Heading } from '../parts.tsx';
import { hasRole, readsConfiguration } from '../session.ts';
import { sortedBy, type Orders } from '../sorting.ts';
import { sentenceOf, subjectOf } from './change-sentence.ts';
import { Emergency } from './emergency-badge.tsx';
import {
  nameIn,
  screenOfSet,
  ownerOf,
  titleOfSet,
  type ChangeSet,
  type Owner,
} from './change-sets.ts';
import { Author } from './overview-lists.tsx';
import { ReviewAndPublish, type Review } from './review.tsx';
import { dayOf, HistoryFilters } from './history-filters.tsx';
import {
  historyAddress,
  isRevertible,
  isUndoable,
  mostReverts,
  nameOfDocument,
  pageSize,
  revertOf,
  reviewOf,
  type Change,
  type Entry,
  type History,
  type Way,
} from './take-back.tsx';
import { fitting } from '../fields.tsx';

/** What the filter of the page looks at. */
const textOf = (entry: Entry, owner: Owner): string =>
  [
    nameOfDocument(entry, owner),
    entry.reason ?? '',
    nameBeside(entry, 'changed_by') ?? '',
    ...entry.changes.map(sentenceOf),
  ].join(' ');

const columnsOf = (owner: Owner): Cells<Entry> => [
  [
    { sort: 'revision', title: 'Revision' },
    ({ revision }) => <span class="number">{revision}</span>,
  ],
  [{ sort: 'what', title: 'What' }, (entry) => <What entry={entry} owner={owner} />],
  ['Changes', sentencesOf],
  [{ sort: 'by', title: 'By', look: 'wide' }, (entry) => <Author of={entry} />],
  [{ sort: 'when', title: 'When', look: 'wide' }, ({ changed_at: at }) => <Time at={at} />],
];

const sentencesOf = ({ changes }: Entry): VNode => (
  <>
    {changes.slice(0, 3).map((change) => (
      <div key={change.path}>
        <bdi>{sentenceOf(change)}</bdi>
      </div>
    ))}
    {changes.length > 3 && <span class="fine">and {changes.length - 3} more</span>}
  </>
);

const ordersOf = (owner: Owner): Orders<Entry> => ({
  revision: ({ revision }) => revision,
  what: (entry) => nameOfDocument(entry, owner),
  by: (entry) => nameBeside(entry, 'changed_by') ?? entry.changed_by,
  when: ({ changed_at: at }) => at,
});

function saveCsv(entries: readonly Entry[], owner: Owner): void {
  const head = ['revision', 'when', 'by', 'document', 'what', 'changes', 'reason'];
  const rows = entries.map((entry) => [
    String(entry.revision),
    entry.changed_at,
    nameBeside(entry, 'changed_by') ?? entry.changed_by,
    nameOfDocument(entry, owner),
    entry.action,
    entry.changes.map(sentenceOf).join('; '),
    entry.reason ?? '',
  ]);
  const lines = [head, ...rows].map(csvLine);
  saveText('history', 'csv', lines);
}

export function HistoryOfChanges(): VNode {
  const owner = ownerOf(tenantShown.value);
  const type = parameter('config_type');
  const resource = parameter('resource_id');
  const cursor = parameter('cursor');
  const author = parameter('by');
  const since = parameter('since');
  const until = parameter('until');
  const address = historyAddress(owner, {
    config_type: type,
    resource_id: resource,
    changed_by: author.trim(),
    since: dayOf(since),
    until: dayOf(until, 1),
    cursor,
    limit: String(pageSize),
  });
  const { data, problem, reload } = useGet<History>(address);
  useLive(reload);
  const isFiltered = [type, resource, author, since, until, wantedText()].some(
    (text) => text !== '',
  );
  const found = fitting(data?.items, (entry) => textOf(entry, owner));
  const sort = parameter('sort');
  const shown = found && sortedBy(found, ordersOf(owner), sort);
  const [review, setReview] = useState<Review>();
  const asking = useAction();
  const ask = (find: () => Promise<Review>): void =>
    void asking.run(async () => setReview(await find()));
  const done = (): void => {
    setReview(undefined);
    setQuery({ cursor: '' });
    reload();
  };
  const handlers = { onClose: () => setReview(undefined), onPublished: done };
  return (
    <section>
      <Heading title={owner.tenantId === '' ? 'History of the platform' : 'History'} />
      <HistoryFilters kinds={owner.kinds}>
        {shown && shown.length > 0 && (
          <Button
            class="small"
            says="Save this page as CSV"
            onClick={() => saveCsv(shown, owner)}
          />
        )}
      </HistoryFilters>
      <Waiting data={data} problem={problem ?? asking.problem} retry={reload} />
      <OpenTable
        look="history"
        items={shown}
        keyOf={({ revision }) => String(revision)}
        columns={columnsOf(owner)}
        empty={`Nothing has been changed${isFiltered ? ' that fits' : ' yet'}.`}
        inside={(entry) => (
          <Opened
            entry={entry}
            owner={owner}
            onTakeBack={(way) => ask(() => reviewOf(owner, entry, way, handlers))}
            onRevert={(change) => ask(() => revertOf(owner, entry, change, handlers))}
          />
        )}
      />
      <Pager cursor={cursor} next={data?.next_cursor} isOrderOfPage={sort !== ''} />
      {review && <ReviewAndPublish {...review} />}
    </section>
  );
}

/** Who only takes changes back reads no change sets. */
const mayReadSets = ({ tenantId }: Owner): boolean => tenantId === '' || readsConfiguration();

/** Which document, how it was written and why. */
const What = ({ entry, owner }: { readonly entry: Entry; readonly owner: Owner }): VNode => (
  <>
    <State state={entry.action} /> <bdi>{nameOfDocument(entry, owner)}</bdi>
    {entry.changeset_id !== undefined && mayReadSets(owner) && (
      <>
        {' '}
        <a class="tag" href={hrefOf(screenOfSet(owner, entry.changeset_id))}>
          change set
        </a>
      </>
    )}
    {entry.break_glass && (
      <>
        {' '}
        <State state="emergency" says="break-glass" />
      </>
    )}
    {'until' in entry && entry.until !== undefined && (
      <div>
        <Ends at={entry.until} />
      </div>
    )}
    {entry.reason !== null && (
      <div class="fine">
        <Said>{entry.reason}</Said>
      </div>
    )}
  </>
);

function Opened({
  entry,
  owner,
  onTakeBack,
  onRevert,
}: {
  readonly entry: Entry;
  readonly owner: Owner;
  readonly onTakeBack: (way: Way) => void;
  readonly onRevert: (change: Change) => void;
}): VNode {
  const { revision, action, changes, purged } = entry;
  const isPlatform = owner.tenantId === '';
  const hasValues = action !== 'purge' && (!purged || changes.length > 0);
  return (
    <>
      <p class="fine">
        <Author of={entry} /> · <Time at={entry.changed_at} />
        {entry.request_id !== null && (
          <span>
            {' '}
            · request <code>{entry.request_id}</code>
          </span>
        )}
      </p>
      {purged && (
        <p>
          Values of this change were purged by <Who id={purged.by} /> · <Time at={purged.at} />:{' '}
          <q>
            <bdi>{purged.reason}</bdi>
          </q>
        </p>
      )}
      {entry.changeset_id !== undefined && mayReadSets(owner) && (
        <OfSet owner={owner} id={entry.changeset_id} />
      )}
      {hasValues && <Changes changes={changes} />}
      {!isPlatform && readsConfiguration() && <Then screens={owner.screens} revision={revision} />}
      {(isPlatform || hasRole('tenant_admin', 'reverter')) &&
        hasValues &&
        isKnown(entry, owner) && (
          <TakeBack
            entry={entry}
            mayEdit={isPlatform || hasRole('tenant_admin')}
            onRevert={onRevert}
            onTakeBack={onTakeBack}
          />
        )}
    </>
  );
}

/** A rollout has a history, and is taken back by a step of its own. */
const isKnown = ({ config_type: type }: Entry, { kinds }: Owner): boolean =>
  kinds.some(({ configType }) => configType === type);

function TakeBack({
  entry,
  mayEdit,
  onRevert,
  onTakeBack,
}: {
  readonly entry: Entry;
  readonly mayEdit: boolean;
  readonly onRevert: (change: Change) => void;
  readonly onTakeBack: (way: Way) => void;
}): VNode {
  const { changes } = entry;
  return (
    <>
      {mayEdit && changes.length > 1 && (
        <p class="buttons">
          {changes
            .filter(isRevertible)
            .slice(0, mostReverts)
            .map((change) => (
              <button
                key={change.path}
                type="button"
                class="small"
                onClick={() => onRevert(change)}
              >
                Revert <bdi>{subjectOf(change.path)}</bdi>…
              </button>
            ))}
        </p>
      )}
      <p class="buttons">
        {isUndoable(entry) && (
          <Button class="small" says="Undo this change…" onClick={() => onTakeBack('undo')} />
        )}
        <Button
          class="small"
          says="Restore what it was after this…"
          onClick={() => onTakeBack('restore')}
        />
      </p>
    </>
  );
}

/** The change set that it was a part of, and who approved that. */
function OfSet({ owner, id }: { readonly owner: Owner; readonly id: string }): VNode {
  const { data, problem } = useGet<ChangeSet>(`${owner.address}/${id}`);
  const approvers = data?.approved_by.map((each) => nameIn(data, each.id)) ?? [];
  return (
    <p>
      Part of the change set{' '}
      <Link to={screenOfSet(owner, id)}>{data ? titleOfSet(data, owner) : id.slice(0, 8)}</Link>
      {approvers.length > 0 && (
        <>
          , approved by <bdi>{approvers.join(', ')}</bdi>
        </>
      )}
      {problem?.status === 404 && ', which is not kept any more'}.{' '}
      {data && <Emergency set={data} />}
    </p>
  );
}

/** What held right after a change, and how that differs from now. */
const Then = ({
  screens,
  revision,
}: {
  readonly screens: string;
  readonly revision: number;
}): VNode => (
  <p class="buttons">
    <a href={hrefOf(withQuery(`${screens}/effective`, { as_of: String(revision) }))}>
      Effective values after it
    </a>
    <a href={hrefOf(withQuery(`${screens}/compare`, { as_of: String(revision) }))}>
      Compare with now
    </a>
  </p>
);
