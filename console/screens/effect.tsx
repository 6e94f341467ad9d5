/** What a write would make of one effective value, as its trial says it. */
import type { VNode } from 'preact';
import type { LayerName } from '../../shared/contracts/effective-config.ts';
import { Value } from '../inline.tsx';
import { placeTitle } from './ladder.ts';
import type { EffectiveChange } from './trial.ts';

export const changesValue = ({ before, after }: EffectiveChange): boolean =>
  JSON.stringify(before) !== JSON.stringify(after);

export function EffectOf({ change }: { readonly change: EffectiveChange }): VNode {
  const { after, decided_by: layer, path, enforced } = change;
  if (layer === null || path === null)
    return <span>There is no value any more: no other layer says anything.</span>;
  const by = enforced
    ? 'because a guardrail decides it'
    : `which ${placeTitle(layer as LayerName, path)} says`;
  return (
    <span>
      It {changesValue(change) ? 'becomes' : 'stays'}{' '}
      <strong>
        <Value value={after} longest={120} />
      </strong>
      , {by}.
    </span>
  );
}
