/**
 * Tells a host that is slow from one that is gone. A request may take as long as it needs where
 * its host is alive; a host that takes connections and never answers, or a network that swallows
 * them, is noticed within seconds.
 */

/** From here on a request is slow. */
const slowAfterMs = 1000;
/** A node that is alive answers `/healthz` from memory, before all limits. */
const answersWithinMs = 1500;

/**
 * Calls `request` with a signal that aborts where neither the request nor, beside it, `/healthz` is
 * answered. Any answer counts, also that of a proxy, or a refusal: a node that shuts down takes no
 * connections and answers what it has.
 */
export async function whileAlive<T>(
  url: string,
  signal: AbortSignal,
  request: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const silent = new AbortController();
  const answered = new AbortController();
  const askWhetherAlive = async (): Promise<void> => {
    const tooLate = AbortSignal.timeout(answersWithinMs);
    try {
      const { body } = await fetch(`${url}/healthz`, {
        redirect: 'manual',
        signal: AbortSignal.any([signal, answered.signal, tooLate]),
      });
      await body?.cancel();
    } catch (error) {
      const isSilent = error === tooLate.reason && !answered.signal.aborted;
      if (isSilent) silent.abort(new Error('it answers nothing, not even /healthz'));
    }
  };
  const timer = setTimeout(() => void askWhetherAlive(), slowAfterMs);
  try {
    return await request(AbortSignal.any([signal, silent.signal]));
  } finally {
    clearTimeout(timer);
    answered.abort();
  }
}
