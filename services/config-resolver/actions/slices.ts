/** Long work of one process, in slices between which its other work comes first. */
import { performance } from 'node:perf_hooks';
import { setImmediate as turn } from 'node:timers/promises';

/** Other work of the process waits little longer than this: 20 ms with what was begun last. */
const sliceMs = 5;

/** Says when this has worked long enough at a stretch. */
export class Slices {
  #began = performance.now();
  isOver(): boolean {
    return performance.now() - this.#began > sliceMs;
  }
  async breathe(): Promise<void> {
    await turn();
    this.#began = performance.now();
  }
}
