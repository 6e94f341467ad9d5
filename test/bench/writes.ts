import { serverTimeouts } from '../../shared/database/pooler.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { withClient, type Database } from '../support/postgres.ts';
import { startPgBouncer } from '../support/servers.ts';
import { memberPassword, signIn, type Client } from '../support/strata.ts';
import { load, type Target } from './load.ts';
import { loadCore, pin, serverCore, startProgram } from './machine.ts';
import { alternate, type Comparison, type Goal, type Group } from './report.ts';
import { platformAdmin, startStage, type Environment, type Stage } from './stage.ts';

interface Tenant {
  readonly id: string;
  readonly admin: Client;
}

async function makeTenant(url: string, platform: Client, name: string): Promise<Tenant> {
  const email = `admin@${name}.example`;
  const admin = { email, password: memberPassword };
  const { status, text, body } = await platform.post('/tenants', { name, admin });
  if (status !== 201) throw new Error(`tenant ${name}: ${status} ${text}`);
  const { id } = body as { id: string };
  return { id, admin: await signIn(url, email, memberPassword) };
}

// The load generator puts another number in place of ### each time.
const body = '{"global_settings":{"max_concurrent_automations":###}}';

interface Place {
  readonly tenants: readonly Tenant[];
  /** The answer to each write, with ### where the number was. */
  readonly text: string;
  /** PUT of risk limits a second, by so many clients on these tenants. */
  readonly perSecond: (
    clients: number,
    written: readonly Tenant[],
    seconds: number,
  ) => Promise<number>;
}

/** A node that holds a caching lease, with 64 tenants. */
async function startPlace(stage: Stage, environment: Environment): Promise<Place> {
  const { url } = await stage.start([], serverCore, {
    ...stage.alone,
    // So many administrators sign in within a minute.
    NETWORK_RATE_LIMIT_PER_MINUTE: '1000',
    ...environment,
  });
  const platform = await platformAdmin(url);
  const tenants: Tenant[] = [];
  for (let each = 0; each < 64; each += 1)
    tenants.push(await makeTenant(url, platform, `bench-${each}`));
  const first = await tenants[0]!.admin.put(
    `/tenants/${tenants[0]!.id}/config/risk`,
    JSON.parse(body.replace('###', '100')),
  );
  const text = first.text.replace('100', '###');
  const perSecond: Place['perSecond'] = async (connections, written, seconds) => {
    const target: Target = {
      origin: url,
      expect: text,
      requests: written.map(({ id, admin }) => ({
        method: 'PUT',
        path: `/tenants/${id}/config/risk`,
        body,
        headers: { authorization: `Bearer ${admin.token}`, 'content-type': 'application/json' },
      })),
    };
    return (await load(target, { connections, seconds })).perSecond;
  };
  return { tenants, text, perSecond };
}

/**
 * PUT of risk limits beside the statements of its transaction in bare SQL, in another database of
 * the same server. Writes of one tenant follow each other in bare SQL, and are committed together
 * in Strata. Beside that: the same through PgBouncer, and while somebody keeps an old snapshot.
 */
export const writes: Group = async ({ rounds, seconds }) => {
  const stage = await startStage();
  try {
    const place = await startPlace(stage, {});
    const { tenants, text } = place;
    const bare = await stage.anotherDatabase();
    for (const { id } of tenants) {
      await bare.query(
        `INSERT INTO tenant_config.tenants VALUES ($1, 'Bench', 'active', now(), now(), NULL, 0, '', now())`,
        [id],
      );
    }

    const rowOf = async (
      name: string,
      clients: number,
      written: readonly Tenant[],
      goal: Goal,
    ): Promise<Comparison> => {
      const strata = (): Promise<number> => place.perSecond(clients, written, seconds);
      const bareSql = async (): Promise<number> => {
        const answer = text.replace('###', '100');
        const program = await startProgram(
          'test/bench/peers/bare-sql.ts',
          [bare.url, String(clients), String(seconds), answer, ...written.map(({ id }) => id)],
          serverCore,
        );
        await program.stop();
        return Number(program.said);
      };
      return {
        what: `PUT risk, ${clients} clients, ${name}, one node holding a lease`,
        peer: 'the bare SQL of the same transaction through pg',
        unit: '/s',
        goal,
        ...(await alternate(rounds, strata, bareSql)),
      };
    };
    return {
      rows: [
        await rowOf('64 tenants', 64, tenants, { atLeast: 0.8 }),
        await rowOf('one tenant', 16, tenants.slice(0, 1), { atLeast: 1.5 }),
        await besideSnapshot(stage.database, place, rounds, seconds),
        await throughPooler(stage, place, rounds, seconds),
      ],
    };
  } finally {
    await stage.stop();
  }
};

/**
 * A snapshot that stays open keeps every version of each row that is written after it. The writes
 * of four turns come first, so that there are many versions of each.
 */
async function besideSnapshot(
  { url }: Pick<Database, 'url'>,
  { tenants, perSecond }: Place,
  rounds: number,
  seconds: number,
): Promise<Comparison> {
  const strata: number[] = [];
  const baseline: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    baseline.push(await perSecond(64, tenants, seconds));
    await withClient(url, async (client) => {
      await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
      await perSecond(64, tenants, seconds * 4);
      strata.push(await perSecond(64, tenants, seconds));
      await client.query('ROLLBACK');
    });
    await withClient(url, (client) => client.query('VACUUM'));
  }
  return {
    what: 'PUT risk, 64 clients, 64 tenants, beside a snapshot that stays open',
    peer: 'without it',
    unit: '/s',
    goal: { atLeast: 0.5 },
    strata,
    baseline,
  };
}

async function throughPooler(
  stage: Stage,
  direct: Place,
  rounds: number,
  seconds: number,
): Promise<Comparison> {
  const database = await stage.anotherDatabase();
  const name = new URL(database.url).pathname.slice(1);
  for (const [timeout, ms] of Object.entries(serverTimeouts(loadSettings({}).request_timeout_ms)))
    await database.query(`ALTER DATABASE ${name} SET ${timeout} = ${ms}`);
  const pooler = await startPgBouncer(stage.postgres.url);
  try {
    pin(pooler.pid, loadCore);
    const url = database.url.replace(new URL(database.url).host, new URL(pooler.url).host);
    const place = await startPlace(stage, { DATABASE_URL: url, DB_POOLER: 'true' });
    const by = (at: Place) => () => at.perSecond(64, at.tenants, seconds);
    return {
      what: 'PUT risk, 64 clients, 64 tenants, through PgBouncer',
      peer: 'by connections of its own',
      unit: '/s',
      goal: { atLeast: 0.5 },
      ...(await alternate(rounds, by(place), by(direct))),
    };
  } finally {
    await pooler.stop();
  }
}
