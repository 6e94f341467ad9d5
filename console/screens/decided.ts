/** What may be decided about what automation asks for, in words. */
import type { automationDecisions } from '../known-values.ts';

type Decision = (typeof automationDecisions)[number];

export const decisionTitles: Readonly<Record<Decision, string>> = {
  allow: 'allowed',
  approval_required: 'asked people',
  deny: 'denied',
};

/** How many there were of each on one day. */
export type DecidedOn = { readonly date: string } & Readonly<Record<Decision, number>>;
