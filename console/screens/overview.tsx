/**
 * What somebody who comes in the morning wants to know of a tenant: what automation did, what waits
 * for people, which limits are near, what changed and by whom. Each part leads to its screen.
 */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { ofTenant } from '../address.ts';
import { get, withQuery } from '../api.ts';
import { Tile, Tiles } from '../tiles.tsx';
import {
  lookAgainMs,
  useEvery,
  useList,
  useLive,
  useLiveApprovals,
  useLoaded,
  useGet,
} from '../loading.ts';
import { Heading, ProblemBox } from '../parts.tsx';
import { hasRole } from '../session.ts';
import { FirstSteps } from './first-steps.tsx';
import { Decisions } from './overview-charts.tsx';
import { isNearItsEnd, medianMinutes } from './overview-counts.ts';
import {
  BudgetsNearTheirEnd,
  FreezesNow,
  LastChanges,
  useFreezesNow,
  WaitingApprovals,
} from './overview-lists.tsx';

type Effective = ResultOf<'config-resolver.resolve'>;
type Approval = ResultOf<'notifier.approvals.list'>['items'][number];

/** Of what no stream tells, and that people do not wait for. */
const lookSeldomMs = 60_000;
const dayMs = 86_400_000;

export function Overview(): VNode {
  const of = ofTenant();
  const effectiveAddress = `${of}/config/effective?explain=true`;
  const effective = useGet<Effective>(effectiveAddress);
  const usage = useGet<ResultOf<'notifier.budgets.usage'>>(`${of}/budgets/usage`);
  const pending = useList<Approval>(`${of}/approvals?state=pending`);
  const freezes = useFreezesNow(effective.data);
  useLive(effective.reload);
  useLiveApprovals(pending.reload);
  useEvery(lookAgainMs, usage.reload);
  const near = usage.data?.items.filter(isNearItsEnd);
  const problem = effective.problem ?? usage.problem ?? pending.problem;
  const retry = (): void => {
    effective.reload();
    usage.reload();
    pending.reload();
  };
  return (
    <section class="overview">
      <Heading
        title="Overview"
        about="What automation does, what waits for people, and what changed"
      />
      <ProblemBox problem={problem} retry={retry} />
      {hasRole('tenant_admin') && <FirstSteps />}
      <Tiles>
        <AutomationTile effective={effective.data} />
        <ApprovalsTile pending={pending.data?.length} />
        <Tile
          title="Budgets near their end"
          href={`${of}/budgets`}
          count={near?.length}
          says={usage.data && `of ${usage.data.items.length}`}
          look={near && near.length > 0 ? 'warn' : ''}
        />
        <Tile
          title="Freezes now"
          href={`${of}/freezes`}
          count={freezes?.length}
          says={effective.data && `of ${effective.data.over_time?.freezes.length ?? 0}`}
          look={freezes && freezes.length > 0 ? 'warn' : ''}
        />
        <NoticesTile />
      </Tiles>
      <Decisions usage={usage.data?.items ?? []} />
      <div class="panels">
        <WaitingApprovals pending={pending.data} />
        <BudgetsNearTheirEnd near={near} />
        {freezes && freezes.length > 0 && <FreezesNow freezes={freezes} />}
      </div>
      <LastChanges screens={of} address={`${of}/config/history`} />
    </section>
  );
}

function AutomationTile({ effective }: { readonly effective: Effective | undefined }): VNode {
  const address = ofTenant('/automations');
  const running = useList<{ readonly id: string }>(`${address}?state=running`);
  useEvery(lookAgainMs, running.reload);
  const { automation_enabled: isEnabled, max_concurrent_automations: most } =
    effective?.values ?? {};
  const slots = typeof most === 'number' ? `of ${most} slots` : '';
  return (
    <Tile
      title="Running"
      href={address}
      count={running.data?.length}
      says={isEnabled === false ? 'automation is off' : slots}
      look={isEnabled === false ? 'bad' : ''}
    />
  );
}

/** Of so many the newest: who decides more in a month knows how long it takes. */
const mostDecided = '200';
const medianDays = 30;

function ApprovalsTile({ pending }: { readonly pending: number | undefined }): VNode {
  const address = ofTenant('/approvals');
  const newest = useGet<ResultOf<'notifier.approvals.list'>>(
    withQuery(address, { limit: mostDecided }),
  );
  useEvery(lookSeldomMs, newest.reload);
  const since = Date.now() - medianDays * dayMs;
  const median = medianMinutes(
    (newest.data?.items ?? []).filter(({ created_at: at }) => Date.parse(at) >= since),
  );
  return (
    <Tile
      title="Waiting for approval"
      href={address}
      count={pending}
      says={
        median === undefined
          ? newest.data && 'none decided in 30 days'
          : `decided in ${inWords(median)}, median`
      }
      look={pending ? 'warn' : ''}
    />
  );
}

function inWords(minutes: number): string {
  if (minutes < 1) return 'less than a minute';
  if (minutes < 120) return `${Math.round(minutes)} min`;
  return minutes < 2880 ? `${Math.round(minutes / 60)} h` : `${Math.round(minutes / 1440)} days`;
}

/** What did not arrive: notices of the last day, and destinations of events. */
function NoticesTile(): VNode {
  const { data, reload } = useLoaded('undelivered', async (aborted) => {
    const of = ofTenant();
    const [failed, destinations] = await Promise.all([
      get<ResultOf<'notifier.deliveries.list'>>(
        `${of}/notifications/deliveries?state=failed&limit=100`,
        aborted,
      ),
      hasRole('tenant_admin')
        ? get<ResultOf<'audit.destinations.list'>>(`${of}/event-destinations`, aborted)
        : { items: [] },
    ]);
    const since = Date.now() - dayMs;
    return {
      notices: failed.items.filter(({ created_at: at }) => Date.parse(at) >= since).length,
      destinations: destinations.items.filter(({ state }) => ['failing', 'gone'].includes(state)),
    };
  });
  useEvery(lookSeldomMs, reload);
  const failing = data?.destinations.map(({ name }) => name) ?? [];
  const undelivered = data && data.notices + failing.length;
  return (
    <Tile
      title="Not delivered"
      href={ofTenant('/deliveries?state=failed')}
      count={undelivered}
      says={failing.length > 0 ? `destination ${failing.join(', ')} fails` : 'in the last 24 hours'}
      look={undelivered ? 'bad' : ''}
    />
  );
}
