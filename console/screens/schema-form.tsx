/**
 * Fields made from a schema. Numbers are texts until they are valid; what has no simple field is
 * JSON.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { longJson, pointerOf } from '../format.ts';
import { valueAt, withValueAt, type JsonObject } from '../merge-patch.ts';
import type { Schema } from '../schemas.ts';
import { RowButton } from '../lists.tsx';

interface FieldsProperties {
  readonly schema: Schema;
  readonly document: JsonObject;
  readonly above: readonly string[];
  readonly isReadOnly: boolean;
  readonly onChange: (document: JsonObject) => void;
  readonly onFit: (place: string, isFit: boolean) => void;
}

export function SchemaFields(properties: FieldsProperties): VNode {
  const { schema, document, above, isReadOnly, onChange, onFit } = properties;
  const fields = Object.entries(schema.properties ?? {}).map(([name, inner]) => {
    const names = [...above, name];
    const place = pointerOf(names);
    if (inner.properties)
      return (
        <fieldset key={place}>
          <legend>{name}</legend>
          <SchemaFields {...properties} schema={inner} above={names} />
        </fieldset>
      );
    return (
      <Field
        key={place}
        name={name}
        place={place}
        schema={inner}
        value={valueAt(document, names)}
        isReadOnly={isReadOnly}
        onChange={(value: unknown) => onChange(withValueAt(document, names, value))}
        onFit={(isFit: boolean) => onFit(place, isFit)}
      />
    );
  });
  return <div class="fields">{fields}</div>;
}

/**
 * A document whose members are all of one kind, by names that people choose: a group of fields for
 * each.
 */
export function MemberFields(
  properties: FieldsProperties & { readonly noun: string; readonly named: string },
): VNode {
  const { schema, document, isReadOnly, onChange, onFit, noun, named } = properties;
  const [name, setName] = useState('');
  const chosen = name.trim();
  const add = (): void => {
    if (chosen === '' || Object.hasOwn(document, chosen)) return;
    onChange(withValueAt(document, [chosen], {}));
    setName('');
  };
  const addByKey = (event: KeyboardEvent): void => {
    if (event.key !== 'Enter') return;
    event.preventDefault();
    add();
  };
  const remove = (member: string): void => {
    for (const field of Object.keys(schema.properties ?? {}))
      onFit(pointerOf([member, field]), true);
    onChange(withValueAt(document, [member], undefined));
  };
  return (
    <div class="members">
      {Object.keys(document).map((member) => (
        <fieldset key={member}>
          <legend>
            <code>
              <bdi>{member}</bdi>
            </code>
          </legend>
          {!isReadOnly && (
            <RowButton label={`Remove ${member}`} onClick={() => remove(member)}>
              Remove
            </RowButton>
          )}
          <SchemaFields {...properties} above={[member]} />
        </fieldset>
      ))}
      {Object.keys(document).length === 0 && <p class="empty">There is no {noun} yet.</p>}
      {!isReadOnly && (
        <div class="joined">
          <label>
            <span class="name">New {noun}</span>
            <input
              value={name}
              placeholder={named}
              autocomplete="off"
              spellcheck={false}
              onKeyDown={addByKey}
              onInput={(event: Event) => setName(textIn(event))}
            />
          </label>
          <button
            type="button"
            class="secondary"
            disabled={chosen === '' || Object.hasOwn(document, chosen)}
            onClick={add}
          >
            Add
          </button>
        </div>
      )}
    </div>
  );
}

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

function Field(properties: FieldProperties): VNode {
  const { schema } = properties;
  if (schema.type === 'boolean') return <ChoiceField {...properties} choices={[true, false]} />;
  if (schema.enum) return <ChoiceField {...properties} choices={schema.enum} />;
  if (schema.type === 'number' || schema.type === 'integer') return <NumberField {...properties} />;
  if (schema.type === 'string') return <TextField {...properties} />;
  const { name, place, value, isReadOnly, onChange, onFit } = properties;
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

/** A list of ids is split at spaces, which names may have. */
const hintId = (place: string): string => `hint-${encodeURIComponent(place)}`;

const textIn = (event: Event): string =>
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
    {problem ?? text}
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
      <span class="name">{name}</span>
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
      <span class="name">{name}</span>
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
    <span class="name">{name}</span>
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
      <span class="name">{label}</span>
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
