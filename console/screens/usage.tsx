/** What a tenant uses of what it may have; and the tenants that are near a limit. */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { useList } from '../loading.ts';
import { usePages } from '../pages.ts';
import { Columns, Empty, Heading, Loading, ProblemBox, TableRegion } from '../parts.tsx';
import type { ScreenProperties } from './screen.ts';

type Usage = ResultOf<'config-resolver.usage.get'>['items'][number];
type Near = ResultOf<'config-resolver.usage.near'>['items'][number];

const titles: Readonly<Record<Usage['what'], string>> = {
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

export function TenantUsage({ tenantId }: ScreenProperties): VNode {
  const { data, problem, reload } = useList<Usage>(`/tenants/${tenantId}/usage`);
  return (
    <section>
      <Heading title="Usage" />
      <ProblemBox problem={problem} retry={reload} />
      {!data && !problem && <Loading />}
      {data && (
        <TableRegion label="Usage">
          <table class="lines">
            <Columns titles={['What', 'Used', 'Limit', { wide: 'Setting' }]} />
            <tbody>
              {data.map(({ what, used, limit, setting }) => (
                <tr key={what}>
                  <th scope="row">{titles[what]}</th>
                  <td>{numberOf(used)}</td>
                  <td>{numberOf(limit)}</td>
                  <td class="wide">
                    <code>{setting}</code>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </TableRegion>
      )}
    </section>
  );
}

export function UsageOfTenants(): VNode {
  const { items, isComplete, problem, more, reload } = usePages<Near>('/config/usage', false);
  return (
    <section>
      <Heading title="Tenants near a limit" />
      <ProblemBox problem={problem} retry={reload} />
      {!items && !problem && <Loading />}
      {items?.length === 0 && <Empty>No tenant has four fifths of what it may have.</Empty>}
      {items && items.length > 0 && (
        <TableRegion label="Tenants near a limit">
          <table class="lines">
            <Columns titles={['Tenant', 'What', 'Used', 'Limit']} />
            <tbody>
              {items.map(({ tenant_id: id, what, used, limit }) => (
                <tr key={`${what} ${id}`}>
                  <th scope="row">
                    <code>{id}</code>
                  </th>
                  <td>{titles[what]}</td>
                  <td>{numberOf(used)}</td>
                  <td>{numberOf(limit)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </TableRegion>
      )}
      {items && !isComplete && (
        <p class="paging">
          <button type="button" class="small" onClick={more}>
            Show more
          </button>
        </p>
      )}
    </section>
  );
}
