/**
 * Long lists: the beginning at once, the rest a piece at a time, so that the page answers keys
 * between two pieces.
 */
import { useEffect, useState } from 'preact/hooks';

/** What fills a window, and what a browser lays out without a pause that somebody feels. */
const atFirst = 100;
const atATime = 200;

interface Grown {
  readonly of: unknown;
  readonly count: number;
}

/**
 * How many of `total` to show now. Begins again with another `of`, such as what a filter asks for.
 */
export function useGrowing(of: unknown, total: number): number {
  const [grown, setGrown] = useState<Grown>({ of, count: atFirst });
  const count = grown.of === of ? grown.count : atFirst;
  const isMore = count < total;
  useEffect(() => {
    if (!isMore) return undefined;
    const timer = setTimeout(() => setGrown({ of, count: count + atATime }));
    return () => clearTimeout(timer);
  }, [of, count, isMore]);
  return Math.min(count, total);
}
