/** What lists of things have in common, on whichever screen they are. */
import type { ComponentChildren, VNode } from 'preact';
import { opened, setQuery, toggleOpened } from './address.ts';
import type { Problem } from './api.ts';
import { Button } from './inline.tsx';
import {
  type Column,
  Columns,
  Empty,
  Loading,
  lookOf,
  ProblemBox,
  TableRegion,
  titleOf,
} from './parts.tsx';

/** Until the first answer is there, and whenever the latest is a refusal. */
export const Waiting = ({
  data,
  problem,
  retry,
  unknown,
}: {
  readonly data: unknown;
  readonly problem: Problem | undefined;
  readonly retry: () => void;
  /** Said where nothing has the id that was asked for, or nothing can have it. */
  readonly unknown?: string;
}): VNode => (
  <>
    {unknown !== undefined && (problem?.status === 404 || problem?.status === 422) ? (
      <Empty>{unknown}</Empty>
    ) : (
      <ProblemBox problem={problem} retry={retry} />
    )}
    {!data && !problem && <Loading />}
  </>
);

/** What each column is called, and what a row says in it. */
export type Cells<Row> = readonly (readonly [
  head: Column,
  cell: (row: Row, index: number) => ComponentChildren,
])[];

/**
 * A table of rows, which one of its columns names. On phones each row is a card: it has no head above
 * it, so that each cell says the name of its column.
 */
export function Table<Row>({
  label,
  items,
  keyOf = idOrPlace,
  columns,
  nameAt = 0,
  look = '',
  empty,
  children,
}: {
  readonly label: string;
  /** Undefined until they are there, and nothing is shown. */
  readonly items: readonly Row[] | undefined;
  /** Of what no other row has: its id, or its place, by default. */
  readonly keyOf?: (row: Row, index: number) => string | number;
  readonly columns: Cells<Row>;
  readonly nameAt?: number;
  readonly look?: 'lines' | '';
  /** Said where there are no rows; false for nothing, and where it is left out the head stands. */
  readonly empty?: ComponentChildren;
  /** Below the rows. */
  readonly children?: ComponentChildren;
}): VNode | null {
  if (items === undefined) return null;
  if (items.length === 0 && empty !== undefined) return empty ? <Empty>{empty}</Empty> : null;
  const cellOf = (row: Row, index: number, at: number): VNode => {
    const [head, cell] = columns[at]!;
    const says = cell(row, index);
    if (at === nameAt)
      return (
        <th key={at} scope="row">
          {says}
        </th>
      );
    return (
      <td key={at} class={lookOf(head)} data-name={titleOf(head)}>
        {says}
      </td>
    );
  };
  return (
    <TableRegion label={label}>
      <table class={`cards ${look}`}>
        <Columns titles={columns.map(([head]) => head)} />
        <tbody>
          {items.map((row, index) => (
            <tr key={keyOf(row, index)}>{columns.map((_column, at) => cellOf(row, index, at))}</tr>
          ))}
          {children}
        </tbody>
      </table>
    </TableRegion>
  );
}

/** A table whose rows are opened by their first column to see more of them, as the address says. */
export function OpenTable<Row>({
  look,
  items,
  keyOf,
  columns,
  restarts = false,
  empty,
  inside,
}: {
  readonly look: 'audit' | 'history';
  /** Undefined until they are there, and nothing is shown. */
  readonly items: readonly Row[] | undefined;
  readonly keyOf: (row: Row) => string;
  readonly columns: Cells<Row>;
  /** Whether another order begins with its first page. */
  readonly restarts?: boolean;
  readonly empty: ComponentChildren;
  readonly inside: (row: Row) => ComponentChildren;
}): VNode | null {
  if (items === undefined) return null;
  if (items.length === 0) return <Empty>{empty}</Empty>;
  const [[, nameOf], ...others] = columns as [Cells<Row>[number], ...Cells<Row>];
  const open = opened();
  const rowOf = (row: Row, index: number): VNode => {
    const key = keyOf(row);
    const isOpen = open.has(key);
    const id = `inside-${key}`;
    return (
      <tbody key={key} class={isOpen ? 'open' : ''}>
        <tr>
          <th scope="row">
            <button
              type="button"
              class="plain key"
              aria-expanded={isOpen}
              aria-controls={isOpen ? id : undefined}
              onClick={() => toggleOpened(key)}
            >
              <span class="chevron" aria-hidden="true"></span>
              {nameOf(row, index)}
            </button>
          </th>
          {others.map(([head, cell], at) => (
            <td key={at} class={lookOf(head)}>
              {cell(row, index)}
            </td>
          ))}
        </tr>
        {isOpen && (
          <tr class="opened">
            <td colspan={columns.length} id={id}>
              <div class="ladder">{inside(row)}</div>
            </td>
          </tr>
        )}
      </tbody>
    );
  };
  return (
    <table class={`keys ${look}`}>
      <Columns titles={columns.map(([head]) => head)} restarts={restarts} />
      {items.map(rowOf)}
    </table>
  );
}

const idOrPlace = (row: unknown, index: number): string | number =>
  typeof row === 'object' && row !== null && 'id' in row ? String(row.id) : index;

/** What is done with one row. `label` says it without the row around it: of what it is, by default. */
export const RowButton = ({
  says,
  of,
  label = `${says.replace('…', '')} ${of}`,
  isDangerous = false,
  onClick,
}: {
  readonly says: string;
  readonly of?: string;
  readonly label?: string;
  readonly isDangerous?: boolean;
  readonly onClick: () => void;
}): VNode => (
  <Button
    class={isDangerous ? 'small danger' : 'small'}
    says={says}
    aria-label={label}
    onClick={onClick}
  />
);

/** Pages by cursors, of which the address has the one that is shown. */
export const Pager = ({
  cursor,
  next,
  isOldestFirst = false,
  isOrderOfPage = false,
  children,
}: {
  readonly cursor: string;
  readonly next: string | null | undefined;
  readonly isOldestFirst?: boolean;
  /** The rows are ordered by something that the pages are not. */
  readonly isOrderOfPage?: boolean;
  readonly children?: ComponentChildren;
}): VNode => (
  <p class="paging">
    {cursor !== '' && (
      <Button
        class="small"
        says={isOldestFirst ? 'Oldest' : 'Newest'}
        onClick={() => setQuery({ cursor: '' })}
      />
    )}
    {next && (
      <Button
        class="small"
        says={isOldestFirst ? 'Newer' : 'Older'}
        onClick={() => setQuery({ cursor: next, open: '' })}
      />
    )}
    {isOrderOfPage && (next || cursor !== '') && (
      <span class="fine">The order is that of this page.</span>
    )}
    {children}
  </p>
);

export const ShowMore = ({ onClick }: { readonly onClick: () => void }): VNode => (
  <p class="paging">
    <Button class="small" says="Show more" onClick={onClick} />
  </p>
);

/** What was done, where something was. */
export const Notice = ({ says }: { readonly says: string | undefined }): VNode | null =>
  says ? (
    <p class="notice" role="status">
      {says}
    </p>
  ) : null;
