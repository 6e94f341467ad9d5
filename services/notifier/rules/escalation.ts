import type { EffectiveNotifications } from '../../../shared/contracts/notification-config.ts';
import type { ApprovalRow } from '../schema.ts';

type Groups = EffectiveNotifications['approver_groups'];
type Plan = Pick<
  ApprovalRow,
  'hop' | 'max_hops' | 'window_seconds' | 'escalates_at' | 'expires_at' | 'expires_fixed'
>;
type Step = 'escalate' | 'exhaust' | 'expire';

/** Who is asked, in order, each once: the action's own groups if there are any, else those of the risk level. */
export function chainOf(
  groups: Groups,
  action: string,
  riskLevel: ApprovalRow['risk_level'],
): string[] {
  const own = Object.hasOwn(groups.action_overrides, action)
    ? groups.action_overrides[action]!
    : [];
  return [...new Set(own.length > 0 ? own : (groups.risk_levels?.[riskLevel] ?? []))];
}

const after = (time: Date, seconds: number): Date => new Date(time.getTime() + seconds * 1000);

/** Times of a new approval. Without a wish of the asker it outlives its escalation. */
export const firstTimes = (
  now: Date,
  asked: Date | undefined,
  {
    max_hops: maxHops,
    window_seconds: window,
    timeout_seconds: timeout,
  }: {
    readonly max_hops: number;
    readonly window_seconds: number;
    readonly timeout_seconds: number;
  },
) => ({
  escalates_at: after(now, window),
  expires_fixed: asked !== undefined,
  expires_at: asked ?? after(now, Math.max(timeout, (maxHops + 1) * window)),
});

/**
 * What is due. Whatever time has passed it is one step, so an outage of many windows fires one hop. An expiry that nobody asked
 * for waits for the escalation to end; of an exhaustion and an expiry that are both due, the earlier one counts.
 */
export function dueStep(
  {
    hop,
    max_hops: maxHops,
    escalates_at: escalates,
    expires_at: expires,
    expires_fixed: fixed,
  }: Plan,
  now: Date,
): Step | null {
  const expired = expires <= now;
  if (escalates !== null && escalates <= now) {
    if (hop >= maxHops) return expired && fixed && expires < escalates ? 'expire' : 'exhaust';
    if (!(expired && fixed)) return 'escalate';
  }
  return expired ? 'expire' : null;
}

/** Times after a hop fired at `now`. */
export const nextTimes = (
  {
    hop,
    max_hops: maxHops,
    window_seconds: window,
    expires_at: expires,
    expires_fixed: fixed,
  }: Plan,
  now: Date,
) => {
  const end = after(now, (maxHops - hop) * window);
  return {
    hop: hop + 1,
    escalates_at: after(now, window),
    expires_at: fixed || expires >= end ? expires : end,
  };
};
