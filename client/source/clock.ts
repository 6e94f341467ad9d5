/**
 * A moment by both clocks: the monotonic one may stand still while a machine sleeps, the wall's may
 * be set back.
 */
export interface Instant {
  readonly monotonic: number;
  readonly wall: number;
}

export const now = (): Instant => ({ monotonic: performance.now(), wall: Date.now() });

/** An age that neither clock alone makes too young. */
export const sinceMs = ({ monotonic, wall }: Instant): number =>
  Math.max(performance.now() - monotonic, Date.now() - wall, 0);

/**
 * Calls `end` once the signal is aborted, at once where it is already. Returns what takes that
 * back.
 */
export function whenAborted(signal: AbortSignal, end: () => void): () => void {
  if (signal.aborted) end();
  signal.addEventListener('abort', end);
  return () => signal.removeEventListener('abort', end);
}

/** What a timer takes: one of a longer time, or of none that ends, would fire at once. */
export const timerMs = (ms: number): number => Math.min(ms, 2 ** 31 - 1);

/** Waits. A signal ends it early, without an error. */
export const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const finish = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', finish);
      resolve();
    };
    const timer = setTimeout(finish, timerMs(ms));
    whenAborted(signal, finish);
  });
