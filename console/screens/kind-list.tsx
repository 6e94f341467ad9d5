/** The documents of one kind as a table that filters, with a way to begin a new one. */
import type { VNode } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { go, parameter, wantedText } from '../address.ts';
import { shortJson } from '../format.ts';
import { useLive } from '../loading.ts';
import { countOf, usePages, useRows } from '../pages.ts';
import { ShowMore, Table } from '../lists.tsx';
import { Button, Link, Value } from '../inline.tsx';
import { ProblemBox } from '../parts.tsx';
import { isObject, type JsonObject } from '../../shared/schema/json-pointer.ts';
import { sortedBy, type Orders } from '../sorting.ts';
import { ChangeTogether } from './change-together.tsx';
import { addressOf, idOf, mayWrite, screenOf, type DocumentKind } from './document-kinds.ts';
import { Form } from '../fields.tsx';

type Item = Readonly<Record<string, unknown>>;

/**
 * What the filter looks at, made once of each item: there may be tens of thousands, and a filter
 * asks with every key.
 */
const texts = new WeakMap<Item, string>();

function textOf(kind: DocumentKind, item: Item): string {
  const known = texts.get(item);
  if (known !== undefined) return known;
  const values = (kind.columns ?? []).map((name) => shortJson(item[name] ?? '', 500));
  const text = [idOf(kind, item), ...values].join('\n').toLowerCase();
  texts.set(item, text);
  return text;
}

const ordersOf = (kind: DocumentKind): Orders<Item> => ({
  ...Object.fromEntries(
    (kind.columns ?? []).map((name) => [
      name,
      ({ [name]: value }: Item) =>
        typeof value === 'number' || value === undefined ? value : shortJson(value, 500),
    ]),
  ),
  [kind.idField ?? '']: (item) => idOf(kind, item),
});

export function KindList({
  kind,
  pageOf = (id) => screenOf(kind, id),
}: {
  readonly kind: DocumentKind;
  /** Where a name leads: to the document where nothing else is said. */
  readonly pageOf?: (id: string) => string;
}): VNode {
  const { list = '', idField = '', plural = '', columns = [] } = kind;
  const address = addressOf(list);
  const wanted = wantedText();
  const sort = parameter('sort');
  const orders = ordersOf(kind);
  // Also what is not loaded yet may be the first.
  const isWhole = wanted !== '' || Object.hasOwn(orders, sort.replace(/^-/, ''));
  const pages = usePages<Item>(address, isWhole);
  const { items, isComplete, problem, reload } = pages;
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  useLive(reload, (change) => change.config_type === kind.configType);
  const found = items?.filter((item) => textOf(kind, item).includes(wanted));
  const { rows: shown, showMore } = useRows(found && sortedBy(found, orders, sort), pages);
  const isChoosing = mayChangeTogether(kind);
  const shownIds = shown?.map((item) => idOf(kind, item)) ?? [];
  const toggle = (id: string): void => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  // What a filter hides meanwhile is not changed unseen.
  const together = shownIds.filter((id) => chosen.has(id));
  return (
    <section class="kind">
      <div class="heading">
        <h2>{plural}</h2>
        {items && found && (
          <span class="fine number" role="status">
            {countOf(found.length, items.length, isComplete)}
          </span>
        )}
        <span class="grow"></span>
        {isChoosing && shownIds.length > 1 && (
          <Together kind={kind} shown={shownIds} chosen={together} onChosen={setChosen} />
        )}
        {mayWrite(kind) && <NewDocument kind={kind} />}
      </div>
      <ProblemBox problem={problem} retry={reload} />
      {items?.length === 0 && <p class="empty">None yet. {kind.about}.</p>}
      {items && items.length > 0 && isComplete && found?.length === 0 && (
        <p class="empty">None fits the filter.</p>
      )}
      <Table
        label={plural}
        items={shown}
        keyOf={(item) => idOf(kind, item)}
        empty={false}
        columns={[
          [
            { sort: idField, title: idField },
            (item) => {
              const id = idOf(kind, item);
              return (
                <>
                  {isChoosing && shownIds.length > 1 && (
                    <input
                      type="checkbox"
                      class="pick"
                      aria-label={`Choose ${id}`}
                      checked={chosen.has(id)}
                      onChange={() => toggle(id)}
                    />
                  )}
                  <Link to={pageOf(id)}>{id}</Link>
                </>
              );
            },
          ],
          ...columns.map(
            (name) =>
              [{ sort: name, title: name }, (item: Item) => <Cell value={item[name]} />] as const,
          ),
        ]}
      />
      {showMore && <ShowMore onClick={showMore} />}
    </section>
  );
}

/** Labels are an object of texts; any other, such as a value of any shape, is shown as JSON. */
function Cell({ value }: { readonly value: unknown }): VNode {
  if (value === undefined) return <span class="muted">–</span>;
  if (typeof value === 'string') return <bdi>{value}</bdi>;
  const isLabels =
    isObject(value) && Object.values(value).every((each) => typeof each === 'string');
  return isLabels ? <Labels labels={value} /> : <Value value={value} longest={60} />;
}

export const Labels = ({ labels }: { readonly labels: JsonObject }): VNode => (
  <span class="labels">
    {Object.entries(labels).map(([name, value]) => (
      <span class="tag" key={name}>
        <bdi>
          {name}: {String(value)}
        </bdi>
      </span>
    ))}
  </span>
);

/** The platform has its plan for that. */
const mayChangeTogether = (kind: DocumentKind): boolean =>
  kind.isPlatform !== true && mayWrite(kind);

function Together({
  kind,
  shown,
  chosen,
  onChosen,
}: {
  readonly kind: DocumentKind;
  readonly shown: readonly string[];
  readonly chosen: readonly string[];
  readonly onChosen: (chosen: ReadonlySet<string>) => void;
}): VNode {
  const [isOpen, setOpen] = useState(false);
  const areAll = chosen.length === shown.length;
  return (
    <>
      <Button
        class="small"
        says={areAll ? 'Choose none' : `Choose all ${shown.length}`}
        onClick={() => onChosen(new Set(areAll ? [] : shown))}
      />
      {chosen.length > 0 && (
        <Button
          class="small"
          says={`Change ${chosen.length} together…`}
          onClick={() => setOpen(true)}
        />
      )}
      {isOpen && <ChangeTogether kind={kind} ids={chosen} onClose={() => setOpen(false)} />}
    </>
  );
}

function NewDocument({ kind }: { readonly kind: DocumentKind }): VNode {
  const [isOpen, setOpen] = useState(false);
  const [id, setId] = useState('');
  const input = useRef<HTMLInputElement>(null);
  // It takes the place of the button, which others on the screen are called like.
  useLayoutEffect(() => input.current?.focus(), [isOpen]);
  if (!isOpen) return <Button class="small" says="New…" onClick={() => setOpen(true)} />;
  const begin = (): void => go(screenOf(kind, id.trim()));
  return (
    <Form class="inline" onSend={begin}>
      <input
        ref={input}
        aria-label={`New ${kind.idField}`}
        placeholder={kind.idField}
        value={id}
        required
        autocomplete="off"
        spellcheck={false}
        onInput={({ currentTarget }) => setId(currentTarget.value)}
      />
      <Button type="submit" class="small" says="Begin" />
    </Form>
  );
}
