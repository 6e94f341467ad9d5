/** The documents of a tenant: those that there is one of, and lists of the others. */
import type { VNode } from 'preact';
import { hrefOf, query, setQuery } from '../address.ts';
import { html, view } from '../html.ts';
import { Empty, Heading } from '../parts.ts';
import { DocumentEditor } from './document-editor.ts';
import { documentKinds, kindNamed, screenOf } from './document-kinds.ts';
import { KindList } from './kind-list.ts';
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
