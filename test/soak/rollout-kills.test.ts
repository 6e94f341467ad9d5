/** The processes that run rollouts and change sets are killed at each of their steps. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { ServerResponse } from 'node:http';
import { eventually, killed } from '../support/cluster.ts';
import {
  begun,
  cluster,
  gateAt,
  good,
  lookSoon,
  says,
  startGated,
  stopGated,
  webhook,
  type Started,
} from '../support/gated-rollouts.ts';
import { holdLock } from '../support/held-lock.ts';
import { fourEyes } from '../support/interleaved-changes.ts';
import type { Receiver } from '../support/receiver.ts';
import type { Answer } from '../support/strata.ts';

beforeAll(() => startGated());
afterAll(stopGated);

describe('killed', () => {
  let gate: Receiver;
  let answer: (response: ServerResponse) => void;
  beforeAll(async () => {
    gate = await gateAt((_n, response) => answer(response));
  });
  const silence = (): void => undefined;
  const pass = (response: ServerResponse): void => says('pass')(0, response);
  const atPercents = (): Promise<Started> =>
    begun([10, 50, 100].map((percent) => ({ percent, bake_minutes: 0, gate: [webhook(gate)] })));

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
  /** The turn of the nodes that are gone ends. */
  const endTurn = (id: string): Promise<unknown> =>
    cluster.database.query(
      'UPDATE global_config.rollout_runs SET due_at = clock_timestamp() WHERE rollout_id = $1',
      [id],
    );
  /** Neither leaves a stage out nor begins one twice. */
  const ended = (id: string): Promise<void> =>
    eventually(async () => {
      await lookSoon(id);
      expect(await steps(id)).toEqual(whole);
    }, 120_000);

  test('while a gate is asked', async () => {
    answer = silence;
    const asked = gate.received.length;
    const { id } = await atPercents();
    await gate.wait(() => true, asked + 1);
    answer = pass;
    await killConfigNodes();
    expect(await steps(id)).toEqual(whole.slice(0, 2));
    await endTurn(id);
    await ended(id);
  });

  test('within the transaction that advances', async () => {
    answer = silence;
    const { id } = await atPercents();
    await lookSoon(id);
    // The step's transaction waits for the row of the rollout.
    const lock = await holdLock(
      cluster.database,
      'SELECT FROM global_config.rollouts WHERE id = $1 FOR UPDATE',
      [id],
    );
    answer = pass;
    await lock.untilWaiting(1);
    await killConfigNodes();
    expect(await steps(id)).toEqual(whole.slice(0, 2));
    await lock.release();
    await endTurn(id);
    await ended(id);
  });

  test('once it is committed, before anybody is answered', async () => {
    answer = pass;
    const { id } = await atPercents();
    await eventually(async () => {
      await lookSoon(id);
      expect(await steps(id)).toContain('running 1');
    }, 60_000);
    await killConfigNodes();
    await ended(id);
  });

  describe('a change set', () => {
    let count = 0;
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

    test('as it is applied: all is written and nothing is committed, by hand and at its time', async () => {
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
    });

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
    });

    test('once it is applied, before anybody is answered', async () => {
      const timed = await scheduled();
      await cluster.database.query(
        `UPDATE tenant_config.change_sets SET due_at = clock_timestamp() WHERE id = $1`,
        [timed.id],
      );
      await eventually(async () => expect(await revisionsOf(timed)).toHaveLength(3), 60_000);
      await killConfigNodes();
      await expectApplied(timed);
    });
  });
});
