/** Names of time zones. */
import { LRUCache } from 'lru-cache';

/**
 * Names that exist. Asking Intl takes some 50 µs, and each decision at closed business hours asks.
 * Others are not kept: whoever sends them says how long they are.
 */
const known = new LRUCache<string, true>({ max: 1000 });

/**
 * Whether the IANA database has it. Offsets such as +02:00 are no zones, though Intl takes them for
 * some.
 */
export function isTimeZone(name: string): boolean {
  if (known.get(name)) return true;
  const isKnown = isInDatabase(name);
  if (isKnown) known.set(name, true);
  return isKnown;
}

function isInDatabase(name: string): boolean {
  try {
    const { timeZone } = new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions();
    return !/^[+-]/.test(timeZone);
  } catch {
    return false;
  }
}
