/** What a plan over very many tenants takes: time, memory, and how long others wait meanwhile. */
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '../support/cluster.ts';
import { Client } from '../support/strata.ts';
import { rssMiB, serverCore } from './machine.ts';
import { median, type Fact, type Group } from './report.ts';
import { platformAdmin, startStage } from './stage.ts';

const tenants = 10_000;
/** Beside none: four managed service types, seven agent types, eight instances. */
const agents = 7;
const instances = 8;
const contexts = 1 + 4 + agents + instances;

const values = (type: string, n: string): string =>
  `json_build_object('service_id', 'service-' || ${n}, 'service_type', ${type}, 'max_instances', (t.n + ${n}) % 40)`;

export const plan: Group = async ({ rounds }) => {
  const stage = await startStage();
  try {
    const { database } = stage;
    const config = await stage.start(
      ['tenant-config', 'global-config', 'config-resolver', 'auth', 'audit'],
      // PostgreSQL has the other one: it reads the next page while this node looks at one.
      serverCore,
      stage.clustered,
    );
    const gateway = await stage.start(['gateway'], serverCore, stage.clustered);
    const platform = await eventually(() => platformAdmin(gateway.url));
    await database.query(
      `CREATE TABLE bench_tenants AS SELECT gen_random_uuid() AS id, n FROM generate_series(1, ${tenants}) n`,
    );
    await database.query(
      `INSERT INTO tenant_config.tenants SELECT id, 'Tenant ' || n, 'active', now(), now(), NULL, 0, 'bench', now() FROM bench_tenants`,
    );
    await database.query(
      `INSERT INTO tenant_config.tenant_risk_configurations SELECT id, id, json_build_object(
         'global_settings', json_build_object('max_cost_impact_auto', n % 30, 'max_cost_impact_approval', 40, 'automation_enabled', true),
         'service_overrides', json_build_object('cloud_run', json_build_object('max_cost_impact_auto', n % 20))), 1, 'bench', now()
       FROM bench_tenants`,
    );
    await database.query(
      `INSERT INTO tenant_config.agent_configurations SELECT t.id, 'agent-' || a, json_build_object('agent_type', 'agent-' || a,
         'default_region', 'region-' || (t.n + a) % 9), 1, 'bench', now() FROM bench_tenants t, generate_series(1, ${agents}) a`,
    );
    await database.query(
      `INSERT INTO tenant_config.service_configurations SELECT t.id, 'service-' || s,
         ${values(`(ARRAY['cloud_run', 'cloud_functions', 'cloud_sql', 'kubernetes_engine'])[1 + s % 4]`, 's')}, 1, 'bench', now()
       FROM bench_tenants t, generate_series(1, ${instances}) s`,
    );
    await database.query('DROP TABLE bench_tenants');
    await database.query('VACUUM ANALYZE');

    const items = [
      {
        action: 'put',
        path: '/config/bounds',
        body: { max_instances: { maximum: 20 }, max_cost_impact_auto: { maximum: 15 } },
      },
      {
        action: 'put',
        path: '/config/global/default_region',
        body: { config_value: 'region-1', is_public: true },
      },
    ];
    const took: number[] = [];
    const waits: number[] = [];
    const idle = rssMiB(config.pid);
    let most = idle;
    const planning = new AbortController();
    const status = new Client(gateway.url);
    const watching = (async () => {
      while (!planning.signal.aborted) {
        const began = performance.now();
        await status.get('/healthz');
        waits.push(performance.now() - began);
        most = Math.max(most, rssMiB(config.pid));
        await delay(10);
      }
    })();
    const portions = new Set<number>();
    for (let round = 0; round < rounds; round += 1) {
      const began = performance.now();
      let cursor: string | undefined;
      let portion = 0;
      for (;;) {
        const { status: code, body, text } = await platform.post('/config/plan', { items, cursor });
        if (code !== 200) throw new Error(text);
        portion += 1;
        cursor = body.impact.next_cursor;
        if (!body.complete) continue;
        if (body.impact.tenants.total !== tenants + 1 && body.impact.tenants.total !== tenants)
          throw new Error(text);
        break;
      }
      portions.add(portion);
      took.push(performance.now() - began);
    }
    planning.abort();
    await watching;
    const facts: Fact[] = [
      {
        what: `a plan over ${tenants.toLocaleString('en')} tenants of ${contexts} contexts each, all counted (goal 2 s)`,
        result: `${median(took).toFixed(0)} ms (${Math.min(...took).toFixed(0)}–${Math.max(...took).toFixed(0)}), in ${[...portions].join(' or ')} requests`,
      },
      {
        what: 'memory (RSS) of the node that looks at them: idle / at most',
        result: `${idle.toFixed(0)} / ${most.toFixed(0)} MiB`,
      },
      {
        what: '/healthz of the gateway meanwhile, at most',
        result: `${Math.max(...waits).toFixed(0)} ms`,
      },
    ];
    return { rows: [], facts };
  } finally {
    await stage.stop();
  }
};
