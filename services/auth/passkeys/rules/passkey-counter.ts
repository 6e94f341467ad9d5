interface StoredPasskey {
  readonly counter: number;
  /** The key may be synchronized between devices. */
  readonly backup_eligible: boolean;
}

/**
 * What a signature counter says (Web Authentication Level 3, 7.2 step 22). One that does not
 * rise means a copy of the key: impossible where it cannot leave its device, ordinary where it is
 * synchronized. Authenticators without a counter always say 0.
 */
export function validateCounter(
  stored: StoredPasskey,
  presented: number,
): 'fine' | 'suspicious' | 'cloned' {
  const hasNoCounter = presented === 0 && stored.counter === 0;
  if (presented > stored.counter || hasNoCounter) return 'fine';
  return stored.backup_eligible ? 'suspicious' : 'cloned';
}
