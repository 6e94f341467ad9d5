/**
 * `npm run restore`: makes the embedded server's files again from a backup directory, as they were
 * at a moment or as late as the log reaches. Where DATA_DIR has the server that crashed, what it
 * had not archived yet is taken from there.
 *
 * | In DATA_DIR                   | What                                                                          |
 * |-------------------------------|-------------------------------------------------------------------------------|
 * | postgres.restoring/           | files that are being restored; removed by the next restore                     |
 * | postgres.restored/            | restored and complete; the next step is a rename to postgres/                  |
 * | postgres.before-restore-…/    | the server's files of before; nobody but an operator removes them              |
 */
import {
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, join, resolve } from 'node:path';
import pg from 'pg';
import { CannotStart, messageOf } from '../../process/cannot-start.ts';
import { assertReachable, firstClosed } from '../embedded/account.ts';
import { isAbsentOrEmpty } from '../embedded/cluster.ts';
import { assertNotOfOthers, stopLeftOver } from '../embedded/left-over.ts';
import type { ServerPaths, Say } from '../embedded/server-paths.ts';
import { putInPlace } from '../embedded/restored.ts';
import { addressOf, endServer, startServer } from '../embedded/server.ts';
import { restoreCommand } from './archive-command.ts';
import { copyWhole, flushDirectory } from './durable-files.ts';
import { basesIn, filesOf, ownerOf, walOf, type Base, type Manifest } from './manifest.ts';
import {
  compressed,
  gapIn,
  leadsTo,
  nameOf,
  newestTimeline,
  positionAt,
  positionOf,
  segmentOf,
  walFilesIn,
  type Segment,
  type Timeline,
} from './wal.ts';

export interface RestoreRequest {
  readonly paths: ServerPaths;
  readonly directory: string;
  /** In UTC, such as `2026-11-22T09:30:00.123456Z`. As late as possible by default. */
  readonly until?: string;
  readonly say: Say;
}

export interface Restored {
  readonly base: Base;
  /**
   * When the last transaction was committed that is there; null where the log has none after the
   * base.
   */
  readonly lastCommit: Date | null;
  /** Where the files of before are now. */
  readonly aside: string | undefined;
}

/** Files that are copied at the same time. */
const copies = 8;

/**
 * Whoever calls this holds the lock of DATA_DIR. Throws CannotStart and leaves the server's files
 * as they were.
 */
export async function restoreBackup(request: RestoreRequest): Promise<Restored> {
  const { paths, say } = request;
  const directory = resolve(request.directory);
  if (!existsSync(paths.cluster)) putInPlace(paths, say);
  const unfinished = join(paths.home, 'postgres.restoring');
  for (const each of [unfinished, join(paths.home, 'postgres.restored')])
    rmSync(each, { recursive: true, force: true });
  assertReachable(paths);
  assertReadable(directory, paths);
  if (!isAbsentOrEmpty(paths.cluster)) {
    assertNotOfOthers(paths.cluster);
    await stopLeftOver(paths.cluster, say);
  }

  const crashed = logOfTheCrash(paths.cluster, directory);
  const timeline = newestTimeline([walOf(directory), ...crashed]);
  const base = baseFor(directory, timeline, request.until);
  const gap = gapAfter(base.manifest, timeline, [walOf(directory), ...crashed]);
  if (gap !== undefined && request.until === undefined)
    throw new CannotStart(
      `The log in ${walOf(directory)} lacks ${gap}, and continues after it. Give --until with a moment before that was written.`,
    );

  say(`Restores ${basename(base.directory)}.`);
  await copyFiles(base, unfinished);
  for (const from of crashed) addLog(from, walOf(directory), join(unfinished, 'pg_wal'));
  const password = readFileSync(join(base.directory, 'postgres.password'), 'utf8');
  writeFileSync(join(unfinished, 'recovery.signal'), '', { mode: 0o600 });
  giveTo(paths, unfinished);

  const isWholeLog = crashed.length > 0 && gap === undefined;
  const lastCommit = await recover({ ...request, directory }, unfinished, password, isWholeLog);
  writeFileSync(join(unfinished, 'postgres.password'), password, { mode: 0o600, flush: true });
  renameSync(unfinished, join(paths.home, 'postgres.restored'));
  flushDirectory(paths.home);
  const aside = putInPlace(paths, say);
  return { base, lastCommit, aside };
}

/**
 * PostgreSQL itself reads the log, as its own user: what it may not read would be the end of the
 * log for it.
 */
function assertReadable(directory: string, { account }: ServerPaths): void {
  if (!existsSync(directory)) throw new CannotStart(`There is no ${directory}.`);
  if (ownerOf(directory) === undefined)
    throw new CannotStart(`${directory} is no backup directory, as npm run backup makes one.`);
  const closed = account.uid === undefined ? '' : firstClosed(walOf(directory), account);
  if (closed !== '')
    throw new CannotStart(
      `PostgreSQL runs as user ${account.uid}, who may not enter ${closed}. Open it (chmod o+x), or give it to that user (chown).`,
    );
}

/** The log of the server that is in DATA_DIR, where the backup is of that server. */
function logOfTheCrash(cluster: string, directory: string): string[] {
  const control = join(cluster, 'global', 'pg_control');
  if (!existsSync(control)) return [];
  // The first field of the file, in the byte order of this machine, which is little-endian wherever
  // there is an embedded server.
  const systemIdentifier = readFileSync(control).readBigUInt64LE(0).toString();
  return systemIdentifier === ownerOf(directory) ? [join(cluster, 'pg_wal')] : [];
}

/** The newest base that was finished by then and that the timeline continues from. */
function baseFor(directory: string, timeline: Timeline, until: string | undefined): Base {
  const bases = basesIn(directory).filter(({ manifest }) =>
    leadsTo(timeline, { timeline: manifest.timeline, position: positionOf(manifest.stop) }),
  );
  const oldest = bases.at(-1);
  if (!oldest)
    throw new CannotStart(
      `${directory} has no complete backup. One that was cut off cannot be restored.`,
    );
  const isEarlyEnough = ({ manifest }: Base): boolean =>
    until === undefined || new Date(manifest.finished_at) <= new Date(until);
  const base = bases.find(isEarlyEnough);
  if (!base)
    throw new CannotStart(
      `${directory} reaches back to ${oldest.manifest.finished_at}. Give that or a later moment with --until.`,
    );
  return base;
}

/**
 * The name of a segment that is missing between others. One that a timeline wrote after the next
 * had left it is in no one's place.
 */
function gapAfter(
  { first_segment: first, timeline: begun }: Manifest,
  timeline: Timeline,
  directories: readonly string[],
): string | undefined {
  const isOnTheWay = (segment: Segment): boolean =>
    leadsTo(timeline, { timeline: segment.timeline, position: positionAt(segment) });
  const segments = directories
    .flatMap(walFilesIn)
    .flatMap((name) => segmentOf(name) ?? [])
    // One of a timeline without a history is not known to be beside the way.
    .filter((segment) => segment.timeline > timeline.number || isOnTheWay(segment));
  const number = gapIn(segments, segmentOf(first)!.number);
  if (number === undefined) return undefined;
  const missing = { timeline: begun, number };
  return nameOf(isOnTheWay(missing) ? missing : { timeline: timeline.number, number });
}

/** Throws CannotStart where a file is not what was backed up. */
async function copyFiles({ directory, manifest }: Base, target: string): Promise<void> {
  mkdirSync(target, { mode: 0o700 });
  for (const path of manifest.directories) mkdirSync(join(target, path), { mode: 0o700 });
  const queue = [...manifest.files];
  const copyNext = async (): Promise<void> => {
    for (let file = queue.pop(); file; file = queue.pop()) {
      const from = join(filesOf(directory), file.path);
      const copied = await copyWhole(from, join(target, file.path), { flush: false }).catch(
        (error: NodeJS.ErrnoException) => {
          if (error.code !== 'ENOENT') throw error;
          return undefined;
        },
      );
      if (copied?.sha256 !== file.sha256)
        throw new CannotStart(
          `${from} is ${copied ? 'damaged' : 'missing'}. Move ${directory} away to restore an older one.`,
        );
    }
  };
  await Promise.all(Array.from({ length: copies }, copyNext));
}

/** What is not archived. PostgreSQL itself knows where what is written in them ends. */
function addLog(from: string, archive: string, target: string): void {
  const archived = new Set(readdirSync(archive));
  for (const name of walFilesIn(from))
    if (!archived.has(name + compressed)) copyFileSync(join(from, name), join(target, name));
}

function giveTo({ account }: ServerPaths, directory: string): void {
  const { uid, gid } = account;
  if (uid === undefined) return;
  chownSync(directory, uid, gid!);
  for (const path of readdirSync(directory, { recursive: true, encoding: 'utf8' }))
    chownSync(join(directory, path), uid, gid!);
}

/**
 * SQLSTATE, which stands at the beginning of what the server says: the log ends before the moment
 * that was asked for.
 */
const endedBefore = /\bF0000\b/;

/**
 * Has the server replay the log, and makes it one of its own. Resolves to when the last transaction
 * was committed.
 */
async function recover(
  { paths, directory, until, say }: RestoreRequest,
  cluster: string,
  password: string,
  isWholeLog: boolean,
): Promise<Date | null> {
  const flags = [
    'hot_standby=off',
    'log_line_prefix=%e ',
    `restore_command=${restoreCommand(walOf(directory))}`,
    // What it would archive now waits until the server is in its place: until then there is no new
    // timeline.
    'archive_command=',
  ].flatMap((each) => ['-c', each]);
  // The server reads this before it knows names of zones, such as Z.
  const target = until?.replace('T', ' ').replace('Z', '+00');
  const untilFlags = target ? ['-c', `recovery_target_time=${target}`] : [];
  const restoring = { ...paths, cluster };
  const started = await startServer(
    restoring,
    password,
    [...flags, ...untilFlags, '-c', 'recovery_target_action=promote'],
    say,
  ).catch((error: unknown) => {
    if (!endedBefore.test(messageOf(error))) throw error;
    // Nothing was committed between the end of the log and that moment: only the log of the crash
    // itself shows that.
    if (!isWholeLog)
      throw new CannotStart(
        `The log in ${walOf(directory)} ends before ${until}. Without --until everything that is there is restored.`,
        { cause: error },
      );
    return startServer(restoring, password, flags, say);
  });
  try {
    return await settle(addressOf(password, started.port, 'strata'));
  } finally {
    await endServer(started.server);
  }
}

async function settle(url: string): Promise<Date | null> {
  const client = new pg.Client({ connectionString: url }).on('error', () => {});
  await client.connect();
  try {
    const { rows } = await client.query<{ at: Date | null }>(
      'SELECT pg_last_xact_replay_timestamp() AS at',
    );
    return rows[0]!.at;
  } finally {
    await client.end();
  }
}
