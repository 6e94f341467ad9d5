/** What may be decided about what automation asks for, in words. */
import type { ResultOf } from '../../shared/contracts/index.ts';

type Decision = ResultOf<'config-resolver.decide'>['decision'];

export const decisions = ['allow', 'approval_required', 'deny'] as const satisfies Decision[];
export const decisionTitles: Readonly<Record<Decision, string>> = {
  allow: 'allowed',
  approval_required: 'asked people',
  deny: 'denied',
};

/** How many there were of each on one day. */
export type DecidedOn = { readonly date: string } & Readonly<Record<Decision, number>>;
