/**
 * Starts Strata: everything in one process, or the roles named on the command line. `--migrate`
 * only brings the database up to date and ends. What keeps it from starting is said in one line.
 */
import { readFileSync } from 'node:fs';
import type { AppOptions } from './gateway/http/app.ts';
import type { Gateway, MadeGateway } from './gateway/gateway.ts';
import { DecisionRecorder, derivedReads } from './services/derived-reads.ts';
import {
  roles as everyRole,
  type Parts,
  type NodeRole,
  type RoleCode,
} from './services/node-roles.ts';
import type { FirstAdmin } from './services/auth/accounts/first-admin.ts';
import { CannotStart, messageOf, WrongUsage } from './shared/process/cannot-start.ts';
import { createNode, joinOnceMade } from './shared/node/broker.ts';
import { reportWaiting } from './shared/bus/bus.ts';
import { addMetric } from './shared/telemetry/metric.ts';
import { showNode } from './shared/telemetry/metrics.ts';
import { calledElsewhere, createReadiness, type StartWork } from './shared/node/readiness.ts';
import { startStatusServer } from './shared/node/status-server.ts';
import type { NodeDatabase } from './shared/database/node-database.ts';
import type { Schema } from './shared/database/open.ts';
import { Interrupted, Lifetime } from './shared/process/lifetime.ts';
import { firstSettings } from './shared/settings/live-settings.ts';
import { createMailer } from './shared/mail/mailer.ts';
import { nearestName } from './shared/nearest.ts';
import {
  fileWarnings,
  loadSettings,
  readEnvironment,
  SettingsInvalid,
  wantsStacks,
  type Settings,
} from './shared/settings/settings.ts';
import { openRedis, type RedisClient } from './shared/concurrency/redis.ts';
import { createShortLivedState } from './shared/concurrency/short-lived-state.ts';

const packageFile = new URL('package.json', import.meta.url);
const { version } = JSON.parse(readFileSync(packageFile, 'utf8')) as { version: string };

/**
 * The code of roles is loaded before the node joins: others wait for one that has joined and is
 * busy.
 */
const codeOf = async (roles: readonly NodeRole[]): Promise<RoleCode[]> => {
  const loaded = await Promise.all(roles.map(({ load }) => load?.()));
  return loaded.filter((code) => code !== undefined);
};
const everySchema = async (): Promise<Schema[]> => {
  const code = await codeOf(everyRole);
  return code.flatMap(({ schema }) => schema ?? []);
};

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
async function runNode(roles: readonly NodeRole[]): Promise<void> {
  const lifetime = new Lifetime();
  const signalled = onSignal(() => lifetime.interrupt());
  try {
    await start(roles, lifetime);
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
    complain(`Something could not be closed: ${shown(failure)}`);
    process.exitCode = 1;
  }
}

/**
 * Resolves with the first SIGINT or SIGTERM. A second one of a kind ends the process at once, as
 * the system does by itself.
 */
const onSignal = (listener: () => void): Promise<void> =>
  new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => {
        listener();
        resolve();
      });
    }
  });

async function start(roles: readonly NodeRole[], lifetime: Lifetime): Promise<void> {
  const isPart = roles.length < everyRole.length;
  const { settings, madeSecretKey } = firstSettings(roles, { isPart });
  if (madeSecretKey) say('Made its own SECRET_KEY and keeps it in DATA_DIR/secret.key.');
  const first = settings.current;

  const code = await codeOf(roles);
  const hosted = code.flatMap(({ schema }) => schema ?? []);
  const database = hosted.length > 0 ? await openDatabase(first, lifetime, hosted) : undefined;
  const redis = await connectRedis(first, roles, lifetime);
  const unfinished = new Set<StartWork>();
  const recorder = new DecisionRecorder();
  const { broker, coherence, localCache, log, metrics } = createNode({
    settings,
    unfinished,
    derivedReads: derivedReads(recorder),
    about: {
      release: version,
      pieces: roles.map(({ name }) => name),
      started_at: new Date().toISOString(),
    },
    probes: redis ? { redis: () => answers(redis) } : {},
    ...(database && { commits: database.commits, connections: database.connections }),
  });
  const mailer = createMailer(() => settings.current, log);
  lifetime.closeWith(async () => mailer.close());

  const worksOnceServing = new Map<StartWork, () => Promise<void>>();
  let isNew = false;
  const parts: Parts = {
    settings: () => settings.current,
    shortLived: createShortLivedState(redis),
    mailer,
    log,
    metrics,
    coherence,
    recorder,
    onceServing(name, work) {
      unfinished.add(name);
      worksOnceServing.set(name, work);
    },
    onStopping: (listener) => lifetime.onInterrupt(listener),
    onFirstAdmin: (admin) => {
      isNew = true;
      sayFirstAdmin(admin);
    },
  };
  for (const each of code) {
    const service = each.schema
      ? each.service(parts, database!.service(each.schema))
      : each.service(parts);
    broker.createService(service);
  }
  lifetime.closeWith(() => broker.stop());
  // It records over the broker.
  lifetime.closeWith(() => recorder.stop());
  addMetric(metrics, {
    name: 'strata_decisions_unrecorded_total',
    help: 'Decisions of this node that were to be recorded, and are not',
    read: () => recorder.unrecorded(),
  });
  const readiness = createReadiness({ broker, coherence, roles });
  lifetime.onInterrupt(readiness.stop);
  const isGateway = roles.some(({ name }) => name === 'gateway');
  const makingGateway = isGateway
    ? makeGateway({
        broker,
        coherence,
        localCache,
        settings,
        log,
        metrics,
        readiness,
        version,
        ...(redis ? { redis } : {}),
      })
    : undefined;
  const calls = calledElsewhere(roles);
  const stopReporting = reportWaiting(first, log);
  await lifetime
    .whileWanted(() => joinOnceMade(broker, { made: Promise.resolve(makingGateway), calls }))
    .finally(stopReporting);
  showNode(metrics, { version, roles: roles.map(({ name }) => name), readiness });
  if (first.metrics_port !== 0) {
    const { host, metrics_port: port } = first;
    lifetime.closeWith(await startStatusServer({ readiness, metrics, host, port }));
  }
  const made = await makingGateway;
  const gateway = await made?.listen();
  if (gateway) lifetime.closeWith(gateway.stop);
  for (const [name, work] of worksOnceServing) {
    await lifetime.whileWanted(work);
    unfinished.delete(name);
  }
  announce({ roles, gateway, isNew, settings: first });
}

/** With its code, which other nodes do not load. */
async function makeGateway(options: AppOptions): Promise<MadeGateway> {
  const { createGateway } = await import('./gateway/gateway.ts');
  return createGateway(options);
}

/** With what is needed for it, which nodes without tables do not load. */
async function openDatabase(
  settings: Settings,
  lifetime: Lifetime,
  hosted: readonly Schema[],
): Promise<NodeDatabase> {
  const { openNodeDatabase } = await import('./shared/database/node-database.ts');
  return openNodeDatabase({ settings, lifetime, schemas: everySchema, hosted });
}

/** The connection, where a role needs one and the settings name one. */
async function connectRedis(
  settings: Settings,
  roles: readonly NodeRole[],
  lifetime: Lifetime,
): Promise<RedisClient | undefined> {
  const isNeeded = roles.some(({ needs }) => needs.includes('redis_url'));
  if (settings.redis_url === null || !isNeeded) return undefined;
  const redis = await openRedis(settings.redis_url, settings);
  let isReported = false;
  redis.on('ready', () => {
    isReported = false;
  });
  redis.on('error', (error: Error) => {
    if (!isReported) {
      const reason = messageOf(error);
      complain(`Redis (REDIS_URL) does not answer: ${reason}. It is tried again until it does.`);
    }
    isReported = true;
  });
  lifetime.closeWith(async () => redis.disconnect());
  return redis;
}

const answers = (redis: RedisClient): Promise<boolean> =>
  redis.ping().then(
    () => true,
    () => false,
  );

interface Announcement {
  readonly roles: readonly NodeRole[];
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
function announce({ roles, gateway, isNew, settings }: Announcement): void {
  if (!gateway) {
    const names = roles.map(({ name }) => name).join(', ');
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
  const { migrateAll } = await import('./shared/database/node-database.ts');
  const options = {
    url: settings.database_url,
    poolSize: 1,
    timeoutMs: 60_000,
    ssl: settings.db_ssl,
    pooler: settings.db_pooler,
  };
  const applied = await migrateAll(options, await everySchema());
  say(applied.length === 0 ? 'The database is up to date.' : `Applied ${applied.join(', ')}.`);
}

const roleNames = everyRole.map(({ name }) => name);
const usage = `Usage:
  npm start                          runs every role in one process
  npm run start:node -- <role> …     runs these roles as a node of a cluster: ${roleNames.join(', ')}
  npm run migrate                    brings the database up to date, and ends

node strata.mjs takes the same: no names, names of roles, or --migrate. Settings come from the
environment, or from the file that ENV_FILE names; .env.example lists them all.`;

/** The roles of these names, every role without names. Throws WrongUsage. */
function rolesNamed(names: readonly string[]): readonly NodeRole[] {
  if (names.length === 0) return everyRole;
  const unknown = names.find((name) => !roleNames.includes(name));
  if (unknown !== undefined) {
    const nearest = nearestName(roleNames, unknown);
    const meant = nearest === undefined ? '' : ` Did you mean ${nearest}?`;
    throw new WrongUsage(`There is no role ${unknown}.${meant} There are ${roleNames.join(', ')}.`);
  }
  return everyRole.filter(({ name }) => names.includes(name));
}

/** Throws WrongUsage where there are others, or names beside them. */
function onlyOption(given: readonly string[]): string | undefined {
  const option = given.find((word) => word.startsWith('-'));
  if (option === undefined) return undefined;
  if (!['--help', '-h', '--migrate'].includes(option))
    throw new WrongUsage(`There is no option ${option}. --help shows what there is.`);
  if (given.length > 1 && option === '--migrate')
    throw new WrongUsage('--migrate stands alone: it brings the tables of all roles up to date.');
  return option;
}

async function main(): Promise<void> {
  const given = process.argv.slice(2);
  const option = onlyOption(given);
  if (option === '--help' || option === '-h') {
    say(usage);
    return;
  }
  const roles = rolesNamed(option === undefined ? given : []);
  for (const warning of fileWarnings()) complain(warning);
  if (option === '--migrate') await migrateOnly();
  else await runNode(roles);
}

/**
 * One line that says what somebody can do. What nobody foresaw has its place in the code at
 * LOG_LEVEL=debug.
 */
function shown(error: unknown): string {
  if (wantsStacks()) return stacksOf(error);
  if (error instanceof CannotStart) return error.message;
  return `${messageOf(error)} (LOG_LEVEL=debug shows where)`;
}

/** Not the other fields of errors: those of a query hold what was stored. */
function stacksOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { stack = error.message, cause } = error;
  return cause === undefined ? stack : `${stack}\nbecause of ${stacksOf(cause)}`;
}

main().then(
  () => process.exit(),
  (error: unknown) => {
    complain(shown(error));
    process.exit(error instanceof WrongUsage ? 2 : 1);
  },
);
