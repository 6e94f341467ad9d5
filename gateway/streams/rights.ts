/**
 * Whether those who watch still may: stream-hub.ts asks when a role, membership or credential
 * changes, before each event and every 15 s. Streams that were opened with the same credential for
 * the same have one right, which is looked at once in a round, however many they are.
 */
import { codeOf, isOutage } from '../../shared/errors.ts';
import type { EventStream } from './event-stream.ts';

/** `unknown` while whoever knows is away: then nothing is sent, and nobody is turned away. */
export type Verdict = 'held' | 'unknown' | { readonly lost: string };

/** One round of looking. Keep it no longer than what is done in one go: it asks nobody twice. */
export class RightsRound {
  readonly #verdicts = new Map<string, Verdict | Promise<Verdict>>();

  /** A promise only where it could not be told from memory. */
  of({ request, right }: EventStream): Verdict | Promise<Verdict> {
    const known = this.#verdicts.get(right);
    if (known !== undefined) return known;
    const found = look(request.recheck);
    this.#verdicts.set(right, found);
    return found;
  }
}

function look(recheck: EventStream['request']['recheck']): Verdict | Promise<Verdict> {
  try {
    const checked = recheck();
    return checked instanceof Promise ? checked.then(() => 'held' as const, lostBy) : 'held';
  } catch (error) {
    return lostBy(error);
  }
}

const lostBy = (error: unknown): Verdict => (isOutage(error) ? 'unknown' : { lost: codeOf(error) });
