import { columns, given, json, tenantIds, text, type Command } from './command.ts';
import type { Session } from './session.ts';

const nodeIds = async (session: Session): Promise<readonly string[]> =>
  session.nodes().map(({ id }) => id);

type Figures = Record<string, number> & { keys?: string[] };
/** Every node's caches, or the named one's; undefined where a node did not answer. */
async function caches(
  session: Session,
  node: string | undefined,
  keys: boolean,
): Promise<readonly { id: string; caches: Record<string, Figures> | undefined }[]> {
  const asked =
    node === undefined
      ? session
          .nodes()
          .filter(({ self }) => !self)
          .map(({ id }) => id)
      : [node];
  return Promise.all(
    asked.map(async (id) => ({
      id,
      caches: (await session.ask(id, 'node.caches', { body: { keys } }).catch((error: unknown) => {
        if (node === undefined) return undefined;
        throw error;
      })) as Record<string, Figures> | undefined,
    })),
  );
}

export const nodeCommands: readonly Command[] = [
  {
    name: 'nodes',
    takes: '',
    says: 'who is in the cluster, what it hosts, and whether it is well',
    async run({ session, print }) {
      const nodes = session.nodes();
      print(
        columns(
          await Promise.all(
            nodes.map(async ({ id, hostname, services, self }) => {
              const health = await session.ask(id, 'node.health', {}).catch(() => undefined);
              const failing = Object.entries(health ?? {})
                .filter(([, well]) => !well)
                .map(([part]) => part);
              return {
                node: id,
                host: hostname,
                pieces: self ? 'this REPL' : services.join(',') || 'gateway or neighbour',
                health:
                  health === undefined
                    ? 'does not answer'
                    : failing.length === 0
                      ? 'well'
                      : `${failing.join(',')} away`,
              };
            }),
          ),
        ),
      );
    },
  },
  {
    name: 'cache stats',
    takes: '[node]',
    says: 'entries, hits, misses and drops of every node',
    complete: { node: nodeIds },
    async run({ session, words, print }) {
      const answers = await caches(session, words.node, false);
      print(
        columns(
          answers.flatMap(({ id, caches: found }) =>
            Object.entries(found ?? { 'does not answer': {} as Figures }).map(
              ([cache, figures]) => ({
                node: id,
                cache,
                entries: figures.entries,
                bytes: figures.bytes,
                hits: figures.hits,
                misses: figures.misses,
                drops: figures.drops,
                stale: figures.stale,
              }),
            ),
          ),
        ),
      );
    },
  },
  {
    name: 'cache keys',
    takes: '[node]',
    says: 'what is held in memory',
    complete: { node: nodeIds },
    flags: { match: { type: 'string', says: 'only keys that contain this, such as a tenant id' } },
    async run({ session, words, flags, print }) {
      const answers = await caches(session, words.node, true);
      const rows = answers.flatMap(({ id, caches: found = {} }) =>
        Object.entries(found).flatMap(([cache, { keys = [] }]) =>
          keys
            .filter((key) => key.includes(text(flags.match) ?? ''))
            .sort()
            .map((key) => ({ node: id, cache, key })),
        ),
      );
      print(columns(rows));
    },
  },
  {
    name: 'cache drop',
    takes: '<tenant> [key...]',
    says: "drop a tenant's entries on every node, or only these keys",
    complete: { tenant: tenantIds },
    async run({ session, words, rest, print }) {
      print(
        json(
          await session.everywhere('config-resolver.invalidate', {
            tenant_id: words.tenant!,
            body: rest.length === 0 ? {} : { keys: [...rest] },
          }),
        ),
      );
    },
  },
  {
    name: 'reload',
    takes: '',
    says: 'clear the caches of every node, and re-read its environment where asked',
    flags: {
      env: { type: 'boolean', says: 'also re-read the environment' },
      tenant: {
        type: 'string',
        multiple: true,
        says: "clear only this tenant's effective values; may be repeated",
      },
      'dry-run': { type: 'boolean', says: 'tell what would change' },
    },
    async run({ session, flags, print }) {
      const tenants = (flags.tenant ?? []) as string[];
      const answer = await session.everywhere('gateway.reload', {
        body: given({
          reload_env: flags.env as boolean | undefined,
          dry_run: flags['dry-run'] as boolean | undefined,
          invalidate: tenants.length > 0 ? { tenant_ids: tenants } : { all: true },
          reinit: { dynamic_config_service: true, configuration_service: tenants.length === 0 },
        }) as never,
      });
      print(json(answer));
      if ((answer as { status: string }).status !== 'ok')
        throw new Error('Not every node was reloaded; errors says which.');
    },
  },
];
