/**
 * A rollout over thousands of tenants while nodes are killed, paused and cut off: readers on three
 * nodes, each with a memory of its own, ask all the while, and every answer is judged. A tenant has
 * the base or the candidate whole, has the candidate once a stage with it is answered and not before
 * one begins, and never goes back.
 */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { percentileOf } from '../../shared/rollouts/side.ts';
import { eventually, type Cluster } from './cluster.ts';
import { faults, fenceMs, requestTimeoutMs } from './faults.ts';
import { Client, startProgram, type Running } from './strata.ts';

const readersOfNode = 8;
/** Those whose database goes back to an older state take tenants back with it. */
const borne = faults.filter(({ long, name }) => !long && !/restored/.test(name));

export interface RolledOut {
  readonly tenants: number;
  readonly stages: number;
  readonly reads: number;
  /** Marked, so that they may be old. */
  readonly stale: number;
  readonly errors: number;
  readonly seconds: number;
}

const tenantId = (index: number): string =>
  `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`;

async function insertTenants({ database: { query } }: Cluster, count: number): Promise<void> {
  await query(
    `INSERT INTO tenant_config.tenants
     SELECT ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'Tenant ' || n, 'active', now(), now(), NULL, 0, 'seed', now()
     FROM generate_series(0, $1::int - 1) n`,
    [count],
  );
  // Without limits it would be no tenant.
  await query(
    `INSERT INTO tenant_config.tenant_risk_configurations (tenant_id, id, document, revision, updated_by, updated_at)
     SELECT id, id, json_build_object('global_settings', json_build_object(
       'max_cost_impact_auto', 10, 'max_cost_impact_approval', 40, 'max_resource_scaling', 2, 'approval_timeout_minutes', 30,
       'require_approval_for_high_risk', true, 'auto_approve_rollbacks', true, 'automation_enabled', true,
       'business_hours_only', false, 'max_concurrent_automations', 10), 'service_overrides', json_build_object()), 1, 'seed', now()
     FROM tenant_config.tenants WHERE id::text LIKE '00000000-0000-4000-8000-%'`,
  );
  await query(
    `INSERT INTO strata.revisions (scope, revision)
     SELECT 'tenant:00000000-0000-4000-8000-' || lpad(n::text, 12, '0'), 1 FROM generate_series(0, $1::int - 1) n`,
    [count],
  );
}

/** What is known of the stages, in percent. */
interface Progress {
  /** Whose beginning was asked for. */
  begun: number;
  /** Whose beginning was answered, and when, by performance.now(). */
  answered: { readonly percent: number; readonly at: number }[];
  isOver: boolean;
}

class Readers {
  readonly #progress: Progress;
  readonly #percentiles: readonly number[];
  /** When the first answer with the candidate had come, by tenant. */
  readonly #movedAt: Float64Array;
  reads = 0;
  stale = 0;
  errors = 0;
  wrong: string[] = [];
  /** Of the last read that was no answer. */
  error: unknown;

  constructor(progress: Progress, salt: string, count: number) {
    this.#progress = progress;
    this.#percentiles = Array.from({ length: count }, (_none, index) =>
      percentileOf(salt, tenantId(index)),
    );
    this.#movedAt = new Float64Array(count).fill(Infinity);
  }

  /** Each reader of a node has its part of the tenants, over and over. */
  run(node: Running): Promise<unknown> {
    return Promise.all(
      Array.from({ length: readersOfNode }, async (_none, part) => {
        for (let index = part; !this.#progress.isOver; index += readersOfNode)
          await this.read(node, index % this.#percentiles.length);
      }),
    );
  }

  async read(node: Running, index: number): Promise<'answered' | 'stale' | 'failed'> {
    const params = JSON.stringify({ tenant_id: tenantId(index) });
    const query = new URLSearchParams({ action: 'config-resolver.resolve', params });
    const began = performance.now();
    const mustHave = this.#progress.answered
      .filter(({ at }) => at < began)
      .reduce((most, { percent }) => Math.max(most, percent), 0);
    const movedBefore = this.#movedAt[index]! < began;
    try {
      const response = await fetch(`${node.url}/?${query.toString()}`);
      const body = (await response.json()) as { values: { left: number; right: number } };
      if (response.status !== 200) throw new Error(`${response.status} ${JSON.stringify(body)}`);
      if (response.headers.get('x-config-stale') === 'true') {
        this.stale += 1;
        return 'stale';
      }
      this.reads += 1;
      this.#evaluate(index, body.values, { mustHave, movedBefore });
      return 'answered';
    } catch (error) {
      this.errors += 1;
      this.error = error;
      await delay(20);
      return 'failed';
    }
  }

  #evaluate(
    index: number,
    { left, right }: { readonly left: number; readonly right: number },
    { mustHave, movedBefore }: { readonly mustHave: number; readonly movedBefore: boolean },
  ): void {
    const percentile = this.#percentiles[index]!;
    const wrong = (what: string): void =>
      void this.wrong.push(`${tenantId(index)} at ${percentile.toFixed(2)} %: ${what}`);
    if (left !== right) return wrong(`has ${left} and ${right}`);
    const hasIt = left === 2;
    if (hasIt && percentile >= this.#progress.begun) wrong(`has it, at ${this.#progress.begun} %`);
    if (!hasIt && percentile < mustHave) wrong(`lacks it, though ${mustHave} % are answered`);
    if (!hasIt && movedBefore) wrong('went back');
    if (hasIt) this.#movedAt[index] = Math.min(this.#movedAt[index]!, performance.now());
    return undefined;
  }
}

const good = ({ status, text, body }: Awaited<ReturnType<Client['get']>>) => {
  assert(status < 300, text);
  return body;
};

async function planned(
  platform: Client,
): Promise<{ id: string; salt: string; percents: number[] }> {
  const keys = ['left', 'right'];
  for (const key of keys)
    good(await platform.put(`/config/global/${key}`, { config_value: 1, is_public: true }));
  const items = keys.map((key) => ({
    action: 'put',
    path: `/config/global/${key}`,
    body: { config_value: 2, is_public: true },
  }));
  const plan = { items, limit: 1 };
  let looked = good(await platform.post('/config/plan', plan));
  while (!looked.complete) {
    const { next_cursor: cursor } = looked.impact;
    looked = good(await platform.post('/config/plan', { ...plan, cursor }));
  }
  const { digest } = looked;
  const percents = borne.map((_fault, index) => Math.ceil((100 * (index + 1)) / borne.length));
  const stages = percents.map((percent) => ({
    percent,
    bake_minutes: 0,
    gate: [{ type: 'manual' }],
  }));
  const body = { title: 'Under faults', reason: 'It is time', items, digest, stages };
  const { id, salt } = good(await platform.post('/config/rollouts', body));
  return { id, salt, percents };
}

export async function rollOutUnderFaults(cluster: Cluster, count: number): Promise<RolledOut> {
  const began = performance.now();
  await insertTenants(cluster, count);
  const nodes = [...cluster.platformServices];
  for (const name of ['reader-2', 'reader-3'])
    nodes.push(
      await startProgram('test/support/platform-service.ts', {
        ...cluster.environment,
        NODE_ID: name,
      }),
    );
  const { token } = cluster.platform;
  const platform = (): Client => new Client(cluster.gateways[0]!.url, token);
  const { id, salt, percents } = await planned(platform());
  const progress: Progress = { begun: 0, answered: [], isOver: false };
  const readers = new Readers(progress, salt, count);
  const reading = Promise.all(nodes.map((node) => readers.run(node)));
  const stageOf = async (): Promise<number | null> =>
    good(await platform().get(`/config/rollouts/${id}`)).stage;
  /** Also where an answer is lost: then it holds once every node must have noticed. */
  const advance = async (index: number, percent: number): Promise<void> => {
    progress.begun = Math.max(progress.begun, percent);
    const body = { stage: index === 0 ? null : index - 1 };
    await eventually(async () => {
      const { status } = await platform().post(`/config/rollouts/${id}/advance`, body);
      if (status >= 300) {
        assert.equal(await stageOf(), index);
        await delay(2 * (fenceMs + requestTimeoutMs));
      }
    }, 120_000);
    progress.answered.push({ percent, at: performance.now() });
  };
  const gateways = cluster.gateways.length;
  try {
    for (const [index, fault] of borne.entries()) {
      const injecting = fault.inject(cluster);
      injecting.catch(() => undefined);
      await delay(1000);
      await advance(index, percents[index]!);
      await injecting;
      await Promise.all(cluster.gateways.splice(gateways).map((joined) => joined.stop()));
      assert.deepEqual(readers.wrong.slice(0, 5), [], fault.name);
    }
    const last = { stage: percents.length - 1 };
    await eventually(async () => {
      const answer = await platform().post(`/config/rollouts/${id}/advance`, last);
      if (answer.status >= 300)
        assert.equal(good(await platform().get(`/config/rollouts/${id}`)).state, 'completed');
    }, 60_000);
    progress.isOver = true;
    await reading;
    // Of every tenant, on every node, once more.
    for (const node of nodes)
      for (let index = 0; index < count; index += 1)
        await eventually(async () => {
          const became = await readers.read(node, index);
          assert.equal(became, 'answered', `${tenantId(index)}: ${String(readers.error)}`);
        });
    assert.deepEqual(readers.wrong.slice(0, 5), []);
  } finally {
    progress.isOver = true;
    await reading;
    await Promise.all(nodes.slice(1).map((node) => node.stop('SIGKILL')));
  }
  const { reads, stale, errors } = readers;
  const seconds = Math.round((performance.now() - began) / 1000);
  return { tenants: count, stages: percents.length, reads, stale, errors, seconds };
}
