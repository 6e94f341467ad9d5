/**
 * Clearing an override, or giving it another value: what will hold instead is tried first, and
 * written only after a look at it.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { ofTenant } from '../address.ts';
import { FormDialog } from '../dialogs.tsx';
import { Field, Select } from '../fields.tsx';
import { localTime, longJson, removalAt, settingAt, type Context } from '../format.ts';
import { useLoaded } from '../loading.ts';
import { Strong, Value } from '../inline.tsx';
import { Dialog, Loading, ProblemBox } from '../parts.tsx';
import { parsedJson } from '../typed-values.ts';
import { timeTyped } from './as-of.tsx';
import { changesValue, EffectOf } from './effect.tsx';
import { titleOf, type Rung } from './ladder.ts';
import { ReviewAndPublish } from './review.tsx';
import { readStored } from './stored.ts';
import type { EffectiveChange } from './trial.ts';

/** Where the document of a layer is; undefined for those that a tenant does not write. */
function addressOf({ layer }: Rung, question: Context): string | undefined {
  const named = (text: string | undefined): string => encodeURIComponent(text ?? '');
  switch (layer) {
    case 'service_instance':
      return ofTenant(`/services/${named(question.service_id)}`);
    case 'agent':
      return ofTenant(`/config/agents/${named(question.agent_type)}`);
    case 'tenant_risk':
      return ofTenant('/config/risk');
    default:
      return undefined;
  }
}

interface Properties {
  readonly name: string;
  readonly rung: Rung;
  /** What holds now. */
  readonly value: unknown;
  readonly question: Context;
  readonly onClose: () => void;
  readonly onChanged: () => void;
}

export const ClearOverride = (properties: Properties): VNode | null => (
  <ReviewOverride
    {...properties}
    title={`Clear ${properties.name}`}
    patch={removalAt(properties.rung.path!)}
    about={
      <p>
        {titleOf(properties.rung)} will not say anything about <Strong>{properties.name}</Strong>{' '}
        any more.
      </p>
    }
    verb="Clear the override"
  />
);

/** First the value is typed, and until when it holds, then it is reviewed. */
export function EditOverride(properties: Properties): VNode | null {
  const { name, rung, onClose } = properties;
  const [typed, setTyped] = useState(textOf(rung.value));
  const [end, setEnd] = useState('');
  const [next, setNext] = useState<{ readonly value: unknown }>();
  const until = timeTyped(end) || undefined;
  const read = async (): Promise<void> => setNext({ value: valueOf(typed, rung.value) });
  if (next)
    return (
      <ReviewOverride
        {...properties}
        title={`Change ${name}`}
        patch={settingAt(rung.path!, next.value)}
        about={
          <p>
            {titleOf(rung)} will say <Value value={next.value} /> instead of{' '}
            <Value value={rung.value} />
            {until !== undefined && (
              <span>
                {' '}
                until {localTime(until)}, and <Value value={rung.value} /> again from then on
              </span>
            )}
            .
          </p>
        }
        until={until}
        verb="Publish"
      />
    );
  return (
    <FormDialog title={`Change ${name}`} verb="Review" work={read} onClose={onClose}>
      <ValueField of={rung.value} label={titleOf(rung)} value={typed} onValue={setTyped} />
      <Field
        label="Until (your time; empty for good)"
        name="until"
        type="datetime-local"
        value={end}
        onValue={setEnd}
      />
    </FormDialog>
  );
}

const isText = (value: unknown): boolean => typeof value === 'string';
const textOf = (value: unknown): string => (isText(value) ? String(value) : longJson(value));

/** Of the type that the value has now; throws where the text is no JSON. */
const valueOf = (text: string, now: unknown): unknown => (isText(now) ? text : parsedJson(text));

function ValueField({
  of: now,
  ...bound
}: {
  readonly of: unknown;
  readonly label: string;
  readonly value: string;
  readonly onValue: (text: string) => void;
}): VNode {
  const field = { ...bound, name: 'value' };
  if (typeof now === 'boolean')
    return <Select {...field} options={[{ value: 'true' }, { value: 'false' }]} />;
  if (typeof now === 'object') return <Field {...field} rows={6} spellcheck={false} />;
  if (typeof now === 'number') return <Field {...field} type="number" step="any" required />;
  return <Field {...field} spellcheck={false} required />;
}

function ReviewOverride({
  name,
  rung,
  value,
  question,
  title,
  patch,
  about,
  until,
  verb,
  onClose,
  onChanged,
}: Properties & {
  readonly title: string;
  readonly patch: unknown;
  readonly about: VNode;
  readonly until?: string | undefined;
  readonly verb: string;
}): VNode | null {
  const address = addressOf(rung, question);
  // Of the moment that is now, whatever the question says of it.
  const { agent_type, service_id, service_type } = question;
  const { data: stored, problem } = useLoaded(address ?? '', async (aborted) =>
    address === undefined ? undefined : readStored(address, aborted),
  );
  if (address === undefined) return null;
  if (!stored)
    return (
      <Dialog title={title} onClose={onClose}>
        {problem ? <ProblemBox problem={problem} /> : <Loading says="Trying it…" />}
      </Dialog>
    );
  return (
    <ReviewAndPublish
      title={title}
      address={address}
      method="PATCH"
      body={patch}
      revision={stored.revision}
      about={about}
      until={until}
      effect={{
        context: { agent_type, service_id, service_type },
        show: (changes) => <Becomes name={name} value={value} changes={changes} />,
      }}
      verb={verb}
      onClose={onClose}
      onPublished={onChanged}
    />
  );
}

/** What the trial said, for these names. */
function Becomes({
  name,
  value,
  changes,
}: {
  readonly name: string;
  readonly value: unknown;
  readonly changes: readonly EffectiveChange[];
}): VNode {
  const change = changes.find(({ key }) => key === name);
  const others = changes.filter((each) => each.key !== name && changesValue(each));
  return (
    <div class="becomes">
      <p>
        {change ? (
          <EffectOf change={change} />
        ) : (
          <span>
            It stays <Value value={value} />.
          </span>
        )}
      </p>
      {others.map((other) => (
        <p key={other.key}>
          <bdi>{other.key}</bdi>: <EffectOf change={other} />
        </p>
      ))}
    </div>
  );
}
