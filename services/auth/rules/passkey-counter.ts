interface Known {
  readonly counter: number;
  readonly backup_eligible: boolean;
}

/**
 * What a signature counter says (Web Authentication, 7.2 step 22). One that does not rise means a copy of the key: impossible where
 * it cannot leave its device, ordinary where it is synchronized. Authenticators without a counter always say 0.
 */
export function judgeCounter(
  { counter, backup_eligible: copied }: Known,
  presented: number,
): 'fine' | 'suspicious' | 'cloned' {
  if (presented > counter || (presented === 0 && counter === 0)) return 'fine';
  return copied ? 'suspicious' : 'cloned';
}
