/**
 * Lists of the API that may be long: page by page as somebody continues, or all of them once somebody
 * looks for something.
 */
import { useEffect, useState } from 'preact/hooks';
import { get, problemOf, withQuery, type Page, type Problem } from './api.ts';
import { recoveries } from './outage.ts';

interface Shown<T> {
  readonly items: readonly T[];
  readonly isComplete: boolean;
}
const nothing: Shown<never> = { items: [], isComplete: false };

interface State<T> {
  /**
   * What these pages are of: an address, and how often it was asked for again, by somebody or after
   * an outage.
   */
  readonly key: string;
  readonly address: string;
  readonly items: readonly T[];
  /** What is shown: what there was, until as much is read again, so that no row jumps away. */
  readonly shown: Shown<T>;
  readonly pages: number;
  readonly cursor: string | null;
  readonly problem: Problem | undefined;
}

export interface Pages<T> {
  /**
   * Undefined until the first page is there; what was answered before, while another address is
   * asked.
   */
  readonly items: readonly T[] | undefined;
  readonly isComplete: boolean;
  readonly problem: Problem | undefined;
  readonly more: () => void;
  readonly reload: () => void;
}

/** A tab keeps no more than this of one list. */
const mostItems = 50_000;
const pageSize = '200';

/** `wantsAll` continues to the end by itself. */
export function usePages<T>(address: string, wantsAll = false): Pages<T> {
  const [round, setRound] = useState(0);
  const [wanted, setWanted] = useState(1);
  const [state, setState] = useState<State<T>>();
  const key = `${address} ${round} ${recoveries.value}`;
  const isCurrent = state?.key === key;
  const cursor = isCurrent ? state.cursor : undefined;
  const mayGoOn = isCurrent && cursor !== null && !state.problem && state.items.length < mostItems;
  const isNeeded = !isCurrent || (mayGoOn && (wantsAll || state.pages < wanted));
  useEffect(() => {
    if (!isNeeded) return undefined;
    const controller = new AbortController();
    const { signal } = controller;
    const path = withQuery(address, { limit: pageSize, cursor: cursor ?? undefined });
    const begun: Omit<State<T>, 'shown'> = isCurrent
      ? state
      : { key, address, items: [], pages: 0, cursor: null, problem: undefined };
    // What is shown when the answer comes: the last page of the round before may come meanwhile.
    const shownOf = (latest: State<T> | undefined): Shown<T> =>
      latest?.address === address ? latest.shown : nothing;
    get<Page<T>>(path, signal).then(
      (page) => {
        if (signal.aborted) return;
        const items = [...begun.items, ...page.items];
        const pages = begun.pages + 1;
        const isComplete = page.next_cursor === null;
        const isLast = isComplete || !(wantsAll || pages < wanted);
        setState((latest) => {
          const before = shownOf(latest);
          const isEnough = isLast || items.length > before.items.length;
          const shown = isEnough ? { items, isComplete } : before;
          return { ...begun, items, shown, pages, cursor: page.next_cursor };
        });
      },
      (error: unknown) => {
        if (signal.aborted) return;
        const problem = problemOf(error);
        setState((latest) => ({ ...begun, shown: shownOf(latest), problem }));
      },
    );
    return () => controller.abort();
  }, [key, cursor, isNeeded]);
  return {
    items: state && state.pages > 0 ? state.shown.items : undefined,
    isComplete: state?.address === address && state.shown.isComplete,
    problem: state?.problem,
    more: () => setWanted((pages) => pages + 1),
    reload: () => setRound((times) => times + 1),
  };
}

/** As many rows as a browser lays out at once without a pause that somebody feels. */
const rowsAtOnce = 200;

/** The rows that are shown of what was found in a list; `showMore` where there may be others. */
export function useRows<T>(
  found: readonly T[] | undefined,
  { isComplete, more }: Pick<Pages<T>, 'isComplete' | 'more'>,
) {
  const [most, setMost] = useState(rowsAtOnce);
  const showMore = (): void => {
    setMost(most + rowsAtOnce);
    more();
  };
  const hasMore = found !== undefined && (found.length > most || !isComplete);
  return { rows: found?.slice(0, most), ...(hasMore && { showMore }) };
}

/** Such as "200 of 1,340 and more". */
export function countOf(shown: number, loaded: number, isComplete: boolean): string {
  const all = `${loaded}${isComplete ? '' : ' and more'}`;
  return shown === loaded ? all : `${shown} of ${all}`;
}
