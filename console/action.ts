/** What somebody does and Strata may refuse: whether it runs, and what was said to it. */
import { useState } from 'preact/hooks';
import { problemOf, type Problem } from './api.ts';
import { withRecentSignIn } from './session.ts';

export interface Action {
  readonly isBusy: boolean;
  /** Which of several, where that was said. */
  readonly doing: string | undefined;
  readonly problem: Problem | undefined;
  /** Does it, and asks to sign in again where it wants that: `work` then begins again. */
  readonly run: (work: () => Promise<unknown>, what?: string) => Promise<void>;
  /** What was refused is shown no more. */
  readonly forget: () => void;
}

export function useAction(): Action {
  const [doing, setDoing] = useState<string>();
  const [problem, setProblem] = useState<Problem>();
  const forget = (): void => setProblem(undefined);
  const run = async (work: () => Promise<unknown>, what = ''): Promise<void> => {
    setDoing(what);
    forget();
    try {
      await withRecentSignIn(work);
    } catch (error) {
      setProblem(problemOf(error));
    }
    setDoing(undefined);
  };
  return { isBusy: doing !== undefined, doing, problem, run, forget };
}
