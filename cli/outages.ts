/** What waits for something continues through an outage, such as a restart of the gateway. */
import { setTimeout as delay } from 'node:timers/promises';
import { errorTable } from '../shared/contracts/error-codes.ts';
import { Failed } from './session.ts';

const againMs = 1000;

const errors = new Map<string, { readonly status: number }>(Object.entries(errorTable));

/** Nothing answered, or only that it cannot now, or a proxy that reaches no gateway. */
function isOutage({ code }: Failed): boolean {
  return (
    ['unreachable', 'timeout', 'rate_limited'].includes(code) ||
    /^http_50[234]$/.test(code) ||
    errors.get(code)?.status === 503
  );
}

/** Asks again in an outage, until then or until the signal aborts. */
export async function throughOutages<T>(
  ask: () => Promise<T>,
  { until = Infinity, signal }: { readonly until?: number; readonly signal: AbortSignal },
): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      const isOver = signal.aborted || Date.now() >= until;
      if (isOver || !(error instanceof Failed && isOutage(error))) throw error;
      await delay(againMs, undefined, { signal }).catch(() => {});
    }
  }
}
