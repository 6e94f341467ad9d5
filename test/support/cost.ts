/** What work costs, in processor time of this process, for tests that hold a cost linear and not a duration. */
import { performance } from 'node:perf_hooks';

/** A piece of work to measure is repeated until it has taken this long, so that the clock's steps do not matter. */
const leastMs = 20;
const rounds = 5;

/** Processor time of one run in microseconds, the least of several rounds. */
export function costOf(work: () => void): number {
  const repetitions = repetitionsOf(work);
  let least = Infinity;
  for (let round = 0; round < rounds; round += 1) {
    const before = process.cpuUsage();
    for (let run = 0; run < repetitions; run += 1) work();
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, (user + system) / repetitions);
  }
  return least;
}

function repetitionsOf(work: () => void): number {
  const began = performance.now();
  work();
  const ms = performance.now() - began;
  return Math.max(1, Math.ceil(leastMs / ms));
}

/** How many times as much the work costs on four times the input; about 4 where it is linear, 16 where it is quadratic. */
export function growth(size: number, workOn: (size: number) => () => void): number {
  const small = costOf(workOn(size));
  const large = costOf(workOn(4 * size));
  return large / small;
}
