/**
 * Whether all of Strata answers. A page that nobody touches asks now and then: so it says by itself
 * when what it shows may be old, and continues by itself, without being loaded again, once everything
 * is back.
 *
 * | Danger                                         | Bounded by                                                                |
 * |------------------------------------------------|---------------------------------------------------------------------------|
 * | an idle page that looks current in an outage   | asked every 10 s while the page is seen, and when somebody comes back to it |
 * | a request that nothing ever answers            | 2.5 s of silence count as an outage; whether the process is alive says of what |
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
  send,
  staleAnswers,
} from './api.ts';
import { renew, tokens, type Tokens } from './session.ts';

/** Goes up whenever what was away has come back: what is shown is to be read again. */
export const recoveries = signal(0);

/** With the silence below an outage is said within 15 s. */
const calmMs = 10_000;
const awayMs = 2000;
/** In which everything answers on a busy machine, too. */
const answerMs = 2500;
const aliveMs = 1000;

/** Something was away, and what is shown has not been read again since. */
let isOwed = false;
/** Of `staleAnswers`, when everything was last found to be there. */
let staleAnswersThen = 0;
/** By performance.now(). */
let recoveredAt = -Infinity;

type SignedInAs = Pick<Tokens, 'user' | 'tenant' | 'memberships'>;

const textOf = ({ user, tenant, memberships }: SignedInAs): string =>
  JSON.stringify([
    user.platform_roles.toSorted(),
    tenant?.roles.toSorted(),
    memberships.map(({ tenant_id: id, roles }) => [id, ...roles.toSorted()].join(' ')).toSorted(),
  ]);

const address = '/auth/me';

/** Rejects with a TimeoutError where the work takes longer, whatever it waits for. */
function within<T>(ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const timeout = AbortSignal.timeout(ms);
  const silence = new Promise<never>((_resolve, reject) => {
    timeout.addEventListener('abort', () => reject(timeout.reason));
  });
  return Promise.race([work(timeout), silence]);
}

const isTimeout = (error: unknown): boolean =>
  error instanceof DOMException && error.name === 'TimeoutError';

/** A gateway that is alive waits for a part that does not answer. */
async function noteSilence(): Promise<void> {
  try {
    await within(aliveMs, (aborted) => send('GET', '/healthz', { isAside: true, signal: aborted }));
    noteAge(address, true);
  } catch (error) {
    if (isTimeout(error)) isOffline.value = true;
  }
}

/**
 * Finds out whether everything answers, and has everything shown read again where it had not
 * before.
 */
export async function lookAround(): Promise<void> {
  try {
    const { body, headers } = await within(answerMs, (aborted) =>
      call<SignedInAs>('GET', address, { isAside: true, signal: aborted }),
    );
    noteAge(address, saysStale(headers));
    if (saysStale(headers)) return;
    const known = tokens.value;
    if (known && textOf(body) !== textOf(known)) void renew().catch(() => undefined);
  } catch (error) {
    if (isTimeout(error)) await noteSilence();
    else if (problemOf(error).status >= 500) noteAge(address, true);
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
    if (!isOver) timer = setTimeout(() => void look(), ms * (0.95 + Math.random() / 10));
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
