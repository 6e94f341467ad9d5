/**
 * All rules of a notification_config that its schema can't say, those about its addresses included:
 * where this process may send.
 */
import {
  NullableNotificationConfig,
  type NotificationConfig,
} from '../../../shared/contracts/notification-config.ts';
import type { Problem } from '../../../shared/errors.ts';
import type { Guard } from '../../../shared/outgoing/guard.ts';
import type { OutgoingError } from '../../../shared/outgoing/outgoing-error.ts';
import { pointerTo } from '../../../shared/schema/json-pointer.ts';
import { markedTexts } from '../../../shared/schema/marked.ts';
import { mapStrings } from '../../../shared/security/document-secrets.ts';
import { isSealed, mask } from '../../../shared/security/vault.ts';
import { checkNotificationConfig } from './notification-config.ts';

/** URL → why nothing may be sent there, of those whose names resolve. */
export type RefusedAddresses = ReadonlyMap<string, string>;

/** `refused` comes from `refusedAddresses`, which had the time to look names up. */
export function notificationProblems(
  config: NotificationConfig | null,
  endpointsCap: number,
  guard: Guard,
  refused: RefusedAddresses,
): Problem[] {
  const problems = checkNotificationConfig(config, endpointsCap);
  const paths = new Set(problems.map(({ path }) => path));
  for (const { path, url } of addressesOf(config)) {
    const message = objectionToForm(guard, url) ?? refused.get(url);
    if (message !== undefined && !paths.has(path)) problems.push({ path, message });
  }
  if (holdsSealedText(config))
    problems.push({ path: '', message: 'holds text that looks like a sealed secret' });
  return problems;
}

interface Address {
  /** JSON Pointer. */
  readonly path: string;
  readonly url: string;
}

/**
 * Every address in a configuration, or in whatever was sent as one or as a merge patch of one. A
 * masked one is not known here.
 */
const addressesOf = (config: unknown): Address[] =>
  markedTexts(NullableNotificationConfig, config)
    .filter(({ isCalled, text }) => isCalled && text !== mask)
    .map(({ path, text }) => ({ path: pointerTo(path), url: text }));

/** Why the guard refuses a URL by its text alone. */
function objectionToForm(guard: Guard, url: string): string | undefined {
  try {
    guard.parse(url);
    return undefined;
  } catch (error) {
    return (error as OutgoingError).message;
  }
}

/**
 * Nobody sends such text but to smuggle it past the masks: `sealSecrets` would keep it as if it
 * were stored.
 */
function holdsSealedText(config: NotificationConfig | null): boolean {
  let found = false;
  mapStrings(config, (text) => {
    found ||= isSealed(text);
    return text;
  });
  return found;
}

/** Those of all endpoints, and of the chat's space. A configuration with more is refused anyway. */
const mostAddresses = (endpointsCap: number): number => endpointsCap + 2;

/** Looks up the names in a body or merge patch, in whatever shape it was sent, all at once. */
export async function refusedAddresses(
  body: unknown,
  endpointsCap: number,
  guard: Guard,
): Promise<RefusedAddresses> {
  const urls = new Set(
    addressesOf(body)
      .slice(0, mostAddresses(endpointsCap))
      .map(({ url }) => url),
  );
  const refused = new Map<string, string>();
  await Promise.all(
    [...urls].map(async (url) => {
      try {
        await guard.checkUrl(url);
      } catch (error) {
        refused.set(url, (error as OutgoingError).message);
      }
    }),
  );
  return refused;
}
