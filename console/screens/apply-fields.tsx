/** When a change set is applied, as a form asks for it. */
import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Problem } from '../api.ts';
import { boundTo, Field, Select, titled } from '../fields.tsx';
import { localTime } from '../format.ts';
import { localFieldOf } from './as-of.tsx';
import type { ApplyWhen } from './change-sets.ts';
import { ownZone } from './freeze-windows.ts';

interface ApplyTyped {
  readonly when: 'on_approval' | 'manual' | 'at';
  /** As the browser's field has it: a time of day in the zone, without saying which. */
  readonly local: string;
  readonly timezone: string;
}

export const whenTitles = {
  on_approval: 'as soon as it is approved',
  manual: 'when somebody applies it',
  at: 'at a time',
} as const;

export const typedOf = (apply: ApplyWhen): ApplyTyped => ({
  when: typeof apply === 'object' ? 'at' : apply,
  local: typeof apply === 'object' ? localFieldOf(apply.at).slice(0, 16) : '',
  timezone: ownZone(),
});

/** The library knows each zone's summer time, of which it takes the earlier of two. */
async function momentOf({ local, timezone }: ApplyTyped): Promise<string> {
  const { Temporal } = await import('temporal-polyfill');
  try {
    return Temporal.PlainDateTime.from(local).toZonedDateTime(timezone).toInstant().toString();
  } catch {
    throw new Problem(0, 'bad_time', 'There is no such time, or no such time zone.');
  }
}

/** Throws a `Problem` for what is no time to come. */
export async function applyOf(typed: ApplyTyped): Promise<ApplyWhen> {
  if (typed.when !== 'at') return typed.when;
  const at = await momentOf(typed);
  if (Date.parse(at) <= Date.now()) throw new Problem(0, 'bad_time', 'That time has passed.');
  return { at };
}

export function ApplyFields({
  typed,
  onTyped,
}: {
  readonly typed: ApplyTyped;
  readonly onTyped: (typed: ApplyTyped) => void;
}): VNode {
  const { when, local, timezone } = typed;
  const field = boundTo(typed, (change) => onTyped({ ...typed, ...change }));
  const [moment, setMoment] = useState<string>();
  useEffect(() => {
    let isOld = false;
    const show = (at: string | undefined): void => {
      if (!isOld) setMoment(at);
    };
    if (when === 'at' && local !== '') momentOf(typed).then(show, () => show(undefined));
    else setMoment(undefined);
    return () => {
      isOld = true;
    };
  }, [when, local, timezone]);
  return (
    <>
      <Select label="It is applied" options={titled(whenTitles)} {...field('when')} name="apply" />
      {when === 'at' && (
        <div class="at">
          <Field label="Time" type="datetime-local" required {...field('local')} name="apply_at" />
          <Field
            label="Time zone"
            required
            spellcheck={false}
            {...field('timezone')}
            name="apply_zone"
          />
          <p class="fine" role="status">
            {moment === undefined
              ? 'A time zone has a name such as Europe/Berlin or UTC.'
              : `That is ${localTime(moment)} on your clock, and ${moment} in UTC.`}
          </p>
        </div>
      )}
    </>
  );
}
