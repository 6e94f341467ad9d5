/** Fields that a folder owns: said where they are edited, and taken over where they are written. */
import { createContext, type VNode } from 'preact';
import { useContext } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { get, withQuery, type ManagedField, type Problem } from '../api.ts';
import { Button, Strong, Time, Who } from '../inline.tsx';
import { ProblemBox } from '../parts.tsx';

type ManagedFields = readonly ManagedField[];
type List = ResultOf<'tenant-config.managed-fields.list'>;

/** Of the document at this address of the API. */
export async function readManaged(address: string, aborted: AbortSignal): Promise<ManagedFields> {
  const [, tenant = ''] = /^(\/tenants\/[^/]+)\//.exec(address) ?? [];
  const list = withQuery(`${tenant}/config/managed-fields`, { document: address });
  return (await get<List>(list, aborted)).items[0]?.fields ?? [];
}

/** Those of the document that is edited. */
export const Managed = createContext<ManagedFields>([]);

/** Who owns what is at a place of the document, or around or in it; undefined for nobody. */
export function useOwner(place: string): string | undefined {
  const field = useContext(Managed).find(
    ({ path }) =>
      path === place || path.startsWith(`${place}/`) || place.startsWith(`${path}/`) || path === '',
  );
  if (!field) return undefined;
  const { owner, taken_by: taker, taken_by_name: name } = field;
  return taker === undefined
    ? `managed by ${owner}`
    : `taken over from ${owner} by ${name ?? taker}`;
}

const ownersOf = (fields: ManagedFields): string[] => [
  ...new Set(fields.map(({ owner }) => owner)),
];

/** Before anybody edits it. */
export function ManagedNote({ fields }: { readonly fields: ManagedFields }): VNode | null {
  const own = fields.filter(({ taken_by: taker }) => taker === undefined);
  if (own.length === 0) return null;
  return (
    <p class="notice">
      {own.length === 1 ? 'A field is' : `${own.length} fields are`} managed by{' '}
      <Strong>{ownersOf(own).join(', ')}</Strong>. Change {own.length === 1 ? 'it' : 'them'} there;
      what is changed here has to be taken over.
    </p>
  );
}

/** Where a write is refused for it: who owns what, and the offer to take it over. */
const TakeOver = ({
  fields,
  onTakeOver,
}: {
  readonly fields: ManagedFields;
  readonly onTakeOver: (owners: string) => void;
}): VNode => (
  <div class="warning" role="alert">
    <p>
      <strong>
        This is managed by <bdi>{ownersOf(fields).join(', ')}</bdi>.
      </strong>{' '}
      Nothing was written. Change it there, or take it over: the next time that it is applied from
      there, that says so, and does not write over what you change.
    </p>
    <ul>
      {fields.map(({ path, owner, taken_by: taker, taken_by_name: name, taken_at: at }) => (
        <li key={`${owner} ${path}`}>
          <code>{path === '' ? '/' : path}</code> <bdi>{owner}</bdi>
          {taker !== undefined && (
            <>
              , taken over by <Who id={taker} name={name ?? undefined} /> <Time at={at} />
            </>
          )}
        </li>
      ))}
    </ul>
    <Button
      class="secondary"
      says="Take it over"
      onClick={() => onTakeOver(ownersOf(fields).join(', '))}
    />
  </div>
);

/** What is wrong with a write, and from whom it takes something over. */
export const ProblemOrOwner = ({
  problem,
  owners,
  onTakeOver,
}: {
  readonly problem: Problem | undefined;
  /** Of what is taken over. */
  readonly owners: string | undefined;
  readonly onTakeOver: (owners: string) => void;
}): VNode => (
  <>
    {problem && problem.managed.length > 0 ? (
      <TakeOver fields={problem.managed} onTakeOver={onTakeOver} />
    ) : (
      <ProblemBox problem={problem} />
    )}
    {owners !== undefined && !problem && (
      <p class="warning">
        What is changed here is taken over from <bdi>{owners}</bdi>.
      </p>
    )}
  </>
);
