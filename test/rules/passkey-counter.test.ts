/** What a passkey's signature counter says: one row a pair of counters. */
import { expect, test } from '@jest/globals';
import { validateCounter } from '../../services/auth/passkeys/rules/passkey-counter.ts';

test.each([
  // stored, presented, judgement of a key that stays on its device, judgement of one that is
  // synchronized
  [0, 0, 'fine', 'fine'],
  [0, 1, 'fine', 'fine'],
  [5, 6, 'fine', 'fine'],
  [5, 4_294_967_295, 'fine', 'fine'],
  [5, 5, 'cloned', 'suspicious'],
  [5, 4, 'cloned', 'suspicious'],
  [5, 0, 'cloned', 'suspicious'],
] as const)(
  'a counter of %i, then %i',
  (...[counter, presented, ofDeviceBound, ofSynchronized]) => {
    expect(validateCounter({ counter, backup_eligible: false }, presented)).toBe(ofDeviceBound);
    expect(validateCounter({ counter, backup_eligible: true }, presented)).toBe(ofSynchronized);
  },
);
