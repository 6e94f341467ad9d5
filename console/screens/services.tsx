/**
 * The tenant's services, and one of them on one page: its limits, what automation does to it, what
 * waits for people, when it is maintained or frozen, and what changed.
 */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf, ofTenant } from '../address.ts';
import { withQuery } from '../api.ts';
import { FilterField, Filters } from '../fields.tsx';
import { Waiting } from '../lists.tsx';
import { lookAgainMs, useEvery, useList, useLive, useLiveApprovals, useGet } from '../loading.ts';
import { Empty, Heading, ProblemBox, Section } from '../parts.tsx';
import { isVisiting } from '../session.ts';
import { Tile, Tiles } from '../tiles.tsx';
import { AutomationTable, type Automation } from './automations.tsx';
import { kindNamed, mayWrite, screenOf } from './document-kinds.ts';
import { windowText } from './freeze-windows.ts';
import { KindList, Labels } from './kind-list.tsx';
import { limitsIn, LimitTable } from './limit-table.tsx';
import { FreezesNow, LastChanges, useFreezesNow, WaitingApprovals } from './overview-lists.tsx';
import type { ScreenProperties } from './screen.ts';

type Approval = ResultOf<'notifier.approvals.list'>['items'][number];
type Effective = ResultOf<'config-resolver.resolve'>;
type Service = ResultOf<'tenant-config.services.get'>['document'];

const kind = kindNamed('services')!;

export function Services({ rest: [id] }: ScreenProperties): VNode {
  if (id !== undefined) return <OneService key={id} id={id} />;
  const pageOf = (each: string): string => ofTenant(`/services/${encodeURIComponent(each)}`);
  return (
    <section>
      <Heading
        title="Services"
        about="What automation acts on, each with its limits and what became of it"
      />
      <Filters class="filter">
        <FilterField placeholder="name, owner or label" />
      </Filters>
      <KindList kind={kind} pageOf={pageOf} />
    </section>
  );
}

/** What is there of a service; each list is of the whole tenant, and as short as its limits. */
function useService(id: string) {
  const of = ofTenant();
  const address = `${of}/services/${encodeURIComponent(id)}`;
  const service = useGet<Service>(address);
  const effective = useGet<Effective>(
    withQuery(`${of}/config/effective`, { service_id: id, explain: 'true' }),
  );
  const pending = useList<Approval>(`${of}/approvals?state=pending`);
  const running = useList<Automation>(`${of}/automations?state=running`);
  const reload = (): void => {
    service.reload();
    effective.reload();
  };
  useLive(reload);
  useLiveApprovals(pending.reload);
  useEvery(lookAgainMs, running.reload);
  const isOfIt = ({ service_id: each }: { readonly service_id?: string | undefined }): boolean =>
    each === id;
  return {
    service: service.data,
    effective: effective.data,
    pending: pending.data?.filter(isOfIt),
    running: running.data?.filter(isOfIt),
    problem: service.problem ?? effective.problem ?? pending.problem ?? running.problem,
    reload,
  };
}

function OneService({ id }: { readonly id: string }): VNode {
  const of = ofTenant();
  const { service, effective, pending, running, problem, reload } = useService(id);
  const freezes = useFreezesNow(effective);
  const history = { config_type: kind.configType, resource_id: id };
  const document = hrefOf(screenOf(kind, id));
  if (!service)
    return (
      <section>
        <Heading title={`Service ${id}`} />
        <Waiting data={service} problem={problem} retry={reload} />
      </section>
    );
  return (
    <section class="overview">
      <Heading title={`Service ${id}`}>
        <p class="muted">
          {service.service_name !== undefined && (
            <>
              <bdi>{service.service_name}</bdi>,{' '}
            </>
          )}
          <code>{service.service_type}</code>
          {service.owner !== undefined && (
            <>
              , owned by <bdi>{service.owner}</bdi>
            </>
          )}{' '}
          {service.labels && <Labels labels={service.labels} />}
        </p>
        <span class="grow"></span>
        <a href={document}>{mayWrite(kind) ? 'Edit' : 'Show its document'}</a>
        {!isVisiting.value && (
          <a href={hrefOf(withQuery(`${of}/what-if`, { service_id: id }))}>What if</a>
        )}
      </Heading>
      <ProblemBox problem={problem} retry={reload} />
      <Tiles>
        <Tile
          title="Running"
          href={`${of}/automations`}
          count={running?.length}
          says={effective?.values.automation_enabled === false ? 'automation is off' : ''}
          look={effective?.values.automation_enabled === false ? 'bad' : ''}
        />
        <Tile
          title="Waiting for approval"
          href={`${of}/approvals`}
          count={pending?.length}
          look={pending && pending.length > 0 ? 'warn' : ''}
        />
        <Tile
          title="Freezes now"
          href={`${of}/freezes`}
          count={freezes?.length}
          look={freezes && freezes.length > 0 ? 'warn' : ''}
        />
      </Tiles>
      <section aria-label="Limits">
        <div class="heading">
          <h2>Limits</h2>
          <span class="grow"></span>
          <a href={hrefOf(withQuery(`${of}/effective`, { service_id: id }))}>All values</a>
        </div>
        {effective && <LimitTable label="Limits" limits={limitsIn(effective)} />}
      </section>
      <Section title="Running now">
        <AutomationTable items={running} empty="No automation acts on it." />
      </Section>
      <div class="panels">
        <WaitingApprovals pending={pending} />
        <Windows service={service} document={document} />
        {freezes && freezes.length > 0 && <FreezesNow freezes={freezes} />}
      </div>
      <LastChanges screens={of} address={withQuery(`${of}/config/history`, history)} />
    </section>
  );
}

function Windows({
  service,
  document,
}: {
  readonly service: Service;
  readonly document: string;
}): VNode {
  const { maintenance_windows: windows = [], maintenance_windows_only: isOnly = false } = service;
  return (
    <Section title="Maintenance windows">
      {windows.length === 0 && <Empty>It has none.</Empty>}
      <ul class="plain-list">
        {windows.map((each, index) => (
          <li key={index}>{windowText(each)}</li>
        ))}
      </ul>
      {windows.length > 0 && (
        <p class="fine">
          {isOnly ? 'Automation acts on it within these only.' : 'Automation may act outside too.'}
        </p>
      )}
      <p class="acts">
        <a href={document}>Its document</a>
      </p>
    </Section>
  );
}
