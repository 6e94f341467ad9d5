/**
 * A wait that ends when its time is up or as soon as somebody wakes it: the pause of a loop that
 * looks for work at intervals and is also told when there is some.
 *
 * A wake-up that comes while nobody waits is kept and ends the next wait at once. Without that,
 * work announced while the loop is busy would lie until the interval is over. Several such wake-ups
 * count as one.
 */
export class WakeableWait {
  #woken = false;
  #endWait: (() => void) | undefined;

  wake(): void {
    this.#woken = true;
    this.#endWait?.();
  }

  /**
   * Waits at most `ms` milliseconds, not at all where they are negative. Resolves to whether it was
   * woken. Only one caller may wait at a time.
   */
  wait(ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#endWait?.(), Math.max(0, ms));
      this.#endWait = () => {
        clearTimeout(timer);
        this.#endWait = undefined;
        const woken = this.#woken;
        this.#woken = false;
        resolve(woken);
      };
      if (this.#woken) this.#endWait();
    });
  }
}
