/** Small pieces that every screen is made of. */
import { signal } from '@preact/signals';
import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { holdPage, parameter, setQuery } from './address.ts';
import type { Problem } from './api.ts';
import type { Difference } from '../shared/schema/diff.ts';
import { goBackTo, focusTargetOf } from './focus.ts';
import { Button, Value } from './inline.tsx';
import { directionOf, nextOrder } from './sorting.ts';

/** A refusal where it happened: what is wrong, in which field, and what the log has it under. */
export function ProblemBox({
  problem,
  retry,
}: {
  readonly problem: Problem | undefined;
  readonly retry?: () => void;
}): VNode | null {
  if (!problem) return null;
  const { message, fields, requestId, code } = problem;
  // The places that end it are below, each with what is wrong there.
  const title = fields.length > 0 ? message.replace(/: \/.*\.$/, '.') : message;
  return (
    <div class="problem" role="alert">
      <p>
        <strong>{title}</strong>
      </p>
      {fields.length > 0 && (
        <ul>
          {fields.map(({ path, message: says }) => (
            <li>
              <code>{path === '' ? '/' : path}</code> {says}
            </li>
          ))}
        </ul>
      )}
      <p class="fine">
        {code}
        {requestId && (
          <span>
            {' '}
            · request <code>{requestId}</code>
          </span>
        )}
        {retry && <Button class="link" says="Try again" onClick={retry} />}
      </p>
    </div>
  );
}

/** What stands where rows will be, so that nothing moves when they come. */
export const Loading = ({ says = 'Loading…' }: { readonly says?: string }): VNode => (
  <p class="empty" role="status">
    {says}
  </p>
);

export const Empty = ({ children }: { readonly children?: ComponentChildren }): VNode => (
  <p class="empty">{children}</p>
);

/** Lines of their own, which scroll where there are many, also by keyboard. */
export const TextBlock = ({
  text,
  label,
}: {
  readonly text: string;
  readonly label?: string;
}): VNode => (
  <pre tabindex={0} aria-label={label}>
    <code>{text}</code>
  </pre>
);

/** A table that scrolls by itself where the page is narrower, also by keyboard. */
export const TableRegion = ({
  label,
  children,
}: {
  readonly label: string;
  readonly children?: ComponentChildren;
}): VNode => (
  <div class="scrolls" role="group" aria-label={label} tabindex={0}>
    {children}
  </div>
);

/** A column that the rows can be ordered by has a name for the address. */
interface SortColumn {
  readonly sort: string;
  readonly title: string;
  readonly look?: 'wide' | 'number';
}
export type Column =
  | string
  | { readonly wide: string }
  | { readonly number: string }
  | { readonly unseen: string }
  | SortColumn;

/** The class of the cells of a column. */
export function lookOf(column: Column): string | undefined {
  if (typeof column === 'string') return undefined;
  if ('sort' in column) return column.look;
  return 'unseen' in column ? 'action' : Object.keys(column)[0];
}

/** Of a column that is shown; none of one whose title is only read out. */
export function titleOf(column: Column): string | undefined {
  if (typeof column === 'string') return column;
  if ('sort' in column) return column.title;
  return 'unseen' in column ? undefined : Object.values(column)[0];
}

/** Whoever chooses another order begins with its first page where `restarts` is set. */
function SortHead({
  column: { sort, title, look },
  restarts,
}: {
  readonly column: SortColumn;
  readonly restarts: boolean;
}): VNode {
  const asked = parameter('sort');
  const choose = (): void =>
    setQuery({ sort: nextOrder(sort, asked), ...(restarts && { cursor: '', open: '' }) });
  return (
    <th scope="col" class={look} aria-sort={directionOf(sort, asked)}>
      <button type="button" class="plain sort" onClick={choose}>
        {title}
        <span class="direction" aria-hidden="true"></span>
      </button>
    </th>
  );
}

/** The head of a table: a column without a special look is its title alone. */
export const Columns = ({
  titles,
  restarts = false,
}: {
  readonly titles: readonly Column[];
  readonly restarts?: boolean;
}): VNode => (
  <thead>
    <tr>
      {titles.map((column) =>
        typeof column === 'object' && 'sort' in column ? (
          <SortHead key={column.sort} column={column} restarts={restarts} />
        ) : (
          <th scope="col" class={lookOf(column)}>
            {titleOf(column) ?? <span class="unseen">{Object.values(column)}</span>}
          </th>
        ),
      )}
    </tr>
  </thead>
);

/** A row of a `dl` of facts: what is said in one piece, or in several. */
export const Fact = ({
  name,
  says,
  isWhole = false,
  children = says,
}: {
  readonly name: string;
  readonly says?: ComponentChildren;
  /** Sentences and JSON, which are not read in a column. */
  readonly isWhole?: boolean;
  readonly children?: ComponentChildren;
}): VNode => (
  <div class={isWhole ? 'whole' : undefined}>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
);

/** A part of a screen that has a title, and of a list how much there is. */
export const Section = ({
  title,
  count,
  children,
  ...attributes
}: {
  readonly title: string;
  readonly count?: number;
  readonly class?: string;
  readonly children?: ComponentChildren;
}): VNode => (
  <section aria-label={title} {...attributes}>
    <h2>
      {title} {count !== undefined && <span class="fine number">{count}</span>}
    </h2>
    {children}
  </section>
);

/** A dialog over the page, which keeps the focus and closes with Escape. */
export function Dialog({
  title,
  isAside = false,
  onClose,
  children,
}: {
  readonly title: string;
  /** It is about the page as a whole, and holds nothing that would be lost with its screen. */
  readonly isAside?: boolean;
  readonly onClose?: () => void;
  readonly children?: ComponentChildren;
}): VNode {
  const element = useRef<HTMLDialogElement>(null);
  // One dialog may be over another.
  const titleId = useId();
  // At once, while it is on the page: later the keys that somebody types meanwhile would act on
  // what is under it.
  useLayoutEffect(() => {
    const dialog = element.current;
    const before = focusTargetOf(document.activeElement);
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before) goBackTo(before);
    };
  }, []);
  useLayoutEffect(() => (isAside ? undefined : holdPage()), []);
  const cancel = (event: Event): void => {
    // Of a file that nobody chose, which comes up from its field.
    if (event.target !== element.current) return;
    event.preventDefault();
    onClose?.();
  };
  /**
   * Browsers close a dialog at the second Escape, whatever it says: one that has to be answered
   * comes back.
   */
  const reopen = (): void => {
    const dialog = element.current;
    if (!onClose && dialog?.isConnected && !dialog.open) dialog.showModal();
  };
  return (
    <dialog ref={element} aria-labelledby={titleId} onCancel={cancel} onClose={reopen}>
      <div class="dialog">
        <header>
          <h2 id={titleId}>{title}</h2>
          {onClose && <Button class="plain" says="×" aria-label="Close" onClick={onClose} />}
        </header>
        {children}
      </div>
    </dialog>
  );
}

/** As many rows as a browser lays out without a pause that somebody feels. */
const mostChanges = 200;

/**
 * What differs, before and after, each marked by a sign as well as by its colour. Of very many,
 * some at a time.
 */
export function Changes({ changes }: { readonly changes: readonly Difference[] }): VNode {
  const [most, setMost] = useState(mostChanges);
  if (changes.length === 0) return <p class="empty">Nothing changes.</p>;
  const side = (change: Difference, name: 'before' | 'after'): VNode => (
    <td class={name}>
      {name in change ? (
        <Value value={change[name]} longest={400} />
      ) : (
        <span class="muted">not set</span>
      )}
    </td>
  );
  return (
    <div>
      <TableRegion label="Changes">
        <table class="changes">
          <Columns titles={['Where', 'Before', 'After']} />
          <tbody>
            {changes.slice(0, most).map((change) => (
              <tr key={change.path}>
                <th scope="row">
                  <code>{change.path === '' ? '/' : change.path}</code>
                </th>
                {side(change, 'before')}
                {side(change, 'after')}
              </tr>
            ))}
          </tbody>
        </table>
      </TableRegion>
      {changes.length > most && (
        <p class="fine">
          The first {most} of {changes.length} places.{' '}
          <Button class="link" says="Show more" onClick={() => setMost(most + mostChanges)} />
        </p>
      )}
    </div>
  );
}

export interface Choice {
  readonly name: string;
  readonly label?: string;
}

export const choicesOf = (names: readonly string[] = []): Choice[] =>
  names.map((name) => ({ name }));

/**
 * What a field for times takes at most. Without it browsers let people type years of six digits, and a
 * text that names no time would be taken for none.
 */
export const lastTime = (type: unknown): { readonly max?: string } => {
  if (type === 'datetime-local') return { max: '9999-12-31T23:59' };
  return type === 'date' ? { max: '9999-12-31' } : {};
};

/**
 * A field that says what was typed once that is finished, by Enter or by leaving it. Until then the
 * text is its own: what comes for the screen meanwhile draws it again, and would put back what was
 * there before.
 */
export function TypedField({
  label,
  name,
  value,
  choices,
  onTyped,
  ...attributes
}: {
  readonly label: string;
  readonly name: string;
  readonly value: string;
  /** Names to pick, and what people call them. */
  readonly choices?: readonly Choice[] | undefined;
  readonly onTyped: (text: string) => void;
  readonly [attribute: string]: unknown;
}): VNode {
  const [unfinished, setUnfinished] = useState<string>();
  const textIn = (event: Event): string => (event.target as HTMLInputElement).value;
  return (
    <label>
      {label}
      <input
        autocomplete="off"
        spellcheck={false}
        name={name}
        list={choices && `${name}-names`}
        {...lastTime(attributes.type)}
        {...attributes}
        value={unfinished ?? value}
        onInput={(event: Event) => setUnfinished(textIn(event))}
        onBlur={() => setUnfinished(undefined)}
        onChange={(event: Event) => {
          setUnfinished(undefined);
          onTyped(textIn(event));
        }}
      />
      {choices && (
        <datalist id={`${name}-names`}>
          {choices.map((each) => (
            <option key={each.name} value={each.name}>
              {each.label}
            </option>
          ))}
        </datalist>
      )}
    </label>
  );
}

/** What the screen that is shown is called. */
export const shownTitle = signal('');

/** The heading of a screen; whoever came by a link starts reading here. */
export function Heading({
  title,
  about,
  children,
}: {
  readonly title: string;
  readonly about?: string;
  readonly children?: ComponentChildren;
}): VNode {
  const element = useRef<HTMLHeadingElement>(null);
  const isShown = useRef(false);
  useEffect(() => {
    document.title = `${title} · Strata`;
    shownTitle.value = title;
    // A title that somebody changes takes nobody away from what they do on the same screen.
    const isInUse = isShown.current && document.querySelector('main :focus') !== null;
    if (!isInUse) element.current?.focus({ preventScroll: true });
    isShown.current = true;
  }, [title]);
  return (
    <div class="heading">
      <h1 ref={element} tabindex={-1}>
        {title}
      </h1>
      {about !== undefined && <p class="muted">{about}</p>}
      {children}
    </div>
  );
}
