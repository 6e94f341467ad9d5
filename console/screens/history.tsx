/**
 * The history of a tenant's configuration, or of the platform's: who changed what, when and why;
 * and taking a change back.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf, opened, query, setQuery, toggleOpened } from '../address.ts';
import { get, problemOf, withQuery, type Problem } from '../api.ts';
import { nameBeside } from '../format.ts';
import { useLive, useLoaded } from '../loading.ts';
import { Pager, Waiting } from '../lists.tsx';
import { SelectField } from '../fields.tsx';
import { Changes, Columns, Empty, Heading, Time, TypedField, Who } from '../parts.tsx';
import { hasRole } from '../session.ts';
import { documentKinds, type DocumentKind } from './document-kinds.ts';
import { platformKinds } from './platform-kinds.ts';
import { ReviewAndPublish, type Review } from './review.tsx';
import type { ScreenProperties } from './screen.ts';

type TenantEntry = ResultOf<'tenant-config.history.list'>['items'][number];
/** Of a tenant, or of the platform, whose kinds of documents are others. */
type Entry = Omit<TenantEntry, 'config_type'> & {
  readonly config_type: string;
  readonly purged?: ResultOf<'global-config.history.list'>['items'][number]['purged'];
};
interface History {
  readonly items: readonly Entry[];
  readonly next_cursor: string | null;
}
type Detail = Pick<ResultOf<'tenant-config.history.get'>, 'before' | 'after'>;

/** Whose history it is. */
interface Owner {
  /** In the addresses of the API, before `/history` and `/rollback`. */
  readonly base: string;
  readonly kinds: readonly DocumentKind[];
  readonly mayTakeBack: boolean;
  readonly hasImpact: boolean;
  /** Of the screens that show effective values; the platform has none of its own. */
  readonly screens?: string;
}

const pageSize = 50;

const historyAddress = (
  { base }: Owner,
  parameters: Readonly<Record<string, string | undefined>>,
): string => withQuery(`${base}/history`, parameters);

/** Such as "Agent configuration scaler". */
function nameOfDocument({ config_type: type, resource_id: id }: Entry, { kinds }: Owner): string {
  const kind = kinds.find(({ configType }) => configType === type);
  if (!kind) return `${type} ${id}`;
  return kind.plural === undefined ? kind.title : `${kind.title} ${id}`;
}

export const HistoryOfChanges = ({ tenantId }: ScreenProperties): VNode => (
  <HistoryOf
    owner={{
      base: `/tenants/${tenantId}/config`,
      screens: `/tenants/${tenantId}`,
      kinds: documentKinds,
      mayTakeBack: hasRole('tenant_admin'),
      hasImpact: false,
    }}
    title="History"
  />
);

export const HistoryOfPlatform = (): VNode => (
  <HistoryOf
    owner={{ base: '/config', kinds: platformKinds, mayTakeBack: true, hasImpact: true }}
    title="History of the platform"
  />
);

function HistoryOf({ owner, title }: { readonly owner: Owner; readonly title: string }): VNode {
  const type = query.value.get('config_type') ?? '';
  const resource = query.value.get('resource_id') ?? '';
  const cursor = query.value.get('cursor') ?? '';
  const address = historyAddress(owner, {
    config_type: type,
    resource_id: resource,
    cursor,
    limit: String(pageSize),
  });
  const { data, problem, reload } = useLoaded(address, (aborted) => get<History>(address, aborted));
  useLive(reload);
  const [review, setReview] = useState<Review>();
  const [refusal, setRefusal] = useState<Problem>();
  const open = opened();
  const takeBack = async (entry: Entry, way: Way): Promise<void> => {
    setRefusal(undefined);
    try {
      setReview(
        await reviewOf(owner, entry, way, {
          onClose: () => setReview(undefined),
          onPublished: done,
        }),
      );
    } catch (error) {
      setRefusal(problemOf(error));
    }
  };
  const done = (): void => {
    setReview(undefined);
    setQuery({ cursor: '' });
    reload();
  };
  return (
    <section>
      <Heading title={title} />
      <form role="search" class="question two" onSubmit={(event) => event.preventDefault()}>
        <SelectField
          name="config_type"
          label="Document"
          options={[
            { value: '', title: 'any' },
            ...owner.kinds.map(({ configType, title: kind }) => ({
              value: configType,
              title: kind,
            })),
          ]}
        />
        <label>
          Name
          <TypedField
            name="resource_id"
            value={resource}
            placeholder="any"
            onTyped={(text) => setQuery({ resource_id: text.trim(), cursor: '' })}
          />
        </label>
      </form>
      <Waiting data={data} problem={problem ?? refusal} retry={reload} />
      {data?.items.length === 0 && (
        <Empty>Nothing has been changed{type || resource ? ' that fits' : ' yet'}.</Empty>
      )}
      {data && data.items.length > 0 && (
        <table class="keys history">
          <Columns titles={['Revision', 'What', 'Changes', { wide: 'By' }, { wide: 'When' }]} />
          {data.items.map((entry) => (
            <EntryRow
              key={entry.revision}
              entry={entry}
              owner={owner}
              isOpen={open.has(String(entry.revision))}
              onToggle={() => toggleOpened(String(entry.revision))}
              onTakeBack={(way: Way) => void takeBack(entry, way)}
            />
          ))}
        </table>
      )}
      <Pager cursor={cursor} next={data?.next_cursor} />
      {review && <ReviewAndPublish {...review} />}
    </section>
  );
}

function EntryRow({
  entry,
  owner,
  isOpen,
  onToggle,
  onTakeBack,
}: {
  readonly entry: Entry;
  readonly owner: Owner;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
  readonly onTakeBack: (way: Way) => void;
}): VNode {
  const { revision, action, changes, reason, purged } = entry;
  const id = `changes-${revision}`;
  const hasValues = action !== 'purge' && (!purged || changes.length > 0);
  const places = changes.slice(0, 3).map(({ path }) => (path === '' ? 'all of it' : path));
  return (
    <tbody class={isOpen ? 'open' : ''}>
      <tr>
        <th scope="row">
          <button
            type="button"
            class="plain key number"
            aria-expanded={isOpen}
            aria-controls={isOpen ? id : undefined}
            onClick={onToggle}
          >
            <span class="chevron" aria-hidden="true"></span>
            {revision}
          </button>
        </th>
        <td>
          <span class={`state-of ${action}`}>{action}</span>{' '}
          <bdi>{nameOfDocument(entry, owner)}</bdi>
          {reason !== null && (
            <div class="fine said">
              <q>
                <bdi>{reason}</bdi>
              </q>
            </div>
          )}
        </td>
        <td class="fine">
          {places.map((place) => (
            <code key={place}>{place}</code>
          ))}
          {changes.length > 3 && `and ${changes.length - 3} more`}
        </td>
        <td class="wide">
          <Who id={entry.changed_by} name={nameBeside(entry, 'changed_by')} />
        </td>
        <td class="wide">
          <Time at={entry.changed_at} />
        </td>
      </tr>
      {isOpen && (
        <tr class="opened">
          <td colspan={5} id={id}>
            <div class="ladder">
              <p class="fine">
                <Who id={entry.changed_by} name={nameBeside(entry, 'changed_by')} /> ·{' '}
                <Time at={entry.changed_at} />
                {entry.request_id !== null && (
                  <span>
                    {' '}
                    · request <code>{entry.request_id}</code>
                  </span>
                )}
              </p>
              {purged && (
                <p>
                  Values of this change were purged by <Who id={purged.by} /> ·{' '}
                  <Time at={purged.at} />:{' '}
                  <q>
                    <bdi>{purged.reason}</bdi>
                  </q>
                </p>
              )}
              {hasValues && <Changes changes={changes} />}
              {owner.screens !== undefined && <Then screens={owner.screens} revision={revision} />}
              {owner.mayTakeBack && hasValues && (
                <p class="buttons">
                  {!purged && (
                    <button type="button" class="small" onClick={() => onTakeBack('undo')}>
                      Undo this change…
                    </button>
                  )}
                  <button type="button" class="small" onClick={() => onTakeBack('restore')}>
                    Restore what it was after this…
                  </button>
                </p>
              )}
            </div>
          </td>
        </tr>
      )}
    </tbody>
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

type Way = 'undo' | 'restore';

/**
 * What takes a change back: the document as it was right before (`undo`) or right after it. What
 * there was not before is deleted. The condition is the document's newest revision, so that a
 * change of this moment is not lost.
 */
async function reviewOf(
  owner: Owner,
  entry: Entry,
  way: Way,
  handlers: Pick<Review, 'onClose' | 'onPublished'>,
): Promise<Review> {
  const { config_type: type, resource_id: id, revision } = entry;
  const document = { config_type: type, resource_id: id };
  const newest = await get<History>(
    historyAddress(owner, { ...document, limit: String(pageSize) }),
  );
  // A purge writes no document.
  const latest = newest.items.find(({ action }) => action !== 'purge')?.revision ?? revision;
  const detailOf = (each: number) => get<Detail>(`${owner.base}/history/${each}`);
  const [{ before }, { after }] = await Promise.all([detailOf(revision), detailOf(latest)]);
  // Approval routing is there also while it says nothing.
  const mayBeAbsent = type !== 'notification_config';
  const name = nameOfDocument(entry, owner);
  const isUndo = way === 'undo';
  const alsoSince = isUndo && latest !== revision;
  const about = isUndo ? (
    <p>
      {name} becomes what it was right before revision <span class="number">{revision}</span>
      {alsoSince && ', which also takes back what was changed since'}.{' '}
      {mayBeAbsent && before === null && (
        <strong>That revision made the document, so undoing it deletes the document.</strong>
      )}
    </p>
  ) : (
    <p>
      {name} becomes what it was right after revision <span class="number">{revision}</span>.
    </p>
  );
  return {
    ...handlers,
    title: isUndo
      ? `Undo revision ${revision} of ${name}`
      : `Restore ${name} as of revision ${revision}`,
    address: `${owner.base}/rollback`,
    hasImpact: owner.hasImpact,
    method: 'POST',
    body: isUndo ? { undo: revision } : { revision },
    ...(mayBeAbsent && after === null
      ? { revision: undefined, isNew: true }
      : { revision: latest }),
    about,
    verb: isUndo ? 'Undo it' : 'Restore it',
  };
}
