import { memberPassword, signIn, type Client } from '../support/strata.ts';
import { load, type Target } from './load.ts';
import { serverCore, startProgram } from './machine.ts';
import { alternate, type Comparison, type Goal, type Group } from './report.ts';
import { platformAdmin, startStage } from './stage.ts';

export interface Tenant {
  readonly id: string;
  readonly admin: Client;
}

export async function makeTenant(url: string, platform: Client, name: string): Promise<Tenant> {
  const email = `admin@${name}.example`;
  const admin = { email, password: memberPassword };
  const { status, text, body } = await platform.post('/tenants', { name, admin });
  if (status !== 201) throw new Error(`tenant ${name}: ${status} ${text}`);
  const { id } = body as { id: string };
  return { id, admin: await signIn(url, email, memberPassword) };
}

/**
 * PUT of risk limits on one node that holds a caching lease, beside the statements of its
 * transaction in bare SQL, in another database of the same server. Writes of one tenant follow each
 * other in bare SQL, and are committed together in Strata.
 */
export const writes: Group = async ({ rounds, seconds }) => {
  const stage = await startStage();
  try {
    const { url } = await stage.start([], serverCore, {
      ...stage.alone,
      // So many administrators sign in within a minute.
      NETWORK_RATE_LIMIT_PER_MINUTE: '1000',
    });
    const platform = await platformAdmin(url);
    const tenants: Tenant[] = [];
    for (let each = 0; each < 64; each += 1)
      tenants.push(await makeTenant(url, platform, `bench-${each}`));
    // The load generator puts another number in place of ### each time.
    const body = '{"global_settings":{"max_concurrent_automations":###}}';
    const { text } = await tenants[0]!.admin.put(
      `/tenants/${tenants[0]!.id}/config/risk`,
      JSON.parse(body.replace('###', '100')),
    );
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
      const target: Target = {
        origin: url,
        expect: text.replace('100', '###'),
        requests: written.map(({ id, admin }) => ({
          method: 'PUT',
          path: `/tenants/${id}/config/risk`,
          body,
          headers: { authorization: `Bearer ${admin.token}`, 'content-type': 'application/json' },
        })),
      };
      const strata = async (): Promise<number> =>
        (await load(target, { connections: clients, seconds })).perSecond;
      const bareSql = async (): Promise<number> => {
        const program = await startProgram(
          'test/bench/peers/bare-sql.ts',
          [bare.url, String(clients), String(seconds), text, ...written.map(({ id }) => id)],
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
      ],
    };
  } finally {
    await stage.stop();
  }
};
