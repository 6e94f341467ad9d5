/** Names of time zones. */

/**
 * Whether the IANA database has it. Offsets such as +02:00 are no zones, though Intl takes them for
 * some.
 */
export function isTimeZone(name: string): boolean {
  try {
    const { timeZone } = new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions();
    return !/^[+-]/.test(timeZone);
  } catch {
    return false;
  }
}
