/**
 * The servers of a measurement, as in production: PostgreSQL that waits for the disk, NATS, Redis,
 * nodes that log to a file.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { openEmbeddedPostgres } from '../../shared/database/embedded.ts';
import { mailDataDir, watchMailFolder } from '../support/mailboxes.ts';
import { createDatabase, type Database } from '../support/postgres.ts';
import { guard, startNats, startRedis, type Process } from '../support/servers.ts';
import { adminPassword, secretKey, signIn, type Client } from '../support/strata.ts';
import { loadCore, pin, root, type Core } from './machine.ts';

export interface Node {
  readonly url: string;
  readonly pid: number;
  readonly startedMs: number;
  readonly stop: () => Promise<void>;
}
export type Environment = Readonly<Record<string, string>>;

export interface Stage {
  readonly postgres: { readonly url: string; readonly pid: number };
  readonly bus: Process;
  /** Settings of one process with every role in it. */
  readonly alone: Environment;
  /** Settings of a node of a cluster. */
  readonly clustered: Environment;
  readonly database: Database;
  /** Another migrated database on the same server. */
  readonly anotherDatabase: () => Promise<Database>;
  readonly start: (roles: readonly string[], core: Core, environment: Environment) => Promise<Node>;
  readonly stop: () => Promise<void>;
}

/** `flags` are for the server of PostgreSQL. */
export async function startStage(flags: readonly string[] = []): Promise<Stage> {
  const folder = mkdtempSync(join(tmpdir(), 'strata-bench-'));
  chmodSync(folder, 0o755);
  /** How to end what was started, the last first. */
  const ends: (() => Promise<unknown>)[] = [
    async () => rmSync(folder, { recursive: true, force: true }),
  ];
  const stop = async (): Promise<void> => {
    for (const end of ends.splice(0).toReversed()) await end();
  };
  try {
    const postgres = await openEmbeddedPostgres({ dataDir: join(folder, 'data'), flags });
    ends.push(postgres.stop);
    const bus = await startNats();
    ends.push(() => bus.stop('SIGKILL'));
    const redis = await startRedis();
    ends.push(() => redis.stop('SIGKILL'));
    for (const { pid } of [postgres, bus, redis]) pin(pid, loadCore);

    const anotherDatabase = async (): Promise<Database> => {
      const made = await createDatabase(postgres.url);
      execFileSync(process.execPath, ['strata.mjs', '--migrate'], {
        cwd: root,
        env: { PATH: process.env.PATH, DATABASE_URL: made.url, SECRET_KEY: secretKey },
      });
      return made;
    };
    const database = await anotherDatabase();
    // Members of a tenant accept an invitation, which is mailed.
    const dataDir = mailDataDir();
    watchMailFolder(dataDir);
    const alone = { DATABASE_URL: database.url, SECRET_KEY: secretKey, DATA_DIR: dataDir };
    let started = 0;
    const start = async (
      roles: readonly string[],
      core: Core,
      environment: Environment,
    ): Promise<Node> => {
      started += 1;
      const name = `${roles[0] ?? 'whole'}-${started}`;
      const node = await startNode(join(folder, `${name}.log`), roles, core, {
        NODE_ID: name,
        ...environment,
      });
      ends.push(node.stop);
      return node;
    };
    return {
      postgres,
      bus,
      alone,
      clustered: { ...alone, NATS_URL: bus.url, REDIS_URL: redis.url },
      database,
      anotherDatabase,
      start,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/**
 * Starts a node as production does, with its default log; resolves once the node says that it runs.
 */
export async function startNode(
  log: string,
  roles: readonly string[],
  core: Core,
  environment: Environment,
): Promise<Node> {
  const began = performance.now();
  const out = openSync(log, 'a');
  const child = spawn(
    'taskset',
    ['-c', core, process.execPath, '--max-semi-space-size=8', 'strata.mjs', ...roles],
    {
      cwd: root,
      stdio: ['ignore', out, out],
      env: {
        PATH: process.env.PATH,
        PORT: '0',
        PLATFORM_ADMIN_EMAILS: 'admin@example.com',
        PLATFORM_ADMIN_PASSWORD: adminPassword,
        ...environment,
      },
    },
  );
  child.once('exit', guard(child.pid!, 'KILL'));
  for (;;) {
    const said = /serves on (\S+)|node \S+ runs/.exec(readFileSync(log, 'utf8'));
    if (said) {
      return {
        url: said[1] ?? '',
        pid: child.pid!,
        startedMs: performance.now() - began,
        async stop() {
          if (child.exitCode !== null || child.signalCode !== null) return;
          child.kill();
          await once(child, 'exit');
        },
      };
    }
    if (child.exitCode !== null)
      throw new Error(
        `a node of ${roles.join(', ')} ended with ${child.exitCode}:\n${readFileSync(log, 'utf8')}`,
      );
    await delay(5);
  }
}

export const platformAdmin = (url: string): Promise<Client> =>
  signIn(url, 'admin@example.com', adminPassword);
