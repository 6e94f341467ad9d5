/**
 * `npm run backup` and `npm run restore`: the embedded database's. docs/backup.md says how to use
 * them, and what to do for a PostgreSQL of one's own.
 */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { CannotStart, messageOf, WrongUsage } from './shared/process/cannot-start.ts';
import { explained, makeDataDirectory } from './shared/process/data-directory.ts';
import { restoreBackup } from './shared/database/backup/restore.ts';
import { stopArchiving, takeBackup } from './shared/database/backup/take.ts';
import { openEmbeddedPostgres, serverPathsIn } from './shared/database/embedded.ts';
import { takeLock } from './shared/database/embedded/lock.ts';
import { addressOf } from './shared/database/embedded/server.ts';
import { momentOf } from './shared/schema/moment.ts';
import { createKeyRing } from './shared/security/derived-keys.ts';
import {
  isEmbedded,
  loadSettings,
  readEnvironment,
  wantsStacks,
  type Settings,
} from './shared/settings/settings.ts';

const usage = `Usage:
  npm run backup -- <dir>                     takes a backup of the embedded database, and archives its log in <dir> from then on
  npm run backup -- <dir> --keep <number>     also removes all but that many of the newest backups in <dir>
  npm run backup -- --off                     ends archiving
  npm run restore -- <dir>                    restores the database to the latest that the backup has
  npm run restore -- <dir> --until <time>     restores it to a moment, such as 2026-11-22T09:30:00Z

Both are of DATA_DIR. docs/backup.md has the drill.`;

const say = (line: string): void => {
  process.stdout.write(`${line}\n`);
};
const complain = (line: string): void => {
  process.stderr.write(`${line}\n`);
};

const packageFile = new URL('package.json', import.meta.url);

function embeddedSettings(): Settings {
  const settings = loadSettings(readEnvironment());
  if (!isEmbedded(settings))
    throw new CannotStart(
      'DATABASE_URL, DB_HOST or NATS_URL is set: this is for the embedded database. Back up your own PostgreSQL as docs/backup.md says.',
    );
  return settings;
}

/** Which key opens what is sealed in the database; undefined where there is no key. */
function secretKeyId({ secret_key: given, data_dir: dataDir }: Settings): string | undefined {
  const file = join(dataDir, 'secret.key');
  const fromFile = existsSync(file) ? readFileSync(file, 'utf8').trim() : null;
  const key = given ?? fromFile;
  if (!key) return undefined;
  const use = { label: 'backup', idLength: 16, neededTo: 'name the key of a backup' };
  return createKeyRing({ secret_key: key, secret_key_previous: null }, use).current.id;
}

/** To the server that runs in DATA_DIR, or to one that is started for this. */
async function connect(home: string) {
  const running = await connectToRunning(home);
  if (running) return { client: running, close: () => running.end() };
  const server = await openEmbeddedPostgres({ dataDir: home, log: say });
  const client = new pg.Client({ connectionString: server.url }).on('error', () => {});
  await client.connect();
  const close = async (): Promise<void> => {
    await client.end();
    await server.stop();
  };
  return { client, close };
}

async function connectToRunning(home: string): Promise<pg.Client | undefined> {
  const { cluster, passwordFile } = serverPathsIn(home);
  const file = join(cluster, 'postmaster.pid');
  if (!existsSync(file)) return undefined;
  const [, , , port] = readFileSync(file, 'utf8').split('\n');
  const password = readFileSync(passwordFile, 'utf8');
  const client = new pg.Client({
    connectionString: addressOf(password, Number(port), 'postgres'),
  }).on('error', () => {});
  try {
    await client.connect();
    return client;
  } catch {
    // A file that a killed server has left. Whatever else it is, the start of a server says.
    return undefined;
  }
}

async function backup(args: readonly string[]): Promise<void> {
  const { directory, options } = read(args, { off: { type: 'boolean' }, keep: { type: 'string' } });
  const isOff = options.off === true;
  if (isOff === (directory !== undefined))
    throw new WrongUsage('Name one directory: npm run backup -- <dir>. --help shows more.');
  const keep = options.keep === undefined ? undefined : countOf(String(options.keep));
  const settings = embeddedSettings();
  assertThere(settings.data_dir);
  const home = makeDataDirectory(settings.data_dir);
  const { client, close } = await connect(home);
  try {
    if (directory === undefined) {
      await stopArchiving(home, client);
      say('The log is archived no longer.');
      return;
    }
    const { version } = JSON.parse(readFileSync(packageFile, 'utf8')) as { version: string };
    const { cluster, account } = serverPathsIn(home);
    const taken = await takeBackup({
      home,
      cluster,
      account,
      client,
      directory,
      version,
      say,
      secretKeyId: secretKeyId(settings) ?? '',
      ...(keep === undefined ? {} : { keep }),
    });
    say(
      `Backed up in ${taken.directory}. It can be restored to ${taken.manifest.finished_at} and any later moment.`,
    );
    const key = settings.secret_key === null ? join(home, 'secret.key') : 'SECRET_KEY';
    say(`${key} is not in it, and without it sealed secrets cannot be read: keep it elsewhere.`);
  } finally {
    await close();
  }
}

async function restore(args: readonly string[]): Promise<void> {
  const { directory, options } = read(args, { until: { type: 'string' } });
  if (directory === undefined)
    throw new WrongUsage('Name the backup: npm run restore -- <dir>. --help shows more.');
  const until = options.until === undefined ? undefined : timeOf(String(options.until));
  const settings = embeddedSettings();
  const home = makeDataDirectory(settings.data_dir);
  const release = takeLock(home);
  try {
    const { base, lastCommit } = await restoreBackup({
      paths: serverPathsIn(home),
      directory,
      say,
      ...(until === undefined ? {} : { until }),
    });
    const reached = lastCommit?.toISOString() ?? base.manifest.finished_at;
    say(
      `Restored ${home}. The last change in it is of ${reached}; revisions are raised at the next start.`,
    );
    say('What was revoked after that is good again: sessions, API keys, members.');
    if (secretKeyId(settings) !== base.manifest.secret_key_id)
      complain(
        `SECRET_KEY is not the one of the backup: put that into ${join(home, 'secret.key')} or SECRET_KEY before Strata starts.`,
      );
  } finally {
    release();
  }
}

function assertThere(dataDir: string): void {
  const hasDatabase = statSync(join(dataDir, 'postgres'), { throwIfNoEntry: false })?.isDirectory();
  if (!hasDatabase)
    throw new CannotStart(`There is no database in ${dataDir}. Set DATA_DIR to Strata's.`);
}

type Options = Readonly<Record<string, { readonly type: 'string' | 'boolean' }>>;

/** Throws WrongUsage. */
function read(args: readonly string[], known: Options) {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: known,
      allowPositionals: true,
    });
    if (positionals.length > 1) throw new Error(`There is one directory, not ${positionals[1]}.`);
    return { directory: positionals[0], options: values };
  } catch (error) {
    throw new WrongUsage(`${messageOf(error).split('. ')[0]}. --help shows what there is.`);
  }
}

function countOf(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new WrongUsage('--keep needs a number from 1 on.');
  return Number(text);
}

const timeWithZone = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)$/;

/** A moment that has been, to the microsecond, in UTC. */
function timeOf(text: string): string {
  const moment = timeWithZone.test(text) ? momentOf(text.replace(' ', 'T')) : undefined;
  if (!moment)
    throw new WrongUsage('--until needs a time with its zone, such as 2026-11-22T09:30:00Z.');
  if (moment.getTime() > Date.now())
    throw new WrongUsage(`--until ${text} has not been yet. Without it all there is is restored.`);
  const [, fraction = ''] = /\.(\d+)/.exec(text) ?? [];
  return moment.toISOString().replace('Z', `${fraction.slice(3)}Z`);
}

async function main([command, ...args]: readonly string[]): Promise<void> {
  if (args.includes('--help') || args.includes('-h')) say(usage);
  else if (command === 'backup') await backup(args);
  else if (command === 'restore') await restore(args);
  else throw new WrongUsage(usage);
}

main(process.argv.slice(2)).then(
  () => process.exit(),
  (thrown: unknown) => {
    const error = explained(thrown);
    const isForeseen = error instanceof CannotStart;
    const shown = isForeseen ? error.message : `${messageOf(error)} (LOG_LEVEL=debug shows where)`;
    const { stack = shown } = error as Error;
    complain(wantsStacks() ? stack : shown);
    process.exit(error instanceof WrongUsage ? 2 : 1);
  },
);
