/**
 * What holds for an agent on a service, and why: every key with its value, and the ladder of the
 * six layers that could decide it. The question, the filter and the open ladders stand in the
 * address.
 */
import type { VNode } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf, ofTenant, opened, query, setQuery, toggleOpened, wantedText } from '../address.ts';
import { get, withQuery } from '../api.ts';
import { CheckFilter, FilterField, Filters, TypedFilter } from '../fields.tsx';
import { localTime, nameBeside, shortJson } from '../format.ts';
import { useGrowing } from '../growing.ts';
import { useLive, useLoaded, useGet } from '../loading.ts';
import { Button, Time, Value, Who } from '../inline.tsx';
import { choicesOf, type Choice, Columns, Empty, Heading, Loading, ProblemBox } from '../parts.tsx';
import { AsOf, contextAsOf, type ContextAsOf } from './as-of.tsx';
import { ClearOverride, EditOverride } from './change-override.tsx';
import { boundOwners, Glyph, Ladder } from './key-ladder.tsx';
import { ladderOf, placeTitle, type Explained, type Rung, type Way } from './ladder.ts';

type Effective = ResultOf<'config-resolver.resolve'>;

export function EffectiveValues(): VNode {
  const question = contextAsOf();
  const address = withQuery(ofTenant('/config/effective'), {
    ...question,
    explain: 'true',
  });
  const { data, problem, isBusy, reload } = useGet<Effective>(address);
  useLive(reload);
  return (
    <section>
      <Heading title="Effective values">
        {data && <Revision effective={data} isBusy={isBusy} />}
        <span class="grow"></span>
        <a href={hrefOf(comparing(question))}>Compare…</a>
      </Heading>
      <QuestionForm question={question} />
      {question.as_of !== undefined && <Then asOf={question.as_of} />}
      <ProblemBox problem={problem} retry={reload} />
      {data && data.unknown.length > 0 && <Unknown effective={data} question={question} />}
      {data ? <Keys effective={data} question={question} reload={reload} /> : isBusy && <Loading />}
    </section>
  );
}

/** The same question on both sides, to begin from. */
const comparing = (question: ContextAsOf): string =>
  withQuery(ofTenant('/compare'), {
    ...question,
    ...Object.fromEntries(
      Object.entries(question).map(([name, value]) => [`with_${name}`, value] as const),
    ),
  });

/** What is shown is of another moment, which is easily taken for what holds. */
const Then = ({ asOf }: { readonly asOf: string }): VNode => (
  <p class="notice">
    <strong>As it was {/^\d+$/.test(asOf) ? `at revision ${asOf}` : localTime(asOf)}</strong>, but
    for the environment, which has no history.{' '}
    <Button class="link" says="Show what holds now" onClick={() => setQuery({ as_of: '' })} />
  </p>
);

function Revision({
  effective,
  isBusy,
}: {
  readonly effective: Effective;
  readonly isBusy: boolean;
}): VNode {
  const { tenant, platform } = effective.revision;
  return (
    <p class="fine" aria-live="off">
      Revision <span class="number">{tenant}</span> of the tenant,{' '}
      <span class="number">{platform}</span> of the platform{isBusy && ' · reading again'}
    </p>
  );
}

const addressTitles = { agent_type: 'agent', service_id: 'service', service_type: 'service type' };

/** A typed name that nothing has: its layers are missing, which is easily taken for a default. */
function Unknown({
  effective,
  question,
}: {
  readonly effective: Effective;
  readonly question: ContextAsOf;
}): VNode {
  const names = effective.unknown.map((field) => (
    <li key={field}>
      No {addressTitles[field]} named <code>{question[field]}</code>.
    </li>
  ));
  return (
    <div class="problem" role="alert">
      <p>
        <strong>These names do not exist</strong>, so their layers are missing below:
      </p>
      <ul>{names}</ul>
    </div>
  );
}

type Contexts = ResultOf<'tenant-config.contexts'>;

const choicesIn = (contexts: Contexts) => ({
  agent_type: choicesOf(contexts.agent_types),
  service_id: contexts.services.map(
    ({ service_id: name, service_name: called, service_type: type }): Choice => ({
      name,
      label: called === null ? type : `${called} (${type})`,
    }),
  ),
  service_type: choicesOf(contexts.service_types),
});

function QuestionForm({ question }: { readonly question: ContextAsOf }): VNode {
  const address = ofTenant('/contexts');
  const { data, reload } = useLoaded(address, async (aborted) =>
    choicesIn(await get<Contexts>(address, aborted)),
  );
  useLive(reload, ({ config_type: type }) => type === 'agent_config' || type === 'service_config');
  const field = (name: keyof ReturnType<typeof choicesIn>, label: string): VNode => (
    <TypedFilter name={name} label={label} placeholder="any" choices={data?.[name] ?? []} />
  );
  return (
    <Filters class="question effective" aria-label="What for">
      {field('agent_type', 'Agent type')} {field('service_id', 'Service')}
      {field('service_type', 'Service type')}
      <AsOf
        name="as_of"
        value={question.as_of ?? ''}
        onChange={(value: string) => setQuery({ as_of: value })}
      />
      <FilterField placeholder="key or value" />
      <CheckFilter name="overridden" label="Only overridden" />
    </Filters>
  );
}

interface Entry {
  readonly key: string;
  readonly value: unknown;
  readonly explained: Explained;
  readonly rungs: readonly Rung[];
  /** What the filter looks at. */
  readonly text: string;
}

function entriesOf(effective: Effective): readonly Entry[] {
  const explain = effective.explain ?? {};
  return Object.keys(explain)
    .toSorted()
    .map((key) => {
      const explained = explain[key]!;
      const value = effective.values[key];
      const text = `${key} ${shortJson(value, 500)} ${explained.layer}`.toLowerCase();
      return { key, value, explained, rungs: ladderOf(explained), text };
    });
}

interface Changing {
  readonly way: Way;
  readonly entry: Entry;
  readonly rung: Rung;
}

/**
 * Draws the row of each entry once. Of a thousand rows, drawing them again or taking them out of the
 * page takes longer than a filter may; hiding them does not. `onChange` is absent where what is
 * shown is of another moment.
 */
function rowsOf(entries: readonly Entry[], onChange: ((changing: Changing) => void) | undefined) {
  const drawn = new Map<Entry, { readonly isOpen: boolean; readonly row: VNode }>();
  const rowOf = (entry: Entry, isOpen: boolean): VNode => {
    const before = drawn.get(entry);
    if (before?.isOpen === isOpen) return before.row;
    const row = (
      <KeyRow
        entry={entry}
        isOpen={isOpen}
        onToggle={() => toggleOpened(entry.key)}
        {...(onChange && { onChange: (way: Way, rung: Rung) => onChange({ way, entry, rung }) })}
      />
    );
    drawn.set(entry, { isOpen, row });
    return row;
  };
  return {
    /** Of those in `shown`, and of those that were drawn before, which stay in the page, hidden. */
    draw: (shown: ReadonlySet<Entry>, open: ReadonlySet<string>): readonly VNode[] =>
      entries
        .filter((entry) => shown.has(entry) || drawn.has(entry))
        .map((entry) => {
          const isOpen = open.has(entry.key);
          return (
            <tbody key={entry.key} hidden={!shown.has(entry)} class={isOpen ? 'open' : ''}>
              {rowOf(entry, isOpen)}
            </tbody>
          );
        }),
  };
}

function Keys({
  effective,
  question,
  reload,
}: {
  readonly effective: Effective;
  readonly question: ContextAsOf;
  readonly reload: () => void;
}): VNode {
  const entries = useMemo(() => entriesOf(effective), [effective]);
  const [changing, setChanging] = useState<Changing>();
  const Change = changing?.way === 'edit' ? EditOverride : ClearOverride;
  const wanted = wantedText();
  const onlyOverridden = query.value.has('overridden');
  const open = opened();
  const shown = entries.filter(
    ({ text, explained }) =>
      text.includes(wanted) &&
      (!onlyOverridden || explained.shadowed.length > 0 || explained.enforced !== undefined),
  );
  const drawn = useGrowing(`${wanted} ${onlyOverridden}`, shown.length);
  const isNow = question.as_of === undefined;
  const rows = useMemo(() => rowsOf(entries, isNow ? setChanging : undefined), [entries, isNow]);
  if (entries.length === 0) return <Empty>No layer holds any key.</Empty>;
  return (
    <div>
      <p class="fine count" role="status">
        {shown.length === entries.length
          ? `${entries.length} keys`
          : `${shown.length} of ${entries.length} keys`}
      </p>
      {shown.length === 0 && (
        <Empty>
          No key fits the filter.{' '}
          <Button
            class="link"
            says="Show all"
            onClick={() => setQuery({ q: '', overridden: '' })}
          />
        </Empty>
      )}
      <table class="keys" hidden={shown.length === 0}>
        <Columns
          titles={['Key', 'Value', 'Decided by', { wide: 'Changed by' }, { wide: 'When' }]}
        />
        {rows.draw(new Set(shown.slice(0, drawn)), open)}
      </table>
      {changing && (
        <Change
          name={changing.entry.key}
          rung={changing.rung}
          value={changing.entry.value}
          question={question}
          onClose={() => setChanging(undefined)}
          onChanged={() => {
            setChanging(undefined);
            reload();
          }}
        />
      )}
    </div>
  );
}

/**
 * Its small pieces are called, not made components: of a thousand rows those would be most of the
 * work.
 */
function KeyRow({
  entry,
  isOpen,
  onToggle,
  onChange,
}: {
  readonly entry: Entry;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
  /** Absent where what is shown is of another moment. */
  readonly onChange?: ((way: Way, rung: Rung) => void) | undefined;
}): VNode {
  const { key, value, explained, rungs } = entry;
  const id = `ladder-${encodeURIComponent(key)}`;
  return (
    <>
      <tr>
        <th scope="row">
          <button
            type="button"
            class="plain key"
            aria-expanded={isOpen}
            aria-controls={isOpen ? id : undefined}
            onClick={onToggle}
          >
            <span class="chevron" aria-hidden="true"></span>
            <bdi>{key}</bdi>
          </button>
        </th>
        <td>{Value({ value, longest: 60 })}</td>
        <td class="decided">
          {Glyph({ rungs })}
          <span class={`layer ${explained.enforced ? 'bound' : ''}`}>
            {explained.enforced
              ? `guardrail of ${boundOwners[explained.enforced.by]}`
              : placeTitle(explained.layer, explained.path)}
          </span>
        </td>
        <td class="wide">
          {Who({ id: explained.updated_by, name: nameBeside(explained, 'updated_by') })}
        </td>
        <td class="wide">{Time({ at: explained.updated_at })}</td>
      </tr>
      {isOpen && (
        <tr class="opened">
          <td colspan={5} id={id}>
            <Ladder
              name={key}
              value={value}
              explained={explained}
              rungs={rungs}
              onChange={onChange}
            />
          </td>
        </tr>
      )}
    </>
  );
}
