/** What streams of effective values are sent, in the words of Strata and of OpenFeature. */
import type { Digests } from '../../shared/contracts/effective-config.ts';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { comment, frame } from './event-stream.ts';

type Answer = ResultOf<'config-resolver.digests'>;
export type Revisions = Answer['revision'];

/** The moment of which what is sent is. */
export interface Moment {
  readonly revision: Revisions;
  /** On which sides of rollouts the tenant is then; undefined where there are none. */
  readonly rollouts: Answer['rollouts'];
}

export const idOf = ({ tenant, platform }: Revisions): string => `${tenant}.${platform}`;

export interface Frames {
  /** Whether clients read the values once the stream is ready: what changed before is then known. */
  readonly isReadAfterwards: boolean;
  /** With the id that whoever comes back names. */
  readonly ready: (revision: Revisions, id: string) => Buffer;
  /**
   * Undefined where nothing differs. `sent` has several states where it is not known which of them
   * the client has.
   */
  readonly changed: (
    sent: readonly Digests[],
    after: Digests,
    moment: Moment,
  ) => Buffer | undefined;
  /** Everything has to be read again. */
  readonly reset: (revision: Revisions) => Buffer;
  /** `confirming` says that nothing else has changed, where that is known. */
  readonly heartbeat: (confirming: Buffer) => Buffer;
}

/** The keys that only one of the two has, or that have another value. */
export function changedKeys(before: Digests, after: Digests): string[] {
  const gone = Object.keys(before).filter((key) => !Object.hasOwn(after, key));
  const others = Object.keys(after).filter((key) => digestOf(before, key) !== after[key]);
  return [...gone, ...others].toSorted();
}

/** Whether no key differs, which is known at the first that does. */
export const areSame = (before: Digests, after: Digests): boolean =>
  Object.keys(before).every((key) => digestOf(after, key) === before[key]) &&
  Object.keys(before).length === Object.keys(after).length;

const digestOf = (digests: Digests, key: string): string | undefined =>
  Object.hasOwn(digests, key) ? digests[key] : undefined;

/**
 * By what was known: all streams of a context that are up to date know the same object, and are
 * sent the same bytes.
 */
const changeFrames = new WeakMap<
  Digests,
  { readonly after: Digests; readonly id: string; readonly frame: Buffer | undefined }
>();

function changeFrame(
  sent: readonly Digests[],
  after: Digests,
  { revision, rollouts }: Moment,
): Buffer | undefined {
  const id = idOf(revision);
  const shared = sent.length === 1 ? sent[0] : undefined;
  const known = shared && changeFrames.get(shared);
  if (known?.after === after && known.id === id) return known.frame;
  const keys = new Set(sent.flatMap((digests) => changedKeys(digests, after)));
  const data = { revision, ...(rollouts && { rollouts }), keys: [...keys].toSorted() };
  const made = keys.size === 0 ? undefined : frame('effective.changed', data, id);
  if (shared) changeFrames.set(shared, { after, id, frame: made });
  return made;
}

export const ownFrames: Frames = {
  isReadAfterwards: true,
  ready: (revision, id) => frame('ready', { revision }, id),
  changed: changeFrame,
  reset: (revision) => frame('reset', { revision }, idOf(revision)),
  heartbeat: (confirming) => confirming,
};

const refetch = (revision: Revisions): Buffer =>
  frame('message', { type: 'refetchEvaluation' }, idOf(revision));

/** Events of ADR 0008 alone: libraries of several languages read the data of whatever comes. */
export const flagFrames: Frames = {
  // Providers evaluate first, and only then open the stream that their flags came with.
  isReadAfterwards: false,
  // An id without data is kept, and is no event.
  ready: (_revision, id) => Buffer.from(`id: ${id}\n\n`),
  changed: (sent, after, moment) => changeFrame(sent, after, moment) && refetch(moment.revision),
  reset: refetch,
  heartbeat: () => comment,
};
