/** What a screen shows while it waits, and when the answer comes or does not. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { problemOf, type Problem } from './api.ts';
import { followApprovals, latestApproval, latestChange, type LiveChange } from './live.ts';

export interface Loaded<T> {
  /** The latest answer, kept while it is asked for again. */
  readonly data: T | undefined;
  readonly problem: Problem | undefined;
  readonly isBusy: boolean;
  readonly reload: () => void;
}

interface State<T> {
  readonly key: string;
  readonly data: T | undefined;
  readonly problem: Problem | undefined;
  readonly isBusy: boolean;
}

/** Calls `reload` when somebody changes the tenant's configuration, or the part of it that `concerns` names. */
export function useLive(
  reload: () => void,
  concerns: (change: LiveChange) => boolean = () => true,
): void {
  const change = latestChange.value;
  const seen = useRef(change);
  useEffect(() => {
    if (change === undefined || change === seen.current) return;
    seen.current = change;
    if (change.config_type === undefined || concerns(change)) reload();
  }, [change]);
}

/** Calls `reload` when an approval of the tenant changes, or the one that is named. */
export function useLiveApprovals(reload: () => void, tenantId: string, id?: string): void {
  const change = latestApproval.value;
  const seen = useRef(change);
  useEffect(() => followApprovals(tenantId), [tenantId]);
  useEffect(() => {
    if (change === undefined || change === seen.current) return;
    seen.current = change;
    const concerns = id === undefined || (change.approval_id ?? id) === id;
    if (change.tenantId === tenantId && concerns) reload();
  }, [change]);
}

/** Loads whenever `key` changes, which says all that `load` depends on; what is for an older key is dropped. */
export function useLoaded<T>(key: string, load: (aborted: AbortSignal) => Promise<T>): Loaded<T> {
  const empty: State<T> = { key, data: undefined, problem: undefined, isBusy: true };
  const [state, setState] = useState<State<T>>(empty);
  const [round, setRound] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const controller = new AbortController();
    const settle = (change: Partial<State<T>>): void => {
      if (controller.signal.aborted) return;
      setState((before) => ({ ...before, key, isBusy: false, ...change }));
    };
    setState((before) => (before.key === key ? { ...before, isBusy: true } : empty));
    latest.current(controller.signal).then(
      (data) => settle({ data, problem: undefined }),
      (error: unknown) => settle({ problem: problemOf(error) }),
    );
    return () => controller.abort();
  }, [key, round]);
  const shown = state.key === key ? state : empty;
  return {
    data: shown.data,
    problem: shown.problem,
    isBusy: shown.isBusy,
    reload: () => setRound((before) => before + 1),
  };
}
