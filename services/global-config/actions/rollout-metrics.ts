/** Figures of rollouts: what is open, who waits for somebody, and what gates answer. */
import type { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import {
  gateResults,
  type GateAnswer,
  type GateResult,
} from '../../../shared/contracts/rollout-gates.ts';
import { askedOfDatabase, addMetric } from '../../../shared/telemetry/metric.ts';
import { openRollouts } from '../stores/rollout-runs.ts';

/** What gates answered on this node. */
export class GateAnswers {
  readonly counts: Record<GateResult, number> = { pass: 0, wait: 0, fail: 0 };
  readonly count = (answers: readonly GateAnswer[]): void => {
    for (const { result } of answers) this.counts[result] += 1;
  };
}

export function showRollouts(metrics: Registry, db: DataSource, { counts }: GateAnswers): void {
  const open = askedOfDatabase(() => openRollouts(db.manager));
  addMetric(metrics, {
    name: 'strata_rollouts',
    help: 'Rollouts that have not ended, by state',
    labelNames: ['state'],
    async read() {
      const rows = await open();
      const states = ['planned', 'running', 'held'];
      return rows?.length === undefined
        ? undefined
        : states.map((state) => ({
            labels: { state },
            value: rows.find((row) => row.state === state)?.count ?? 0,
          }));
    },
  });
  addMetric(metrics, {
    name: 'strata_rollouts_held_seconds',
    help: 'For how long the rollout that is held longest has been so',
    async read() {
      const rows = await open();
      return rows && (rows.find(({ state }) => state === 'held')?.oldest ?? 0);
    },
  });
  addMetric(metrics, {
    name: 'strata_rollout_gate_answers_total',
    help: 'What gates of rollouts answered this node, by result',
    labelNames: ['result'],
    read: () => gateResults.map((result) => ({ labels: { result }, value: counts[result] })),
  });
}
