/** What somebody does and Strata may refuse: whether it runs, and what was said to it. */
import { useState } from 'preact/hooks';
import { problemOf, type Problem } from './api.ts';
import { withRecentSignIn } from './session.ts';

export interface Action {
  readonly isBusy: boolean;
  readonly problem: Problem | undefined;
  /** Does it, and asks to sign in again where it wants that: `work` then begins again. */
  readonly run: (work: () => Promise<unknown>) => Promise<void>;
}

export function useAction(): Action {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const run = async (work: () => Promise<unknown>): Promise<void> => {
    setBusy(true);
    setProblem(undefined);
    try {
      await withRecentSignIn(work);
    } catch (error) {
      setProblem(problemOf(error));
    }
    setBusy(false);
  };
  return { isBusy, problem, run };
}
