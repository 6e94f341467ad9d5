/** Which automations a budget or a freeze is about. */
import type { LimitMatch } from '../contracts/budgets.ts';

/** What of an automation is known from where it acts. */
export interface Touched {
  readonly agent_type?: string | undefined;
  readonly service_id?: string | undefined;
  readonly service_type?: string | undefined;
  readonly project_id?: string | undefined;
  /** Of the project. */
  readonly environment?: string | undefined;
}
/** What only the automation itself says. */
export interface Act {
  readonly action: string;
  readonly risk_level: string;
}

const fits = (wanted: readonly string[] | undefined, value: string | undefined): boolean =>
  wanted === undefined || (value !== undefined && wanted.includes(value));

/** Whether it is about something that acts there. */
export const matchesPlace = (match: LimitMatch | undefined, touched: Touched): boolean =>
  match === undefined ||
  (fits(match.agent_types, touched.agent_type) &&
    fits(match.service_ids, touched.service_id) &&
    fits(match.service_types, touched.service_type) &&
    fits(match.project_ids, touched.project_id) &&
    fits(match.environments, touched.environment));

/** Whether it is about this action, wherever it acts. */
export const matchesAct = (match: LimitMatch | undefined, act: Act): boolean =>
  match === undefined ||
  (fits(match.actions, act.action) && fits(match.risk_levels, act.risk_level));
