/** What automation wants to do, as it is typed: for `decide`, and for approvals. */
import { riskLevels } from '../shared/contracts/notifier.ts';
import { Misused, type Flag, type Flags } from './command.ts';
import { given, textOf } from './typed.ts';

/** Which effective configuration is meant. */
export const contextFlags = {
  agent: { type: 'string', summary: 'for this agent type' },
  service: { type: 'string', summary: 'on this service instance' },
  type: { type: 'string', summary: 'of this service type' },
} as const satisfies Record<string, Flag>;

/** What approvals and decisions take. */
export const intentFlags = {
  ...contextFlags,
  risk: { type: 'string', summary: `${riskLevels.join(', ')}; needed` },
  cost: { type: 'string', summary: 'what it costs' },
} as const satisfies Record<string, Flag>;

export const contextOf = (flags: Flags) => ({
  agent_type: textOf(flags.agent),
  service_id: textOf(flags.service),
  service_type: textOf(flags.type),
});

/** Throws Misused. */
export function intentOf(action: string, flags: Flags) {
  const risk = textOf(flags.risk);
  if (risk === undefined) throw new Misused(`--risk is missing: ${riskLevels.join(', ')}`);
  return given({
    action,
    risk_level: risk,
    ...contextOf(flags),
    cost_impact: numberOf('cost', flags),
  });
}

/** Throws Misused. */
export function numberOf(name: string, flags: Flags): number | undefined {
  const text = textOf(flags[name]);
  if (text === undefined) return undefined;
  if (!/^[0-9]+(\.[0-9]+)?$/.test(text)) throw new Misused(`--${name} is a number`);
  return Number(text);
}
