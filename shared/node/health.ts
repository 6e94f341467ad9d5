/**
 * Whether the parts that this node itself needs answer. Anybody may ask for it, as often as they
 * like, so a part is asked at most so often, once at a time, and nobody waits long.
 */
import { within } from '../concurrency/within.ts';

/**
 * How long an answer is given again, in milliseconds: a good one, and one that something is away.
 */
const goodForMs = 1000;
const badForMs = 250;
/**
 * A part that takes longer does not answer. Those who look after nodes often wait a second, and a
 * gateway asks others in it.
 */
const patienceMs = 500;

/** Resolves to whether a part answers. Does not reject. */
export type Probe = () => Promise<boolean>;

/**
 * The answer of `ask`, shared by all who want it at the same time or soon after. `ask` must not
 * reject.
 */
export function shareAnswer<T>(ask: () => Promise<T>, isGood: (answer: T) => boolean) {
  let running: Promise<T> | undefined;
  let latest: { readonly answer: T; readonly until: number } | undefined;

  async function askAgain(): Promise<T> {
    const answer = await ask();
    const keptMs = isGood(answer) ? goodForMs : badForMs;
    latest = { answer, until: performance.now() + keptMs };
    running = undefined;
    return answer;
  }

  return async (): Promise<T> => {
    if (latest && performance.now() < latest.until) return latest.answer;
    running ??= askAgain();
    return running;
  };
}

/**
 * As `probe`, and false while it takes longer than anybody waits. It is not asked again before it
 * has answered.
 */
export function boundedProbe(probe: Probe): Probe {
  const shared = shareAnswer(probe, Boolean);
  return () => within(patienceMs, shared()).catch(() => false);
}
