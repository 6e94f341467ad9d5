/** Entries of a history, and what takes one of them, or one value of it, back. */
import type { ResultOf } from '../../shared/contracts/index.ts';
import { get, withQuery, type Page } from '../api.ts';
import { namesOf } from '../../shared/schema/json-pointer.ts';
import { settingAt } from '../format.ts';
import { subjectOf } from './change-sentence.ts';
import type { Owner } from './change-sets.ts';
import { addressOf, titleOf } from './document-kinds.ts';
import type { Review } from './review.tsx';
import { readStored } from './stored.ts';

type TenantEntry = ResultOf<'tenant-config.history.list'>['items'][number];
/** Of a tenant, or of the platform, whose kinds of documents are others. */
export type Entry = Omit<TenantEntry, 'config_type'> & {
  readonly config_type: string;
  readonly purged?: ResultOf<'global-config.history.list'>['items'][number]['purged'];
};
export type History = Page<Entry>;
type Detail = Pick<ResultOf<'tenant-config.history.get'>, 'before' | 'after'>;

export const pageSize = 50;

export const historyAddress = (
  { base }: Owner,
  parameters: Readonly<Record<string, string | undefined>>,
): string => withQuery(`${base}/history`, parameters);

/** Such as "Agent configuration scaler". */
export function nameOfDocument(
  { config_type: type, resource_id: id }: Entry,
  { kinds }: Pick<Owner, 'kinds'>,
): string {
  const kind = kinds.find(({ configType }) => configType === type);
  if (kind) return titleOf(kind, id);
  return type === 'rollout_config' ? `Rollout ${id.slice(0, 8)}` : `${type} ${id}`;
}

/** Limits are always there: what made them with the tenant is undone by no one. */
export const isUndoable = ({ action, config_type: type, purged }: Entry): boolean =>
  !purged && !(action === 'create' && type === 'tenant_risk_config');

export type Way = 'undo' | 'restore';
export type Change = Entry['changes'][number];

/** Of a change with more of them, each value by itself is for the document's own form. */
export const mostReverts = 10;

/**
 * Whether a merge patch can put the value of before back: it has no place in a list, no null, and no
 * secret, which nobody is shown.
 */
export const isRevertible = ({ path, before }: Change): boolean =>
  path !== '' &&
  before !== null &&
  !namesOf(path).some((name) => /^\d+$/.test(name)) &&
  !JSON.stringify(before ?? '').includes('********');

/** One value becomes what it was before the change, and the rest of the document stays. */
export async function revertOf(
  owner: Owner,
  entry: Entry,
  { path, before }: Change,
  handlers: Pick<Review, 'onClose' | 'onPublished'>,
): Promise<Review> {
  const kind = owner.kinds.find(({ configType }) => configType === entry.config_type)!;
  const id = kind.plural === undefined ? '' : entry.resource_id;
  const address = addressOf(kind.path, id);
  const { revision } = await readStored(address);
  const name = subjectOf(path);
  return {
    ...handlers,
    title: `Revert ${name} of ${nameOfDocument(entry, owner)}`,
    address,
    method: 'PATCH',
    body: settingAt(path, before ?? null),
    revision,
    hasImpact: owner.tenantId === '',
    about: (
      <p>
        <bdi>{name}</bdi> becomes what it was before revision{' '}
        <span class="number">{entry.revision}</span>; other values stay as they are.
      </p>
    ),
    verb: 'Revert it',
  };
}

/**
 * What takes a change back: the document as it was right before (`undo`) or right after it. What
 * there was not before is deleted. The condition is the document's newest revision, so that a
 * change of this moment is not lost.
 */
export async function reviewOf(
  owner: Owner,
  entry: Entry,
  way: Way,
  handlers: Pick<Review, 'onClose' | 'onPublished'>,
): Promise<Review> {
  const { config_type: type, resource_id: id, revision } = entry;
  const document = { config_type: type, resource_id: id };
  const newest = await get<History>(
    historyAddress(owner, { ...document, limit: String(pageSize) }),
  );
  // A purge writes no document.
  const latest = newest.items.find(({ action }) => action !== 'purge')?.revision ?? revision;
  const detailOf = (each: number) => get<Detail>(`${owner.base}/history/${each}`);
  const [{ before }, { after }] = await Promise.all([detailOf(revision), detailOf(latest)]);
  // Approval routing is there also while it says nothing.
  const mayBeAbsent = type !== 'notification_config';
  const name = nameOfDocument(entry, owner);
  const isUndo = way === 'undo';
  const alsoSince = isUndo && latest !== revision;
  const about = isUndo ? (
    <p>
      {name} becomes what it was right before revision <span class="number">{revision}</span>
      {alsoSince && ', which also takes back what was changed since'}.{' '}
      {mayBeAbsent && before === null && (
        <strong>That revision made the document, so undoing it deletes the document.</strong>
      )}
    </p>
  ) : (
    <p>
      {name} becomes what it was right after revision <span class="number">{revision}</span>.
    </p>
  );
  return {
    ...handlers,
    title: isUndo
      ? `Undo revision ${revision} of ${name}`
      : `Restore ${name} as of revision ${revision}`,
    address: `${owner.base}/rollback`,
    hasImpact: owner.tenantId === '',
    method: 'POST',
    body: isUndo ? { undo: revision } : { revision },
    ...(mayBeAbsent && after === null
      ? { revision: undefined, isNew: true }
      : { revision: latest }),
    about,
    verb: isUndo ? 'Undo it' : 'Restore it',
  };
}
