/** Whether freezes let automation act at a moment, and until when they do not. */
import { matchesAct, matchesPlace, type Act, type Touched } from './matching.ts';
import { lastingStretch } from './windows.ts';
import type { Freeze, FreezeInForce } from '../contracts/freezes.ts';

/** What acts, and when (Unix milliseconds). */
export interface Acting extends Act, Touched {
  readonly isRollback: boolean;
  readonly at: number;
}

/** A freeze that holds, and until when; null where nothing ends it. */
export interface Frozen extends FreezeInForce {
  readonly until: number | null;
}

/** The freezes that hold for what acts, in their order. */
export const frozenBy = (freezes: readonly FreezeInForce[], acting: Acting): Frozen[] =>
  freezes.flatMap((freeze) => {
    const { rule } = freeze;
    if (!matchesAct(rule.match, acting) || isAllowed(rule, acting)) return [];
    const until = frozenUntil(rule, acting.at);
    return until === undefined || isOverridden(rule, acting) ? [] : [{ ...freeze, until }];
  });

function isAllowed({ allow }: Freeze, { isRollback, risk_level: level }: Acting): boolean {
  const levels: readonly string[] = allow?.risk_levels ?? [];
  return (allow?.rollbacks === true && isRollback) || levels.includes(level);
}

const isOverridden = ({ overrides = {} }: Freeze, acting: Acting): boolean =>
  Object.values(overrides).some(
    ({ from, until, match }) =>
      acting.at < Date.parse(until) &&
      (from === undefined || Date.parse(from) <= acting.at) &&
      matchesPlace(match, acting) &&
      matchesAct(match, acting),
  );

/** Undefined where it does not hold at the moment. */
function frozenUntil(freeze: Freeze, at: number): number | null | undefined {
  const stretch = lastingStretch(freeze, freeze.during, at);
  return stretch.isWithin === (freeze.only_within ?? false) ? undefined : stretch.until;
}
