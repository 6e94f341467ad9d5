/**
 * One Strata for each worker of jest, which its test files use one after the other: a start costs
 * more processor time than most files need besides.
 *
 * It is for files that start Strata with a database and no other setting than these below, name
 * their tenants and people as no other file does, and leave the platform's configuration as it was.
 * They count nothing of all tenants, fail to sign in a few times at most, for a network is slowed
 * after thirty, and do not stop it. After a file that left something of the platform's, as one that
 * fails may, the next gets another Strata.
 */
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { watchMailFolder } from './mailboxes.ts';
import { databaseAt, strataDatabase, type Database } from './postgres.ts';
import { startStrata } from './strata.ts';

/** What a worker is told of its Strata. */
interface Address {
  readonly url: string;
  readonly databaseUrl: string;
  readonly dataDir: string;
  readonly envFile: string;
}

export interface SharedStrata {
  readonly url: string;
  readonly database: Pick<Database, 'url' | 'query'>;
  /** Everything it has logged, for earlier files as well. */
  readonly output: () => Promise<string>;
  /** Empty at first, and after each file that has settings reloaded from it. */
  readonly envFile: string;
}

/** The Strata of this worker, started when its first file asks for it. */
export async function sharedStrata(): Promise<SharedStrata> {
  const { url, databaseUrl, dataDir, envFile } = JSON.parse(await ask('address')) as Address;
  watchMailFolder(dataDir, { fromNowOn: true });
  return { url, database: databaseAt(databaseUrl), output: () => ask('output'), envFile };
}

async function ask(what: 'address' | 'output'): Promise<string> {
  const path = `${process.env.TEST_STRATA!}/${process.env.JEST_WORKER_ID}/${what}`;
  const answer = await fetch(path, { headers: { connection: 'close' } });
  const text = await answer.text();
  if (!answer.ok) throw new Error(text);
  return text;
}

interface Started {
  readonly address: () => string;
  readonly output: () => string;
  /** Whether the platform's configuration and the settings are those of the beginning. */
  readonly isAsAtFirst: () => Promise<boolean>;
  readonly stop: () => Promise<void>;
}

const configurationTables = [
  'global_configurations',
  'service_type_configurations',
  'bounds',
  'budgets',
  'freezes',
  'change_policies',
  'event_destinations',
] as const;

/** All that is the platform's configuration, but for who wrote it when. */
async function platformConfiguration({ query }: Database): Promise<string> {
  const rows = await Promise.all(
    configurationTables.map((table) =>
      query(
        `SELECT to_jsonb(t) - '{revision,updated_by,updated_at}'::text[] AS row FROM global_config.${table} t ORDER BY 1`,
      ),
    ),
  );
  return JSON.stringify(rows);
}

async function start(): Promise<Started> {
  const dataDir = mkdtempSync(join(tmpdir(), 'strata-data-'));
  const envFile = join(dataDir, 'strata.env');
  writeFileSync(envFile, '');
  const database = await strataDatabase();
  const strata = await startStrata({
    DATABASE_URL: database.url,
    DATA_DIR: dataDir,
    ENV_FILE: envFile,
    // On a busy machine many requests at once wait for each other.
    REQUEST_TIMEOUT_MS: '60000',
    // Limits that files would reach together.
    NETWORK_RATE_LIMIT_PER_MINUTE: '1000000',
    INVITATIONS_PER_MINUTE_PER_CALLER: '500',
    INVITATIONS_PER_HOUR_PER_TENANT: '500',
  });
  const received: Address = { url: strata.url, databaseUrl: database.url, dataDir, envFile };
  const atFirst = await platformConfiguration(database);
  return {
    address: () => JSON.stringify(received),
    output: strata.output,
    isAsAtFirst: async () =>
      readFileSync(envFile, 'utf8') === '' && (await platformConfiguration(database)) === atFirst,
    async stop() {
      await strata.stop('SIGKILL');
      await database.drop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

/** Starts them in the process of jest itself, which outlives its workers. Gives where these ask. */
export async function offerStrata(): Promise<{ url: string; stop: () => Promise<void> }> {
  const byWorker = new Map<string, Promise<Started>>();
  async function strataOf(worker: string, what: 'address' | 'output'): Promise<Started> {
    const started = await byWorker.get(worker);
    if (started && (what === 'output' || (await started.isAsAtFirst()))) return started;
    await started?.stop();
    const another = start();
    byWorker.set(worker, another);
    return another;
  }
  const server = createServer((request, response) => {
    const [, worker, what] = request.url!.split('/') as [string, string, 'address' | 'output'];
    strataOf(worker, what).then(
      (strata) => response.end(strata[what]()),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  server.listen(0, '127.0.0.1').unref();
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      server.close();
      for (const started of await Promise.allSettled(byWorker.values()))
        if (started.status === 'fulfilled') await started.value.stop();
    },
  };
}
