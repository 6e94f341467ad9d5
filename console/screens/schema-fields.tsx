/**
 * Fields of single values, made from a schema. Numbers are texts until they are valid; what has no
 * simple field is JSON.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { longJson } from '../format.ts';
import { Described } from '../inline.tsx';
import type { Schema } from '../schemas.ts';
import { typedText, valueOf } from '../typed-values.ts';
import { documentKinds } from './document-kinds.ts';
import { useOwner } from './managed.tsx';
import { platformKinds } from './platform-kinds.ts';

export interface FieldProperties {
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

/** A number, a switch or a text as people type it. What has members is JSON. */
function AnyField(properties: FieldProperties): VNode {
  const { name, place, schema, value, isReadOnly, onChange, onFit } = properties;
  // What was typed does not become another field while it is typed.
  const [isJson] = useState(typeof value === 'object' && value !== null);
  const [text, setText] = useState(typedText(value));
  const [problem, setProblem] = useState<string>();
  if (isJson) return <OwnJson {...properties} />;
  const edit = (event: Event): void => {
    const typed = textIn(event);
    setText(typed);
    const read = valueOf(typed);
    setProblem(read.problem);
    onFit(read.problem === undefined);
    if (read.problem === undefined) onChange(read.value);
  };
  return (
    <label>
      <span class="name">
        <bdi>{name}</bdi>
      </span>
      <input
        name={place}
        value={text}
        readonly={isReadOnly}
        placeholder="not set"
        autocomplete="off"
        spellcheck={false}
        aria-invalid={problem ? 'true' : undefined}
        aria-describedby={hintId(place)}
        onInput={edit}
      />
      <Hint
        id={hintId(place)}
        text={hintOf({ description: 'A number, true, false or a text', ...schema })}
        problem={problem}
      />
    </label>
  );
}

/** Texts in an order, one on each line. */
function LinesField({
  name,
  place,
  schema,
  value,
  isReadOnly,
  onChange,
  onFit,
}: FieldProperties): VNode {
  const lines = Array.isArray(value) ? value : [];
  const isText = schema.items?.type === 'string';
  const shown = (each: unknown): string => (isText ? String(each) : typedText(each));
  const [text, setText] = useState(lines.map(shown).join('\n'));
  const [problem, setProblem] = useState<string>();
  const edit = (event: Event): void => {
    const typed = textIn(event);
    setText(typed);
    const read = typed
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '')
      .map((line) => (isText ? { value: line, problem: undefined } : valueOf(line)));
    const found = read.find((each) => each.problem !== undefined)?.problem;
    setProblem(found);
    onFit(found === undefined);
    if (found === undefined)
      onChange(read.length === 0 ? undefined : read.map((each) => each.value));
  };
  return (
    <label>
      <span class="name">
        <bdi>{name}</bdi>
      </span>
      <textarea
        name={place}
        rows={Math.min(8, Math.max(2, text.split('\n').length))}
        value={text}
        readonly={isReadOnly}
        placeholder="not set"
        autocomplete="off"
        spellcheck={false}
        aria-invalid={problem ? 'true' : undefined}
        aria-describedby={hintId(place)}
        onInput={edit}
      ></textarea>
      <Hint
        id={hintId(place)}
        text={[schema.description, 'one on each line'].filter(Boolean).join(' · ')}
        problem={problem}
      />
    </label>
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
      <span class="name">
        <bdi>{name}</bdi>
      </span>
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

const number = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

function NumberField({
  name,
  place,
  schema,
  value,
  isReadOnly,
  onChange,
  onFit,
}: FieldProperties): VNode {
  const [text, setText] = useState(value === undefined ? '' : String(value));
  const [problem, setProblem] = useState<string>();
  const edit = (event: Event): void => {
    const typed = textIn(event);
    const trimmed = typed.trim();
    const isNumber = number.test(trimmed) && (schema.type !== 'integer' || /^-?\d+$/.test(trimmed));
    const isFit = trimmed === '' || isNumber;
    const wanted = schema.type === 'integer' ? 'a whole number' : 'a number';
    setText(typed);
    setProblem(isFit ? undefined : `This is not ${wanted}, such as 12.`);
    onFit(isFit);
    if (isFit) onChange(trimmed === '' ? undefined : Number(trimmed));
  };
  return (
    <label>
      <span class="name">
        <bdi>{name}</bdi>
      </span>
      <input
        name={place}
        inputmode="decimal"
        class="number"
        value={text}
        readonly={isReadOnly}
        placeholder="not set"
        autocomplete="off"
        aria-invalid={problem ? 'true' : undefined}
        aria-describedby={hintId(place)}
        onInput={edit}
      />
      <Hint id={hintId(place)} text={hintOf(schema)} problem={problem} />
    </label>
  );
}

const TextField = ({
  name,
  place,
  schema,
  value,
  isReadOnly,
  onChange,
}: FieldProperties): VNode => (
  <label>
    <span class="name">
      <bdi>{name}</bdi>
    </span>
    <input
      name={place}
      value={value === undefined ? '' : String(value)}
      maxlength={schema.maxLength}
      readonly={isReadOnly}
      placeholder="not set"
      autocomplete="off"
      spellcheck={false}
      aria-describedby={hintId(place)}
      onInput={(event: Event) => onChange(textIn(event) === '' ? undefined : textIn(event))}
    />
    <Hint id={hintId(place)} text={hintOf(schema)} />
  </label>
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
  const [text, setText] = useState(value === undefined ? '' : longJson(value));
  const [problem, setProblem] = useState<string>();
  const settle = (found: string | undefined): void => {
    setProblem(found);
    onFit(found === undefined);
  };
  const edit = (event: Event): void => {
    const typed = textIn(event);
    setText(typed);
    if (typed.trim() === '' && mayBeEmpty) {
      settle(undefined);
      onChange(undefined);
      return;
    }
    try {
      const parsed: unknown = JSON.parse(typed);
      if (demands(parsed)) {
        settle(undefined);
        onChange(parsed);
      } else settle('This has to be an object: { … }');
    } catch (error) {
      settle(error instanceof Error ? error.message : 'This is no JSON.');
    }
  };
  const id = hintId(`json-${place}`);
  return (
    <label class="json">
      <span class="name">
        <bdi>{label}</bdi>
      </span>
      <textarea
        rows={rows}
        spellcheck={false}
        autocomplete="off"
        readonly={isReadOnly}
        placeholder="not set"
        value={text}
        aria-invalid={problem ? 'true' : undefined}
        aria-describedby={id}
        onInput={edit}
      ></textarea>
      <Hint id={id} text={hint === '' ? 'JSON' : `${hint} · JSON`} problem={problem} />
    </label>
  );
}
