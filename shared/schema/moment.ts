/** Timestamps of requests, which name moments that every part of Strata can hold. */

/**
 * The moment that a timestamp names; undefined where there is none, or none in the years 1 to 9999.
 */
export function momentOf(text: string): Date | undefined {
  const moment = new Date(text);
  const year = moment.getUTCFullYear();
  const isHeld = year >= 1 && year <= 9999;
  return isHeld ? moment : undefined;
}
