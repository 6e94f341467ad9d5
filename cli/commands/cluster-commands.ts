/** Who is in the cluster, and who was. */
import type { ResultOf } from '../../shared/contracts/index.ts';
import type { Command } from '../command.ts';
import { columns } from '../output.ts';

type Backlog = NonNullable<ResultOf<'cluster.nodes'>['backlog']>;
type Node = ResultOf<'cluster.nodes'>['items'][number];

/** A node that fell silent so long ago was replaced, or is missed by somebody already. */
const missedMs = 3_600_000;

/** Whether somebody should look; a node that said it goes was told to. */
const isMissed = ({ state, last_seen_at: at }: Node): boolean =>
  state === 'lost' ? Date.now() - Date.parse(at) < missedMs : state !== 'well' && state !== 'left';

const titles: Readonly<Record<Node['state'], string>> = {
  well: 'well',
  unwell: 'away',
  silent: 'does not answer',
  left: 'left',
  lost: 'lost',
};

const stateOf = ({ state, away }: Node): string =>
  state === 'unwell' ? `${away.join(',')} away` : titles[state];

/** What waits in the database is no node's: whichever is free does it. */
const waiting = ({ notices, audit_events: events }: Backlog): string =>
  `waiting for any node: ${notices ?? '-'} notices, ${events ?? '-'} audit events`;

const nodes: Command = {
  name: 'nodes',
  parameters: '',
  summary:
    'who is in the cluster and who has gone, with release and state; ends with 1 where one is not well',
  async run({ session, answer }) {
    const { items, backlog } = await session.call('cluster.nodes', {});
    const rows = items.map((node) => ({
      node: node.node,
      host: node.host,
      pieces: node.pieces.join(',') || 'neighbour',
      release: node.release,
      state: stateOf(node),
      lease: node.lease ? 'yes' : 'no',
      sending: node.sending,
      started: node.started_at,
      last_seen: node.last_seen_at,
    }));
    answer(items, () => [columns(rows), ...(backlog ? [waiting(backlog)] : [])].join('\n'));
    return items.some(isMissed) ? 1 : 0;
  },
};

export const clusterCommands: readonly Command[] = [nodes];
