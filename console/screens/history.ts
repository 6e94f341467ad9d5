/** The history of a tenant's configuration: who changed what, when and why; and taking a change back. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { query, setQuery } from '../address.ts';
import { get, problemOf, withQuery, type Problem } from '../api.ts';
import { nameBeside } from '../format.ts';
import { html, view } from '../html.ts';
import { useLive, useLoaded } from '../loading.ts';
import { Changes, Empty, Heading, ProblemBox, Time, Who } from '../parts.ts';
import { hasRole } from '../session.ts';
import { addressOf, documentKinds } from './document-kinds.ts';
import { ReviewAndPublish, type Review } from './review.ts';
import type { ScreenProperties } from './screen.ts';

type History = ResultOf<'tenant-config.history.list'>;
type Entry = History['items'][number];

const pageSize = 50;

const historyAddress = (
  tenantId: string,
  parameters: Readonly<Record<string, string | undefined>>,
): string => withQuery(`/tenants/${tenantId}/config/history`, parameters);

const kindOf = (configType: string) => documentKinds.find((kind) => kind.configType === configType);

/** Such as "Agent configuration scaler". */
function nameOfDocument({ config_type: type, resource_id: id }: Entry): string {
  const kind = kindOf(type);
  if (!kind) return `${type} ${id}`;
  return kind.plural === undefined ? kind.title : `${kind.title} ${id}`;
}

export function HistoryOfChanges({ tenantId }: ScreenProperties): VNode {
  const type = query.value.get('config_type') ?? '';
  const resource = query.value.get('resource_id') ?? '';
  const cursor = query.value.get('cursor') ?? '';
  const address = historyAddress(tenantId, {
    config_type: type,
    resource_id: resource,
    cursor,
    limit: String(pageSize),
  });
  const { data, problem, reload } = useLoaded(address, (aborted) => get<History>(address, aborted));
  useLive(reload);
  const [review, setReview] = useState<Review>();
  const [refusal, setRefusal] = useState<Problem>();
  const open = new Set(query.value.get('open')?.split(',') ?? []);
  const toggle = (revision: number): void => {
    const name = String(revision);
    if (!open.delete(name)) open.add(name);
    setQuery({ open: [...open].join(',') });
  };
  const takeBack = async (entry: Entry, way: Way): Promise<void> => {
    setRefusal(undefined);
    try {
      setReview(
        await reviewOf(tenantId, entry, way, {
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
  return html`<section>
    <${Heading} title="History" />
    <form role="search" class="question two" onSubmit=${(event: Event) => event.preventDefault()}>
      <label>
        Document
        <select name="config_type" value=${type} onChange=${(event: Event) => setQuery({ config_type: (event.target as HTMLSelectElement).value, cursor: '' })}>
          <option value="">any</option>
          ${documentKinds.map((kind) => html`<option key=${kind.configType} value=${kind.configType}>${kind.title}</option>`)}
        </select>
      </label>
      <label>
        Name
        <input name="resource_id" value=${resource} placeholder="any" autocomplete="off" spellcheck=${false}
          onChange=${(event: Event) => setQuery({ resource_id: (event.target as HTMLInputElement).value.trim(), cursor: '' })} />
      </label>
    </form>
    ${view(ProblemBox, { problem: problem ?? refusal, retry: reload })}
    ${!data && !problem && html`<p class="empty" role="status">Loading…</p>`}
    ${data?.items.length === 0 && html`<${Empty}>Nothing has been changed${type || resource ? ' that fits' : ' yet'}.<//>`}
    ${
      data &&
      data.items.length > 0 &&
      html`<table class="keys history">
        <thead>
          <tr>
            <th scope="col">Revision</th>
            <th scope="col">What</th>
            <th scope="col">Changes</th>
            <th scope="col" class="wide">By</th>
            <th scope="col" class="wide">When</th>
          </tr>
        </thead>
        ${data.items.map((entry) =>
          view(EntryRow, {
            key: entry.revision,
            entry,
            isOpen: open.has(String(entry.revision)),
            onToggle: () => toggle(entry.revision),
            onTakeBack: (way: Way) => void takeBack(entry, way),
          }),
        )}
      </table>`
    }
    <p class="paging">
      ${cursor !== '' && html`<button type="button" class="small" onClick=${() => setQuery({ cursor: '' })}>Newest</button>`}
      ${data?.next_cursor && html`<button type="button" class="small" onClick=${() => setQuery({ cursor: data.next_cursor!, open: '' })}>Older</button>`}
    </p>
    ${review && view(ReviewAndPublish, review)}
  </section>`;
}

function EntryRow({
  entry,
  isOpen,
  onToggle,
  onTakeBack,
}: {
  readonly entry: Entry;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
  readonly onTakeBack: (way: Way) => void;
}): VNode {
  const { revision, action, changes, reason } = entry;
  const id = `changes-${revision}`;
  const places = changes.slice(0, 3).map(({ path }) => (path === '' ? 'all of it' : path));
  return html`<tbody class=${isOpen ? 'open' : ''}>
    <tr>
      <th scope="row">
        <button type="button" class="plain key number" aria-expanded=${isOpen} aria-controls=${isOpen ? id : undefined} onClick=${onToggle}>
          <span class="chevron" aria-hidden="true"></span>${revision}
        </button>
      </th>
      <td><span class=${`state-of ${action}`}>${action}</span> <bdi>${nameOfDocument(entry)}</bdi>${reason !== null && html`<div class="fine said"><q><bdi>${reason}</bdi></q></div>`}</td>
      <td class="fine">${places.map((place) => html`<code key=${place}>${place}</code> `)}${changes.length > 3 && `and ${changes.length - 3} more`}</td>
      <td class="wide"><${Who} id=${entry.changed_by} name=${nameBeside(entry, 'changed_by')} /></td>
      <td class="wide"><${Time} at=${entry.changed_at} /></td>
    </tr>
    ${
      isOpen &&
      html`<tr class="opened">
        <td colspan="5" id=${id}>
          <div class="ladder">
            <p class="fine"><${Who} id=${entry.changed_by} name=${nameBeside(entry, 'changed_by')} /> · <${Time} at=${entry.changed_at} />${entry.request_id !== null && html`<span> · request <code>${entry.request_id}</code></span>`}</p>
            <${Changes} changes=${changes} />
            ${
              hasRole('tenant_admin') &&
              html`<p class="buttons">
                <button type="button" class="small" onClick=${() => onTakeBack('undo')}>Undo this change…</button>
                <button type="button" class="small" onClick=${() => onTakeBack('restore')}>Restore what it was after this…</button>
              </p>`
            }
          </div>
        </td>
      </tr>`
    }
  </tbody>`;
}

type Way = 'undo' | 'restore';

/**
 * What takes a change back: the document as it was right before (`undo`) or right after it. What there was not before is deleted. The
 * condition is the document's newest revision, so that a change of this moment is not lost.
 */
async function reviewOf(
  tenantId: string,
  entry: Entry,
  way: Way,
  handlers: Pick<Review, 'onClose' | 'onPublished'>,
): Promise<Review> {
  const { config_type: type, resource_id: id, revision } = entry;
  const document = { config_type: type, resource_id: id };
  const newest = await get<History>(historyAddress(tenantId, { ...document, limit: '1' }));
  const current = newest.items[0]?.revision;
  const name = nameOfDocument(entry);
  const target = way === 'restore' ? revision : await revisionBefore(tenantId, entry);
  const common = {
    ...handlers,
    revision: current,
    verb: way === 'undo' ? 'Undo it' : 'Restore it',
  };
  const kind = kindOf(type);
  if (target === undefined && kind)
    return {
      ...common,
      title: `Undo revision ${revision} of ${name}`,
      address: addressOf(kind.path, tenantId, id),
      method: 'DELETE',
      about: html`<p>That change made the document, so undoing it deletes the document.</p>`,
    };
  return {
    ...common,
    title:
      way === 'undo'
        ? `Undo revision ${revision} of ${name}`
        : `Restore ${name} as of revision ${revision}`,
    address: `/tenants/${tenantId}/config/rollback`,
    method: 'POST',
    body: { revision: target },
    about: html`<p>
      ${name} becomes what it was right after revision <span class="number">${target}</span>${current !== revision && way === 'undo' && html`<span>, which also takes back what was changed since</span>`}.
    </p>`,
  };
}

/** The document's revision before this one; undefined where this one made it. */
async function revisionBefore(
  tenantId: string,
  { config_type, resource_id, revision }: Entry,
): Promise<number | undefined> {
  let cursor: string | undefined;
  do {
    const page: History = await get<History>(
      historyAddress(tenantId, { config_type, resource_id, limit: '200', cursor }),
    );
    const found = page.items.find((each) => each.revision < revision);
    if (found) return found.revision;
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
  return undefined;
}
