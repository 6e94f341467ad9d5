export interface Backoff {
  readonly initial_seconds: number;
  readonly factor: number;
  readonly max_seconds: number;
}

/** Milliseconds before retry `n`, counted from 0: min(max_seconds, initial_seconds × factor^n). */
export const waitBefore = (
  n: number,
  { initial_seconds: initial, factor, max_seconds: max }: Backoff,
): number =>
  // Zero times a power beyond all numbers is none.
  initial === 0 ? 0 : Math.min(max, initial * factor ** n) * 1000;

const longestMs = 3_600_000;

/** Milliseconds that a Retry-After header asks for (RFC 9110, 10.2.3), seconds or a date, an hour at most; none that can't be read. */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  const text = header?.trim() ?? '';
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, longestMs);
  if (!/^(mon|tues?|wed(nes)?|thu(rs)?|fri|sat(ur)?|sun)(day)?,? /i.test(text)) return undefined;
  // The asctime form has no zone and means UTC.
  const date = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  return Number.isNaN(date) ? undefined : Math.min(Math.max(date - now, 0), longestMs);
}
