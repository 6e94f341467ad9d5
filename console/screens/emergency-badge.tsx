/** What a change set that was applied without approvals is marked by. */
import type { VNode } from 'preact';
import { isToReview, type ChangeSet } from './change-sets.ts';

/** Red until somebody else has looked at it. */
export const Emergency = ({ set }: { readonly set: ChangeSet }): VNode | null =>
  set.break_glass ? (
    <span class={`state-of emergency ${isToReview(set) ? 'unreviewed' : ''}`}>
      break-glass{isToReview(set) ? ', to review' : ''}
    </span>
  ) : null;
