import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, chmodSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { openEmbeddedPostgres } from '../../shared/database/embedded.ts';

export interface Server { readonly url: string; readonly pid?: number; readonly stop: () => Promise<void> }

/** A PostgreSQL of its own in a temporary directory. Not for tests of durability: it does not wait for the disk. */
export async function startPostgres(): Promise<Server> {
  const dataDir = mkdtempSync(join(tmpdir(), 'strata-test-'));
  chmodSync(dataDir, 0o755);
  const server = await openEmbeddedPostgres({ dataDir, flags: ['-c', 'fsync=off', '-c', 'synchronous_commit=off', '-c', 'full_page_writes=off'] });
  return {
    url: server.url, pid: server.pid,
    async stop() {
      await server.stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

export interface Database { readonly url: string; readonly query: <R>(text: string, values?: unknown[]) => Promise<R[]>; readonly drop: () => Promise<void> }

/** A fresh database on the run's server. */
export async function createDatabase(server = process.env.TEST_DATABASE_URL!): Promise<Database> {
  const name = `t_${randomUUID().replaceAll('-', '')}`;
  await withClient(server, (client) => client.query(`CREATE DATABASE ${name}`));
  const url = new URL(server);
  url.pathname = `/${name}`;
  return {
    url: url.href,
    query: (text, values) => withClient(url.href, async (client) => (await client.query(text, values)).rows),
    drop: () => withClient(server, async (client) => { await client.query(`DROP DATABASE ${name} WITH (FORCE)`); }),
  };
}
