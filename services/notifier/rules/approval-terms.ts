/**
 * What an approval may cost and how long it waits, by the risk settings that hold for what it is
 * about.
 */
import { exceeds } from '../../../shared/bounds/limits.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { channels, type Channel } from '../../../shared/contracts/notifier.ts';
import type { Problem } from '../../../shared/errors.ts';

export type ApprovalTerms = ResultOf<'config-resolver.approval-terms'>;

/** A cost that no approval allows is not asked about. */
export function costProblems(
  cost: number | undefined,
  { max_cost_impact_approval: { limit, layer, source } }: ApprovalTerms,
): Problem[] {
  if (!exceeds(cost, limit)) return [];
  const shown = limit === null ? 'without a value' : String(limit);
  const message = `is ${cost}, above max_cost_impact_approval, which is ${shown} (${layer}, ${source})`;
  return [{ path: '/cost_impact', message }];
}

/** Without a value there is no time but that of the escalation. */
export const timeoutSeconds = ({
  approval_timeout_minutes: { limit: minutes },
}: ApprovalTerms): number => (typeof minutes === 'number' ? minutes * 60 : 0);

/** Those that its service instance names; nothing where it names none that there is. */
export function channelsNamed({ notification_channels: names }: ApprovalTerms): {
  channels?: readonly Channel[];
} {
  const named = channels.filter((channel) => Array.isArray(names) && names.includes(channel));
  return named.length > 0 ? { channels: named } : {};
}
