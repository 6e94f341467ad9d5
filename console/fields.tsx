/** Fields of forms with their labels. */
import type { ComponentChildren, ComponentProps, VNode } from 'preact';
import { useState } from 'preact/hooks';
import { parameter, query, setQuery, wantedText } from './address.ts';
import { type Choice, lastTime, TypedField } from './parts.tsx';

interface InputProperties {
  readonly name: string;
  readonly value: string;
  readonly type?: 'text' | 'email' | 'password' | 'search' | 'number' | 'datetime-local';
  readonly required?: boolean;
  readonly minlength?: number;
  readonly maxlength?: number | undefined;
  readonly min?: string;
  readonly max?: string;
  readonly step?: 'any';
  readonly pattern?: string;
  readonly placeholder?: string;
  readonly autocomplete?: string;
  readonly spellcheck?: boolean;
  readonly class?: string;
  readonly inputmode?: 'numeric';
  readonly autofocus?: boolean;
}

/**
 * A text, or a number, that somebody types: on one line, or where rows are given on several. The
 * cast: preact's types want to know which of the types it is.
 */
export const Field = ({
  label,
  hint,
  rows,
  onValue,
  ...attributes
}: InputProperties & {
  readonly label: string;
  readonly hint?: ComponentChildren;
  readonly rows?: number;
  readonly onValue: (value: string) => void;
}): VNode => (
  <label>
    {label}
    {rows === undefined ? (
      <input
        autocomplete="off"
        {...lastTime(attributes.type)}
        {...(attributes as ComponentProps<'input'>)}
        onInput={({ currentTarget }) => onValue(currentTarget.value)}
      />
    ) : (
      <textarea
        rows={rows}
        {...(attributes as ComponentProps<'textarea'>)}
        onInput={({ currentTarget }) => onValue(currentTarget.value)}
      />
    )}
    {hint !== undefined && <small>{hint}</small>}
  </label>
);

/** A password that is to hold from now on, which browsers offer to make. */
export const NewPassword = (properties: ComponentProps<typeof Field>): VNode => (
  <Field type="password" autocomplete="new-password" required minlength={12} {...properties} />
);

/**
 * Binds fields to values by their names; a form that has several of the same kind ends the names of
 * its fields differently. The cast: a name that is computed says no longer whose it is.
 */
export const boundTo =
  <Values extends object>(values: Values, put: (change: Partial<Values>) => void, ending = '') =>
  <Name extends keyof Values & string>(name: Name) => ({
    name: `${name}${ending}`,
    value: values[name],
    onValue: (value: Values[Name]): void => put({ [name]: value } as unknown as Partial<Values>),
  });

/** What is typed in a form, and its fields. */
export function useFields<Values extends object>(first: Values) {
  const [typed, setTyped] = useState(first);
  const put = (change: Partial<Values>): void => setTyped((before) => ({ ...before, ...change }));
  return { typed, put, field: boundTo(typed, put) };
}

/** Why something is changed or decided; required unless said otherwise. */
export const ReasonField = ({
  value,
  required = true,
  placeholder = 'Why, for those who approve it and for the history',
  onValue,
}: Pick<InputProperties, 'value' | 'required' | 'placeholder'> & {
  readonly onValue: (value: string) => void;
}): VNode => (
  <Field
    label="Reason"
    name="reason"
    value={value}
    required={required}
    maxlength={500}
    placeholder={placeholder}
    onValue={onValue}
  />
);

export interface Option<Value extends string = string> {
  readonly value: Value;
  /** As it is shown; the value by default. */
  readonly title?: string;
}

/** One of a few. */
export const Select = <Value extends string>({
  label,
  options,
  onValue,
  ...attributes
}: {
  readonly label: string;
  readonly name?: string;
  readonly value: Value;
  readonly required?: boolean;
  readonly options: readonly Option<Value>[];
  readonly onValue: (value: Value) => void;
}): VNode => (
  <label>
    {label}
    <select
      {...attributes}
      onChange={({ currentTarget }) => onValue(options[currentTarget.selectedIndex]!.value)}
    >
      {options.map((each) => (
        <option key={each.value} value={each.value}>
          {each.title ?? each.value}
        </option>
      ))}
    </select>
  </label>
);

/** Each with its title. The cast: an object has no other names than its type says. */
export const titled = <Value extends string>(
  titles: Readonly<Record<Value, string>>,
): Option<Value>[] =>
  Object.entries<string>(titles).map(([value, title]) => ({ value: value as Value, title }));

/** One of a few, kept in the address, of which the page begins again. */
export const SelectField = ({
  name,
  label,
  value = parameter(name),
  options,
}: {
  readonly name: string;
  readonly label: string;
  readonly value?: string;
  readonly options: readonly Option[];
}): VNode => (
  <Select
    label={label}
    name={name}
    value={value}
    options={options}
    onValue={(chosen) => setQuery({ [name]: chosen, cursor: '' })}
  />
);

/** A text that narrows what a screen shows, kept in the address, of which the page begins again. */
export const TypedFilter = ({
  name,
  ...field
}: {
  readonly name: string;
  readonly label: string;
  readonly type?: 'date' | 'datetime-local';
  readonly placeholder?: string;
  readonly choices?: readonly Choice[] | undefined;
}): VNode => (
  <TypedField
    {...field}
    name={name}
    value={parameter(name)}
    onTyped={(text) => setQuery({ [name]: text.trim(), cursor: '' })}
  />
);

/** What somebody fills in and sends, which leaves the page where it is. */
export const Form = ({
  onSend,
  ...attributes
}: Omit<ComponentProps<'form'>, 'onSubmit'> & { readonly onSend?: () => void }): VNode => (
  <form
    {...attributes}
    onSubmit={(event) => {
      event.preventDefault();
      onSend?.();
    }}
  />
);

/** What narrows what a screen shows, as it is typed: there is nothing to send. */
export const Filters = (
  attributes: Pick<ComponentProps<'form'>, 'class' | 'aria-label' | 'children'>,
): VNode => <Form role="search" {...attributes} />;

/** What says nothing, and then each of these. */
export const anyOf = (values: readonly string[], any = 'any'): Option[] => [
  { value: '', title: any },
  ...values.map((value) => ({ value })),
];

/** Whether a screen shows it, kept in the address. */
export const CheckFilter = ({
  name,
  label,
}: {
  readonly name: string;
  readonly label: string;
}): VNode => (
  <label class="check">
    <input
      type="checkbox"
      name={name}
      checked={query.value.has(name)}
      onChange={({ currentTarget }) => setQuery({ [name]: currentTarget.checked ? 'yes' : '' })}
    />
    {label}
  </label>
);

/** Those whose text has in it what the field below asks for. */
export function fitting<Item>(
  items: readonly Item[] | undefined,
  textOf: (item: Item) => string,
): readonly Item[] | undefined {
  const wanted = wantedText();
  return items?.filter((item) => textOf(item).toLowerCase().includes(wanted));
}

/** What narrows a list, kept in the address. */
export const FilterField = ({
  label = 'Filter',
  placeholder,
  maxlength,
}: {
  readonly label?: string;
  readonly placeholder: string;
  readonly maxlength?: number;
}): VNode => (
  <Field
    label={label}
    type="search"
    name="q"
    value={parameter('q')}
    placeholder={placeholder}
    maxlength={maxlength}
    spellcheck={false}
    onValue={(q) => setQuery({ q })}
  />
);
