/** Waits between the attempts at one notice. */

/** Of a webhook endpoint, or of the settings APPROVAL_WEBHOOK_BACKOFF_*. */
export interface Backoff {
  readonly initial_seconds: number;
  readonly factor: number;
  readonly max_seconds: number;
}

/**
 * Milliseconds before retry `n`, counted from 0: min(max_seconds, initial_seconds × factor^n), as
 * docs/webhooks.md promises.
 */
export function waitBefore(n: number, backoff: Backoff): number {
  const { initial_seconds: initial, factor, max_seconds: max } = backoff;
  // factor^n may be Infinity, and 0 × Infinity is not a number.
  if (initial === 0) return 0;
  return Math.min(max, initial * factor ** n) * 1000;
}

const longestRetryAfterMs = 3_600_000;
const startsWithWeekday = /^(mon|tues?|wed(nes)?|thu(rs)?|fri|sat(ur)?|sun)(day)?,? /i;

/**
 * Milliseconds that a Retry-After header asks for (RFC 9110, section 10.2.3): seconds or a date, an
 * hour at most. Undefined where it is missing or cannot be read. `now` is in milliseconds
 * since 1970.
 */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  const text = header?.trim() ?? '';
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, longestRetryAfterMs);
  // Date.parse reads much that is no HTTP date, all three forms of which begin with a weekday.
  if (!startsWithWeekday.test(text)) return undefined;
  // The asctime form names no zone and means UTC.
  const date = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  if (Number.isNaN(date)) return undefined;
  return Math.min(Math.max(date - now, 0), longestRetryAfterMs);
}
