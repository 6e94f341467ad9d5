/** The moment that a timestamp names; undefined where it is none that every part of Strata can hold: years 1 to 9999. */
export function momentOf(text: string): Date | undefined {
  const moment = new Date(text);
  const year = moment.getUTCFullYear();
  return year >= 1 && year <= 9999 ? moment : undefined;
}
