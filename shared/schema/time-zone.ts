/** Names of time zones. */
import { LRUCache } from 'lru-cache';

/** Asking Intl takes some 50 µs, and each decision at closed business hours asks. */
const known = new LRUCache<string, boolean>({ max: 1000 });

/**
 * Whether the IANA database has it. Offsets such as +02:00 are no zones, though Intl takes them for
 * some.
 */
export function isTimeZone(name: string): boolean {
  const answer = known.get(name) ?? isInDatabase(name);
  known.set(name, answer);
  return answer;
}

function isInDatabase(name: string): boolean {
  try {
    const { timeZone } = new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions();
    return !/^[+-]/.test(timeZone);
  } catch {
    return false;
  }
}
