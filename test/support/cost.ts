/**
 * What work costs, in processor time of this process, for tests that hold a cost linear and not a
 * duration.
 */
import { performance } from 'node:perf_hooks';

/**
 * A piece of work to measure is repeated until it has taken this long, so that the clock's steps do
 * not matter.
 */
const leastMs = 10;
const rounds = 5;

type Work = () => void;

/**
 * Processor time of one run of each piece of work in microseconds, the least of several rounds.
 * They are measured by turns, so that what the machine does besides falls on all of them.
 */
export function costsOf(...works: readonly Work[]): number[] {
  const repetitions = works.map(repetitionsOf);
  const costs = works.map(() => Infinity);
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, work] of works.entries())
      costs[index] = Math.min(costs[index]!, oneRound(work, repetitions[index]!));
  }
  return costs;
}

function repetitionsOf(work: Work): number {
  const began = performance.now();
  work();
  const ms = performance.now() - began;
  return Math.max(1, Math.ceil(leastMs / ms));
}

function oneRound(work: Work, repetitions: number): number {
  const before = process.cpuUsage();
  for (let run = 0; run < repetitions; run += 1) work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / repetitions;
}

/**
 * Four times the input costs 4 times as much where work is linear and 16 times where it is
 * quadratic: between the two there is room for processors whose caches the larger input outgrows.
 */
export const mostGrowth = 8;

/**
 * How many times as much the work costs on four times the input, see `mostGrowth`. The least of several looks counts, and the first that is at most `enough`:
 * what other processes do to the processor's caches makes the larger work look dear for a while,
 * and never cheap.
 */
export function growth(size: number, workOn: (size: number) => Work, enough = mostGrowth): number {
  const works = [workOn(size), workOn(4 * size)] as const;
  const repetitions = works.map(repetitionsOf);
  let least = Infinity;
  for (let look = 0; look < 10 && least > enough; look += 1)
    least = Math.min(least, growthSeen(works, repetitions));
  return least;
}

/**
 * Rounds are compared in pairs, and the lower quartile counts: a collection of garbage falls on the
 * larger work more often.
 */
function growthSeen(works: readonly Work[], repetitions: readonly number[]): number {
  const ratios = Array.from({ length: rounds }, () => {
    const [small, large] = works.map((work, index) => oneRound(work, repetitions[index]!));
    return large! / small!;
  });
  ratios.sort((a, b) => a - b);
  return ratios[Math.floor(ratios.length / 4)]!;
}

/**
 * Processor time of one run in microseconds, the lesser of two: a quick look. One run is enough
 * where it costs less than `enough`.
 */
export function quickCost(work: Work, enough = 0): number {
  const first = oneRound(work, 1);
  const least = first < enough ? first : Math.min(first, oneRound(work, 1));
  return Math.max(1, least);
}
