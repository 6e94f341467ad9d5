/** The order of a table, as its address has it: the name of a column, with a minus for descending. */

/** What the rows are ordered by, by the names of columns. */
export type Orders<Item> = Readonly<
  Record<string, (item: Item) => string | number | null | undefined>
>;

type Direction = 'ascending' | 'descending' | 'none';

export function directionOf(column: string, asked: string): Direction {
  if (asked === column) return 'ascending';
  return asked === `-${column}` ? 'descending' : 'none';
}

/** What choosing a column asks for: ascending, then descending, then the order that it came in. */
export function nextOrder(column: string, asked: string): string {
  const direction = directionOf(column, asked);
  if (direction === 'none') return column;
  return direction === 'ascending' ? `-${column}` : '';
}

const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: 'base' });

/** As they came where no column of these is asked for. What has no value is last in both directions. */
export function sortedBy<Item>(
  items: readonly Item[],
  orders: Orders<Item>,
  asked: string,
): readonly Item[] {
  const isDescending = asked.startsWith('-');
  const column = isDescending ? asked.slice(1) : asked;
  const valueOf = Object.hasOwn(orders, column) ? orders[column] : undefined;
  if (!valueOf) return items;
  const sign = isDescending ? -1 : 1;
  const values = new Map(items.map((item) => [item, valueOf(item) ?? null]));
  return items.toSorted((one, other) => {
    const [left, right] = [values.get(one)!, values.get(other)!];
    if (left === null || right === null) return Number(left === null) - Number(right === null);
    const isOfNumbers = typeof left === 'number' && typeof right === 'number';
    return sign * (isOfNumbers ? left - right : collator.compare(String(left), String(right)));
  });
}
