/** What decisions of the last days would have been under a change set. */
import type { VNode } from 'preact';
import { get } from '../api.ts';
import { useLoaded } from '../loading.ts';
import type { ChangeSet } from './change-sets.ts';
import { PastDecisions } from './impact.tsx';

/** Nothing where nobody has recorded any; the rest of the page says what failed. */
export function PastDecisionsOf({
  address,
  digest,
}: {
  readonly address: string;
  readonly digest: string;
}): VNode | null {
  const { data } = useLoaded(`${address} ${digest}`, (aborted) =>
    get<ChangeSet>(`${address}?impact=true`, aborted),
  );
  const decisions = data?.impact?.decisions;
  if (!decisions || decisions.total + decisions.unknown === 0) return null;
  return (
    <section aria-label="Past decisions">
      <h2>What it would have decided</h2>
      <PastDecisions decisions={decisions} />
    </section>
  );
}
