/** What a screen shows while it waits, and when the answer comes or does not. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { tenantShown } from './address.ts';
import { get, getAll, problemOf, type Problem } from './api.ts';
import { approvals, changes, followApprovals, type Received, type LiveChange } from './live.ts';
import { recoveries } from './outage.ts';

export interface Loaded<T> {
  /** The latest answer, kept while it is asked for again. */
  readonly data: T | undefined;
  readonly problem: Problem | undefined;
  readonly isBusy: boolean;
  readonly reload: () => void;
}

interface State<T> extends Omit<Loaded<T>, 'reload'> {
  readonly key: string;
}

/**
 * Calls `reload` when somebody changes the tenant's configuration, or the part of it that
 * `concerns` names: after the first so many changes that this tab has observed, or from now on.
 */
export function useLive(
  reload: () => void,
  concerns: (change: LiveChange) => boolean = () => true,
  receivedBefore?: number,
): void {
  const mayConcern = (change: LiveChange): boolean =>
    change.config_type === undefined || concerns(change);
  useReceived(changes, reload, mayConcern, receivedBefore);
}

/** Calls `reload` when an approval of the tenant changes, or the one that is named. */
export function useLiveApprovals(reload: () => void, id?: string): void {
  const tenantId = tenantShown.value;
  useEffect(() => followApprovals(tenantId), [tenantId]);
  useReceived(approvals, reload, (change) => {
    const concerns = id === undefined || (change.approval_id ?? id) === id;
    return change.tenantId === tenantId && concerns;
  });
}

/** Calls `reload` when an approval changes, where something else follows those of the tenant. */
export const useApprovalNews = (reload: () => void): void =>
  useReceived(approvals, reload, () => true);

function useReceived<T>(
  received: Received<T>,
  reload: () => void,
  concerns: (news: T) => boolean,
  receivedBefore?: number,
): void {
  const count = received.count.value;
  const seen = useRef(receivedBefore ?? count);
  useEffect(() => {
    const news = received.since(seen.current);
    seen.current = received.count.peek();
    if (news === undefined || news.some(concerns)) reload();
  }, [count]);
}

/**
 * Loads whenever `key` changes, which says all that `load` depends on; what is for an older key is
 * dropped. It is asked again when what was away is back. Whoever has it loaded again while it is on
 * its way gets what is on its way first: changes that come faster than answers keep nobody from
 * seeing anything.
 */
export function useLoaded<T>(key: string, load: (aborted: AbortSignal) => Promise<T>): Loaded<T> {
  const empty: State<T> = { key, data: undefined, problem: undefined, isBusy: true };
  const [state, setState] = useState<State<T>>(empty);
  const [round, setRound] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  const isAsking = useRef(false);
  const isWantedAgain = useRef(false);
  const reload = (): void => {
    if (isAsking.current) isWantedAgain.current = true;
    else setRound((before) => before + 1);
  };
  useEffect(() => {
    const controller = new AbortController();
    isAsking.current = true;
    isWantedAgain.current = false;
    const settle = (change: Partial<State<T>>): void => {
      if (controller.signal.aborted) return;
      isAsking.current = false;
      setState((before) => ({ ...before, key, isBusy: false, ...change }));
      if (isWantedAgain.current) reload();
    };
    setState((before) => (before.key === key ? { ...before, isBusy: true } : empty));
    latest.current(controller.signal).then(
      (data) => settle({ data, problem: undefined }),
      (error: unknown) => settle({ problem: problemOf(error) }),
    );
    return () => controller.abort();
  }, [key, round]);
  const recovered = recoveries.value;
  const seen = useRef(recovered);
  useEffect(() => {
    if (seen.current === recovered) return;
    seen.current = recovered;
    // What was on its way to a gateway that hung is not waited for any longer.
    setRound((before) => before + 1);
  }, [recovered]);
  const shown = state.key === key ? state : empty;
  return { ...shown, reload };
}

/** What an address of the API answers. */
export const useGet = <T>(address: string): Loaded<T> =>
  useLoaded(address, (aborted) => get<T>(address, aborted));

/** Every item of a list. */
export const useList = <T>(address: string): Loaded<readonly T[]> =>
  useLoaded(address, (aborted) => getAll<T>(address, aborted));

/** Of what no stream says. */
export const lookAgainMs = 5000;

/** Does it again and again, while the page is seen. */
export function useEvery(ms: number, act: () => void): void {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) latest.current();
    }, ms);
    return () => clearInterval(timer);
  }, [ms]);
}
