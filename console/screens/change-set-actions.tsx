/** What can be done with a change set: deciding it, reviewing an emergency, and its next steps. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { useAction, type Action } from '../action.ts';
import { call } from '../api.ts';
import { FormDialog } from '../dialogs.tsx';
import { keepDraft, useDraft } from '../drafts.ts';
import { Field, ReasonField, useFields } from '../fields.tsx';
import { noteStep } from '../inbox.ts';
import { Button } from '../inline.tsx';
import { ProblemBox } from '../parts.tsx';
import { ApplyFields, applyOf, typedOf } from './apply-fields.tsx';
import {
  hasApproved,
  isDecider,
  isOpen,
  mayBreakGlass,
  mayDecide,
  mayReview,
  mayWriteAll,
  type ChangeSet,
  type ChangeSetEdit,
  type Owner,
} from './change-sets.ts';
import { canBeStaged, NewRollout } from './new-rollout.tsx';
import { EmergencyField, shortestEmergency } from './propose.tsx';

interface ActionsProperties {
  readonly set: ChangeSet;
  readonly owner: Owner;
  readonly address: string;
  readonly isSeen: boolean;
  readonly onLook: () => void;
  readonly onDone: () => void;
}

/** All that the one who looks may do now; the server says why not, where it knows better. */
export function Actions(properties: ActionsProperties): VNode | null {
  const { set, owner, address, onDone } = properties;
  const action = useAction();
  const post = (step: string, body?: object): Promise<void> =>
    action.run(async () => {
      try {
        await call('POST', `${address}/${step}`, body ? { body } : {});
        noteStep();
        keepDraft(commentOn(address), undefined);
      } finally {
        onDone();
      }
    });
  return (
    <>
      <Decide {...properties} action={action} post={post} />
      {mayReview(set, owner) && (
        <div class="decide">
          <ProblemBox problem={action.problem} />
          <div class="buttons">
            <Button
              says="I have reviewed it"
              disabled={action.isBusy}
              onClick={() => void post('review')}
            />
          </div>
        </div>
      )}
      {isOpen(set) && mayWriteAll(set, owner) && (
        <Steps {...properties} action={action} post={post} />
      )}
    </>
  );
}

/** The draft of a comment. */
const commentOn = (address: string): string => `comment ${address}`;

interface Doing {
  readonly action: Action;
  readonly post: (step: string, body?: object) => Promise<void>;
}

function Decide({
  set,
  owner,
  address,
  isSeen,
  onLook,
  action,
  post,
}: ActionsProperties & Doing): VNode | null {
  const [comment = '', setComment] = useDraft<string>(commentOn(address));
  if (set.state !== 'pending' || !isDecider(owner)) return null;
  if (!mayDecide(set, owner))
    return (
      <p class="notice">
        {hasApproved(set)
          ? 'You have approved it; others are still asked.'
          : 'You wrote or edited this, so somebody else decides it.'}
      </p>
    );
  const said = comment.trim();
  const more = said === '' ? {} : { comment: said };
  return (
    <div class="decide">
      {!isSeen && (
        <p class="banner" role="alert">
          <strong>It was edited since you opened this page.</strong> What it changes now is below.{' '}
          <Button class="link" says="I have looked at it" onClick={onLook} />
        </p>
      )}
      <ProblemBox problem={action.problem} />
      <Field
        label="Comment"
        name="comment"
        rows={2}
        maxlength={500}
        value={comment}
        placeholder="Why, for the others"
        onValue={setComment}
      />
      <div class="buttons">
        <Button
          says="Approve"
          disabled={!isSeen}
          isBusy={action.isBusy}
          onClick={() => void post('approve', { digest: set.digest, ...more })}
        />
        <Button
          class="danger"
          says="Reject"
          disabled={action.isBusy}
          onClick={() => void post('reject', more)}
        />
      </div>
    </div>
  );
}

/** What those do with it who could write its documents. */
function Steps({ set, owner, address, onDone, action, post }: ActionsProperties & Doing): VNode {
  const [asking, setAsking] = useState<'edit' | 'cancel' | 'emergency' | 'stages'>();
  const { state } = set;
  const close = (): void => setAsking(undefined);
  const isStageable = owner.tenantId === '' && state === 'approved' && canBeStaged(set.items);
  const step = (name: string, says: string): VNode => (
    <Button says={says} disabled={action.isBusy} onClick={() => void post(name)} />
  );
  const ask = (what: typeof asking, says: string, look: string): VNode => (
    <Button class={look} says={says} onClick={() => setAsking(what)} />
  );
  return (
    <div class="steps">
      {!mayDecide(set, owner) && <ProblemBox problem={action.problem} />}
      <div class="buttons">
        {state === 'draft' && step('submit', 'Ask for approval')}
        {(state === 'approved' || state === 'suspended') && step('apply', 'Apply it now')}
        {state === 'stale' && step('rebase', 'Rebase it onto the current documents')}
        {isStageable && ask('stages', 'Roll out in stages…', 'secondary')}
        {ask('edit', 'Edit…', 'secondary')}
        {state !== 'stale' && mayBreakGlass(owner) && ask('emergency', 'It cannot wait…', 'danger')}
        {ask('cancel', 'Cancel it…', 'danger')}
      </div>
      {asking === 'edit' && <Edit set={set} address={address} onClose={close} onDone={onDone} />}
      {asking === 'cancel' && (
        <FormDialog
          title="Cancel the change set"
          verb="Cancel it"
          isDangerous
          work={async () => {
            await call('POST', `${address}/cancel`);
            close();
            onDone();
          }}
          onClose={close}
        >
          <p>It ends, and nothing of it is written. Others can see that it was there.</p>
        </FormDialog>
      )}
      {asking === 'stages' && (
        <NewRollout
          source={{ changeset_id: set.id, digest: set.digest }}
          title={set.title}
          reason={set.reason}
          onClose={close}
        />
      )}
      {asking === 'emergency' && <InEmergency address={address} onClose={close} onDone={onDone} />}
    </div>
  );
}

interface Asking {
  readonly address: string;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

function Edit({ set, address, onClose, onDone }: Asking & { readonly set: ChangeSet }): VNode {
  const [before] = useState({ title: set.title, reason: set.reason, apply: typedOf(set.apply) });
  const { typed, field } = useFields(before);
  const [apply, setApply] = useState(before.apply);
  const save = async (): Promise<void> => {
    const [title, reason] = [typed.title.trim(), typed.reason.trim()];
    // What was not touched stays as it is, also where somebody else has changed it meanwhile.
    const body: ChangeSetEdit = {
      ...(title !== before.title && { title }),
      ...(reason !== before.reason && { reason }),
      ...(apply !== before.apply && { apply: await applyOf(apply) }),
    };
    if (Object.keys(body).length > 0) await call('PATCH', address, { body });
    onClose();
    onDone();
  };
  return (
    <FormDialog title="Edit the change set" verb="Save" work={save} onClose={onClose}>
      <p>
        It becomes a draft again, and its approvals are void. What it writes is changed where it was
        proposed: cancel this one and propose another.
      </p>
      <Field label="Title" required maxlength={200} {...field('title')} />
      <ReasonField {...field('reason')} />
      <ApplyFields typed={apply} onTyped={setApply} />
    </FormDialog>
  );
}

function InEmergency({ address, onClose, onDone }: Asking): VNode {
  const [why, setWhy] = useState('');
  const said = why.trim();
  return (
    <FormDialog
      title="Apply it without approvals"
      verb="Break the glass"
      isDangerous
      isReady={said.length >= shortestEmergency}
      work={async () => {
        await call('POST', `${address}/break-glass`, { body: { reason: said } });
        onClose();
        onDone();
      }}
      onClose={onClose}
    >
      <EmergencyField value={why} onValue={setWhy} />
    </FormDialog>
  );
}
