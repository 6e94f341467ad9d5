/** An automation as its readers see it, and what its place among the tenant's slots depends on. */
import { exceeds } from '../../../shared/bounds/limits.ts';
import {
  Automation as AutomationSchema,
  type AutomationState,
} from '../../../shared/contracts/automations.ts';
import type { Decided, DecisionReason } from '../../../shared/contracts/decide.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { viewBy } from '../../../shared/schema/view.ts';
import type { AutomationRow } from '../schema.ts';

export type Automation = ResultOf<'notifier.automations.get'>;
export type Admission = ResultOf<'config-resolver.admission'>;

export interface TimedAdmission extends Admission {
  /** The moment that it is about. */
  readonly at: Date;
}

/**
 * Limits go by the time as well, such as freezes. A node may stand still between a decision and what
 * follows from it, so by an older one nothing starts and nothing is redeemed.
 */
const longestAgoMs = 30_000;

export const isTooOld = ({ at }: Pick<TimedAdmission, 'at'>, now: Date): boolean =>
  now.getTime() - at.getTime() > longestAgoMs;

export const automationView = (row: AutomationRow): Automation => ({
  ...viewBy(AutomationSchema, row),
  ...row.intent,
  ...row.decided,
});

export const isUndecided = (state: AutomationState): boolean =>
  state === 'waiting_approval' || state === 'waiting_slot';
export const hasEnded = (state: AutomationState): boolean =>
  !isUndecided(state) && state !== 'running';

/**
 * What is kept of a decision: its limits were exactly those of the revisions, whether or not that
 * could be confirmed first.
 */
export const keptDecision = ({ stale: _stale, ...decided }: Decided): AutomationRow['decided'] =>
  decided;

/**
 * Why the limits refuse an automation that would be the `asked`th at once; undefined where they do
 * not. Approvals answer what needs one, and nothing that is denied.
 */
export function denialOf(
  { decided, slots }: Pick<Admission, 'decided' | 'slots'>,
  asked: number,
): AutomationRow['decided'] | undefined {
  const kept = keptDecision(decided);
  if (kept.decision === 'deny') return kept;
  if (!exceeds(asked, slots.limit)) return undefined;
  // It stands before the others, since it decides.
  const tooMany = { rule: 'too_many_automations', asked, ...slots } as const;
  return { ...kept, decision: 'deny', reasons: [tooMany, ...kept.reasons] };
}

/** Whether each budget that would be exceeded is one of those that people are told of. */
export const areNamed = (
  exceeded: readonly DecisionReason[],
  named: readonly DecisionReason[],
): boolean =>
  exceeded.every(({ source, name }) =>
    named.some((each) => each.source === source && each.name === name),
  );
