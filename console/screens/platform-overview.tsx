/**
 * What somebody who administers the platform wants to know first: tenants near a limit, what waits
 * for approval or is being rolled out, nodes that are not well, and what changed for everybody.
 */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { get } from '../api.ts';
import { useEvery, useList, useLive, useLoaded, useGet } from '../loading.ts';
import { FineTime, Link, State } from '../inline.tsx';
import { Empty, Heading, ProblemBox, Section } from '../parts.tsx';
import { Tile, Tiles } from '../tiles.tsx';
import { screenOfSet, ownerOf, titleOfSet, type ChangeSet } from './change-sets.ts';
import { stopIn } from './emergency-stop.tsx';
import { LastChanges } from './overview-lists.tsx';
import { platformBounds } from './platform-kinds.ts';
import { readStored } from './stored.ts';
import { titlesOfUsage } from './usage.tsx';

type Near = ResultOf<'config-resolver.usage.near'>;
type Rollout = ResultOf<'global-config.rollouts.get'>;

const lookSeldomMs = 60_000;
const mostListed = 5;

export function PlatformOverview(): VNode {
  const near = useGet<Near>('/config/usage?limit=100');
  const owner = ownerOf('');
  const sets = useList<ChangeSet>(`${owner.address}?state=pending`);
  const rollouts = useLoaded('rollouts under way', async (aborted) => {
    const listed = (state: string) =>
      get<ResultOf<'global-config.rollouts.list'>>(
        `/config/rollouts?state=${state}&limit=50`,
        aborted,
      );
    const [held, running] = await Promise.all([listed('held'), listed('running')]);
    return { held: held.items, running: running.items };
  });
  const reload = (): void => {
    sets.reload();
    rollouts.reload();
  };
  useLive(reload);
  useEvery(lookSeldomMs, () => {
    reload();
    near.reload();
  });
  const underWay = rollouts.data && [...rollouts.data.held, ...rollouts.data.running];
  const held = rollouts.data?.held.length;
  const problem = near.problem ?? sets.problem ?? rollouts.problem;
  return (
    <section class="overview">
      <Heading
        title="Overview"
        about="What is near a limit, what waits, and what changed for all tenants"
      />
      <ProblemBox problem={problem} retry={near.reload} />
      <Tiles>
        <StopTile />
        <NodesTile />
        <Tile
          title="Tenants near a limit"
          href="/platform/usage"
          count={near.data && new Set(near.data.items.map(({ tenant_id: id }) => id)).size}
          says={near.data?.next_cursor ? 'and more' : 'four fifths of what they may have'}
          look={near.data && near.data.items.length > 0 ? 'warn' : ''}
        />
        <Tile
          title="Change sets that wait"
          href="/platform/change-sets"
          count={sets.data?.length}
          look={sets.data && sets.data.length > 0 ? 'warn' : ''}
        />
        <Tile
          title="Rollouts"
          href="/platform/rollouts"
          count={underWay?.length}
          says={held ? `${held} held` : 'under way'}
          look={held ? 'bad' : ''}
        />
      </Tiles>
      <div class="panels">
        <Section title="Change sets that wait">
          {sets.data?.length === 0 && <Empty>Nothing waits for an approval.</Empty>}
          <ul class="plain-list">
            {sets.data?.slice(0, mostListed).map((set) => (
              <li key={set.id}>
                <Link to={screenOfSet(owner, set.id)}>{titleOfSet(set, owner)}</Link>{' '}
                <FineTime at={set.created_at} />
              </li>
            ))}
          </ul>
        </Section>
        <RolloutsUnderWay rollouts={underWay} />
        <NearALimit near={near.data?.items} />
      </div>
      <LastChanges screens="/platform" address="/config/history" />
    </section>
  );
}

function StopTile(): VNode {
  const address = platformBounds.path;
  const { data, reload } = useLoaded(`stop ${address}`, (aborted) => readStored(address, aborted));
  useLive(reload);
  const stop = data && stopIn(data.document);
  return (
    <Tile
      title="Emergency stop"
      href="/platform/bounds"
      count={data && Number(stop !== undefined)}
      says={stop ? (stop.reason ?? 'holds for all tenants') : 'for all tenants'}
      look={stop ? 'bad' : ''}
    />
  );
}

function NodesTile(): VNode {
  const { data, reload } = useGet<ResultOf<'cluster.nodes'>>('/config/nodes');
  useEvery(lookSeldomMs, reload);
  const there = data?.items.filter(({ state }) => state !== 'left' && state !== 'lost');
  const lost = data?.items.filter(({ state }) => state === 'lost').length ?? 0;
  const unwell = there?.filter(({ state }) => state !== 'well').length ?? 0;
  const says = [
    ...(unwell > 0 ? [`${unwell} not well`] : []),
    ...(lost > 0 ? [`${lost} lost`] : []),
  ];
  return (
    <Tile
      title="Nodes"
      href="/platform/nodes"
      count={there?.length}
      says={data && (says.join(', ') || 'all answer')}
      look={unwell > 0 ? 'bad' : ''}
    />
  );
}

const RolloutsUnderWay = ({
  rollouts,
}: {
  readonly rollouts: readonly Rollout[] | undefined;
}): VNode => (
  <Section title="Rollouts under way">
    {rollouts?.length === 0 && <Empty>Nothing is being rolled out.</Empty>}
    <ul class="plain-list">
      {rollouts?.slice(0, mostListed).map(({ id, state, title, stage_at: at }) => (
        <li key={id}>
          <Link to={`/platform/rollouts/${id}`}>{title}</Link> <State state={state} />{' '}
          <FineTime at={at} />
        </li>
      ))}
    </ul>
  </Section>
);

const NearALimit = ({ near }: { readonly near: Near['items'] | undefined }): VNode => (
  <Section title="Tenants near a limit">
    {near?.length === 0 && <Empty>No tenant has four fifths of what it may have.</Empty>}
    <ul class="plain-list">
      {near?.slice(0, mostListed).map(({ tenant_id: id, what, used, limit }) => (
        <li key={`${what} ${id}`}>
          <code>{id.slice(0, 8)}…</code> {titlesOfUsage[what]}{' '}
          <span class="number">
            {used?.toLocaleString()} of {limit?.toLocaleString()}
          </span>
        </li>
      ))}
    </ul>
  </Section>
);
