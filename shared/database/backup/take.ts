/**
 * `npm run backup`: copies the files of the embedded server while it works, and has it archive its
 * log from then on.
 */
import { hash } from 'node:crypto';
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import type pg from 'pg';
import { CannotStart } from '../../process/cannot-start.ts';
import { firstClosed } from '../embedded/account.ts';
import type { Account, Say } from '../embedded/server-paths.ts';
import { directoryFileIn } from './archive-command.ts';
import { copyWhole, flushDirectory, writeWhole } from './durable-files.ts';
import {
  baseNames,
  basesIn,
  filesOf,
  ownerOf,
  readManifest,
  walOf,
  writeManifest,
  writeOwner,
  type BackedUpFile,
  type Base,
  type Manifest,
} from './manifest.ts';
import { compressed, segmentOf, segmentsFrom, walFilesIn } from './wal.ts';

export interface BackupRequest {
  /** DATA_DIR, and the files of the server in it. */
  readonly home: string;
  readonly cluster: string;
  readonly account: Account;
  /** Of the server's superuser. */
  readonly client: pg.Client;
  readonly directory: string;
  readonly version: string;
  readonly secretKeyId: string;
  /** So many bases stay, and the log from the oldest of them on; all of them by default. */
  readonly keep?: number;
  readonly say: Say;
}

/**
 * A segment of the log is archived after this long even where it is not full: what a lost disk
 * costs at the most.
 */
const archiveTimeoutSeconds = 60;
/** How long the server may take to archive the log of a backup. */
const archiveMs = 120_000;
/** How long a backup waits for one that was killed a moment ago. */
const turnSeconds = 10;
/** https://www.postgresql.org/docs/current/errcodes-appendix.html: lock_not_available. */
const lockTimeout = '55P03';
/** Files that are copied at the same time. */
const copies = 8;

/**
 * Directories whose content belongs to the running server alone; the log comes from the archive.
 */
const emptied =
  /^(?:pg_wal|pg_replslot|pg_dynshmem|pg_notify|pg_serial|pg_snapshots|pg_stat_tmp|pg_subtrans)$/;
/** Files that a restored server must not have. */
const leftOut =
  /^(?:postmaster\.(?:pid|opts)|pg_internal\.init.*|pgsql_tmp.*|backup_label.*|.*\.signal|.*\.auto\.conf\.tmp)$/;

/**
 * Resolves once the backup can be restored. Throws CannotStart, and leaves nothing then that looks
 * like a backup.
 */
export async function takeBackup(request: BackupRequest): Promise<Base> {
  const { client, say } = request;
  const directory = resolve(request.directory);
  const systemIdentifier = await assertArchiving(client);
  prepareDirectory(directory, request, systemIdentifier);
  await takeTurn(client);
  for (const name of baseNames(directory)) {
    const isUnfinished = readManifest(join(directory, name)) === undefined;
    if (isUnfinished) rmSync(join(directory, name), { recursive: true });
  }
  await archiveInto(directory, request);
  const base = await copyBase(directory, request, systemIdentifier);
  if (request.keep !== undefined) removeOlder(directory, request.keep, say);
  return base;
}

/** Ends archiving; what is archived stays. */
export async function stopArchiving(home: string, client: pg.Client): Promise<void> {
  rmSync(directoryFileIn(home), { force: true });
  await client.query('ALTER SYSTEM RESET archive_timeout');
  await client.query('SELECT pg_reload_conf()');
}

async function assertArchiving(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ mode: string; id: string }>(
    `SELECT current_setting('archive_mode') AS mode, system_identifier::text AS id FROM pg_control_system()`,
  );
  const { mode, id } = rows[0]!;
  if (mode !== 'on')
    throw new CannotStart(
      'The embedded PostgreSQL was started by a release that kept no log for backups. Restart Strata, then take the backup.',
    );
  return id;
}

function prepareDirectory(
  directory: string,
  { home, account }: BackupRequest,
  systemIdentifier: string,
): void {
  const isWithin = `${directory}${sep}`.startsWith(`${home}${sep}`);
  if (isWithin)
    throw new CannotStart(
      `${directory} lies in DATA_DIR and would be lost with it. Name a directory on another disk.`,
    );
  // What lacks above is made as any program makes it, so that PostgreSQL's user may pass.
  mkdirSync(dirname(directory), { recursive: true });
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const owner = ownerOf(directory);
  if (owner === undefined) {
    if (readdirSync(directory).length > 0)
      throw new CannotStart(`${directory} is not empty, and no backup directory. Name another.`);
    writeOwner(directory, systemIdentifier);
  } else if (owner !== systemIdentifier) {
    throw new CannotStart(`${directory} has backups of another database. Name another directory.`);
  }
  mkdirSync(walOf(directory), { recursive: true, mode: 0o700 });
  flushDirectory(directory);
  if (account.uid === undefined) return;
  for (const each of [directory, walOf(directory)]) chownSync(each, account.uid, account.gid!);
  const closed = firstClosed(walOf(directory), account);
  if (closed !== '')
    throw new CannotStart(
      `PostgreSQL runs as user ${account.uid}, who may not enter ${closed}. Open it (chmod o+x), or name another directory.`,
    );
}

/**
 * Held by the connection. Two backups at once would each take the other's for one that was cut off.
 * One that was killed holds it until the server has noticed, which it would not while it writes a
 * checkpoint, unless it is told to look.
 */
async function takeTurn(client: pg.Client): Promise<void> {
  await client.query(`SET client_connection_check_interval = '1s'`);
  await client.query(`SET lock_timeout = '${turnSeconds}s'`);
  try {
    await client.query(`SELECT pg_advisory_lock(hashtext('strata backup'))`);
  } catch (error) {
    if ((error as { code?: unknown }).code !== lockTimeout) throw error;
    throw new CannotStart('Another backup is being taken. Wait until it is complete.');
  }
  await client.query('RESET lock_timeout');
}

async function archiveInto(directory: string, { home, client, say }: BackupRequest): Promise<void> {
  const file = directoryFileIn(home);
  const before = existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined;
  if (before === directory) return;
  if (before !== undefined) say(`The log is no longer archived in ${before}.`);
  // The account of the server reads it, which may be another one than ours.
  writeWhole(file, `${directory}\n`, 0o644);
  await client.query(`ALTER SYSTEM SET archive_timeout = '${archiveTimeoutSeconds}s'`);
  await client.query('SELECT pg_reload_conf()');
}

async function copyBase(
  directory: string,
  request: BackupRequest,
  systemIdentifier: string,
): Promise<Base> {
  const { client, cluster, home, version, secretKeyId } = request;
  const startedAt = new Date().toISOString();
  const base = join(directory, `base-${startedAt.replaceAll(/[:.]/g, '-')}`);
  mkdirSync(filesOf(base), { recursive: true, mode: 0o700 });

  const start = await oneRow<{ position: string; segment: string }>(
    client,
    `SELECT position::text, pg_walfile_name(position) AS segment
     FROM pg_backup_start('strata', fast => true) AS position`,
  );
  const { directories, files } = await copyTree(cluster, filesOf(base));
  // The server ends a backup by itself where this connection is lost; this one then fails here.
  const stop = await oneRow<{ position: string; segment: string; label: string; at: Date }>(
    client,
    `SELECT lsn::text AS position, pg_walfile_name(lsn - 1) AS segment, labelfile AS label, clock_timestamp() AS at
     FROM pg_backup_stop(wait_for_archive => false)`,
  );
  const password = await copyWhole(
    join(home, 'postgres.password'),
    join(base, 'postgres.password'),
    { flush: true },
  );
  const label = written(filesOf(base), 'backup_label', stop.label);
  for (const each of directories.toReversed()) flushDirectory(join(filesOf(base), each));
  flushDirectory(filesOf(base));
  flushDirectory(base);
  await untilArchived(directory, segmentsFrom(start.segment, stop.segment), client);
  keepHistories(directory, request);

  const manifest: Manifest = {
    format: 1,
    version,
    system_identifier: systemIdentifier,
    timeline: segmentOf(start.segment)!.timeline,
    start: start.position,
    stop: stop.position,
    first_segment: start.segment,
    started_at: startedAt,
    // Not a fraction of a millisecond before it.
    finished_at: new Date(stop.at.getTime() + 1).toISOString(),
    secret_key_id: secretKeyId,
    directories,
    files: [...files, label],
    password,
  };
  writeManifest(base, manifest);
  flushDirectory(directory);
  return { directory: base, manifest };
}

async function oneRow<R extends pg.QueryResultRow>(client: pg.Client, sql: string): Promise<R> {
  const { rows } = await client.query<R>(sql);
  return rows[0]!;
}

function written(directory: string, path: string, text: string): BackedUpFile {
  writeWhole(join(directory, path), text);
  const sha256 = hash('sha256', text, 'hex');
  return { path, size: Buffer.byteLength(text), sha256 };
}

/** The control file is last: with it the copy is as new as its newest part. */
async function copyTree(cluster: string, target: string) {
  const { directories, files } = await listTree(cluster);
  for (const each of directories) mkdirSync(join(target, each), { mode: 0o700 });
  const control = 'global/pg_control';
  const queue = files.filter((path) => path !== control);
  const copied: BackedUpFile[] = [];
  const copyNext = async (): Promise<void> => {
    for (let path = queue.pop(); path !== undefined; path = queue.pop()) {
      const file = await copyUnlessGone(cluster, target, path);
      if (file) copied.push(file);
    }
  };
  await Promise.all(Array.from({ length: copies }, copyNext));
  copied.push((await copyUnlessGone(cluster, target, control))!);
  return { directories, files: copied };
}

/** Undefined where the server has removed the file meanwhile: the log says so, too. */
async function copyUnlessGone(
  cluster: string,
  target: string,
  path: string,
): Promise<BackedUpFile | undefined> {
  try {
    const copied = await copyWhole(join(cluster, path), join(target, path), { flush: true });
    return { path, ...copied };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Paths below the cluster; a directory comes before what is in it. */
async function listTree(
  cluster: string,
): Promise<{ readonly directories: string[]; readonly files: string[] }> {
  const directories: string[] = [];
  const files: string[] = [];
  const walk = async (directory: string): Promise<void> => {
    for (const entry of await readdir(join(cluster, directory), { withFileTypes: true })) {
      const path = directory === '' ? entry.name : `${directory}/${entry.name}`;
      if (leftOut.test(entry.name)) continue;
      if (entry.isSymbolicLink())
        throw new CannotStart(`${path} leads out of ${cluster}: tablespaces are not backed up.`);
      if (entry.isFile()) files.push(path);
      if (!entry.isDirectory()) continue;
      directories.push(path);
      if (!emptied.test(path)) await walk(path);
    }
  };
  await walk('');
  return { directories, files };
}

/** Throws CannotStart where the server cannot write the archive. */
async function untilArchived(
  directory: string,
  segments: readonly string[],
  client: pg.Client,
): Promise<void> {
  const until = Date.now() + archiveMs;
  for (;;) {
    const there = new Set(walFilesIn(walOf(directory)));
    const missing = segments.find((segment) => !there.has(segment));
    if (missing === undefined) return;
    if (Date.now() > until) {
      const { failed } = await oneRow<{ failed: string }>(
        client,
        'SELECT failed_count::text AS failed FROM pg_stat_archiver',
      );
      throw new CannotStart(
        `PostgreSQL does not archive ${missing} in ${walOf(directory)} (${failed} attempts have failed). Is there space, and may its user write there and run ${process.execPath}?`,
      );
    }
    await delay(100);
  }
}

/**
 * The server archives the history of a timeline once, which may have been before there was this
 * directory; without it a restore does not know that the timeline is the newest.
 */
function keepHistories(directory: string, { cluster, account }: BackupRequest): void {
  const log = join(cluster, 'pg_wal');
  for (const name of walFilesIn(log).filter((each) => each.endsWith('.history'))) {
    const target = join(walOf(directory), name + compressed);
    if (existsSync(target)) continue;
    writeWhole(target, gzipSync(readFileSync(join(log, name))));
    // The server reads it in a restore.
    if (account.uid !== undefined) chownSync(target, account.uid, account.gid!);
  }
}

/** Removes older bases, and the log that only they need. */
function removeOlder(directory: string, keep: number, say: Say): void {
  const bases = basesIn(directory);
  if (bases.length <= keep) return;
  for (const { directory: base } of bases.slice(keep)) {
    // Without its manifest it is no backup any more, however far the rest gets.
    rmSync(join(base, 'manifest.json'));
    rmSync(base, { recursive: true });
    say(`Removed ${relative(directory, base)}.`);
  }
  // After a restore to a moment an older base may have begun further on than those after it.
  const kept = bases.slice(0, keep).map(({ manifest }) => segmentOf(manifest.first_segment)!);
  const first = Math.min(...kept.map(({ number }) => number));
  for (const name of walFilesIn(walOf(directory))) {
    const segment = segmentOf(name.slice(0, 24));
    if (segment && segment.number < first)
      rmSync(join(walOf(directory), name + compressed), { force: true });
  }
}
