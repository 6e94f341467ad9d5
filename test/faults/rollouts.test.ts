/**
 * Killed at each step: whoever takes over a rollout neither leaves a stage out nor begins one
 * twice, and a change set is applied once, whole, or not at all.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { ServerResponse } from 'node:http';
import { eventually, killed, startCluster, type Cluster } from '../support/cluster.ts';
import { holdLock } from '../support/held-lock.ts';
import { fourEyes } from '../support/interleaved-changes.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import type { Answer } from '../support/strata.ts';

let cluster: Cluster;
let gate: Receiver;
let answer: (response: ServerResponse) => void;
const pass = (response: ServerResponse): void => {
  response.writeHead(200).end('{"result":"pass"}');
};

beforeAll(async () => {
  gate = await startReceiver((_n, response) => answer(response));
  cluster = await startCluster({
    gateways: 1,
    environment: { WEBHOOK_ALLOW_HTTP: 'true', WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8' },
  });
});
afterAll(async () => {
  await cluster?.stop();
  await gate?.close();
});

const good = (given: Answer): Answer => {
  if (given.status >= 300) throw new Error(`${given.status} ${given.text}`);
  return given;
};
const percents = [10, 50, 100];
let count = 0;
async function begun(): Promise<string> {
  const { platform } = cluster;
  count += 1;
  const path = `/config/global/killed-${count}`;
  good(await platform.put(path, { config_value: 1, is_public: true }));
  const items = [{ action: 'put', path, body: { config_value: 2, is_public: true } }];
  const { digest } = good(await platform.post('/config/plan', { items })).body;
  const stages = percents.map((percent) => ({
    percent,
    bake_minutes: 0,
    gate: [{ type: 'webhook', url: gate.url, secret: 'of the gate' }],
  }));
  const body = { title: 'Killed', reason: 'It is time', items, digest, stages };
  const { id } = good(await platform.post('/config/rollouts', body)).body;
  good(await platform.post(`/config/rollouts/${id}/advance`, { stage: null }));
  return id;
}
/** Each write of the rollout, as the history has it. */
const steps = async (id: string): Promise<string[]> => {
  const rows = await cluster.database.query<{ step: string }>(
    `SELECT concat_ws(' ', after->>'state', after->>'stage') AS step
     FROM global_config.configuration_history WHERE resource_id = $1 ORDER BY revision`,
    [id],
  );
  return rows.map(({ step }) => step);
};
const whole = ['planned', 'running 0', 'running 1', 'running 2', 'completed 2'];

/** Both, since either may be the one that asks. */
async function killConfigNodes(): Promise<void> {
  const nodes = cluster.services.slice(0, 2);
  await Promise.all(nodes.map((node) => killed(node)));
  await Promise.all(nodes.map((node) => cluster.revive(node)));
}
const ended = (id: string): Promise<void> =>
  eventually(async () => expect(await steps(id)).toEqual(whole), 240_000);

test('killed while a gate is asked', async () => {
  answer = () => undefined;
  const asked = gate.received.length;
  const id = await begun();
  await gate.wait(() => true, asked + 1);
  answer = pass;
  await killConfigNodes();
  expect(await steps(id)).toEqual(whole.slice(0, 2));
  await ended(id);
}, 400_000);

test('killed within the transaction that advances', async () => {
  answer = () => undefined;
  const id = await begun();
  // The step's transaction waits for the row of its turn, which it writes first.
  answer = pass;
  const lock = await holdLock(
    cluster.database,
    'SELECT FROM global_config.rollouts WHERE id = $1 FOR UPDATE',
    [id],
  );
  await lock.untilWaiting(1);
  await killConfigNodes();
  expect(await steps(id)).toEqual(whole.slice(0, 2));
  await lock.release();
  await ended(id);
}, 400_000);

test('killed once it is committed, before anybody is answered', async () => {
  answer = pass;
  const id = await begun();
  await eventually(async () => expect(await steps(id)).toContain('running 1'), 60_000);
  await killConfigNodes();
  await ended(id);
}, 400_000);

describe('a change set, killed', () => {
  let people: Awaited<ReturnType<typeof fourEyes>>;
  beforeAll(async () => {
    people = await fourEyes(cluster);
  });
  const base = (): string => `/tenants/${people.tenantId}/config/changesets`;

  /** Submitted, with three writes. */
  async function submitted(apply: unknown): Promise<{ id: string; digest: string }> {
    count += 1;
    const items = ['one', 'two', 'three'].map((name) => ({
      action: 'put',
      path: `/tenants/${people.tenantId}/projects/killed-${count}-${name}/config`,
      body: { labels: { name } },
    }));
    const body = { title: 'Killed', reason: 'It is time', items, apply };
    const { id } = good(await people.ada.post(base(), body)).body;
    return good(await people.ada.post(`${base()}/${id}/submit`)).body;
  }
  const approve = ({ id, digest }: { id: string; digest: string }): Promise<Answer> =>
    people.dora.post(`${base()}/${id}/approve`, { digest });
  const apply = ({ id }: { id: string }): Promise<Answer> =>
    people.ada.post(`${base()}/${id}/apply`);
  const stateOf = async ({ id }: { id: string }): Promise<string> =>
    good(await people.ada.get(`${base()}/${id}`)).body.state;
  const revisionsOf = async ({ id }: { id: string }): Promise<number[]> => {
    const rows = await cluster.database.query<{ revision: number }>(
      `SELECT revision::int AS revision FROM tenant_config.configuration_history
       WHERE changeset_id = $1 ORDER BY revision`,
      [id],
    );
    return rows.map(({ revision }) => revision);
  };
  const expectApplied = (set: { id: string }): Promise<void> =>
    eventually(async () => {
      expect(await stateOf(set)).toBe('applied');
      const revisions = await revisionsOf(set);
      expect(revisions).toEqual([0, 1, 2].map((n) => revisions[0]! + n));
    }, 60_000);
  const scheduled = async (): Promise<{ id: string; digest: string }> => {
    const set = await submitted({ at: new Date(Date.now() + 3600_000).toISOString() });
    good(await approve(set));
    return set;
  };

  test('once all is written and nothing is committed, by hand and at its time', async () => {
    const byHand = await submitted('manual');
    good(await approve(byHand));
    const timed = await scheduled();
    // The audit events of a transaction are its last rows.
    const lock = await holdLock(
      cluster.database,
      'LOCK TABLE strata.outbox IN SHARE ROW EXCLUSIVE MODE',
    );
    await cluster.database.query(
      `UPDATE tenant_config.change_sets SET due_at = clock_timestamp() WHERE id = $1`,
      [timed.id],
    );
    const unanswered = apply(byHand).catch(() => undefined);
    await eventually(async () => {
      const waiting = await cluster.database.query(
        `SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%strata.outbox%'
           AND cardinality(pg_blocking_pids(pid)) > 0`,
      );
      expect(waiting.length).toBeGreaterThan(0);
    });
    await killConfigNodes();
    await unanswered;
    await lock.release();
    await expectApplied(timed);
    if ((await stateOf(byHand)) === 'approved') {
      expect(await revisionsOf(byHand)).toEqual([]);
      good(await apply(byHand));
    }
    await expectApplied(byHand);
    expect((await apply(byHand)).status).toBe(409);
  }, 400_000);

  test('between its approval and its writes', async () => {
    const set = await submitted('on_approval');
    const lock = await holdLock(
      cluster.database,
      'SELECT FROM strata.revisions WHERE scope = $1 FOR UPDATE',
      [`tenant:${people.tenantId}`],
    );
    const unanswered = approve(set).catch(() => undefined);
    await eventually(async () => expect(await stateOf(set)).toBe('scheduled'));
    await killConfigNodes();
    await unanswered;
    expect(await revisionsOf(set)).toEqual([]);
    await lock.release();
    // Nobody asks for it again.
    await expectApplied(set);
  }, 400_000);

  test('once it is committed, before anybody is answered', async () => {
    const timed = await scheduled();
    await cluster.database.query(
      `UPDATE tenant_config.change_sets SET due_at = clock_timestamp() WHERE id = $1`,
      [timed.id],
    );
    await eventually(async () => expect(await revisionsOf(timed)).toHaveLength(3), 60_000);
    await killConfigNodes();
    await expectApplied(timed);
  }, 400_000);
});
