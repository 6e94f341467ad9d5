/** What people read of a budget that has come to its `warn_at`, in mails and chat messages. */
import { decimalText, millionthsOf } from '../../../shared/budgets/decimal.ts';
import type { BudgetNotice } from '../../../shared/contracts/budget-usage.ts';
import { defaultColor, layOut, type RenderedMail } from './mail-layout.ts';

type Facts = BudgetNotice['data'];

export const budgetHeading = ({ name, amount, currency = 'actions', warn_at: share }: Facts) =>
  `Budget ${name} has come to ${Math.round(share * 10_000) / 100} % of ${amount} ${currency}`;

export const budgetRows = (facts: Facts): (readonly [string, string])[] => {
  const { by, spent, held, asked, currency = 'actions', resets_at } = facts;
  const left = millionthsOf(facts.amount) - millionthsOf(spent) - millionthsOf(held);
  return [
    ['Budget of', `the ${by}`],
    ['Spent', `${spent} ${currency}`],
    ['Held by automations that run', `${held} ${currency}`],
    ['Left before this one', `${decimalText(left)} ${currency}`],
    ['Asked for now', `${asked} ${currency}`],
    ['Begins again', resets_at],
  ];
};

export const budgetMail = (facts: Facts): RenderedMail =>
  layOut({
    subject: budgetHeading(facts),
    says: 'Automation is about to use up a budget. This is sent once per period:',
    title: budgetHeading(facts),
    rows: budgetRows(facts),
    description: '',
    links: undefined,
    branding: { above: '', below: [], color: defaultColor, logo: '' },
  });
