/**
 * Forms made from a schema: what has parts is a group of their fields, a list or map of such parts
 * one group for each.
 */
import type { ComponentChildren, VNode } from 'preact';
import { useId, useState } from 'preact/hooks';
import { isObject, pointerTo, type JsonObject } from '../../shared/schema/json-pointer.ts';
import { Button, Described } from '../inline.tsx';
import { ownMember, withMember } from '../merge-patch.ts';
import type { Schema } from '../schemas.ts';
import { shapeOf } from '../shapes.ts';
import { RowButton } from '../lists.tsx';
import { LeafField, textIn } from './schema-fields.tsx';

/** What is the same for every part of a form. */
interface FormProperties {
  readonly isReadOnly: boolean;
  /** Says of a place whether what was typed there is a value; true clears all that is in it. */
  readonly onFit: (place: string, isFit: boolean) => void;
  /** By the title of a map: names that its members may have. */
  readonly suggestions?: Readonly<Record<string, readonly string[]>>;
}

interface FieldsProperties extends FormProperties {
  readonly schema: Schema;
  readonly document: JsonObject;
  /** The names that lead to it. */
  readonly above: readonly string[];
  readonly onChange: (document: JsonObject) => void;
}

/** The places that are unfit once one of them was looked at. */
export function withFit(
  unfit: ReadonlySet<string>,
  place: string,
  isFit: boolean,
): ReadonlySet<string> {
  if (!isFit) return new Set([...unfit, place]);
  return new Set([...unfit].filter((each) => each !== place && !each.startsWith(`${place}/`)));
}

/** What fields are called whose names say too little to people. */
const labels: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  Bound: { maximum: 'at most', minimum: 'at least', enum: 'one of', const: 'always' },
  NotificationConfig: {
    approver_groups: 'Approver groups',
    approval_policy: 'Approval policy',
    escalation: 'Escalation',
    webhook: 'Webhook',
    email: 'Mail',
    slack: 'Slack',
    teams: 'Microsoft Teams',
    chat: 'Google Chat',
  },
};

/** Those with a label first, in its order. */
function fieldsIn({ title = '', properties = {} }: Schema) {
  const own = labels[title] ?? {};
  const order = Object.keys(own);
  const rank = (name: string): number => (Object.hasOwn(own, name) ? order.indexOf(name) : 99);
  return Object.entries(properties)
    .filter(([, inner]) => !('const' in inner))
    .map(([name, inner]) => ({ name, inner, label: own[name] ?? name }))
    .toSorted((one, other) => rank(one.name) - rank(other.name));
}

export const SchemaFields = ({
  schema,
  document,
  above,
  onChange,
  ...form
}: FieldsProperties): VNode => (
  <div class="fields">
    {fieldsIn(schema).map(({ name, inner, label }) => (
      <Part
        {...form}
        key={name}
        label={label}
        names={[...above, name]}
        schema={inner}
        value={ownMember(document, name)}
        onChange={(value: unknown) => onChange(withMember(document, name, value))}
      />
    ))}
  </div>
);

interface PartProperties extends FormProperties {
  readonly label: string;
  readonly names: readonly string[];
  readonly schema: Schema;
  readonly value: unknown;
  /** Undefined where it was emptied: the document then says nothing. */
  readonly onChange: (value: unknown) => void;
}

const isSet = (value: unknown): boolean =>
  isObject(value) ? Object.keys(value).length > 0 : value !== undefined;

/** Of the document itself, or of a map's member: it begins folded where nothing in it is set. */
function Folded({
  label,
  value,
  about,
  isOpen = isSet(value),
  children,
}: {
  readonly label: ComponentChildren;
  readonly value: unknown;
  readonly about?: string | undefined;
  readonly isOpen?: boolean;
  readonly children: ComponentChildren;
}): VNode {
  // As it began: folding it is the reader's from there.
  const [open] = useState(isOpen);
  return (
    <details class="part" open={open}>
      <summary>
        <bdi>{label}</bdi> {!isSet(value) && <span class="muted">not set</span>}
        {about !== undefined && (
          <small>
            <Described text={about} />
          </small>
        )}
      </summary>
      {children}
    </details>
  );
}

/** A group of fields, which can be folded where it is a part of the document itself. */
const Group = ({
  label,
  value,
  names,
  schema,
  children,
}: Pick<PartProperties, 'label' | 'value' | 'names' | 'schema'> & {
  readonly children: ComponentChildren;
}): VNode =>
  names.length === 1 ? (
    <Folded label={label} value={value} about={schema.description}>
      {children}
    </Folded>
  ) : (
    <fieldset>
      <legend>
        <bdi>{label}</bdi>
      </legend>
      {children}
    </fieldset>
  );

function Part(properties: PartProperties): VNode {
  const { label, names, schema, value, onChange, ...form } = properties;
  const document = isObject(value) ? value : {};
  const [wasThere] = useState(isObject(value));
  // What somebody began and emptied again is not set.
  const settle = (next: JsonObject): void =>
    onChange(Object.keys(next).length === 0 && !wasThere ? undefined : next);
  if (schema.shapes) return <Shapes {...properties} shapes={schema.shapes} />;
  if (schema.properties || schema.values)
    return (
      <Group {...properties}>
        {schema.properties ? (
          <SchemaFields
            {...form}
            schema={schema}
            document={document}
            above={names}
            onChange={settle}
          />
        ) : (
          <MemberFields
            {...form}
            schema={schema}
            document={document}
            above={names}
            noun={`member of ${label}`}
            named={schema.description ?? 'name'}
            onChange={settle}
          />
        )}
      </Group>
    );
  if (schema.type === 'array' && (schema.items?.properties || schema.items?.shapes))
    return <Items {...properties} items={schema.items} />;
  const place = pointerTo(names);
  return (
    <LeafField
      name={label}
      place={place}
      schema={schema}
      value={value}
      isReadOnly={form.isReadOnly}
      onChange={onChange}
      onFit={(isFit: boolean) => form.onFit(place, isFit)}
    />
  );
}

/** One of several shapes, each with its own fields; none where nothing is set. */
function Shapes({
  shapes,
  ...properties
}: PartProperties & { readonly shapes: readonly Schema[] }): VNode {
  const { names, value, onChange, ...form } = properties;
  const place = pointerTo(names);
  const isEmpty = !isObject(value) || Object.keys(value).length === 0;
  // An empty one fits every shape.
  const [picked, setPicked] = useState(isEmpty ? 0 : shapeOf(shapes, value));
  const fitting = isEmpty ? picked : shapeOf(shapes, value);
  const chosen = value === undefined ? -1 : fitting;
  const choose = (event: Event): void => {
    const index = Number(textIn(event));
    const shape = shapes[index];
    form.onFit(place, true);
    setPicked(index);
    onChange(shape && constantsOf(shape));
  };
  return (
    <Group {...properties}>
      <label>
        <span class="name">kind</span>
        <select name={place} value={String(chosen)} disabled={form.isReadOnly} onChange={choose}>
          <option value="-1">not set</option>
          {shapes.map((shape, index) => (
            <option key={index} value={String(index)}>
              {titleOfShape(shape)}
            </option>
          ))}
        </select>
      </label>
      {chosen >= 0 && (
        <SchemaFields
          {...form}
          key={chosen}
          schema={shapes[chosen]!}
          document={isObject(value) ? value : {}}
          above={names}
          onChange={onChange}
        />
      )}
    </Group>
  );
}

/** What a shape says of itself wherever it is. */
const constantsOf = ({ properties = {} }: Schema): JsonObject =>
  Object.fromEntries(
    Object.entries(properties).flatMap(([name, inner]) =>
      'const' in inner ? [[name, inner.const]] : [],
    ),
  );

/** Such as "bearer", or "webhook endpoint". */
function titleOfShape(shape: Schema): string {
  const [constant] = Object.values(constantsOf(shape));
  if (typeof constant === 'string') return constant;
  if (shape.title === undefined) return Object.keys(shape.properties ?? {}).join(', ');
  return shape.title.replaceAll(/\B[A-Z]/g, (letter) => ` ${letter}`).toLowerCase();
}

/** A list of parts, each with its own fields. */
function Items({ items, ...properties }: PartProperties & { readonly items: Schema }): VNode {
  const { label, names, value, schema, onChange, ...form } = properties;
  const list: readonly unknown[] = Array.isArray(value) ? value : [];
  // Each keeps its fields, with what is typed in them, while others are removed.
  const [ids, setIds] = useState(() => list.map((_each, index) => index));
  const put = (next: readonly unknown[]): void => onChange(next.length === 0 ? undefined : next);
  const add = (): void => {
    setIds([...ids, Math.max(-1, ...ids) + 1]);
    put([...list, {}]);
  };
  const remove = (index: number): void => {
    form.onFit(pointerTo([...names, String(ids[index])]), true);
    setIds(ids.toSpliced(index, 1));
    put(list.toSpliced(index, 1));
  };
  return (
    <fieldset class="members">
      <legend>
        <bdi>{label}</bdi>
      </legend>
      {schema.description && (
        <p class="fine">
          <Described text={schema.description} />
        </p>
      )}
      {list.map((each, index) => (
        <div key={ids[index]} class="item">
          <Part
            {...form}
            label={`${label} ${index + 1}`}
            names={[...names, String(ids[index])]}
            schema={items}
            value={each}
            onChange={(next: unknown) => put(list.with(index, next ?? {}))}
          />
          {!form.isReadOnly && (
            <RowButton says="Remove" of={`${label} ${index + 1}`} onClick={() => remove(index)} />
          )}
        </div>
      ))}
      {list.length === 0 && <p class="empty">There is none yet.</p>}
      {!form.isReadOnly && (
        <p class="buttons">
          <RowButton says="Add" of={`to ${label}`} onClick={add} />
        </p>
      )}
    </fieldset>
  );
}

/**
 * A document whose members are all of one kind, by names that people choose: a group of fields for
 * each.
 */
export function MemberFields({
  schema,
  document,
  above,
  noun,
  named,
  onChange,
  ...form
}: FieldsProperties & { readonly noun: string; readonly named: string }): VNode {
  /** Members that are to be filled in now. */
  const [added, setAdded] = useState<readonly string[]>([]);
  const values = schema.values ?? {};
  const hasParts = values.properties ?? values.shapes;
  const put = (member: string, value: unknown): void =>
    onChange(withMember(document, member, value));
  const add = (member: string): void => {
    put(member, firstOf(values));
    setAdded([...added, member]);
  };
  return (
    <div class="members">
      {Object.keys(document).map((member) => {
        const names = [...above, member];
        const value = ownMember(document, member);
        const remove = !form.isReadOnly && (
          <RowButton
            says="Remove"
            of={member}
            onClick={() => {
              form.onFit(pointerTo(names), true);
              put(member, undefined);
            }}
          />
        );
        if (hasParts && isObject(value))
          return (
            <Folded
              key={member}
              label={<code>{member}</code>}
              value={value}
              isOpen={isSet(value) || added.includes(member)}
            >
              {remove}
              <SchemaFields
                {...form}
                schema={values}
                document={value}
                above={names}
                onChange={(next) => put(member, next)}
              />
            </Folded>
          );
        return (
          <div key={member} class="item">
            <Part
              {...form}
              label={member}
              names={names}
              schema={values}
              value={value}
              // A member whose field is emptied stays until it is removed.
              onChange={(next: unknown) => put(member, next ?? firstOf(values))}
            />
            {remove}
          </div>
        );
      })}
      {form.isReadOnly ? (
        Object.keys(document).length === 0 && <p class="empty">There is no {noun} yet.</p>
      ) : (
        <NewMember
          noun={noun}
          named={named}
          taken={Object.keys(document)}
          suggestions={form.suggestions?.[schema.title ?? ''] ?? []}
          onAdd={add}
        />
      )}
    </div>
  );
}

/** So many names are offered where nothing is there yet. */
const mostFirst = 8;

function NewMember({
  noun,
  named,
  taken,
  suggestions,
  onAdd,
}: {
  readonly noun: string;
  readonly named: string;
  readonly taken: readonly string[];
  readonly suggestions: readonly string[];
  readonly onAdd: (member: string) => void;
}): VNode {
  const [name, setName] = useState('');
  const listId = useId();
  const chosen = name.trim();
  const isNew = chosen !== '' && !taken.includes(chosen);
  const suggested = suggestions.filter((each) => !taken.includes(each));
  const first = taken.length === 0 ? suggested.slice(0, mostFirst) : [];
  const add = (): void => {
    onAdd(chosen);
    setName('');
  };
  const addByKey = (event: KeyboardEvent): void => {
    if (event.key !== 'Enter') return;
    event.preventDefault();
    if (isNew) add();
  };
  return (
    <>
      {taken.length === 0 && (
        <p class="empty">
          There is no {noun} yet.{first.length > 0 && ' Begin with one for:'}
        </p>
      )}
      {first.length > 0 && (
        <p class="buttons">
          {first.map((each) => (
            <button type="button" class="small" key={each} onClick={() => onAdd(each)}>
              <bdi>{each}</bdi>
            </button>
          ))}
        </p>
      )}
      <div class="joined">
        <label>
          <span class="name">New {noun}</span>
          <input
            value={name}
            placeholder={named}
            list={listId}
            autocomplete="off"
            spellcheck={false}
            onKeyDown={addByKey}
            onInput={(event: Event) => setName(textIn(event))}
          />
          <datalist id={listId}>
            {suggested.map((each) => (
              <option key={each} value={each} />
            ))}
          </datalist>
        </label>
        <Button class="secondary" says="Add" disabled={!isNew} onClick={add} />
      </div>
    </>
  );
}

/** What a new member is until somebody says more. */
function firstOf({ type, properties, values, shapes, minimum = 0 }: Schema): unknown {
  if (properties || values || shapes) return {};
  if (type === 'array') return [];
  if (type === 'boolean') return false;
  return type === 'number' || type === 'integer' ? minimum : '';
}
