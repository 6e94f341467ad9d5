/** Trials of writes that say what would become of effective values. */
import type { Static } from 'typebox';
import type { EffectiveChanges } from '../../shared/contracts/effective-trial.ts';
import type { Context } from '../format.ts';

/** What a write would make of one key of effective values, in the server's words. */
export type EffectiveChange = Static<typeof EffectiveChanges>[number];

/** What the address of a document says itself of the context. */
const ownNames: readonly { readonly pattern: RegExp; readonly names: readonly string[] }[] = [
  { pattern: /\/config\/agents\//, names: ['agent_type'] },
  { pattern: /\/services\//, names: ['service_id', 'service_type'] },
];

/** A write's address as that of its trial, which says also what is asked for beside. */
export function trialAddress(
  address: string,
  {
    hasImpact = false,
    context,
    until,
  }: {
    readonly hasImpact?: boolean;
    readonly context?: Context | undefined;
    readonly until?: string | undefined;
  },
): string {
  const parameters = new URLSearchParams({ dry_run: 'true' });
  if (until !== undefined) parameters.set('until', until);
  if (hasImpact) parameters.set('impact', 'true');
  if (context) parameters.set('effective', 'true');
  const own = ownNames.find(({ pattern }) => pattern.test(address))?.names ?? [];
  for (const [name, value] of Object.entries(context ?? {}))
    if (value !== undefined && !own.includes(name)) parameters.set(`for_${name}`, value);
  return `${address}?${parameters}`;
}
