/** Values and times as people read them. */
import { namesOf } from '../shared/schema/json-pointer.ts';
import { readableJson } from '../shared/schema/readable-json.ts';

/** JSON on one line, cut where it is long. */
export function shortJson(value: unknown, longest = 120): string {
  const text = readableJson(value);
  return text.length > longest ? `${text.slice(0, longest - 1)}…` : text;
}

export const longJson = (value: unknown): string => readableJson(value, 2);

const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const inWords = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'long' });

/** In the time zone of whoever reads; as it is where that is no time, as in a link that was cut. */
export const localTime = (at: string): string =>
  Number.isNaN(Date.parse(at)) ? at : day.format(new Date(at));

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });
/** Such as 14:32, by the clock of whoever reads. */
export const clockTime = (at: string): string => clock.format(new Date(at));

/** Such as 2026-01-31T14:32:00, by the clock of whoever reads, as fields of browsers want it. */
export const localIso = (at: Date): string =>
  new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
export const localDate = (at: Date): string => localIso(at).slice(0, 10);

const steps: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ['second', 60],
  ['minute', 60],
  ['hour', 24],
  ['day', 30],
  ['month', 12],
  ['year', Infinity],
];

/** Such as "3 hours ago". */
export function timeAgo(at: string, now = Date.now()): string {
  let amount = (Date.parse(at) - now) / 1000;
  for (const [unit, size] of steps) {
    if (Math.abs(amount) < size) return inWords.format(Math.round(amount), unit);
    amount /= size;
  }
  return localTime(at);
}

/** Whom effective values are asked for, or what automation acts on. */
export interface Context {
  readonly agent_type?: string | undefined;
  readonly service_id?: string | undefined;
  readonly service_type?: string | undefined;
}

/** Empty for no agent and no service. */
export const contextText = ({ agent_type, service_id, service_type }: Context): string =>
  [agent_type, service_id, service_type].filter((each) => each !== undefined).join(' · ');

/** A merge patch (RFC 7396) that sets what is at a place; null removes it. */
export const settingAt = (pointer: string, value: unknown): unknown =>
  namesOf(pointer).reduceRight<unknown>(
    (inner, name) => Object.fromEntries([[name, inner]]),
    value,
  );
export const removalAt = (pointer: string): unknown => settingAt(pointer, null);

/**
 * The name that an answer gives beside an id, such as `updated_by_name`; gateways from before that
 * leave it out.
 */
export function nameBeside(answer: object, field: string): string | undefined {
  const name: unknown = Object.entries(answer).find(([each]) => each === `${field}_name`)?.[1];
  return typeof name === 'string' ? name : undefined;
}
