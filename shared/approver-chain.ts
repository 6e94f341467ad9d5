/** Whom an approval asks, as the notifier does it and reports of access show it. */
import type { EffectiveNotifications } from './contracts/notification-config.ts';
import type { RiskLevel } from './contracts/notifier.ts';

/**
 * Approver groups in the order in which they are asked, each once: those of the action if it has
 * any, else those of the risk level.
 */
export function approverChainOf(
  groups: EffectiveNotifications['approver_groups'],
  action: string,
  riskLevel: RiskLevel,
): string[] {
  const ofAction = Object.hasOwn(groups.action_overrides, action)
    ? (groups.action_overrides[action] ?? [])
    : [];
  const ofRiskLevel = groups.risk_levels?.[riskLevel] ?? [];
  return [...new Set(ofAction.length > 0 ? ofAction : ofRiskLevel)];
}
