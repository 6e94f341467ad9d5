/** Whether freezes let automation act at a moment, and until when they do not. */
import { matchesAct, matchesPlace, type Act, type Touched } from './matching.ts';
import { stretchOfAll, type StretchOfAll } from './windows.ts';
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

interface Known extends StretchOfAll {
  readonly from: number;
}

/**
 * The stretch that was asked for last, by freeze: cached configuration is frozen, so the object
 * stands for its contents.
 */
const lastStretches = new WeakMap<Freeze, Known>();

/** Undefined where it does not hold at the moment. */
function frozenUntil(freeze: Freeze, at: number): number | null | undefined {
  const known = lastStretches.get(freeze);
  const isKnown =
    known !== undefined && known.from <= at && at < (known.lookedUntil ?? known.until ?? Infinity);
  const stretch = isKnown ? known : { from: at, ...stretchOfAll(freeze.during, at) };
  if (!isKnown) lastStretches.set(freeze, stretch);
  return stretch.isWithin === (freeze.only_within ?? false) ? undefined : stretch.until;
}
