/**
 * Starts Strata: everything in one process, or the pieces named on the command line. `--migrate`
 * only brings the database up to date and ends.
 */
import { Redis } from 'ioredis';
import { readFileSync } from 'node:fs';
import type { DataSource } from 'typeorm';
import { startGateway, type Gateway } from './gateway/gateway.ts';
import { derivedReads } from './services/derived-reads.ts';
import { pieces as everyPiece, type Parts, type Piece } from './services/pieces.ts';
import type { FirstAdmin } from './services/auth/sign-in/first-admin.ts';
import { createNode } from './shared/cluster/broker.ts';
import { createReadiness } from './shared/cluster/readiness.ts';
import { startStatusServer } from './shared/cluster/status-server.ts';
import { commitSchema } from './shared/commits/schema.ts';
import { openEmbeddedPostgres } from './shared/database/embedded.ts';
import { isDatabaseOutage } from './shared/database/failures.ts';
import {
  migrate,
  openDatabase,
  type DatabaseOptions,
  type Schema,
} from './shared/database/open.ts';
import { Interrupted, Lifetime } from './shared/lifetime.ts';
import { firstSettings } from './shared/live-settings.ts';
import { createMailer } from './shared/mail/mailer.ts';
import {
  loadSettings,
  readEnvironment,
  SettingsInvalid,
  type Settings,
} from './shared/settings.ts';
import { createShortLivedState } from './shared/short-lived-state.ts';

const packageFile = new URL('package.json', import.meta.url);
const { version } = JSON.parse(readFileSync(packageFile, 'utf8')) as { version: string };

const everySchema: Schema[] = [commitSchema, ...everyPiece.flatMap(({ schema }) => schema ?? [])];

const say = (line: string): void => {
  process.stdout.write(`${line}\n`);
};
const complain = (line: string): void => {
  process.stderr.write(`${line}\n`);
};

/**
 * Starts the node and returns once a signal has ended it, or throws why it cannot start; everything
 * is closed then.
 */
async function runNode(pieces: readonly Piece[]): Promise<void> {
  const lifetime = new Lifetime();
  const signalled = onSignal(() => lifetime.interrupt());
  try {
    await start(pieces, lifetime);
  } catch (error) {
    await close(lifetime);
    if (error instanceof Interrupted) return;
    throw error;
  }
  await signalled;
  await close(lifetime);
}

/** Says what could not be closed; the process then ends with 1. */
async function close(lifetime: Lifetime): Promise<void> {
  const failures = await lifetime.end();
  for (const failure of failures) {
    complain(`Something could not be closed: ${reasonOf(failure)}`);
    process.exitCode = 1;
  }
}

/**
 * Resolves with the first SIGINT or SIGTERM. A second one of a kind ends the process at once, as
 * the system does by itself.
 */
function onSignal(listener: () => void): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => {
        listener();
        resolve();
      });
    }
  });
}

async function start(pieces: readonly Piece[], lifetime: Lifetime): Promise<void> {
  const { settings, madeSecretKey } = firstSettings(pieces);
  if (madeSecretKey) say('Made a SECRET_KEY of its own and keeps it in DATA_DIR/secret.key.');
  const first = settings.current;

  const needsDatabase = pieces.some(({ schema }) => schema !== undefined);
  const database = needsDatabase ? await prepareDatabase(first, lifetime) : undefined;
  const openPool = async (schema: Schema): Promise<DataSource> => {
    if (!database) throw new Error(`No database was prepared for the schema ${schema.schema}`);
    const source = await lifetime.whileWanted(() => openDatabase(database, schema));
    lifetime.closeWith(() => source.destroy());
    return source;
  };

  const commits = database && (await openPool(commitSchema));
  const redis = connectRedis(first, pieces, lifetime);
  const { broker, coherence, localCache, log, metrics } = createNode({
    settings,
    derivedReads,
    probes: redis ? { redis: () => answers(redis) } : {},
    ...(commits ? { commits } : {}),
  });
  const mailer = createMailer(() => settings.current, log);
  lifetime.closeWith(async () => mailer.close());

  const worksOnceServing: (() => Promise<void>)[] = [];
  let isNew = false;
  const parts: Parts = {
    settings: () => settings.current,
    shortLived: createShortLivedState(redis),
    mailer,
    log,
    metrics,
    onceServing: (work) => worksOnceServing.push(work),
    onFirstAdmin: (admin) => {
      isNew = true;
      sayFirstAdmin(admin);
    },
  };
  for (const piece of pieces) {
    if (piece.schema) broker.createService(piece.service(parts, await openPool(piece.schema)));
    else if (piece.service) broker.createService(piece.service(parts));
  }
  lifetime.closeWith(() => broker.stop());
  await lifetime.whileWanted(() => broker.start());

  const readiness = createReadiness({ broker, coherence, pieces });
  lifetime.onInterrupt(readiness.stop);
  if (first.metrics_port !== 0) {
    const { host, metrics_port: port } = first;
    lifetime.closeWith(await startStatusServer({ readiness, metrics, host, port }));
  }
  let gateway: Gateway | undefined;
  if (pieces.some(({ name }) => name === 'gateway')) {
    gateway = await startGateway({
      broker,
      coherence,
      localCache,
      settings,
      log,
      metrics,
      readiness,
      version,
      ...(redis ? { redis } : {}),
    });
    lifetime.closeWith(gateway.stop);
  }
  for (const work of worksOnceServing) await lifetime.whileWanted(work);
  announce({ pieces, gateway, isNew, settings: first });
}

/**
 * Where the services' tables are; the embedded server is started first, and one process alone
 * migrates by itself.
 */
async function prepareDatabase(settings: Settings, lifetime: Lifetime): Promise<DatabaseOptions> {
  const options: DatabaseOptions = {
    url: settings.database_url ?? (await startEmbeddedPostgres(settings, lifetime)),
    poolSize: settings.db_pool_size,
    timeoutMs: settings.request_timeout_ms,
    ssl: settings.db_ssl,
  };
  if (settings.nats_url === null) await lifetime.whileWanted(() => migrate(options, everySchema));
  return options;
}

/**
 * A signal waits until the server is up: one that is stopped half made is left to the next start to
 * clear away.
 */
async function startEmbeddedPostgres(settings: Settings, lifetime: Lifetime): Promise<string> {
  const embedded = await openEmbeddedPostgres({ dataDir: settings.data_dir });
  lifetime.closeWith(embedded.stop);
  return embedded.url;
}

/**
 * The connection, where a piece needs one and the settings name one. Commands fail at once while
 * Redis is away: what it holds is short-lived, and a request must not wait for it.
 */
function connectRedis(
  settings: Settings,
  pieces: readonly Piece[],
  lifetime: Lifetime,
): Redis | undefined {
  const isNeeded = pieces.some(({ needs }) => needs.includes('redis_url'));
  if (settings.redis_url === null || !isNeeded) return undefined;
  const redis = new Redis(settings.redis_url, {
    ...(settings.redis_password === null ? {} : { password: settings.redis_password }),
    maxRetriesPerRequest: 1,
    commandTimeout: 1000,
    enableOfflineQueue: false,
    retryStrategy: () => 500,
  });
  let isReported = false;
  redis.on('ready', () => {
    isReported = false;
  });
  redis.on('error', (error: Error) => {
    if (!isReported) complain(`Redis does not answer: ${error.message}`);
    isReported = true;
  });
  lifetime.closeWith(async () => redis.disconnect());
  return redis;
}

const answers = (redis: Redis): Promise<boolean> =>
  redis.ping().then(
    () => true,
    () => false,
  );

interface Announcement {
  readonly pieces: readonly Piece[];
  readonly gateway: Gateway | undefined;
  /** The first admin has been said. */
  readonly isNew: boolean;
  readonly settings: Settings;
}

/** A password that was made up is shown nowhere else. */
function sayFirstAdmin({ email, password }: FirstAdmin): void {
  const how =
    password === undefined
      ? ', with PLATFORM_ADMIN_PASSWORD'
      : ` with password ${password} (shown this once)`;
  say(`First platform admin: ${email}${how}`);
}

/** The lines that whoever started Strata waits for. */
function announce({ pieces, gateway, isNew, settings }: Announcement): void {
  if (!gateway) {
    const names = pieces.map(({ name }) => name).join(', ');
    say(`Strata ${version} node ${settings.node_id} runs ${names}.`);
    return;
  }
  const knownAdmin = settings.platform_admin_emails[0];
  if (!isNew && knownAdmin) say(`Platform admin: ${knownAdmin}`);
  say(`Strata ${version} serves on ${gateway.url} — docs at ${gateway.url}/docs`);
}

async function migrateOnly(): Promise<void> {
  const settings = loadSettings(readEnvironment());
  if (settings.database_url === null) {
    const message = 'is required to migrate; embedded mode migrates by itself';
    throw new SettingsInvalid([{ variable: 'DATABASE_URL', message }]);
  }
  const applied = await migrate(
    { url: settings.database_url, poolSize: 1, timeoutMs: 60_000, ssl: settings.db_ssl },
    everySchema,
  );
  say(applied.length === 0 ? 'The database is up to date.' : `Applied ${applied.join(', ')}.`);
}

/** Throws where a name is no piece's. No names at all are every piece. */
function piecesNamed(names: readonly string[]): readonly Piece[] {
  if (names.length === 0) return everyPiece;
  const byName = new Map(everyPiece.map((piece) => [piece.name, piece]));
  const unknown = names.filter((name) => !byName.has(name));
  if (unknown.length > 0) {
    const known = [...byName.keys()].join(', ');
    throw new Error(`There is no piece ${unknown.join(', ')}. There are ${known}.`);
  }
  return names.flatMap((name) => byName.get(name) ?? []);
}

async function main(): Promise<void> {
  const given = process.argv.slice(2);
  if (given.includes('--migrate')) await migrateOnly();
  else await runNode(piecesNamed(given));
}

/** What somebody can mend is said plainly, the rest with its stack. */
function reasonOf(error: unknown): string {
  if (error instanceof SettingsInvalid) return error.message;
  const { message, stack } = error as Error;
  if (isDatabaseOutage(error))
    return `PostgreSQL (DATABASE_URL, or DB_*) cannot be used: ${message}`;
  return stack ?? String(error);
}

main().then(
  () => process.exit(),
  (error: unknown) => {
    complain(reasonOf(error));
    process.exit(1);
  },
);
