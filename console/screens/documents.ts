/** The documents of a tenant: those that there is one of, and lists of the others. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { go, hrefOf, query, setQuery } from '../address.ts';
import { getAll } from '../api.ts';
import { html, view } from '../html.ts';
import { useLive, useLoaded } from '../loading.ts';
import { Empty, Heading, ProblemBox, TableRegion, Value } from '../parts.ts';
import { hasRole } from '../session.ts';
import { DocumentEditor } from './document-editor.ts';
import {
  addressOf,
  documentKinds,
  kindNamed,
  screenOf,
  type DocumentKind,
} from './document-kinds.ts';
import type { ScreenProperties } from './screen.ts';

export function Documents({ tenantId, rest }: ScreenProperties): VNode {
  const [name, id] = rest;
  const kind = kindNamed(name);
  if (name === undefined) return view(Overview, { tenantId });
  if (!kind || (kind.plural !== undefined && !id))
    return html`<section><${Heading} title="Documents" /><${Empty}>There is no such document.<//></section>`;
  return view(DocumentEditor, { key: `${name}/${id ?? ''}`, tenantId, kind, id: id ?? '' });
}

function Overview({ tenantId }: { readonly tenantId: string }): VNode {
  const single = documentKinds.filter(({ plural }) => plural === undefined);
  const several = documentKinds.filter(({ plural }) => plural !== undefined);
  return html`<section>
    <${Heading} title="Documents" />
    <table class="documents">
      <thead>
        <tr><th scope="col">Document</th><th scope="col">What it says</th></tr>
      </thead>
      <tbody>
        ${single.map(
          (kind) => html`<tr key=${kind.name}>
            <th scope="row"><a href=${hrefOf(screenOf(tenantId, kind, ''))}>${kind.title}</a></th>
            <td class="muted">${kind.about}</td>
          </tr>`,
        )}
      </tbody>
    </table>
    <form role="search" class="filter" onSubmit=${(event: Event) => event.preventDefault()}>
      <label>
        Filter
        <input type="search" name="q" value=${query.value.get('q') ?? ''} placeholder="name" autocomplete="off" spellcheck=${false}
          onInput=${(event: InputEvent) => setQuery({ q: (event.target as HTMLInputElement).value })} />
      </label>
    </form>
    ${several.map((kind) => view(KindList, { key: kind.name, tenantId, kind }))}
  </section>`;
}

type Item = Readonly<Record<string, unknown>>;

function KindList({
  tenantId,
  kind,
}: {
  readonly tenantId: string;
  readonly kind: DocumentKind;
}): VNode {
  const { list = '', idField = '', plural = '', columns = [] } = kind;
  const address = addressOf(list, tenantId);
  const { data, problem, reload } = useLoaded(address, (aborted) => getAll<Item>(address, aborted));
  useLive(reload, (change) => change.config_type === kind.configType);
  const wanted = (query.value.get('q') ?? '').trim().toLowerCase();
  const shown = data?.filter((item) =>
    [idField, ...columns].some((name) =>
      String(item[name] ?? '')
        .toLowerCase()
        .includes(wanted),
    ),
  );
  return html`<section class="kind">
    <div class="heading">
      <h2>${plural}</h2>
      ${data && html`<span class="fine number">${data.length}</span>`}
      <span class="grow"></span>
      ${hasRole(...kind.writers) && view(NewDocument, { tenantId, kind })}
    </div>
    ${view(ProblemBox, { problem, retry: reload })}
    ${data && data.length === 0 && html`<p class="empty">None yet.</p>`}
    ${data && data.length > 0 && shown?.length === 0 && html`<p class="empty">None fits the filter.</p>`}
    ${
      shown &&
      shown.length > 0 &&
      html`<${TableRegion} label=${plural}>
        <table>
          <thead>
            <tr>
              <th scope="col">${idField}</th>
              ${columns.map((name) => html`<th scope="col" key=${name}>${name}</th>`)}
            </tr>
          </thead>
          <tbody>
            ${shown.map((item) => {
              const id = String(item[idField]);
              return html`<tr key=${id}>
                <th scope="row"><a href=${hrefOf(screenOf(tenantId, kind, id))}><bdi>${id}</bdi></a></th>
                ${columns.map(
                  (name) =>
                    html`<td key=${name}>${item[name] === undefined ? html`<span class="muted">–</span>` : html`<${Value} value=${item[name]} longest=${60} />`}</td>`,
                )}
              </tr>`;
            })}
          </tbody>
        </table>
      <//>`
    }
  </section>`;
}

function NewDocument({
  tenantId,
  kind,
}: {
  readonly tenantId: string;
  readonly kind: DocumentKind;
}): VNode {
  const [isOpen, setOpen] = useState(false);
  const [id, setId] = useState('');
  if (!isOpen)
    return html`<button type="button" class="small" onClick=${() => setOpen(true)}>New…</button>`;
  const begin = (event: Event): void => {
    event.preventDefault();
    go(screenOf(tenantId, kind, id.trim()));
  };
  return html`<form class="inline" onSubmit=${begin}>
    <input aria-label=${`New ${kind.idField}`} placeholder=${kind.idField} value=${id} required autocomplete="off" spellcheck=${false}
      onInput=${(event: InputEvent) => setId((event.target as HTMLInputElement).value)} />
    <button type="submit" class="small">Begin</button>
  </form>`;
}
