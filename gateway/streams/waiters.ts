/**
 * Of many requests that want the same at the same moment, one asks for it, and the others follow:
 * they wait for it, and then continue by themselves, whatever has become of it.
 */
export interface Waiters {
  /**
   * Whether another asks already: then `next` is called once that has ended, or has taken too long.
   * Else the caller is to ask.
   */
  readonly follow: (name: string, next: () => void) => boolean;
  /** Whoever asked for this has ended. */
  readonly release: (name: string) => void;
}

export function createWaiters(patienceMs: number): Waiters {
  /** There is a list for everything that somebody asks for. */
  const waiting = new Map<string, (() => void)[]>();

  function release(name: string): void {
    const others = waiting.get(name);
    waiting.delete(name);
    for (const next of others ?? []) next();
  }

  return {
    follow(name, next) {
      const others = waiting.get(name);
      if (others) {
        others.push(next);
        return true;
      }
      const own: (() => void)[] = [];
      waiting.set(name, own);
      setTimeout(() => {
        if (waiting.get(name) === own) release(name);
      }, patienceMs).unref();
      return false;
    },
    release,
  };
}
