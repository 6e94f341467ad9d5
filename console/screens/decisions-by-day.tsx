/** Decisions on what automation asked for, as bars of days. */
import type { VNode } from 'preact';
import { BarsByDay } from '../bars-by-day.tsx';
import { automationDecisions } from '../known-values.ts';
import { decisionTitles, type DecidedOn } from './decided.ts';

const looks = { allow: 'good', approval_required: 'held', deny: 'bad' } as const;

export const DecisionsByDay = ({
  byDay,
  ...shown
}: {
  readonly label: string;
  readonly empty: string;
  readonly byDay: readonly DecidedOn[];
  readonly chosen?: string | undefined;
  readonly onChoose?: (date: string) => void;
}): VNode => (
  <BarsByDay
    unit="decisions"
    parts={automationDecisions.map((each) => ({ title: decisionTitles[each], look: looks[each] }))}
    bars={byDay.map((day) => ({
      date: day.date,
      values: automationDecisions.map((each) => day[each]),
      says: automationDecisions.map((each) => `${day[each]} ${decisionTitles[each]}`).join(', '),
    }))}
    {...shown}
  />
);
