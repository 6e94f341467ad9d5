/** The delivery log: which notice went where, every attempt of one, and sending one again. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf, query, setQuery } from '../address.ts';
import { call, get, problemOf, withQuery, type Problem } from '../api.ts';
import { html, view } from '../html.ts';
import { useLoaded } from '../loading.ts';
import { Empty, Heading, ProblemBox, State, TableRegion, Time } from '../parts.ts';
import { hasRole } from '../session.ts';
import type { ScreenProperties } from './screen.ts';

type Deliveries = ResultOf<'notifier.deliveries.list'>;
type Delivery = Deliveries['items'][number];
type Detail = ResultOf<'notifier.deliveries.get'>;

const states = ['pending', 'delivered', 'failed', 'cancelled'] as const;
const channels = ['webhook', 'email', 'chat'] as const;

export function DeliveryLog({ tenantId, rest }: ScreenProperties): VNode {
  const [id] = rest;
  return id === undefined ? view(Log, { tenantId }) : view(OneDelivery, { key: id, tenantId, id });
}

function Choice({
  name,
  label,
  choices,
}: {
  readonly name: string;
  readonly label: string;
  readonly choices: readonly string[];
}): VNode {
  const choose = (event: Event): void =>
    setQuery({ [name]: (event.target as HTMLSelectElement).value, cursor: '' });
  return html`<label>
    ${label}
    <select name=${name} value=${query.value.get(name) ?? ''} onChange=${choose}>
      <option value="">any</option>
      ${choices.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
    </select>
  </label>`;
}

function Log({ tenantId }: { readonly tenantId: string }): VNode {
  const asked = (name: string): string => query.value.get(name) ?? '';
  const [cursor, approval] = [asked('cursor'), asked('approval_id')];
  const address = withQuery(`/tenants/${tenantId}/notifications/deliveries`, {
    state: asked('state'),
    channel: asked('channel'),
    approval_id: approval,
    cursor,
    limit: '100',
  });
  const { data, problem, reload } = useLoaded(address, (aborted) =>
    get<Deliveries>(address, aborted),
  );
  const wanted = asked('q').trim().toLowerCase();
  const shown = data?.items.filter(({ target, type, reason }) =>
    `${target} ${type} ${reason ?? ''}`.toLowerCase().includes(wanted),
  );
  return html`<section>
    <${Heading} title="Deliveries"><p class="muted">Which notice went where, and what became of it</p><//>
    <form role="search" class="question" onSubmit=${(event: Event) => event.preventDefault()}>
      ${view(Choice, { name: 'state', label: 'State', choices: states })}
      ${view(Choice, { name: 'channel', label: 'Channel', choices: channels })}
      <label>
        Filter this page
        <input type="search" name="q" value=${asked('q')} placeholder="target, notice or reason" autocomplete="off"
          onInput=${(event: InputEvent) => setQuery({ q: (event.target as HTMLInputElement).value })} />
      </label>
    </form>
    ${
      approval !== '' &&
      html`<p class="notice">Only of <a href=${hrefOf(`/tenants/${tenantId}/approvals/${approval}`)}>one approval</a>.${' '}
        <button type="button" class="link" onClick=${() => setQuery({ approval_id: '', cursor: '' })}>Of all</button></p>`
    }
    ${view(ProblemBox, { problem, retry: reload })}
    ${!data && !problem && html`<p class="empty" role="status">Loading…</p>`}
    ${shown?.length === 0 && html`<${Empty}>${data?.items.length === 0 ? 'Nothing was sent that fits.' : 'None on this page fits the filter.'}<//>`}
    ${shown && shown.length > 0 && view(DeliveryTable, { tenantId, items: shown })}
    <p class="paging">
      ${cursor !== '' && html`<button type="button" class="small" onClick=${() => setQuery({ cursor: '' })}>Newest</button>`}
      ${data?.next_cursor && html`<button type="button" class="small" onClick=${() => setQuery({ cursor: data.next_cursor! })}>Older</button>`}
    </p>
  </section>`;
}

/** Such as "requested". */
const noticeOf = ({ type, hop }: Delivery): string => {
  const what = type.replace('approval.', '');
  return hop === 0 ? what : `${what}, hop ${hop}`;
};

/** Newest first, each with a way to its attempts. */
export function DeliveryTable({
  tenantId,
  items,
}: {
  readonly tenantId: string;
  readonly items: readonly Delivery[];
}): VNode {
  return html`<${TableRegion} label="Deliveries">
    <table>
      <thead>
        <tr>
          <th scope="col">Target</th><th scope="col">Channel</th><th scope="col">Notice</th><th scope="col">State</th>
          <th scope="col" class="number">Attempts</th><th scope="col">When</th>
        </tr>
      </thead>
      <tbody>
        ${items.map(
          (each) => html`<tr key=${each.id}>
            <th scope="row">
              <a href=${hrefOf(`/tenants/${tenantId}/deliveries/${each.id}`)}><bdi>${each.target}</bdi></a>
              ${each.reason !== null && html`<div class="fine"><bdi>${each.reason}</bdi></div>`}
            </th>
            <td>${each.channel}</td>
            <td>${noticeOf(each)}</td>
            <td><${State} state=${each.state} /></td>
            <td class="number">${each.attempts}</td>
            <td><${Time} at=${each.settled_at ?? each.created_at} /></td>
          </tr>`,
        )}
      </tbody>
    </table>
  <//>`;
}

function OneDelivery({ tenantId, id }: { readonly tenantId: string; readonly id: string }): VNode {
  const address = `/tenants/${tenantId}/notifications/deliveries/${encodeURIComponent(id)}`;
  const { data, problem, reload } = useLoaded(address, (aborted) => get<Detail>(address, aborted));
  return html`<section>
    <${Heading} title="Delivery"><a href=${hrefOf(`/tenants/${tenantId}/deliveries`)}>All deliveries</a><//>
    ${problem?.status === 422 ? html`<${Empty}>There is no delivery with this id.<//>` : view(ProblemBox, { problem, retry: reload })}
    ${!data && !problem && html`<p class="empty" role="status">Loading…</p>`}
    ${data && view(Facts, { tenantId, delivery: data })}
    ${data && hasRole('tenant_admin') && view(Replay, { address, delivery: data, onDone: reload })}
    ${data && view(Attempts, { attempts: data.log })}
  </section>`;
}

function Facts({
  tenantId,
  delivery,
}: {
  readonly tenantId: string;
  readonly delivery: Detail;
}): VNode {
  const { target, channel, state, reason, next_attempt_at: next, settled_at: settled } = delivery;
  return html`<dl class="facts">
    <div><dt>Target</dt><dd><bdi>${target}</bdi></dd></div>
    <div><dt>Channel</dt><dd>${channel}</dd></div>
    <div><dt>Notice</dt><dd>${noticeOf(delivery)}, of <a href=${hrefOf(`/tenants/${tenantId}/approvals/${delivery.approval_id}`)}>its approval</a></dd></div>
    <div><dt>State</dt><dd><${State} state=${state} /></dd></div>
    ${reason !== null && html`<div><dt>Reason</dt><dd><bdi>${reason}</bdi></dd></div>`}
    <div><dt>Made</dt><dd><${Time} at=${delivery.created_at} /></dd></div>
    ${settled !== null && html`<div><dt>Settled</dt><dd><${Time} at=${settled} /></dd></div>`}
    ${next !== null && html`<div><dt>Next attempt</dt><dd><${Time} at=${next} /></dd></div>`}
    <div><dt>webhook-id</dt><dd><code>${delivery.webhook_id}</code></dd></div>
  </dl>`;
}

function Replay({
  address,
  delivery,
  onDone,
}: {
  readonly address: string;
  readonly delivery: Detail;
  readonly onDone: () => void;
}): VNode {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const [isSent, setSent] = useState(false);
  const replay = async (): Promise<void> => {
    setBusy(true);
    setProblem(undefined);
    try {
      await call('POST', `${address}/replay`);
      setSent(true);
    } catch (error) {
      setProblem(problemOf(error));
    }
    setBusy(false);
    onDone();
  };
  return html`<div>
    ${view(ProblemBox, { problem })}
    ${isSent && html`<p class="notice" role="status">It is sent again, under the same webhook-id. <button type="button" class="link" onClick=${onDone}>Look again</button></p>`}
    <p><button type="button" class="secondary" aria-busy=${isBusy} disabled=${isBusy || delivery.state === 'pending'} onClick=${() => void replay()}>Send it again</button></p>
  </div>`;
}

function Attempts({ attempts }: { readonly attempts: Detail['log'] }): VNode {
  return html`<section aria-label="Attempts">
    <h2>Attempts</h2>
    ${attempts.length === 0 && html`<${Empty}>None yet.<//>`}
    ${
      attempts.length > 0 &&
      html`<${TableRegion} label="Attempts">
        <table>
          <thead>
            <tr><th scope="col">When</th><th scope="col" class="number">Status</th><th scope="col" class="number">Took</th><th scope="col">What came back</th></tr>
          </thead>
          <tbody>
            ${attempts.map(
              (each, index) => html`<tr key=${index}>
                <th scope="row"><${Time} at=${each.at} /></th>
                <td class="number">${each.status ?? '–'}</td>
                <td class="number">${each.duration_ms} ms</td>
                <td>
                  ${each.error !== null && html`<div><bdi>${each.error}</bdi></div>`}
                  ${each.answer !== null && each.answer !== '' && html`<pre tabindex="0"><code>${each.answer}</code></pre>`}
                </td>
              </tr>`,
            )}
          </tbody>
        </table>
      <//>`
    }
  </section>`;
}
