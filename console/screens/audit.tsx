/**
 * The audit: who did what, newest first, as the address says, and a file of what fits the filters.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { parameter, tenantShown } from '../address.ts';
import { useAction } from '../action.ts';
import { withQuery } from '../api.ts';
import { saveLines } from '../files.ts';
import { Filters, TypedFilter } from '../fields.tsx';
import { longJson } from '../format.ts';
import { useGet } from '../loading.ts';
import { type Cells, OpenTable, Pager, Waiting } from '../lists.tsx';
import { Button, Time, Who } from '../inline.tsx';
import { Fact, Heading, ProblemBox, TextBlock } from '../parts.tsx';
import { nameOf } from '../people.ts';
import { sortedBy, type Orders } from '../sorting.ts';
import { AuditPresets } from './audit-presets.tsx';
import { KeepElsewhere, linesOf, Verify } from './audit-record.tsx';

type Events = ResultOf<'audit.events.list'>;
type AuditEvent = Events['items'][number];

const orders: Orders<AuditEvent> = {
  what: ({ action }) => action,
  target: ({ target }) => target && nameOf(target),
  by: ({ actor }) => actor.name ?? nameOf(actor.id),
};

const filters = ['actor', 'action', 'target', 'since', 'until'] as const;

/** Times in the address are what people typed, in their own time; the API takes UTC. */
const momentOf = (local: string): string => {
  const at = new Date(local);
  return Number.isNaN(at.getTime()) ? '' : at.toISOString();
};

/** Of the events that fit: of all tenants, and the platform, where none is shown. */
const eventsAddress = (page: Readonly<Record<string, string>> = {}): string =>
  withQuery('/audit/events', {
    tenant_id: tenantShown.value,
    actor: parameter('actor').trim(),
    action: parameter('action').trim(),
    target: parameter('target').trim(),
    since: momentOf(parameter('since')),
    until: momentOf(parameter('until')),
    order: 'desc',
    ...page,
  });

export function Audit(): VNode {
  const cursor = parameter('cursor');
  const sort = parameter('sort');
  // Time is the order of the record itself; any other one is that of the page.
  const isOldestFirst = sort === 'when';
  const order = isOldestFirst ? 'asc' : 'desc';
  const address = eventsAddress({ limit: '50', cursor, order });
  const { data, problem, reload } = useGet<Events>(address);
  const shown = data && sortedBy(data.items, orders, sort);
  const isOfAll = tenantShown.value === '';
  const isFiltered = filters.some((name) => parameter(name) !== '');
  return (
    <section>
      <Heading title={isOfAll ? 'Audit log (all tenants)' : 'Audit'} />
      <Verify />
      <FilterForm />
      <AuditPresets action={parameter('action')} />
      <Waiting data={data} problem={problem} retry={reload} />
      <OpenTable
        look="audit"
        items={shown}
        keyOf={({ id }) => id}
        columns={columns}
        restarts
        empty={emptyText(isFiltered, data?.next_cursor)}
        inside={detailsOf}
      />
      <Pager
        cursor={cursor}
        next={data?.next_cursor}
        isOldestFirst={isOldestFirst}
        isOrderOfPage={sort !== '' && !sort.endsWith('when')}
      >
        <span class="grow"></span>
        {data && data.items.length > 0 && <Export />}
      </Pager>
      <KeepElsewhere />
    </section>
  );
}

/** A page goes through so many events for those that fit. */
function emptyText(isFiltered: boolean, next: string | null | undefined): string {
  if (!isFiltered) return 'Nothing has happened yet.';
  return next ? 'Nothing on this page fits the filters.' : 'Nothing fits the filters.';
}

const FilterForm = (): VNode => (
  <Filters class="question five">
    <TypedFilter name="actor" label="By" placeholder="address or id" />
    <TypedFilter name="action" label="Action begins with" placeholder="config." />
    <TypedFilter name="target" label="Target" placeholder="id or name" />
    <TypedFilter name="since" label="From" type="datetime-local" />
    <TypedFilter name="until" label="Before" type="datetime-local" />
  </Filters>
);

/** Strata itself and operators have no name of their own. */
const ActorOf = ({ actor }: { readonly actor: AuditEvent['actor'] }): VNode => (
  <span>
    {actor.type !== 'user' && <span class="muted">{actor.type} </span>}
    <Who id={actor.id} name={actor.name ?? undefined} />
  </span>
);

const columns: Cells<AuditEvent> = [
  [{ sort: 'what', title: 'What' }, ({ action }) => action],
  [
    { sort: 'target', title: 'Target' },
    ({ target }) => (target === null ? <span class="muted">–</span> : <Who id={target} />),
  ],
  [{ sort: 'by', title: 'By' }, ({ actor }) => <ActorOf actor={actor} />],
  [{ sort: 'when', title: 'When' }, ({ occurred_at: at }) => <Time at={at} />],
];

function detailsOf(event: AuditEvent): VNode {
  const { actor, target, payload, request_id: request, tenant_id: tenant } = event;
  return (
    <>
      <dl class="facts">
        <Fact name="Number in the chain" says={<span class="number">{event.seq}</span>} />
        <Fact name="By" says={<code>{actor.id}</code>} />
        <Fact name="Target" says={target === null ? '–' : <code>{target}</code>} />
        {tenantShown.value === '' && tenant !== null && (
          <Fact name="Tenant" says={<code>{tenant}</code>} />
        )}
        <Fact name="Request" says={request === null ? '–' : <code>{request}</code>} />
        <Fact name="At" says={<code>{event.occurred_at}</code>} />
        <Fact name="Hash" says={<code>{event.hash}</code>} />
      </dl>
      <TextBlock label="Details" text={longJson(payload)} />
    </>
  );
}

/** A file of what fits the filters, newest first, that can be checked against the record. */
function Export(): VNode {
  const [says, setSays] = useState('');
  const { isBusy, problem, run } = useAction();
  const begin = (): void =>
    void run(async () => {
      const { lines, isAll } = await linesOf(eventsAddress(), (soFar) =>
        setSays(`${soFar.toLocaleString()} events…`),
      );
      saveLines('audit', lines);
      const count = lines.length.toLocaleString();
      setSays(
        isAll
          ? `${count} events are in the file.`
          : `The newest ${count} events are in the file. Narrow the time for older ones.`,
      );
    });
  return (
    <span>
      <ProblemBox problem={problem} />
      <span class="fine" role="status">
        {says}
      </span>{' '}
      <Button class="small" says="Export filtered events" isBusy={isBusy} onClick={begin} />
    </span>
  );
}
