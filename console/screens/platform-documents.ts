/**
 * The platform's documents: global configuration, service types, and the bounds that every tenant
 * has to keep to.
 */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf, query, setQuery } from '../address.ts';
import { html, view } from '../html.ts';
import { usePages } from '../pages.ts';
import { Empty, Heading, ProblemBox, TableRegion, Value } from '../parts.ts';
import { DocumentEditor } from './document-editor.ts';
import type { DocumentKind } from './document-kinds.ts';
import { EmergencyStop } from './emergency-stop.ts';
import { KindList } from './kind-list.ts';
import { globalEntries, platformBounds, serviceTypes } from './platform-kinds.ts';
import type { PlatformScreenProperties } from './screen.ts';

function listOrOne(kind: DocumentKind, rest: readonly string[]): VNode {
  const count = kind.idFields?.length ?? 1;
  const id = rest.slice(0, count).join('/');
  if (rest.length >= count && id !== '')
    return view(DocumentEditor, { key: `${kind.name}/${id}`, tenantId: '', kind, id });
  return html`<section>
    <${Heading} title=${kind.plural}><p class="muted">${kind.about}</p><//>
    <form role="search" class="filter" onSubmit=${(event: Event) => event.preventDefault()}>
      <label>
        Filter
        <input type="search" name="q" value=${query.value.get('q') ?? ''} placeholder="name or value" autocomplete="off" spellcheck=${false}
          onInput=${(event: InputEvent) => setQuery({ q: (event.target as HTMLInputElement).value })} />
      </label>
    </form>
    ${view(KindList, { tenantId: '', kind })}
  </section>`;
}

export const GlobalConfiguration = ({ rest }: PlatformScreenProperties): VNode =>
  listOrOne(globalEntries, rest);
export const ServiceTypes = ({ rest }: PlatformScreenProperties): VNode =>
  listOrOne(serviceTypes, rest);

export function PlatformBounds(): VNode {
  return html`<section>
    ${view(DocumentEditor, { key: 'bounds', tenantId: '', kind: platformBounds, id: '' })}
    <div class="panels">
      ${view(EmergencyStop, { address: '/config/bounds', whose: 'every tenant', mayWrite: true, hasImpact: true })}
    </div>
    ${view(Violations, { address: '/config/bounds/violations' })}
  </section>`;
}

type Violation = ResultOf<'tenant-config.bounds.violations'>['items'][number];

/**
 * What is stored and outside of a bound: it stays, and is held within the bound when it is read.
 */
function Violations({ address }: { readonly address: string }): VNode {
  const { items, isComplete, problem, more, reload } = usePages<Violation>(address, false);
  return html`<section aria-label="Outside of a bound">
    <h2>Stored, and outside of a bound</h2>
    ${view(ProblemBox, { problem, retry: reload })}
    ${items?.length === 0 && isComplete && html`<${Empty}>Nothing that tenants have stored is outside of a bound.<//>`}
    ${
      items &&
      items.length > 0 &&
      html`<${TableRegion} label="Outside of a bound">
        <table>
          <thead>
            <tr><th scope="col">Tenant</th><th scope="col">Document</th><th scope="col">Where</th><th scope="col">Value</th><th scope="col">Bound</th></tr>
          </thead>
          <tbody>
            ${items.map(
              (each, index) => html`<tr key=${index}>
                <th scope="row"><bdi title=${each.tenant_id}>${each.tenant_name}</bdi></th>
                <td>${each.config_type.replaceAll('_', ' ')} <bdi>${each.resource_id === each.tenant_id ? '' : each.resource_id}</bdi></td>
                <td><code><bdi>${each.path}</bdi></code></td>
                <td><${Value} value=${each.value} longest=${80} /></td>
                <td><${Value} value=${each.rule} longest=${80} /> of the ${each.by.replace('_', ' ')}</td>
              </tr>`,
            )}
          </tbody>
        </table>
      <//>`
    }
    ${items && !isComplete && html`<p class="paging"><button type="button" class="small" onClick=${more}>Look further</button></p>`}
    <p class="fine">The <a href=${hrefOf('/platform/plan')}>plan</a> says before a write what it would put outside of a bound.</p>
  </section>`;
}
