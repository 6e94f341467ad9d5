/** Starts and ends PostgreSQL's server process. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer, Socket, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { CannotStart, oneLine } from '../../process/cannot-start.ts';
import { archiveCommand } from '../backup/archive-command.ts';
import { stopLeftOver } from './left-over.ts';
import { environment, type ServerPaths, type Say } from './server-paths.ts';

/** How long a start is tried again, and a server may give no answer. */
const startMs = 60_000;

export const addressOf = (password: string, port: number, database: string): string =>
  `postgres://strata:${password}@127.0.0.1:${port}/${database}`;

/**
 * Resolves once the server takes connections. Tries again while something of an earlier start is
 * still letting go of the cluster, or where the port was taken meanwhile.
 */
export async function startServer(
  paths: ServerPaths,
  password: string,
  flags: readonly string[],
  say: Say,
) {
  const giveUpAt = Date.now() + startMs;
  for (;;) {
    await stopLeftOver(paths.cluster, say);
    const port = await freePort();
    const server = spawnServer(paths, port, flags);
    const failure = await waitUntilReady(server, addressOf(password, port, 'postgres'));
    if (failure === undefined) return { server, port };
    await endServer(server);
    const mayPass = /lock file|shared memory block|TCP\/IP sockets/.test(failure);
    if (!mayPass || Date.now() > giveUpAt)
      throw new CannotStart(`The embedded PostgreSQL does not start: ${failure}`);
    await delay(100);
  }
}

/** `-D <cluster> -p <port>` come first: stopLeftOver recognises a server by them. */
function spawnServer(
  { home, cluster, binaries, account }: ServerPaths,
  port: number,
  flags: readonly string[],
): ChildProcess {
  const settings = [
    'listen_addresses=127.0.0.1',
    'unix_socket_directories=',
    'max_connections=200',
    'logging_collector=off',
    'log_min_messages=fatal',
    // Can be switched on at a start alone; without a backup directory the command does nothing.
    'archive_mode=on',
    `archive_command=${archiveCommand(home)}`,
  ].flatMap((setting) => ['-c', setting]);
  return spawn(
    join(binaries, 'bin', 'postgres'),
    ['-D', cluster, '-p', String(port), ...settings, ...flags],
    // Detached, in a process group of its own: Ctrl-C in a terminal reaches Strata alone, which
    // then ends the server.
    {
      ...account,
      env: environment,
      cwd: home,
      stdio: ['ignore', 'ignore', 'pipe'],
      detached: true,
    },
  );
}

/** SIGINT is PostgreSQL's fast shutdown: sessions end, everything is written. */
export async function endServer(server: ChildProcess): Promise<void> {
  if (server.pid === undefined || server.exitCode !== null || server.signalCode !== null) return;
  const ended = once(server, 'exit');
  server.ref();
  server.kill('SIGINT');
  await ended;
}

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const probe = createServer()
      .once('error', reject)
      .listen(0, '127.0.0.1', () => {
        const { port } = probe.address() as AddressInfo;
        probe.close(() => resolve(port));
      });
  });

/**
 * Resolves to undefined once the server answers, else to what it said when it ended, or to why
 * there is no answer.
 */
async function waitUntilReady(server: ChildProcess, url: string): Promise<string | undefined> {
  const life = follow(server);
  const giveUpAt = Date.now() + startMs;
  for (;;) {
    const failure = await tryToConnect(url);
    if (failure === undefined) return undefined;
    const { code, message } = failure;
    if (life.isOver) return oneLine(life.complaint);
    if (code === '28P01') return `${message}: its password is not the one in postgres.password`;
    // 57P03: it replays its log after a crash, for as long as that takes.
    if (code !== '57P03' && Date.now() > giveUpAt) return `no answer (${message})`;
    await Promise.race([life.over, delay(30)]);
  }
}

interface ServerLife {
  /** The end of what it wrote to its standard error. */
  complaint: string;
  isOver: boolean;
  readonly over: Promise<void>;
}

function follow(server: ChildProcess): ServerLife {
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  const life: ServerLife = { complaint: '', isOver: false, over };
  const isOver = (): void => {
    life.isOver = true;
    end();
  };
  server.stderr!.on('data', (chunk: Buffer) => {
    life.complaint = (life.complaint + chunk.toString()).slice(-2000);
  });
  // Neither the server nor its pipe keeps Strata running.
  if (server.stderr instanceof Socket) server.stderr.unref();
  server.once('error', (error) => {
    life.complaint += error.message;
    isOver();
  });
  server.once('close', isOver);
  return life;
}

/** Why no connection can be had; undefined where one can. */
async function tryToConnect(
  url: string,
): Promise<{ readonly code?: string; readonly message: string } | undefined> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5000 });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.end();
    return undefined;
  } catch (error) {
    await client.end().catch(() => {});
    return error as { code?: string; message: string };
  }
}
