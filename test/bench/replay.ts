/**
 * A replay of very many decisions that very many configurations made, at all hours of a week: time,
 * and how long others of the same process wait meanwhile. The decisions are recorded once and copied,
 * which keeps for each what it was made by.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Client, createTenant, type TenantFixture } from '../support/strata.ts';
import { serverCore } from './machine.ts';
import { median, type Group } from './report.ts';
import { platformAdmin, startStage, type Stage } from './stage.ts';

const changes = 500;
const decisions = 100_000;
const intents = [
  { service_id: 'web' },
  { agent_type: 'scaler', risk_level: 'high' },
  { service_id: 'web', agent_type: 'scaler', resource_scaling: 2 },
  {},
];

/** A decision of each intent under each configuration, in as many copies as it takes. */
async function record({ admin, id }: TenantFixture, { database }: Stage): Promise<void> {
  const path = `/tenants/${id}`;
  const write = async (method: string, rest: string, body: object): Promise<void> => {
    const { status, text } = await admin.send(method, path + rest, { body });
    if (status >= 300) throw new Error(text);
  };
  await write('PUT', '/services/web', { service_type: 'cloud_run' });
  await write('PUT', '/config/agents/scaler', {});
  for (let change = 0; change < changes; change += 1) {
    await write('PATCH', '/config/risk', {
      global_settings: {
        max_cost_impact_auto: 1 + (change % 20),
        business_hours_only: change % 5 === 0,
      },
    });
    for (const [index, intent] of intents.entries()) {
      const cost_impact = (change % 40) / 2;
      const hours = (change * 37 + index * 11) % (7 * 24);
      const at = new Date(Date.now() + hours * 3_600_000).toISOString();
      const asked = {
        action: 'scale',
        risk_level: 'low',
        cost_impact,
        at,
        ...intent,
        record: true,
      };
      await write('POST', '/decide', asked);
    }
  }
  const copies = decisions / changes / intents.length;
  const columns =
    'tenant_id, at, intent, decided, decision, rule, service_id, tenant_revision, platform_revision, is_rollback_proven, stale';
  await database.query(
    `INSERT INTO notifier.decisions (decision_id, decided_at, ${columns})
     SELECT gen_random_uuid(), decided_at, ${columns} FROM notifier.decisions, generate_series(2, ${copies})`,
  );
  await database.query('VACUUM ANALYZE');
}

/** Throws where one is not as it was recorded. */
async function replayAll({ admin, id }: TenantFixture): Promise<number> {
  const path = `/tenants/${id}/config/bounds`;
  const body = { max_cost_impact_auto: { maximum: 8 } };
  const question = {
    from: new Date(Date.now() - 86_400_000).toISOString(),
    proposed: { items: [{ action: 'put', path, body }] },
  };
  const began = performance.now();
  for (let cursor: string | undefined; ;) {
    const answer = await admin.post(`/tenants/${id}/decide/replay`, { ...question, cursor });
    if (answer.status !== 200) throw new Error(answer.text);
    cursor = answer.body.cursor ?? undefined;
    if (cursor !== undefined) continue;
    const { total, baseline_differs: differing } = answer.body;
    if (total !== decisions || differing !== 0) throw new Error(answer.text);
    return performance.now() - began;
  }
}

export const replay: Group = async ({ rounds }) => {
  const stage = await startStage();
  try {
    const { url } = await stage.start([], serverCore, {
      ...stage.alone,
      RATE_LIMIT_PER_MINUTE: '0',
      DECISIONS_RECORDED_PER_HOUR_PER_TENANT: String(decisions),
    });
    const tenant = await createTenant(url, await platformAdmin(url), 'Replayed');
    await record(tenant, stage);
    // Code is not compiled yet.
    await replayAll(tenant);
    const waits: number[] = [];
    const took: number[] = [];
    const replaying = new AbortController();
    const watching = (async () => {
      const status = new Client(url);
      while (!replaying.signal.aborted) {
        const began = performance.now();
        await status.get('/healthz');
        waits.push(performance.now() - began);
        await delay(10);
      }
    })();
    for (let round = 0; round < rounds; round += 1) took.push(await replayAll(tenant));
    replaying.abort();
    await watching;
    const seconds = (ms: number): string => (ms / 1000).toFixed(1);
    return {
      rows: [],
      facts: [
        {
          what: `a replay of ${decisions} decisions that ${changes} configurations made (goal 5 s)`,
          result: `${seconds(median(took))} s (${seconds(Math.min(...took))}–${seconds(Math.max(...took))})`,
        },
        {
          what: '/healthz of the same process meanwhile: median, at most (goal 20 ms)',
          result: `${median(waits).toFixed(1)} ms, ${Math.max(...waits).toFixed(0)} ms`,
        },
      ],
    };
  } finally {
    await stage.stop();
  }
};
