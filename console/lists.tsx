/** What lists of things have in common, on whichever screen they are. */
import type { ComponentChildren, VNode } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { setQuery } from './address.ts';
import type { Problem } from './api.ts';
import { Button, type Column, Columns, Loading, ProblemBox, TableRegion } from './parts.tsx';

/** Until the first answer is there, and whenever the latest is a refusal. */
export const Waiting = ({
  data,
  problem,
  retry,
}: {
  readonly data: unknown;
  readonly problem: Problem | undefined;
  readonly retry: () => void;
}): VNode => (
  <>
    <ProblemBox problem={problem} retry={retry} />
    {!data && !problem && <Loading />}
  </>
);

/** A table with its head; `children` are its rows. On phones each row is a card. */
export function Table({
  label,
  columns,
  look = '',
  children,
}: {
  readonly label: string;
  readonly columns: readonly Column[];
  readonly look?: 'lines' | '';
  readonly children?: ComponentChildren;
}): VNode {
  const body = useRef<HTMLTableSectionElement>(null);
  // A card has no head above it: each cell says the name of its column.
  useLayoutEffect(() => {
    const titles = columns.map(titleOf);
    for (const row of body.current?.rows ?? [])
      for (const cell of row.cells) {
        const title = titles[cell.cellIndex];
        const isValue = cell.tagName === 'TD' && cell.colSpan === 1;
        if (isValue && title && cell.dataset.name !== title) cell.dataset.name = title;
      }
  });
  return (
    <TableRegion label={label}>
      <table class={`cards ${look}`}>
        <Columns titles={columns} />
        <tbody ref={body}>{children}</tbody>
      </table>
    </TableRegion>
  );
}

/** Of a column that is shown; none of one whose title is only read out. */
function titleOf(column: Column): string | undefined {
  if (typeof column === 'string') return column;
  if ('sort' in column) return column.title;
  return 'unseen' in column ? undefined : Object.values(column)[0];
}

/** What is done with one row. `label` says it without the row around it. */
export const RowButton = ({
  label,
  isDangerous = false,
  says,
  onClick,
}: {
  readonly label: string;
  readonly isDangerous?: boolean;
  readonly says: string;
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
