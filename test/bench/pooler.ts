/** What a pooler of PostgreSQL costs: PUT of risk limits through PgBouncer, and without it. */
import { serverTimeouts } from '../../shared/database/pooler.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { startPgBouncer } from '../support/servers.ts';
import { load, type Target } from './load.ts';
import { loadCore, pin, serverCore } from './machine.ts';
import { alternate, type Group } from './report.ts';
import { platformAdmin, startStage, type Environment } from './stage.ts';
import { makeTenant } from './writes.ts';

const clients = 64;

export const pooler: Group = async ({ rounds, seconds }) => {
  const stage = await startStage();
  const bouncer = await startPgBouncer(stage.postgres.url);
  try {
    pin(bouncer.pid, loadCore);
    /** A node of its own on a database of its own, with a tenant for each client. */
    const targetOf = async (name: string, environment: Environment): Promise<Target> => {
      const { url } = await stage.start([], serverCore, {
        ...stage.alone,
        NETWORK_RATE_LIMIT_PER_MINUTE: '1000',
        ...environment,
      });
      const platform = await platformAdmin(url);
      const requests = [];
      for (let each = 0; each < clients; each += 1) {
        const { id, admin } = await makeTenant(url, platform, `${name}-${each}`);
        requests.push({
          method: 'PUT',
          path: `/tenants/${id}/config/risk`,
          body: '{"global_settings":{"max_concurrent_automations":###}}',
          headers: { authorization: `Bearer ${admin.token}`, 'content-type': 'application/json' },
        });
      }
      return { origin: url, status: 200, requests };
    };

    const direct = await targetOf('direct', {});
    const { url, query } = await stage.anotherDatabase();
    const timeouts = serverTimeouts(loadSettings({}).request_timeout_ms);
    for (const [name, ms] of Object.entries(timeouts))
      await query(`ALTER ROLE CURRENT_USER SET ${name} = ${ms}`);
    const pooled = await targetOf('pooled', {
      DATABASE_URL: url.replace(new URL(url).host, new URL(bouncer.url).host),
      DB_POOLER: 'true',
    });
    const writes = (target: Target) => async (): Promise<number> =>
      (await load(target, { connections: clients, seconds })).perSecond;
    return {
      rows: [
        {
          what: `PUT risk, ${clients} clients and tenants, through PgBouncer in transaction mode`,
          peer: 'the same without it',
          unit: '/s',
          // PgBouncer shares the core of PostgreSQL here, and a statement without a name is parsed
          // and planned each time: half of the rate is left.
          goal: { atLeast: 0.4 },
          ...(await alternate(rounds, writes(pooled), writes(direct))),
        },
      ],
    };
  } finally {
    await bouncer.stop('SIGKILL');
    await stage.stop();
  }
};
