/** Timestamps of requests, which name moments that every part of Strata can hold. */

/** RFC 3339, section 5.6: date, time and zone; people may leave the seconds out. */
const form =
  /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])[Tt ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

/** Of a text that has the form of a date: of 31 November Date makes 1 December. */
export const isDate = (date: string): boolean => new Date(date).toISOString().startsWith(date);

/**
 * The moment that a timestamp names; undefined where there is none, or none in the years 1 to 9999.
 * Nothing is carried over: 31 November, 24:00 and leap seconds, which PostgreSQL cannot hold, name
 * no moment.
 */
export function momentOf(text: string): Date | undefined {
  if (!form.test(text) || !isDate(text.slice(0, 10))) return undefined;
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
