/**
 * What a change_policy refuses, in the form that it was refused in: it becomes a change set that
 * others approve, or, in an emergency, is written all the same. What was typed stays.
 */
import type { VNode } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { useAction } from '../action.ts';
import { go, guardLeaving } from '../address.ts';
import { call, Problem, type ProposedChangeSet } from '../api.ts';
import { Field, Form, ReasonField, useFields } from '../fields.tsx';
import { Button } from '../inline.tsx';
import { ProblemBox } from '../parts.tsx';
import { ApplyFields, applyOf, typedOf } from './apply-fields.tsx';
import { mayBreakGlass, screenOfSet, ownerAt, type ChangeSet } from './change-sets.ts';

interface Properties {
  readonly refused: ProposedChangeSet;
  /** What the form was about. */
  readonly title: string;
  /** Why, as it was said in the form. */
  readonly reason: string;
  /** The revision that the writes were made from, where they say one. */
  readonly ifMatch?: string | undefined;
  /** There is no document yet, and none may come up meanwhile. */
  readonly isNew?: boolean | undefined;
  /** Makes the write without approvals; absent where that is no single write. */
  readonly breakGlass?: ((why: string) => Promise<void>) | undefined;
  readonly onBack: () => void;
  readonly onProposed?: () => void;
}

export function Refused(properties: Properties): VNode {
  const [isEmergency, setEmergency] = useState(false);
  const { refused, breakGlass } = properties;
  const offersIt = breakGlass !== undefined && mayBreakGlass(ownerAt(refused.path));
  return isEmergency && breakGlass ? (
    <BreakGlass work={breakGlass} onBack={() => setEmergency(false)} />
  ) : (
    <Propose {...properties} {...(offersIt && { onEmergency: () => setEmergency(true) })} />
  );
}

function Propose({
  refused,
  title,
  reason,
  ifMatch,
  isNew = false,
  onBack,
  onProposed,
  onEmergency,
}: Properties & { readonly onEmergency?: () => void }): VNode {
  const { typed, field } = useFields({ title, reason });
  const [apply, setApply] = useState(typedOf('on_approval'));
  const { isBusy, problem, run } = useAction();
  /** Opened, where only asking for approval failed. */
  const opened = useRef<string | undefined>(undefined);
  const owner = ownerAt(refused.path);
  const propose = async (): Promise<void> => {
    const items = refused.body.items.map((item) => ({
      ...item,
      ...(ifMatch !== undefined && { if_match: ifMatch }),
    }));
    const body = {
      title: typed.title.trim(),
      reason: typed.reason.trim(),
      apply: await applyOf(apply),
    };
    if (opened.current === undefined) {
      // With what else the write said, such as when it ends.
      const sending = { body: { ...refused.body, ...body, items } };
      const made = await call<ChangeSet>('POST', refused.path, sending);
      if (isNew && made.body.items.some(({ base }) => base !== null)) {
        await call('POST', `${refused.path}/${made.body.id}/cancel`);
        throw new Problem(412, 'precondition_failed', 'Somebody else has made it since.');
      }
      opened.current = made.body.id;
    } else await call('PATCH', `${refused.path}/${opened.current}`, { body });
    await call('POST', `${refused.path}/${opened.current}/submit`);
    // Nothing is lost by leaving: what was edited is in the change set.
    guardLeaving(undefined);
    onProposed?.();
    go(screenOfSet(owner, opened.current));
  };
  return (
    <Form onSend={() => void run(propose)}>
      <p class="notice" role="status">
        <strong>This takes the approval of somebody else.</strong> Nothing was written. Propose it,
        and it is written once it is approved.
      </p>
      <Field label="Title" required maxlength={200} {...field('title')} />
      <ReasonField {...field('reason')} />
      <ApplyFields typed={apply} onTyped={setApply} />
      <ProblemBox problem={problem} />
      <footer>
        {onEmergency && <Button class="danger" says="It cannot wait…" onClick={onEmergency} />}
        <span class="grow"></span>
        <Button class="secondary" says="Back" onClick={onBack} />
        <Button type="submit" says="Propose this change" isBusy={isBusy} />
      </footer>
    </Form>
  );
}

/** As the server demands. */
export const shortestEmergency = 20;

/** The field that says why it cannot wait. */
export const EmergencyField = ({
  value,
  onValue,
}: {
  readonly value: string;
  readonly onValue: (value: string) => void;
}): VNode => (
  <>
    <p class="problem">
      <strong>It is written immediately, without the approval that it needs.</strong> Mail goes to
      the administrators and to all who were skipped, the history and the audit show it, and
      somebody else has to review it before you can do so again.
    </p>
    <Field
      label="Why it cannot wait"
      name="emergency"
      rows={3}
      required
      minlength={shortestEmergency}
      maxlength={500}
      value={value}
      placeholder="Payments are down since 03:10, and no one else is awake"
      hint={`At least ${shortestEmergency} characters; now ${value.trim().length}`}
      onValue={onValue}
    />
  </>
);

function BreakGlass({
  work,
  onBack,
}: {
  readonly work: (why: string) => Promise<void>;
  readonly onBack: () => void;
}): VNode {
  const [why, setWhy] = useState('');
  const { isBusy, problem, run } = useAction();
  const said = why.trim();
  return (
    <Form onSend={() => void run(() => work(said))}>
      <EmergencyField value={why} onValue={setWhy} />
      <ProblemBox problem={problem} />
      <footer>
        <Button class="secondary" says="Back" onClick={onBack} />
        <Button
          type="submit"
          class="danger"
          says="Break the glass"
          isBusy={isBusy}
          disabled={said.length < shortestEmergency}
        />
      </footer>
    </Form>
  );
}
