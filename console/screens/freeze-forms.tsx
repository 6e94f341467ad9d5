/** The windows of a freeze, a calendar that makes them, and the override of a freeze. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { FreezeWindow } from '../../shared/contracts/freezes.ts';
import { Problem } from '../api.ts';
import { FormDialog } from '../dialogs.tsx';
import { Field, Select, titled, useFields } from '../fields.tsx';
import { localIso } from '../format.ts';
import { RowButton } from '../lists.tsx';
import type { JsonObject } from '../../shared/schema/json-pointer.ts';
import { Button } from '../inline.tsx';
import { lastTime } from '../parts.tsx';
import { namesIn } from './narrowing.tsx';
import { kindOfWindow, ownZone, type WindowKind } from './freeze-windows.ts';
import {
  memberOf,
  namePattern,
  ReviewMember,
  type LimitDocument,
  type OwnFields,
} from './limit-editor.tsx';

/** Local, as a window has it. */
const localMinute = (at: Date): string => localIso(at).slice(0, 16);

/** A day from midnight on. */
function firstWindow(kind: WindowKind): FreezeWindow {
  const timezone = ownZone();
  if (kind === 'weekly') return { days: ['sat', 'sun'], start: '00:00', end: '00:00', timezone };
  if (kind === 'yearly') return { dates: ['12-25', '12-26'], timezone };
  const now = new Date();
  const day = (days: number): string =>
    localMinute(new Date(now.getFullYear(), now.getMonth(), now.getDate() + days));
  return { from: day(1), until: day(2), timezone };
}
export const firstFreeze = (): JsonObject => ({ during: [firstWindow('dated')] });

export const windowFields: OwnFields = (draft, onChange, onFit) => {
  // Of the API's own schema, or made here.
  const during = (draft.during ?? []) as readonly FreezeWindow[];
  const put = (windows: readonly FreezeWindow[]): void => {
    onFit('/during', windows.length > 0);
    onChange({ ...draft, during: windows });
  };
  return (
    <fieldset class="windows">
      <legend>When</legend>
      {during.map((window, index) => (
        <WindowFields
          key={index}
          window={window}
          index={index}
          onChange={(next) => put(during.with(index, next))}
          onRemove={() => put(during.toSpliced(index, 1))}
        />
      ))}
      <Button
        class="small"
        says="Add a window"
        onClick={() => put([...during, firstWindow('dated')])}
      />
    </fieldset>
  );
};

const kinds: Readonly<Record<WindowKind, string>> = {
  dated: 'from a time until another',
  weekly: 'every week',
  yearly: 'days of every year',
};

function WindowFields({
  window,
  index,
  onChange,
  onRemove,
}: {
  readonly window: FreezeWindow;
  readonly index: number;
  readonly onChange: (window: FreezeWindow) => void;
  readonly onRemove: () => void;
}): VNode {
  const kind = kindOfWindow(window);
  // What is no such value the trial refuses at its place.
  const put = (change: Record<string, unknown>): void =>
    onChange({ ...window, ...change } as FreezeWindow);
  const labelled = (text: string): string => `${text} of window ${index + 1}`;
  const moment = (
    type: 'datetime-local' | 'time',
    label: string,
    field: 'from' | 'until' | 'start' | 'end',
  ): VNode => (
    <label>
      {labelled(label)}
      <input
        type={type}
        required
        {...lastTime(type)}
        value={window[field]}
        onInput={({ currentTarget }) => put({ [field]: currentTarget.value })}
      />
    </label>
  );
  return (
    <div class="window">
      <Select
        label={labelled('Kind')}
        value={kind}
        options={titled(kinds)}
        onValue={(chosen) => onChange(firstWindow(chosen))}
      />
      {kind === 'dated' && (
        <>
          {moment('datetime-local', 'From', 'from')}
          {moment('datetime-local', 'Until', 'until')}
        </>
      )}
      {kind === 'weekly' && (
        <>
          <Words
            label={labelled('Days')}
            hint="mon tue wed thu fri sat sun"
            words={window.days ?? []}
            onWords={(days) => put({ days })}
          />
          <Words
            label={labelled('Which of a month')}
            hint="all; or some of first second third fourth last"
            words={window.of_month ?? []}
            onWords={(some) => put({ of_month: some.length > 0 ? some : undefined })}
          />
          {moment('time', 'Start', 'start')}
          {moment('time', 'End', 'end')}
        </>
      )}
      {kind === 'yearly' && (
        <Words
          label={labelled('Dates')}
          hint="MM-DD, such as 12-25 12-26"
          words={window.dates ?? []}
          onWords={(dates) => put({ dates })}
        />
      )}
      <Field
        name={`timezone-${index}`}
        label={labelled('Time zone')}
        value={window.timezone}
        required
        spellcheck={false}
        onValue={(timezone) => put({ timezone })}
      />
      <RowButton says="Remove" of={`window ${index + 1}`} onClick={onRemove} />
    </div>
  );
}

/** Several words in one field, as they are typed. */
function Words({
  label,
  hint,
  words,
  onWords,
}: {
  readonly label: string;
  readonly hint: string;
  readonly words: readonly string[];
  readonly onWords: (words: string[]) => void;
}): VNode {
  const [typed, setTyped] = useState('');
  // Where a window before it was removed, the words are those of another one.
  const isTyped = namesIn(typed).join(' ') === words.join(' ');
  return (
    <Field
      name={label}
      label={label}
      value={isTyped ? typed : words.join(' ')}
      hint={hint}
      spellcheck={false}
      onValue={(text) => {
        setTyped(text);
        onWords(namesIn(text));
      }}
    />
  );
}

interface FormProperties extends LimitDocument {
  readonly onClose: () => void;
  readonly onPublished: () => void;
}

/** A freeze is passed by a write that has a name and a reason, never by a role alone. */
export function FreezeOverride({
  name,
  onClose,
  ...properties
}: FormProperties & { readonly name: string }): VNode {
  const { typed, field } = useFields({
    override: '',
    until: localMinute(new Date(Date.now() + 3_600_000)),
    why: '',
  });
  const [isReviewing, setReviewing] = useState(false);
  const until = new Date(typed.until);
  return (
    <>
      <FormDialog
        title={`Override the freeze ${name}`}
        verb="Review…"
        isDangerous
        work={async () => setReviewing(true)}
        onClose={onClose}
      >
        <p>
          All automation that the freeze holds back may act until then. The history and the audit
          keep who overrode it and why.
        </p>
        <Field
          label="Name"
          placeholder="incident-42"
          required
          pattern={namePattern}
          spellcheck={false}
          {...field('override')}
        />
        <Field
          label="Until, in your time"
          type="datetime-local"
          required
          min={localMinute(new Date())}
          {...field('until')}
        />
        <Field label="Why" required maxlength={500} {...field('why')} />
      </FormDialog>
      {isReviewing && (
        <ReviewMember
          {...properties}
          title={`Override the freeze ${name}`}
          name={name}
          patch={{
            overrides: {
              // One of this name may have begun later, or for some automations only.
              [typed.override]: {
                from: null,
                until: until.toISOString(),
                match: null,
                reason: typed.why,
              },
            },
          }}
          reason={typed.why}
          verb="Override the freeze"
          onClose={() => setReviewing(false)}
        />
      )}
    </>
  );
}

/** The file is read here: the windows that it makes are what is sent. */
export function CalendarImport({
  name: known = 'holidays',
  onClose,
  ...properties
}: FormProperties & { readonly name?: string | undefined }): VNode {
  const { typed, field } = useFields({ name: known, timezone: ownZone() });
  const { name, timezone } = typed;
  const [file, setFile] = useState<File>();
  const [windows, setWindows] = useState<readonly FreezeWindow[]>();
  const isThere = memberOf(properties.stored, name) !== undefined;
  const read = async (): Promise<void> => {
    const { Temporal } = await import('temporal-polyfill');
    const { largestCalendar, windowsOf } = await import('../../shared/budgets/calendar.ts');
    if (file!.size > largestCalendar)
      throw new Problem(0, 'bad_file', `It is larger than ${largestCalendar / 1024} KiB.`);
    const text = await file!.text();
    try {
      setWindows(windowsOf(text, { timezone, now: Temporal.Now.instant() }));
    } catch (error) {
      throw new Problem(0, 'bad_file', `${file!.name} ${(error as Error).message}`);
    }
  };
  return (
    <>
      <FormDialog
        title="Import a calendar"
        verb="Review…"
        isReady={file !== undefined}
        work={read}
        onClose={onClose}
      >
        <p>The windows of the freeze become those of the calendar; all else that it says stays.</p>
        <Field
          label="Freeze"
          required
          pattern={namePattern}
          spellcheck={false}
          hint={isThere ? 'Its windows are replaced.' : 'It is made.'}
          {...field('name')}
        />
        <label>
          iCalendar file
          <input
            type="file"
            name="file"
            accept=".ics,text/calendar"
            required
            onChange={({ currentTarget }) => setFile(currentTarget.files?.[0])}
          />
        </label>
        <Field
          label="Time zone"
          required
          spellcheck={false}
          hint="Of whole days, and of times that name none"
          {...field('timezone')}
        />
      </FormDialog>
      {windows && (
        <ReviewMember
          {...properties}
          title={`Import a calendar into ${name}`}
          name={name}
          patch={{ during: windows }}
          verb="Publish"
          onClose={() => setWindows(undefined)}
        />
      )}
    </>
  );
}
