/** What people see when they start Strata: the first admin's password, and why a start fails. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { announceFirstAdmin, type FirstAdmin } from '../../services/auth/sign-in/first-admin.ts';
import { createPasswordHashing } from '../../services/auth/sign-in/password-hashing.ts';
import { authSchema } from '../../services/auth/schema.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { loadSettings } from '../../shared/settings.ts';
import { createDatabase, type Database } from '../support/postgres.ts';
import { signIn, startStrata, type Running } from '../support/strata.ts';

let home: string;
let taken: Server;
let takenPort: string;
let database: Database;
beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'strata-start-'));
  chmodSync(home, 0o755);
  database = await createDatabase();
  taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  takenPort = String((taken.address() as AddressInfo).port);
});
afterAll(async () => {
  taken?.close();
  await database?.drop();
  rmSync(home, { recursive: true, force: true });
});

/** Without a password of the operator's own, so that one is made up. */
const madeUp = { PLATFORM_ADMIN_PASSWORD: '', SECRET_KEY: '' };
const passwordsIn = (output: string): string[] =>
  [...output.matchAll(/First platform admin: admin@example.com with password (\S+)/g)].map(
    ([, password]) => password!,
  );

describe("the first admin's password", () => {
  test('is said by the first start that serves, not by one on a taken port, and signs in', async () => {
    const embedded = { ...madeUp, DATA_DIR: join(home, 'taken') };
    const failed = await startStrata({ ...embedded, PORT: takenPort }).then(
      () => 'served',
      (error: Error) => error.message,
    );
    expect(failed).not.toBe('served');
    expect(failed).not.toContain('First platform admin');
    const strata = await startStrata(embedded);
    const [password] = passwordsIn(strata.output());
    await signIn(strata.url, 'admin@example.com', password!);
    await strata.stop();
  });

  test('is said once by processes that start at the same time, and signs in at each', async () => {
    const shared = { ...madeUp, SECRET_KEY: 's'.repeat(32), DATABASE_URL: database.url };
    const started: Running[] = await Promise.all([1, 2, 3].map(() => startStrata(shared)));
    const said = started.flatMap(({ output }) => passwordsIn(output()));
    expect(said).toHaveLength(1);
    for (const { url } of started) await signIn(url, 'admin@example.com', said[0]!);
    await Promise.all(started.map(({ stop }) => stop()));
  });

  describe('where a process ends before it was said', () => {
    const hashing = createPasswordHashing();
    const settings = loadSettings({});

    async function withAccounts(
      work: (
        start: (announce?: () => void) => Promise<FirstAdmin[]>,
        own: Database,
      ) => Promise<void>,
    ): Promise<void> {
      const own = await createDatabase();
      const options = { url: own.url, poolSize: 4, timeoutMs: 10_000, ssl: false };
      await migrate(options, [authSchema]);
      const db = await openDatabase(options, authSchema);
      const start = async (announce = (): void => {}): Promise<FirstAdmin[]> => {
        const announced: FirstAdmin[] = [];
        await announceFirstAdmin(db, settings, hashing, (admin) => {
          announce();
          announced.push(admin);
        });
        return announced;
      };
      try {
        await work(start, own);
      } finally {
        await db.destroy();
        await own.drop();
      }
    }
    const dies = (): never => {
      throw new Error('killed');
    };
    const storedHash = async (own: Database): Promise<string> => {
      const [user] = await own.query<{ password_hash: string }>('SELECT * FROM auth.users');
      return user!.password_hash;
    };

    test('the next start says another that fits, and no later one says any', () =>
      withAccounts(async (start, own) => {
        await expect(start(dies)).rejects.toThrow('killed');
        const [admin] = await start();
        expect(await hashing.verify(await storedHash(own), admin!.password!, '')).toBe(true);
        expect(await start()).toEqual([]);
      }));

    test('a password that somebody has signed in with is not replaced', () =>
      withAccounts(async (start, own) => {
        await expect(start(dies)).rejects.toThrow('killed');
        const hash = await storedHash(own);
        await own.query(
          `INSERT INTO auth.sessions SELECT id, id, NULL, now(), now(), now(), now(), NULL, NULL, NULL FROM auth.users`,
        );
        expect(await start()).toEqual([]);
        expect(await storedHash(own)).toBe(hash);
      }));

    test('a start beside one that says it waits, and says nothing', () =>
      withAccounts(async (start, own) => {
        await own.query(`CREATE FUNCTION auth.slowly() RETURNS trigger LANGUAGE plpgsql
          AS 'BEGIN PERFORM pg_sleep(0.5); RETURN NULL; END'`);
        await own.query(`CREATE TRIGGER slowly BEFORE DELETE ON auth.unannounced_admin
          EXECUTE FUNCTION auth.slowly()`);
        let beside: Promise<FirstAdmin[]> | undefined;
        const [admin] = await start(() => {
          beside = start();
        });
        expect(await beside).toEqual([]);
        expect(await hashing.verify(await storedHash(own), admin!.password!, '')).toBe(true);
      }));
  });
});
