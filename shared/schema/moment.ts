/** Timestamps of requests, which name moments that every part of Strata can hold. */

/** RFC 3339, section 5.6: date, time and zone; people may leave the seconds out. */
const form =
  /^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?(?:[Zz]|[+-](\d\d):(\d\d))$/;

const daysOfMonths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/** 0 for a month that there is not. */
const daysOf = (year: number, month: number): number =>
  (daysOfMonths[month - 1] ?? 0) + (month === 2 && isLeap(year) ? 1 : 0);
const isLeap = (year: number): boolean => year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);

/**
 * The moment that a timestamp names; undefined where there is none, or none in the years 1 to 9999.
 * Nothing is carried over: 31 November, 24:00 and leap seconds, which PostgreSQL cannot hold, name
 * no moment.
 */
export function momentOf(text: string): Date | undefined {
  const parts = form.exec(text);
  if (!parts) return undefined;
  const [year, month, day, hour, minute, second, zoneHour, zoneMinute] = parts
    .slice(1)
    .map((part) => Number(part ?? 0)) as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const isDate = day >= 1 && day <= daysOf(year, month);
  const isTime = hour <= 23 && minute <= 59 && second <= 59 && zoneHour <= 23 && zoneMinute <= 59;
  if (!isDate || !isTime) return undefined;
  const moment = new Date(text.toUpperCase().replace(' ', 'T'));
  const utcYear = moment.getUTCFullYear();
  return utcYear >= 1 && utcYear <= 9999 ? moment : undefined;
}

/** A timestamp to the minute, as people read it: 2026-01-31 12:00 UTC. */
export const minuteOf = (timestamp: string): string =>
  `${timestamp.slice(0, 16).replace('T', ' ')} UTC`;

const ofYears = {
  first: Date.parse('0001-01-01T00:00:00Z'),
  last: Date.parse('9999-12-31T23:59:59.999Z'),
};

/**
 * The timestamp of a moment that was calculated, in Unix milliseconds: the first or last one of the
 * years 1 to 9999 where it is beyond, as the end of a period may be.
 */
export const timestampOf = (moment: number): string =>
  new Date(Math.min(Math.max(moment, ofYears.first), ofYears.last)).toISOString();
