/** Dry runs that may be asked for more than what they would write. */
import type { Caller } from '../access.ts';
import type { KeyScope } from '../contracts/roles.ts';
import { invalid, StrataError } from '../errors.ts';

export interface Triable {
  readonly body?: unknown;
  readonly if_match?: string;
  readonly dry_run?: boolean;
  readonly impact?: boolean;
  readonly cursor?: string;
}

/** Throws 422 where only a dry run could be asked for that. */
export function asksForImpact({ dry_run: isDryRun, impact, cursor }: Triable): boolean {
  const asked = Object.entries({ impact: impact === true, cursor: cursor !== undefined });
  const misplaced = asked.find(([, isAsked]) => isAsked && !isDryRun);
  if (misplaced) throw invalid([{ path: `/${misplaced[0]}`, message: 'is for dry_run=true' }]);
  return impact === true;
}

/** Throws 403 for an API key that may not read what an answer shows. */
export function requireReading({ scopes }: Caller, scope: KeyScope, shows: string): void {
  if (scopes !== undefined && !scopes.includes(scope))
    throw new StrataError(
      'insufficient_scope',
      `${shows}: the API key needs the scope ${scope}, too.`,
    );
}

/** The same of an impact: it shows what all have whom the write concerns, as a plan does. */
export function requireReadingAll(caller: Caller, scope: KeyScope, shows: string): void {
  if (caller.narrowed_to !== undefined)
    throw new StrataError('insufficient_scope', `${shows}: no narrow key may ask for it.`);
  requireReading(caller, scope, shows);
}
