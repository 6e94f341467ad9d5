/**
 * Effective configuration as a platform service reads it, on the bus and from its own node's
 * memory.
 */
import { isDeepStrictEqual } from 'node:util';
import { eventually } from '../support/cluster.ts';
import { createTenant, secretKey, type Client } from '../support/strata.ts';
import { loadCore, serverCore, startProgram } from './machine.ts';
import { alternate, type Comparison, type Group } from './report.ts';
import { platformAdmin, startStage } from './stage.ts';

const contexts = 200;
const reads = 1000;

/**
 * Reads of many contexts through the gateway, one after the other: after a platform write, and when
 * nothing has changed.
 */
async function mergedAgain(rounds: number, platform: Client, admin: Client, tenantId: string) {
  for (let each = 0; each < contexts; each += 1)
    await admin.put(`/tenants/${tenantId}/config/agents/agent-${each}`, { custom: { each } });
  async function readAll(): Promise<number> {
    const began = performance.now();
    for (let read = 0; read < reads; read += 1) {
      const path = `/tenants/${tenantId}/config/effective?agent_type=agent-${read % contexts}`;
      const { status } = await admin.get(path);
      if (status !== 200) throw new Error(`${path} answered ${status}`);
    }
    return performance.now() - began;
  }
  let value = 0;
  return alternate(
    rounds,
    async () => {
      value += 1;
      await platform.put('/config/global/merged_again', { config_value: value, is_public: true });
      return readAll();
    },
    async () => {
      await readAll();
      return readAll();
    },
  );
}

/** Six layers, merged before, read warm. */
export const effective: Group = async ({ rounds, seconds }) => {
  const stage = await startStage();
  try {
    await stage.start(
      ['tenant-config', 'global-config', 'auth', 'audit', 'config-resolver'],
      loadCore,
      stage.clustered,
    );
    const gateway = await stage.start(['gateway'], loadCore, stage.clustered);
    const platform = await eventually(() => platformAdmin(gateway.url));
    const { id, admin } = await eventually(() => createTenant(gateway.url, platform, 'Bench'));
    await platform.put('/config/global/alerting_band', {
      config_value: { warn: 0.7, page: 0.9 },
      is_public: true,
    });
    await admin.put(`/tenants/${id}/config/agents/cost_optimizer`, {
      default_region: 'europe-west1',
      metrics_duration_minutes: 15,
    });
    await admin.put(`/tenants/${id}/services/checkout`, {
      service_type: 'cloud_run',
      min_instances: 1,
      max_instances: 5,
    });
    const again = await mergedAgain(rounds, platform, admin, id);
    const expected = await admin.get(
      `/tenants/${id}/config/effective?agent_type=cost_optimizer&service_id=checkout`,
    );

    const caller = await startProgram(
      'test/bench/peers/bus-caller.ts',
      [id, String(rounds), String(seconds * 50_000)],
      serverCore,
      {
        NATS_URL: stage.bus.url,
        SECRET_KEY: secretKey,
        NODE_ID: 'bus-caller',
        LOG_LEVEL: 'warn',
      },
    );
    // REST has the environment's fingerprint in the entity tag alone.
    const { environment: _environment, ...said } = JSON.parse(caller.said) as Record<
      string,
      unknown
    >;
    if (!isDeepStrictEqual(said, expected.body))
      throw new Error(`the bus answers ${caller.said}, REST ${expected.text}`);
    type Measurements = Pick<Comparison, 'strata' | 'baseline'>;
    const nextMeasurements = async () =>
      JSON.parse((await caller.lines.next()).value as string) as Measurements;
    const measured = await nextMeasurements();
    const ofDecisions = await nextMeasurements();
    await caller.stop();
    return {
      rows: [
        {
          what: 'effective configuration, six layers, warm, on the bus caller’s node',
          peer: 'one Map.get and one broker.call of a local no-op',
          unit: 'µs',
          goal: { atMost: 1.8 },
          ...measured,
        },
        {
          what: 'a decision, warm, on the bus caller’s node',
          peer: 'the effective configuration that it is made by, likewise',
          unit: 'µs',
          // It checks its question, is judged, and has an id; its peer gives one object again.
          goal: { atMost: 4 },
          ...ofDecisions,
        },
        {
          what: `${reads} reads over ${contexts} contexts after a platform write`,
          peer: 'the same reads, warm',
          unit: 'ms',
          goal: { atMost: 4 },
          ...again,
        },
      ],
    };
  } finally {
    await stage.stop();
  }
};
