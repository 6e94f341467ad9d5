/**
 * Fields of single values, made from a schema. Numbers are texts until they are valid; what has no
 * simple field is JSON.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { longJson } from '../format.ts';
import { Described } from '../inline.tsx';
import type { Schema } from '../schemas.ts';
import { number, parsedJson, typedText, valueOf } from '../typed-values.ts';
import { documentKinds } from './document-kinds.ts';
import { useOwner } from './managed.tsx';
import { platformKinds } from './platform-kinds.ts';

interface FieldProperties {
  readonly name: string;
  readonly place: string;
  readonly schema: Schema;
  readonly value: unknown;
  readonly isReadOnly: boolean;
  /** Undefined where the field was emptied: the document then says nothing. */
  readonly onChange: (value: unknown) => void;
  readonly onFit: (isFit: boolean) => void;
}

/** A value that has no parts with fields of their own. */
export function LeafField(all: FieldProperties): VNode {
  const owner = useOwner(all.place);
  const properties = owner === undefined ? all : { ...all, schema: ownedBy(all.schema, owner) };
  const { schema } = properties;
  const { type, items } = schema;
  if (type === 'boolean') return <ChoiceField {...properties} choices={[true, false]} />;
  if (schema.enum) return <ChoiceField {...properties} choices={schema.enum} />;
  if (type === 'number' || type === 'integer') return <NumberField {...properties} />;
  if (type === 'string') return <TextField {...properties} />;
  if (type === 'array' && items?.enum) return <SomeField {...properties} choices={items.enum} />;
  if (type === 'array' && (items?.type === 'string' || isAnything(items)))
    return <LinesField {...properties} />;
  return isAnything(schema) ? <AnyField {...properties} /> : <OwnJson {...properties} />;
}

const ownedBy = (schema: Schema, owner: string): Schema => ({
  ...schema,
  description: [schema.description, owner].filter((part) => part !== undefined).join(' · '),
});

/** Says nothing of what the value is. */
const isAnything = (schema: Schema | undefined): boolean =>
  schema !== undefined && !schema.type && !schema.shapes && !schema.properties && !schema.values;

function OwnJson({
  name,
  place,
  schema,
  value,
  isReadOnly,
  onChange,
  onFit,
}: FieldProperties): VNode {
  const rows = value === undefined ? 2 : Math.min(12, longJson(value).split('\n').length + 1);
  return (
    <JsonField
      label={name}
      place={place}
      value={value}
      rows={rows}
      isReadOnly={isReadOnly}
      mayBeEmpty={true}
      onChange={onChange}
      onFit={onFit}
      {...(schema.description !== undefined && { hint: schema.description })}
    />
  );
}

/** A text that is read as a value: the document keeps the previous one while it is none. */
function ReadField({
  name,
  place,
  first,
  read,
  hint,
  rowsOf,
  look,
  attributes,
  isReadOnly,
  onChange,
  onFit,
}: Pick<FieldProperties, 'name' | 'place' | 'isReadOnly' | 'onChange' | 'onFit'> & {
  /** What it begins with. */
  readonly first: string;
  /** Throws, in words for people, where the text is none. */
  readonly read: (text: string) => unknown;
  readonly hint: string;
  /** Of several lines: how many are shown. */
  readonly rowsOf?: (text: string) => number;
  readonly look?: string;
  readonly attributes?: object;
}): VNode {
  const [text, setText] = useState(first);
  const [problem, setProblem] = useState<string>();
  const edit = (event: Event): void => {
    const typed = textIn(event);
    setText(typed);
    let value: unknown;
    try {
      value = read(typed);
    } catch (error) {
      setProblem((error as Error).message);
      onFit(false);
      return;
    }
    setProblem(undefined);
    onFit(true);
    onChange(value);
  };
  const all = {
    value: text,
    readonly: isReadOnly,
    placeholder: 'not set',
    autocomplete: 'off',
    spellcheck: false,
    'aria-invalid': problem ? ('true' as const) : undefined,
    'aria-describedby': hintId(place),
    onInput: edit,
    ...attributes,
  };
  return (
    <label class={look}>
      <FieldName>{name}</FieldName>
      {rowsOf ? <textarea rows={rowsOf(text)} {...all}></textarea> : <input {...all} />}
      <Hint id={hintId(place)} text={hint} problem={problem} />
    </label>
  );
}

const FieldName = ({ children }: { readonly children: string }): VNode => (
  <span class="name">
    <bdi>{children}</bdi>
  </span>
);

/** A number, a switch or a text as people type it. What has members is JSON. */
function AnyField(properties: FieldProperties): VNode {
  const { place, schema, value } = properties;
  // What was typed does not become another field while it is typed.
  const [isJson] = useState(typeof value === 'object' && value !== null);
  if (isJson) return <OwnJson {...properties} />;
  return (
    <ReadField
      {...properties}
      first={typedText(value)}
      read={valueOf}
      hint={hintOf({ description: 'A number, true, false or a text', ...schema })}
      attributes={{ name: place }}
    />
  );
}

/** Texts in an order, one on each line. */
function LinesField(properties: FieldProperties): VNode {
  const { place, schema, value } = properties;
  const lines = Array.isArray(value) ? value : [];
  const isText = schema.items?.type === 'string';
  const shown = (each: unknown): string => (isText ? String(each) : typedText(each));
  const read = (typed: string): unknown => {
    const values = typed
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '')
      .map((line) => (isText ? line : valueOf(line)));
    return values.length === 0 ? undefined : values;
  };
  return (
    <ReadField
      {...properties}
      first={lines.map(shown).join('\n')}
      read={read}
      hint={[schema.description, 'one on each line'].filter(Boolean).join(' · ')}
      rowsOf={(text) => Math.min(8, Math.max(2, text.split('\n').length))}
      attributes={{ name: place }}
    />
  );
}

/** Kinds of documents, as people call them. */
const kindTitles = new Map(
  [...platformKinds, ...documentKinds].map(({ configType, title }) => [configType, title]),
);

/** Some of a few. */
function SomeField({
  name,
  place,
  schema,
  value,
  isReadOnly,
  onChange,
  choices,
}: FieldProperties & { readonly choices: readonly unknown[] }): VNode {
  const chosen: readonly unknown[] = Array.isArray(value) ? value : [];
  const toggle = (choice: unknown): void => {
    const next = choices.filter((each) => chosen.includes(each) !== (each === choice));
    onChange(next.length === 0 ? undefined : next);
  };
  return (
    <fieldset class="several" aria-describedby={hintId(place)}>
      <legend>
        <bdi>{name}</bdi>
      </legend>
      {choices.map((choice) => (
        <label key={String(choice)} class="check">
          <input
            type="checkbox"
            name={`${place}/${String(choice)}`}
            checked={chosen.includes(choice)}
            disabled={isReadOnly}
            onChange={() => toggle(choice)}
          />
          {kindTitles.get(String(choice)) ?? String(choice)}
        </label>
      ))}
      <Hint id={hintId(place)} text={hintOf(schema)} />
    </fieldset>
  );
}

/** A list of ids is split at spaces, which names may have. */
const hintId = (place: string): string => `hint-${encodeURIComponent(place)}`;

export const textIn = (event: Event): string =>
  (event.target as HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement).value;

/** What a field may hold, for whoever fills it in. */
function hintOf({ description, minimum, maximum }: Schema): string {
  const range =
    minimum !== undefined && maximum !== undefined
      ? `${minimum} to ${maximum}`
      : minimum !== undefined
        ? `at least ${minimum}`
        : maximum !== undefined
          ? `at most ${maximum}`
          : undefined;
  return [description, range].filter((part) => part !== undefined).join(' · ');
}

const Hint = ({
  id,
  text,
  problem,
}: {
  readonly id: string;
  readonly text: string;
  readonly problem?: string | undefined;
}): VNode => (
  <small id={id} class={problem ? 'unfit' : ''}>
    {problem ?? <Described text={text} />}
  </small>
);

function ChoiceField({
  name,
  place,
  schema,
  value,
  isReadOnly,
  onChange,
  choices,
}: FieldProperties & { readonly choices: readonly unknown[] }): VNode {
  const index = choices.indexOf(value);
  const choose = (event: Event): void => {
    const chosen = textIn(event);
    onChange(chosen === '' ? undefined : choices[Number(chosen)]);
  };
  return (
    <label>
      <FieldName>{name}</FieldName>
      <select
        name={place}
        value={index < 0 ? '' : String(index)}
        disabled={isReadOnly}
        aria-describedby={hintId(place)}
        onChange={choose}
      >
        <option value="">not set</option>
        {choices.map((choice, number) => (
          <option key={number} value={String(number)}>
            {String(choice)}
          </option>
        ))}
      </select>
      <Hint id={hintId(place)} text={hintOf(schema)} />
    </label>
  );
}

function NumberField(properties: FieldProperties): VNode {
  const { place, schema, value } = properties;
  const read = (typed: string): unknown => {
    const trimmed = typed.trim();
    if (trimmed === '') return undefined;
    const isWhole = schema.type === 'integer';
    if (!number.test(trimmed) || (isWhole && !/^-?\d+$/.test(trimmed)))
      throw new Error(`This is not ${isWhole ? 'a whole number' : 'a number'}, such as 12.`);
    return parsedJson(trimmed);
  };
  return (
    <ReadField
      {...properties}
      first={value === undefined ? '' : String(value)}
      read={read}
      hint={hintOf(schema)}
      attributes={{ name: place, inputmode: 'decimal', class: 'number' }}
    />
  );
}

const TextField = (properties: FieldProperties): VNode => (
  <ReadField
    {...properties}
    first={properties.value === undefined ? '' : String(properties.value)}
    read={(typed) => (typed === '' ? undefined : typed)}
    hint={hintOf(properties.schema)}
    attributes={{ name: properties.place, maxlength: properties.schema.maxLength }}
  />
);

interface JsonFieldProperties {
  readonly label: string;
  /** In the document; absent for all of it. */
  readonly place?: string;
  readonly value: unknown;
  readonly rows: number;
  readonly isReadOnly: boolean;
  readonly hint?: string;
  readonly mayBeEmpty?: boolean;
  /** What the value has to be beside JSON. */
  readonly demands?: (value: unknown) => boolean;
  readonly onChange: (value: unknown) => void;
  readonly onFit: (isFit: boolean) => void;
}

export function JsonField({
  label,
  place = '',
  value,
  rows,
  isReadOnly,
  hint = '',
  mayBeEmpty = false,
  demands = () => true,
  onChange,
  onFit,
}: JsonFieldProperties): VNode {
  const read = (typed: string): unknown => {
    if (typed.trim() === '' && mayBeEmpty) return undefined;
    const parsed = parsedJson(typed);
    if (!demands(parsed)) throw new Error('This has to be an object: { … }');
    return parsed;
  };
  return (
    <ReadField
      name={label}
      place={`json-${place}`}
      first={value === undefined ? '' : longJson(value)}
      read={read}
      hint={hint === '' ? 'JSON' : `${hint} · JSON`}
      rowsOf={() => rows}
      look="json"
      isReadOnly={isReadOnly}
      onChange={onChange}
      onFit={onFit}
    />
  );
}
