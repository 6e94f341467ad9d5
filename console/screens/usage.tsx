/** What a tenant uses of what it may have; and the tenants that are near a limit. */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { ofTenant } from '../address.ts';
import { ShowMore, Table, Waiting } from '../lists.tsx';
import { useGet } from '../loading.ts';
import { usePages } from '../pages.ts';
import { Heading } from '../parts.tsx';

type Usage = ResultOf<'config-resolver.usage.get'>['items'][number];
type Near = ResultOf<'config-resolver.usage.near'>['items'][number];

export const titlesOfUsage: Readonly<Record<Usage['what'], string>> = {
  api_keys: 'API keys',
  approvals_pending: 'Approvals that are pending',
  automations_live: 'Automations that run or wait',
  documents: 'Agent configurations, service instances and projects',
  endpoints: 'Webhook endpoints',
  history_per_hour: 'Changes of the configuration in the last hour',
  members: 'Members',
  service_accounts: 'Service accounts',
  streams: 'Watch streams of each gateway',
};

const numberOf = (count: number | null): string => (count === null ? '–' : count.toLocaleString());

export function TenantUsage(): VNode {
  const { data, problem, reload } = useGet<ResultOf<'config-resolver.usage.get'>>(
    ofTenant('/usage'),
  );
  return (
    <section>
      <Heading title="Usage" />
      <Waiting data={data} problem={problem} retry={reload} />
      <Table
        label="Usage"
        look="lines"
        items={data?.items}
        keyOf={({ what }) => what}
        columns={[
          ['What', ({ what }) => titlesOfUsage[what]],
          ['Used', ({ used }) => numberOf(used)],
          ['Limit', ({ limit }) => numberOf(limit)],
          [{ wide: 'Setting' }, ({ setting }) => <code>{setting}</code>],
        ]}
      />
    </section>
  );
}

export function UsageOfTenants(): VNode {
  const { items, isComplete, problem, more, reload } = usePages<Near>('/config/usage');
  return (
    <section>
      <Heading title="Tenants near a limit" />
      <Waiting data={items} problem={problem} retry={reload} />
      <Table
        label="Tenants near a limit"
        look="lines"
        items={items}
        keyOf={({ tenant_id: id, what }) => `${what} ${id}`}
        empty="No tenant has four fifths of what it may have."
        columns={[
          ['Tenant', ({ tenant_id: id }) => <code>{id}</code>],
          ['What', ({ what }) => titlesOfUsage[what]],
          ['Used', ({ used }) => numberOf(used)],
          ['Limit', ({ limit }) => numberOf(limit)],
        ]}
      />
      {items && !isComplete && <ShowMore onClick={more} />}
    </section>
  );
}
