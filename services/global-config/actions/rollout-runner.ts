/**
 * Looks for rollouts whose turn it is, on every node of the service. It goes by what is stored: what
 * a node that is gone left undone, another does when its turn is over.
 */
import {
  startBackgroundLoop,
  type BackgroundLoop,
} from '../../../shared/concurrency/background-loop.ts';
import { codeOf } from '../../../shared/errors.ts';
import type { ServiceOptions } from '../../../shared/contract-runtime/service.ts';
import { rolloutsDue } from '../stores/rollout-runs.ts';

const pollMs = 1000;

export interface RunnerOptions extends Pick<ServiceOptions, 'db' | 'log'> {
  readonly run: (rolloutId: string) => Promise<unknown>;
}

export function startRunningRollouts({ db, log, run }: RunnerOptions): BackgroundLoop {
  /** Runs on their way, by rollout. No look waits for them: gates may take seconds to answer. */
  const running = new Map<string, Promise<void>>();

  async function attempt(id: string): Promise<void> {
    try {
      await run(id);
    } catch (error) {
      // Another node was first, or somebody changed it.
      const isUsual = codeOf(error) === 'conflict';
      log[isUsual ? 'debug' : 'warn']({ err: error, rollout_id: id }, 'a rollout did not continue');
    } finally {
      running.delete(id);
    }
  }

  const loop = startBackgroundLoop({
    log,
    async look(stopping) {
      const due = await rolloutsDue(db);
      if (stopping.aborted) return pollMs;
      for (const id of due) if (!running.has(id)) running.set(id, attempt(id));
      return pollMs;
    },
    retryMs: pollMs,
    complaint: 'rollouts cannot be run; it is tried again',
    firstMs: pollMs,
  });
  return {
    wake: loop.wake,
    async stop() {
      await loop.stop();
      await Promise.all(running.values());
    },
  };
}
