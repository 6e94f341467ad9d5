/** What happened to one's own account: sign-ins, refusals, changes of credentials. */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { query, setQuery } from '../address.ts';
import { get, withQuery } from '../api.ts';
import { longJson } from '../format.ts';
import { html, view } from '../html.ts';
import { useLoaded } from '../loading.ts';
import { Empty, ProblemBox, TableRegion, Time } from '../parts.ts';

type Events = ResultOf<'audit.activity'>;

export function Activity(): VNode {
  const cursor = query.value.get('cursor') ?? '';
  const address = withQuery('/auth/activity', { limit: '50', cursor });
  const { data, problem, reload } = useLoaded(address, (aborted) => get<Events>(address, aborted));
  return html`<section class="kind" aria-label="Activity">
    <h2>What happened to your account</h2>
    <p class="fine">If something here was not you, change the password and end the sessions.</p>
    ${view(ProblemBox, { problem, retry: reload })}
    ${!data && !problem && html`<p class="empty" role="status">Loading…</p>`}
    ${data?.items.length === 0 && html`<${Empty}>Nothing yet.<//>`}
    ${
      data &&
      data.items.length > 0 &&
      html`<${TableRegion} label="Activity">
        <table>
          <thead><tr><th scope="col">When</th><th scope="col">What</th><th scope="col">Details</th></tr></thead>
          <tbody>
            ${data.items.map(
              (event) => html`<tr key=${event.id}>
                <td><${Time} at=${event.occurred_at} /></td>
                <th scope="row"><code>${event.action}</code></th>
                <td><details><summary>Details</summary><pre tabindex="0"><code>${longJson(event.payload)}</code></pre></details></td>
              </tr>`,
            )}
          </tbody>
        </table>
      <//>`
    }
    <p class="paging">
      ${cursor !== '' && html`<button type="button" class="small" onClick=${() => setQuery({ cursor: '' })}>Newest</button>`}
      ${data?.next_cursor && html`<button type="button" class="small" onClick=${() => setQuery({ cursor: data.next_cursor! })}>Older</button>`}
    </p>
  </section>`;
}
