/**
 * When an approval asks further people, and when it ends without a decision. Pure: times go in,
 * times come out; worker/escalate.ts fires what is due.
 */
import type { ApprovalRow } from '../schema.ts';

type Times = Pick<
  ApprovalRow,
  | 'hop'
  | 'max_hops'
  | 'window_seconds'
  | 'escalates_at'
  | 'expires_at'
  | 'expires_fixed'
  | 'reminds_at'
>;
export type Step = 'escalate' | 'exhaust' | 'expire' | 'remind';

const after = (time: Date, seconds: number): Date => new Date(time.getTime() + seconds * 1000);

export interface EscalationLimits {
  readonly max_hops: number;
  readonly window_seconds: number;
  /** The least time for a decision. */
  readonly timeout_seconds: number;
}

/** After this part of its time an approval reminds those who are asked then, once. */
const remindsAfter = 0.75;
/** Of one that ends sooner the first notice is new enough. */
const leastToRemindMs = 3_600_000;

export function reminderOf(now: Date, end: Date): Date | null {
  const lasts = end.getTime() - now.getTime();
  return lasts < leastToRemindMs ? null : new Date(now.getTime() + lasts * remindsAfter);
}

const earlier = (one: Date, other: Date): Date => (one < other ? one : other);

/** When it ends if nobody decides: with its last window, unless it expires before. */
export function endOf(times: Omit<Times, 'expires_fixed' | 'reminds_at'>): Date {
  const { hop, max_hops: maxHops, window_seconds: window, escalates_at: escalatesAt } = times;
  if (escalatesAt === null) return times.expires_at;
  return earlier(times.expires_at, after(escalatesAt, (maxHops - hop) * window));
}

/**
 * Times of a new approval. Where the request names no expiry, it is late enough for every hop and a
 * last window.
 */
export function firstTimes(now: Date, requestedExpiry: Date | undefined, limits: EscalationLimits) {
  const escalationSeconds = (limits.max_hops + 1) * limits.window_seconds;
  const ownExpiry = after(now, Math.max(limits.timeout_seconds, escalationSeconds));
  const expiresAt = requestedExpiry ?? ownExpiry;
  return {
    escalates_at: after(now, limits.window_seconds),
    expires_fixed: requestedExpiry !== undefined,
    expires_at: expiresAt,
    reminds_at: reminderOf(now, earlier(expiresAt, after(now, escalationSeconds))),
  };
}

/**
 * The one step that is due at `now`, if any. It is one however much time has passed, so an outage
 * of many windows fires one hop.
 *
 * | Window passed | Hops left | Requested expiry passed | Step |
 * | --- | --- | --- | --- |
 * | no | | | expire once expires_at has passed, requested or not; before that remind, if that is due |
 * | yes | yes | no | escalate: an expiry of our own waits for the escalation to end |
 * | yes | yes | yes | expire |
 * | yes | no | no | exhaust |
 * | yes | no | yes | whichever was due first |
 */
export function dueStep(times: Times, now: Date): Step | null {
  const { escalates_at: escalatesAt, expires_at: expiresAt } = times;
  const expired = expiresAt <= now;
  if (escalatesAt === null || escalatesAt > now) {
    if (expired) return 'expire';
    return times.reminds_at !== null && times.reminds_at <= now ? 'remind' : null;
  }

  const requestedExpiryPassed = expired && times.expires_fixed;
  if (times.hop < times.max_hops) return requestedExpiryPassed ? 'expire' : 'escalate';
  return requestedExpiryPassed && expiresAt < escalatesAt ? 'expire' : 'exhaust';
}

/**
 * Times after a hop that fired at `now`. An expiry of our own moves, so that the hops that are left
 * fit before it; a reminder that is still to come moves with it.
 */
export function nextTimes(times: Times, now: Date) {
  const { hop, max_hops: maxHops, window_seconds: window, expires_at: expiresAt } = times;
  const escalationEnd = after(now, (maxHops - hop) * window);
  const keepsExpiry = times.expires_fixed || expiresAt >= escalationEnd;
  const nextExpiry = keepsExpiry ? expiresAt : escalationEnd;
  return {
    hop: hop + 1,
    escalates_at: after(now, window),
    expires_at: nextExpiry,
    // The hop's own notice is new.
    reminds_at: times.reminds_at && reminderOf(now, earlier(nextExpiry, escalationEnd)),
  };
}
