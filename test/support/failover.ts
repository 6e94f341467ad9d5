/**
 * PostgreSQL with a streaming standby that can take its place, behind one address that follows. All
 * servers are of the package that embedded mode brings: a standby begins as a copy of the files of
 * the running primary.
 */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, chmodSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { eventually } from './cluster.ts';
import { startPostgres, withClient, type Server } from './postgres.ts';
import { startProxy, type Proxy } from './proxy.ts';
import { freePort, guard } from './servers.ts';

export interface ReplicatedServer extends Server {
  /**
   * The same database by the addresses of all servers themselves, of standbys that are yet to be
   * added as well: what a client does that has several hosts.
   */
  readonly byAllHosts: (url: string) => string;
  /** Starts a standby of the server that is the primary now, in place of the previous one. */
  readonly addStandby: (options: { synchronous: boolean }) => Promise<void>;
  /**
   * Keeps from the standby what is committed until `whileBehind` has ended, kills the primary,
   * promotes the standby and leads the address there. Returns when the primary was killed, in
   * milliseconds of performance.now().
   */
  readonly failOver: (whileBehind: () => Promise<void>) => Promise<number>;
  /**
   * Makes the primary read-only, promotes the standby and leads the address there. What is connected
   * to the former primary stays, and is still answered. Returns how many connections of Strata it
   * has.
   */
  readonly demote: () => Promise<() => Promise<number>>;
  /**
   * Resets all connections and leads the address to the standby, which replays nothing meanwhile;
   * once `whileThere` has ended leads it back, and resets nothing. Returns how many connections to
   * the standby Strata has then.
   */
  readonly visitStandby: (whileThere: () => Promise<void>) => Promise<() => Promise<number>>;
}

/** One of the servers: its own address, and how it ends. */
interface Instance {
  readonly url: string;
  readonly port: number;
  readonly cluster: string;
  readonly kill: () => Promise<void>;
}
interface Standby extends Instance {
  /** What it streams through. */
  readonly link: Proxy;
  readonly end: () => Promise<void>;
}

const standbyName = 'standby';

export async function startReplicatedPostgres(): Promise<ReplicatedServer> {
  const first = await startPostgres();
  const address = await startProxy(portOf(first.url));
  const folder = mkdtempSync(join(tmpdir(), 'strata-standby-'));
  chmodSync(folder, 0o755);
  let primary: Instance = {
    url: first.url,
    port: portOf(first.url),
    cluster: await dataDirectory(first.url),
    kill: () => ended(first.pid!),
  };
  let standby: Standby | undefined;
  let standbys = 0;
  const demoted: Instance[] = [];
  const standbyPorts = [await freePort(), await freePort()];

  return {
    ...first,
    byAllHosts(url) {
      const ports = [...standbyPorts, portOf(first.url)];
      const hosts = ports.map((port) => `127.0.0.1:${port}`).join(',');
      return `${url.replace(new URL(url).host, hosts)}?target_session_attrs=read-write`;
    },
    url: withPort(first.url, address.port),
    async addStandby({ synchronous }) {
      await standby?.end();
      const port = standbyPorts[standbys] ?? (await freePort());
      standbys += 1;
      const cluster = join(folder, `standby-${standbys}`);
      const link = await startProxy(primary.port);
      await copyRunning(primary, cluster);
      standby = await startStandby(primary, cluster, { link, port });
      await streams(primary, synchronous);
    },
    async failOver(whileBehind) {
      const { link, ...promoted } = standby!;
      link.hold('there');
      link.hold('back');
      await whileBehind();
      const at = performance.now();
      address.cut();
      await primary.kill();
      await link.stop();
      await withClient(promoted.url, async (client) => {
        await client.query('SELECT pg_promote()');
        // Uses up ids of transactions, so that those that were lost do not show by being higher
        // than its own.
        await client.query(
          'DO $$ BEGIN FOR n IN 1..1000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$',
        );
      });
      address.lead(promoted.port);
      address.mend();
      primary = promoted;
      standby = undefined;
      return at;
    },
    async demote() {
      const { link, ...promoted } = standby!;
      const former = primary;
      await withClient(former.url, async (client) => {
        await client.query('ALTER SYSTEM SET default_transaction_read_only = on');
        await client.query('SELECT pg_reload_conf()');
        // A session learns of it with its next statement, so that some still write for a moment.
        await eventually(async () => {
          const before = await writtenTo(client);
          await delay(1000);
          const { rows } = await client.query<{ isBehind: boolean }>(
            'SELECT bool_or(replay_lsn < pg_current_wal_lsn()) AS "isBehind" FROM pg_stat_replication',
          );
          if (rows[0]!.isBehind || (await writtenTo(client)) !== before)
            throw new Error('something is written, or the standby is behind');
        });
      });
      await withClient(promoted.url, (client) => client.query('SELECT pg_promote()'));
      address.lead(promoted.port);
      await link.stop();
      demoted.push(former);
      primary = promoted;
      standby = undefined;
      return () => withClient(former.url, connectionsOfStrata);
    },
    async visitStandby(whileThere) {
      const { url, port } = standby!;
      await withClient(url, (client) => client.query('SELECT pg_wal_replay_pause()'));
      address.lead(port);
      address.reset();
      await whileThere();
      address.lead(primary.port);
      return () => withClient(url, connectionsOfStrata);
    },
    async stop() {
      await standby?.end();
      for (const instance of [primary, ...demoted]) await instance.kill();
      await address.stop();
      await first.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const portOf = (url: string): number => Number(new URL(url).port);
function withPort(url: string, port: number): string {
  const changed = new URL(url);
  changed.port = String(port);
  return changed.href;
}

async function connectionsOfStrata(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ number: number }>(
    "SELECT count(*)::int AS number FROM pg_stat_activity WHERE application_name LIKE 'strata-%'",
  );
  return rows[0]!.number;
}

async function writtenTo(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ lsn: string }>('SELECT pg_current_wal_lsn()::text AS lsn');
  return rows[0]!.lsn;
}

const dataDirectory = (url: string): Promise<string> =>
  withClient(url, async (client) => {
    const { rows } = await client.query<{ data_directory: string }>('SHOW data_directory');
    return rows[0]!.data_directory;
  });

/**
 * A base backup by PostgreSQL's low-level functions; what changes meanwhile is in the log that the
 * standby streams.
 */
async function copyRunning({ url, cluster: from }: Instance, to: string): Promise<void> {
  await withClient(url, async (client) => {
    await client.query("SELECT pg_backup_start('standby', true)");
    try {
      execFileSync('cp', ['-a', from, to], { stdio: 'ignore' });
    } catch {
      // A file that was removed while it ran is in the log, too.
    }
    const { rows } = await client.query<{ labelfile: string }>(
      'SELECT labelfile FROM pg_backup_stop(false)',
    );
    rmSync(join(to, 'postmaster.pid'), { force: true });
    writeAs(to, 'backup_label', rows[0]!.labelfile);
  });
}

/** Owned as the directory is: PostgreSQL does not run as root. */
function writeAs(directory: string, name: string, text: string): void {
  const { uid, gid } = statSync(directory);
  const file = join(directory, name);
  writeFileSync(file, text);
  if (process.getuid?.() === 0) execFileSync('chown', [`${uid}:${gid}`, file]);
}

async function startStandby(
  primary: Instance,
  cluster: string,
  { link, port }: Pick<Standby, 'link' | 'port'>,
): Promise<Standby> {
  const { username, password } = new URL(primary.url);
  writeAs(cluster, 'standby.signal', '');
  const connection = `host=127.0.0.1 port=${link.port} user=${username} password=${password} application_name=${standbyName}`;
  writeAs(cluster, 'postgresql.auto.conf', `primary_conninfo = '${connection}'\n`);
  // The command line of the server that it is a copy of: the program, then its arguments in quotes.
  const command = readFileSync(join(primary.cluster, 'postmaster.opts'), 'utf8');
  const program = command.slice(0, command.indexOf(' "'));
  const flags = [...command.matchAll(/"([^"]*)"/g)].map(([, flag]) => flag!);
  const [, , , , ...settings] = flags;
  const { uid, gid } = statSync(cluster);
  const server = spawn(program, ['-D', cluster, '-p', String(port), ...settings], {
    uid,
    gid,
    cwd: '/',
    env: { LC_ALL: 'C', TZ: 'UTC' },
    stdio: 'ignore',
    detached: true,
  });
  server.unref();
  server.once('exit', guard(server.pid!, 'QUIT', cluster));
  const url = withPort(primary.url, port);
  await eventually(() => withClient(url, (client) => client.query('SELECT')));
  const kill = (): Promise<void> => killed(server);
  const end = async (): Promise<void> => {
    await link.stop();
    await kill();
  };
  return { url, port, cluster, link, kill, end };
}

async function killed(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  const over = once(server, 'exit');
  server.kill('SIGQUIT');
  await over;
}

/** SIGQUIT ends all sessions where they are, and leaves what was committed to recovery. */
async function ended(pid: number): Promise<void> {
  for (let signal: NodeJS.Signals | 0 = 'SIGQUIT'; ; signal = 0) {
    try {
      process.kill(pid, signal);
    } catch {
      return;
    }
    await delay(10);
  }
}

/** Resolves once the standby streams in that way. */
async function streams({ url }: Instance, synchronous: boolean): Promise<void> {
  const names = synchronous ? standbyName : '';
  await withClient(url, async (client) => {
    await client.query(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
    await client.query('SELECT pg_reload_conf()');
    await eventually(async () => {
      const { rows } = await client.query<{ state: string; sync_state: string }>(
        'SELECT state, sync_state FROM pg_stat_replication WHERE application_name = $1',
        [standbyName],
      );
      const wanted = synchronous ? 'sync' : 'async';
      if (rows[0]?.state !== 'streaming' || rows[0].sync_state !== wanted)
        throw new Error(`the standby is ${JSON.stringify(rows[0])}, not ${wanted}`);
    });
  });
}
