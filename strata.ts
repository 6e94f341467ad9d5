/** Starts Strata: everything in one process, or the pieces named on the command line; `--migrate` only brings the database up to date. */
import { Redis } from 'ioredis';
import { readFileSync } from 'node:fs';
import type { DataSource } from 'typeorm';
import { startGateway, type Gateway } from './gateway/gateway.ts';
import { auditSchema } from './services/audit/schema.ts';
import { auditService } from './services/audit/audit.service.ts';
import { authService } from './services/auth/auth.service.ts';
import { authSchema } from './services/auth/schema.ts';
import { configResolverService } from './services/config-resolver/config-resolver.service.ts';
import { globalConfigService } from './services/global-config/global-config.service.ts';
import { globalConfigSchema } from './services/global-config/schema.ts';
import { notifierService } from './services/notifier/notifier.service.ts';
import { notifierSchema } from './services/notifier/schema.ts';
import { tenantConfigSchema } from './services/tenant-config/schema.ts';
import { tenantConfigService } from './services/tenant-config/tenant-config.service.ts';
import { createNode } from './shared/cluster/broker.ts';
import { liveSettings } from './shared/live-settings.ts';
import { startStatusServer } from './shared/cluster/status-server.ts';
import { openEmbeddedPostgres, type EmbeddedPostgres } from './shared/database/embedded.ts';
import { isDatabaseOutage } from './shared/database/failures.ts';
import {
  migrate,
  openDatabase,
  type DatabaseOptions,
  type Schema,
} from './shared/database/open.ts';
import { createMailer } from './shared/mail/mailer.ts';
import { createGuard } from './shared/outgoing/guard.ts';
import { createHttpClient } from './shared/outgoing/http-client.ts';
import { commitSchema } from './shared/commits/schema.ts';
import {
  ensureSecretKey,
  loadSettings,
  needsRedis,
  pieces as everyPiece,
  readEnvironment,
  SettingsInvalid,
  type Settings,
} from './shared/settings.ts';
import { createShortLived } from './shared/short-lived-state.ts';

const schemas: Readonly<Record<string, Schema>> = {
  'tenant-config': tenantConfigSchema,
  'global-config': globalConfigSchema,
  auth: authSchema,
  audit: auditSchema,
  notifier: notifierSchema,
};
const { version } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8')) as {
  version: string;
};
const say = (line: string): void => {
  process.stdout.write(`${line}\n`);
};

function firstSettings(pieces: readonly string[]): {
  settings: Settings;
  fixed: Record<string, string>;
} {
  const environment = readEnvironment();
  const fixed: Record<string, string> = {};
  const embedded = !environment.DATABASE_URL && !environment.DB_HOST && !environment.NATS_URL;
  if (embedded && !environment.SECRET_KEY) {
    const { key, made } = ensureSecretKey(loadSettings(environment, { pieces }).data_dir);
    if (made) say('Made a SECRET_KEY of its own and keeps it in DATA_DIR/secret.key.');
    fixed.SECRET_KEY = key;
  }
  const settings = loadSettings({ ...environment, ...fixed }, { pieces });
  fixed.NODE_ID = settings.node_id;
  return { settings: loadSettings({ ...environment, ...fixed }, { pieces }), fixed };
}

async function start(pieces: readonly string[]): Promise<void> {
  const { settings: first, fixed } = firstSettings(pieces);
  const settings = liveSettings(first, fixed, pieces);
  const stops: (() => Promise<unknown>)[] = [];
  let stopping: Promise<void> | undefined;
  const stop = (): Promise<void> =>
    (stopping ??= (async () => {
      // Last started, first stopped: the gateway drains before the services, the database goes last.
      for (const each of stops.toReversed()) await each();
    })());

  try {
    const owned = pieces.filter((piece) => schemas[piece]);
    let database: DatabaseOptions | undefined;
    if (owned.length > 0) {
      let embedded: EmbeddedPostgres | undefined;
      if (first.database_url === null) {
        embedded = await openEmbeddedPostgres({ dataDir: first.data_dir });
        stops.push(embedded.stop);
      }
      database = {
        url: first.database_url ?? embedded!.url,
        poolSize: first.db_pool_size,
        timeoutMs: first.request_timeout_ms,
        ssl: first.db_ssl,
      };
      if (first.nats_url === null)
        await migrate(database, [commitSchema, ...Object.values(schemas)]);
    }
    const open = async (schema: Schema): Promise<DataSource> => {
      const source = await openDatabase(database!, schema);
      stops.push(() => source.destroy());
      return source;
    };

    const redis =
      first.redis_url !== null && needsRedis(pieces) ? connectRedis(first.redis_url) : undefined;
    if (redis)
      stops.push(async () => {
        redis.disconnect();
      });
    const commits = database && (await open(commitSchema));
    const probes: Record<string, () => Promise<boolean>> = redis
      ? {
          redis: () =>
            redis.ping().then(
              () => true,
              () => false,
            ),
        }
      : {};
    const { broker, coherence, localCache, log, metrics } = createNode({
      settings,
      probes,
      ...(commits ? { commits } : {}),
    });
    const current = (): Settings => settings.current;
    const shortLived = createShortLived(redis);
    const mailer = createMailer(current, log);
    stops.push(async () => mailer.close());
    let admin: { email: string; password?: string } | undefined;
    const services = {
      'config-resolver': async () => configResolverService({ settings: current }),
      'tenant-config': async () =>
        tenantConfigService({ db: await open(tenantConfigSchema), settings: current }),
      'global-config': async () => globalConfigService({ db: await open(globalConfigSchema) }),
      auth: async () =>
        authService({
          db: await open(authSchema),
          settings: current,
          shortLived,
          mailer,
          onFirstAdmin: (made) => {
            admin = made;
          },
        }),
      notifier: async () =>
        notifierService({
          db: await open(notifierSchema),
          settings: current,
          http: createHttpClient(createGuard(current), current),
          mailer,
          log,
          metrics,
        }),
      audit: async () => auditService({ db: await open(auditSchema) }),
    } as const;
    for (const piece of pieces) {
      if (piece in services) broker.createService(await services[piece as keyof typeof services]());
    }
    stops.push(() => broker.stop());
    await broker.start();
    if (first.metrics_port !== 0)
      stops.push(
        await startStatusServer({ broker, metrics, host: first.host, port: first.metrics_port }),
      );

    let gateway: Gateway | undefined;
    if (pieces.includes('gateway')) {
      gateway = await startGateway({
        broker,
        coherence,
        localCache,
        settings,
        log,
        metrics,
        version,
        ...(redis ? { redis } : {}),
      });
      stops.push(gateway.stop);
    }
    announce(pieces, gateway, admin, first);
  } catch (error) {
    await stop();
    throw error;
  }

  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      stop().then(
        () => process.exit(0),
        (error: unknown) => {
          process.stderr.write(`${String(error)}\n`);
          process.exit(1);
        },
      );
    });
  }
}

/** Commands fail at once while it is away: what it holds is short-lived, and a request must not wait for it. */
function connectRedis(url: string): Redis {
  const redis = new Redis(url, {
    maxRetriesPerRequest: 1,
    commandTimeout: 1000,
    enableOfflineQueue: false,
    retryStrategy: () => 500,
  });
  let told = false;
  redis.on('ready', () => {
    told = false;
  });
  redis.on('error', (error: Error) => {
    if (!told) process.stderr.write(`Redis does not answer: ${error.message}\n`);
    told = true;
  });
  return redis;
}

function announce(
  pieces: readonly string[],
  gateway: Gateway | undefined,
  admin: { email: string; password?: string } | undefined,
  settings: Settings,
): void {
  if (admin) {
    say(
      `First platform admin: ${admin.email}${admin.password === undefined ? ', with PLATFORM_ADMIN_PASSWORD' : ` with password ${admin.password} (shown this once)`}`,
    );
  }
  if (!gateway) {
    say(`Strata ${version} node ${settings.node_id} runs ${pieces.join(', ')}.`);
    return;
  }
  if (!admin && settings.platform_admin_emails[0])
    say(`Platform admin: ${settings.platform_admin_emails[0]}`);
  say(`Strata ${version} serves on ${gateway.url} — docs at ${gateway.url}/docs`);
}

async function main(): Promise<void> {
  const given = process.argv.slice(2);
  if (given.includes('--migrate')) {
    const settings = loadSettings(readEnvironment(), { pieces: [] });
    if (settings.database_url === null)
      throw new SettingsInvalid([
        {
          variable: 'DATABASE_URL',
          message: 'is required to migrate; embedded mode migrates by itself',
        },
      ]);
    const applied = await migrate(
      { url: settings.database_url, poolSize: 1, timeoutMs: 60_000, ssl: settings.db_ssl },
      [commitSchema, ...Object.values(schemas)],
    );
    say(applied.length === 0 ? 'The database is up to date.' : `Applied ${applied.join(', ')}.`);
    return;
  }
  const unknown = given.filter((piece) => !everyPiece.includes(piece));
  if (unknown.length > 0)
    throw new Error(`There is no piece ${unknown.join(', ')}. There are ${everyPiece.join(', ')}.`);
  await start(given.length > 0 ? given : everyPiece);
}

/** What somebody can mend is said plainly. */
function reasonOf(error: unknown): string {
  if (error instanceof SettingsInvalid) return error.message;
  if (isDatabaseOutage(error))
    return `PostgreSQL (DATABASE_URL, or DB_*) cannot be used: ${(error as Error).message}`;
  return (error as Error).stack ?? String(error);
}

main().catch((error: unknown) => {
  process.stderr.write(`${reasonOf(error)}\n`);
  process.exit(1);
});
