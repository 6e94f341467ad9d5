/**
 * Whether all of Strata answers. A page that nobody touches asks now and then: so it says by itself
 * when what it shows may be old, and continues by itself, without being loaded again, once everything
 * is back.
 *
 * | Danger                                         | Bounded by                                                                |
 * |------------------------------------------------|---------------------------------------------------------------------------|
 * | an idle page that looks current in an outage   | asked every 15 s while the page is seen, and when somebody comes back to it |
 * | what failed, or was old, stays so afterwards   | asked every 2 s in an outage; after it everything shown is read again     |
 * | roles that changed before their stream was open | asked when it opens; other roles than those known renew the session      |
 */
import { effect, signal } from '@preact/signals';
import {
  call,
  forgetStale,
  isOffline,
  isStale,
  noteAge,
  problemOf,
  saysStale,
  staleAnswers,
} from './api.ts';
import { renew, tokens, type Tokens } from './session.ts';

/** Goes up whenever what was away has come back: what is shown is to be read again. */
export const recoveries = signal(0);

const calmMs = 15_000;
const awayMs = 2000;

/** Something was away, and what is shown has not been read again since. */
let isOwed = false;
/** Of `staleAnswers`, when everything was last found to be there. */
let staleAnswersThen = 0;
/** By performance.now(). */
let recoveredAt = -Infinity;

type Standing = Pick<Tokens, 'user' | 'tenant' | 'memberships'>;

const textOf = ({ user, tenant, memberships }: Standing): string =>
  JSON.stringify([
    user.platform_roles.toSorted(),
    tenant?.roles.toSorted(),
    memberships.map(({ tenant_id: id, roles }) => [id, ...roles.toSorted()].join(' ')).toSorted(),
  ]);

const address = '/auth/me';

/**
 * Finds out whether everything answers, and has everything shown read again where it had not
 * before.
 */
export async function lookAround(): Promise<void> {
  try {
    const { body, headers } = await call<Standing>('GET', address, { isAside: true });
    noteAge(address, saysStale(headers));
    if (saysStale(headers)) return;
    const known = tokens.value;
    if (known && textOf(body) !== textOf(known)) void renew().catch(() => undefined);
  } catch (error) {
    if (problemOf(error).status >= 500) noteAge(address, true);
    return;
  }
  if (!isOwed && !isStale.value) return;
  // A part that this answer does not need may still be away: what is read again says so.
  if (staleAnswers.value === staleAnswersThen) forgetStale();
  staleAnswersThen = staleAnswers.value;
  isOwed = false;
  recoveredAt = performance.now();
  recoveries.value += 1;
}

/** Until the returned function is called. */
export function keepLooking(): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isOver = false;
  const wait = (ms: number): void => {
    clearTimeout(timer);
    // Not all pages at the same moment.
    if (!isOver) timer = setTimeout(() => void look(), ms * (0.75 + Math.random() / 2));
  };
  const isAway = (): boolean => isOffline.value || isStale.value;
  const look = async (): Promise<void> => {
    if (!document.hidden) await lookAround();
    wait(isAway() || isOwed ? awayMs : calmMs);
  };
  const comeBack = (): void => {
    if (!document.hidden) wait(0);
  };
  const stopWatching = effect(() => {
    isOwed ||= isAway();
    const hasComeBack = isOwed && !isAway();
    // What comes and goes has nobody read everything again all the time.
    const isSteady = performance.now() - recoveredAt > calmMs;
    if (hasComeBack && isSteady) wait(0);
    else wait(isOwed ? awayMs : calmMs);
  });
  addEventListener('online', comeBack);
  document.addEventListener('visibilitychange', comeBack);
  return () => {
    isOver = true;
    clearTimeout(timer);
    stopWatching();
    removeEventListener('online', comeBack);
    document.removeEventListener('visibilitychange', comeBack);
  };
}
