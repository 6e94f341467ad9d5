/** What effective values are asked for, with the moment: a time or a revision; now by default. */
import type { VNode } from 'preact';
import { parameter } from '../address.ts';
import { localIso } from '../format.ts';
import { TypedField } from '../parts.tsx';

/** The parameters of the address that are the question. */
export const contextFields = ['agent_type', 'service_id', 'service_type', 'as_of'] as const;
export type ContextAsOf = Readonly<Partial<Record<(typeof contextFields)[number], string>>>;

/** The names of its parameters may begin with something. */
export const contextAsOf = (beginning = ''): ContextAsOf =>
  Object.fromEntries(
    contextFields.flatMap((name) => {
      const value = parameter(beginning + name);
      return value === '' ? [] : [[name, value]];
    }),
  );

/**
 * As the browser's field wants it: local, to the second, without a zone. Empty for what is no time.
 */
export function localFieldOf(at: string): string {
  const date = new Date(at);
  return /^\d*$/.test(at) || Number.isNaN(date.getTime()) ? '' : localIso(date);
}

/** What the field has, as the API takes a time; empty for none, undefined for what is no time. */
export function timeTyped(typed: string): string | undefined {
  const date = new Date(typed);
  if (typed === '') return '';
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString().replace('.000Z', 'Z');
}

/** `value` is what the API takes as `as_of`: digits for a revision, or a time with its zone. */
export function AsOf({
  name,
  value,
  onChange,
}: {
  readonly name: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
}): VNode {
  const isRevision = /^\d+$/.test(value);
  const takeTime = (typed: string): void => {
    const time = timeTyped(typed);
    if (time !== undefined) onChange(time);
  };
  const takeRevision = (text: string): void => {
    const typed = text.trim();
    if (/^\d{0,15}$/.test(typed)) onChange(typed);
  };
  return (
    <div class="as-of">
      <TypedField
        label="As of (your time)"
        type="datetime-local"
        step="1"
        name={`${name}_time`}
        value={isRevision ? '' : localFieldOf(value)}
        onTyped={takeTime}
      />
      <TypedField
        label="or revision"
        name={`${name}_revision`}
        inputmode="numeric"
        pattern="[0-9]*"
        class="number"
        placeholder="now"
        value={isRevision ? value : ''}
        onTyped={takeRevision}
      />
    </div>
  );
}
