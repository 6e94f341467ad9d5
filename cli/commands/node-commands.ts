/** Commands about what the nodes of the cluster hold in memory, and how they are reloaded. */
import type { ClusterSession } from '../bus/cluster-session.ts';
import type { Command } from '../command.ts';
import { columns } from '../output.ts';
import { given, textOf, textsOf } from '../typed.ts';

const nodeIds = async (session: ClusterSession): Promise<readonly string[]> =>
  session.nodes().map(({ id }) => id);

/** The caches of the named node, which has to answer, or of every node but the console's own. */
async function cachesOf(
  session: ClusterSession,
  node: string | undefined,
  body: { keys: boolean },
) {
  const ask = (id: string) => session.call('cluster.node.caches', { body }, id);
  if (node !== undefined) return [{ id: node, caches: await ask(node) }];
  const others = session.nodes().filter(({ self }) => !self);
  return Promise.all(
    others.map(async ({ id }) => ({ id, caches: await ask(id).catch(() => undefined) })),
  );
}

const cacheStats: Command<ClusterSession> = {
  name: 'cache stats',
  parameters: '[node]',
  summary: 'entries, hits, misses and drops of every node',
  complete: { node: nodeIds },
  async run({ session, args, answer }) {
    const answers = await cachesOf(session, args.node, { keys: false });
    const rows = answers.flatMap(({ id, caches }) =>
      caches === undefined
        ? [{ node: id, cache: 'does not answer' }]
        : Object.entries(caches).map(([cache, statistics]) => ({ node: id, cache, ...statistics })),
    );
    answer(rows, () => columns(rows));
  },
};

const cacheKeys: Command<ClusterSession> = {
  name: 'cache keys',
  parameters: '[node]',
  summary: 'what is held in memory',
  complete: { node: nodeIds },
  flags: { match: { type: 'string', summary: 'only keys that contain this, such as a tenant id' } },
  async run({ session, args, flags, answer }) {
    const wanted = textOf(flags.match) ?? '';
    const answers = await cachesOf(session, args.node, { keys: true });
    const rows = answers.flatMap(({ id, caches = {} }) =>
      Object.entries(caches).flatMap(([cache, { keys = [] }]) =>
        keys
          .filter((key) => key.includes(wanted))
          .sort()
          .map((key) => ({ node: id, cache, key })),
      ),
    );
    answer(rows, () => columns(rows));
  },
};

const cacheDrop: Command<ClusterSession> = {
  name: 'cache drop',
  parameters: '<tenant> [key...]',
  summary: "drop a tenant's entries on every node, or only these keys",
  async run({ session, args, rest, answer }) {
    const dropped = await session.call('cluster.invalidate', {
      tenant_id: args.tenant,
      body: rest.length === 0 ? {} : { keys: [...rest] },
    });
    answer(dropped);
    if (dropped.errors) throw new Error('Not every node dropped them; errors says which.');
  },
};

const reload: Command<ClusterSession> = {
  name: 'reload',
  parameters: '',
  summary: 'clear the caches of every node, and re-read its environment where asked',
  flags: {
    env: { type: 'boolean', summary: 'also re-read the environment' },
    tenant: {
      type: 'string',
      multiple: true,
      summary: "clear only this tenant's effective values; may be repeated",
    },
    'dry-run': { type: 'boolean', summary: 'tell what would change' },
  },
  async run({ session, flags, answer }) {
    const tenants = textsOf(flags.tenant);
    const everything = tenants.length === 0;
    const reloaded = await session.call('cluster.reload', {
      body: given({
        reload_env: flags.env,
        dry_run: flags['dry-run'],
        invalidate: everything ? { all: true } : { tenant_ids: tenants },
        reinit: { dynamic_config_service: true, configuration_service: everything },
      }),
    });
    answer(reloaded);
    if (reloaded.errors) throw new Error('Not every node was reloaded; errors says which.');
  },
};

export const nodeCommands: readonly Command<ClusterSession>[] = [
  cacheStats,
  cacheKeys,
  cacheDrop,
  reload,
];
