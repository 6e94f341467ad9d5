/** Whose changes the history shows, of which documents and days: all of it in the address. */
import type { ComponentChildren, VNode } from 'preact';
import { parameter, setQuery } from '../address.ts';
import { FilterField, Filters, SelectField, TypedFilter } from '../fields.tsx';
import { localDate } from '../format.ts';
import { Button } from '../inline.tsx';
import type { DocumentKind } from './document-kinds.ts';

/** So many days ago, of which some have 23 or 25 hours. */
function localDay(ago: number): string {
  const at = new Date();
  at.setDate(at.getDate() - ago);
  return localDate(at);
}

/** The beginning of a day, or of one after it; nothing for what is no day. */
export function dayOf(text: string, later = 0): string | undefined {
  const at = new Date(`${text}T00:00:00`);
  if (Number.isNaN(at.getTime())) return undefined;
  at.setDate(at.getDate() + later);
  return at.toISOString();
}

const presets = [
  { title: 'Today', from: 0, to: 0 },
  { title: 'Yesterday', from: 1, to: 1 },
  { title: 'Last 7 days', from: 6, to: 0 },
  { title: 'Last 30 days', from: 29, to: 0 },
] as const;

export function HistoryFilters({
  kinds,
  children,
}: {
  readonly kinds: readonly DocumentKind[];
  readonly children?: ComponentChildren;
}): VNode {
  const [since, until] = [parameter('since'), parameter('until')];
  return (
    <>
      <Filters class="question five">
        <SelectField
          name="config_type"
          label="Document"
          options={[
            { value: '', title: 'any' },
            ...kinds.map(({ configType, title: kind }) => ({
              value: configType,
              title: kind,
            })),
          ]}
        />
        <TypedFilter name="resource_id" label="Name" placeholder="any" />
        <TypedFilter name="by" label="By" placeholder="address or id" />
        <TypedFilter name="since" label="From day" type="date" />
        <TypedFilter name="until" label="To day" type="date" />
        <FilterField label="Filter this page" placeholder="key, value or reason" />
      </Filters>
      <p class="buttons presets">
        {presets.map(({ title, from, to }) => (
          <Button
            key={title}
            class="small"
            says={title}
            aria-pressed={since === localDay(from) && until === localDay(to)}
            onClick={() => setQuery({ since: localDay(from), until: localDay(to), cursor: '' })}
          />
        ))}
        {(since !== '' || until !== '') && (
          <Button
            class="link"
            says="Any day"
            onClick={() => setQuery({ since: '', until: '', cursor: '' })}
          />
        )}
        <span class="grow"></span>
        {children}
      </p>
    </>
  );
}
