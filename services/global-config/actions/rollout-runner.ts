/**
 * Looks for rollouts whose turn it is, on every node of the service. It goes by what is stored: what
 * a node that is gone left undone, another does when its turn is over.
 */
import type { Logger } from 'pino';
import type { DataSource } from 'typeorm';
import {
  startBackgroundLoop,
  type BackgroundLoop,
} from '../../../shared/concurrency/background-loop.ts';
import { codeOf, isOutage } from '../../../shared/errors.ts';
import { rolloutsDue } from '../stores/rollout-runs.ts';

const pollMs = 1000;
/** After one that continued: its next stage may begin, too. */
const soonMs = 200;

export interface RunnerOptions {
  readonly db: DataSource;
  readonly log: Logger;
  readonly run: (rolloutId: string) => Promise<unknown>;
}

export function startRunningRollouts({ db, log, run }: RunnerOptions): BackgroundLoop {
  /** Whether it was this node's turn. */
  async function attempt(id: string): Promise<boolean> {
    try {
      await run(id);
      return true;
    } catch (error) {
      if (isOutage(error)) throw error;
      // Another node was first, or somebody changed it.
      const isUsual = codeOf(error) === 'conflict';
      log[isUsual ? 'debug' : 'warn']({ err: error, rollout_id: id }, 'a rollout did not continue');
      return false;
    }
  }
  return startBackgroundLoop({
    log,
    async look(stopping) {
      const due = stopping.aborted ? [] : await rolloutsDue(db.manager);
      // Together: gates of one that take their time keep no other waiting.
      const done = await Promise.allSettled(due.map(attempt));
      const failed = done.find(({ status }) => status === 'rejected');
      if (failed?.status === 'rejected') throw failed.reason;
      const hasRun = done.some((each) => each.status === 'fulfilled' && each.value);
      return hasRun ? soonMs : pollMs;
    },
    retryMs: pollMs,
    complaint: 'rollouts cannot be run; it is tried again',
    firstMs: pollMs,
  });
}
