/**
 * Review & publish: the one way by which screens write configuration. The change is tried first
 * (`dry_run`), shown before and after, and sent with the revision that it was made from, so that
 * nobody's work is overwritten unseen.
 */
import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { useAction } from '../action.ts';
import { go, guardLeaving } from '../address.ts';
import { call, problemOf, withQuery, type Problem } from '../api.ts';
import { Form, ReasonField } from '../fields.tsx';
import type { Context } from '../format.ts';
import type { Difference } from '../../shared/schema/diff.ts';
import { useLoaded } from '../loading.ts';
import { Button } from '../inline.tsx';
import { Changes, Dialog, Loading } from '../parts.tsx';
import { addToPlan, type PlanItem } from '../plan-items.ts';
import { withRecentSignIn } from '../session.ts';
import { BlastRadius, LimitsEffect, type Impact, type OverTime } from './impact.tsx';
import { ProblemOrOwner } from './managed.tsx';
import { Refused } from './propose.tsx';
import { trialAddress, type EffectiveChange } from './trial.ts';

/** What a write would do. */
export interface Effect {
  readonly effective?: readonly EffectiveChange[];
  readonly impact?: Impact;
  readonly complete?: boolean;
  readonly over_time?: OverTime;
}

interface Trial extends Effect {
  readonly changes: readonly Difference[];
  readonly warnings?: readonly { readonly path: string; readonly message: string }[];
}

export interface Review {
  readonly title: string;
  /** Of the document. */
  readonly address: string;
  readonly method: 'PUT' | 'PATCH' | 'DELETE' | 'POST';
  readonly body?: unknown;
  /** That the change was made from; absent where there is no document yet. */
  readonly revision: number | undefined;
  /** There is no document yet, and none may come up meanwhile. */
  readonly isNew?: boolean;
  readonly about?: ComponentChildren;
  /** The effective values that the trial is to say the future of, and how that is shown. */
  readonly effect?: {
    readonly context: Context;
    readonly show: (changes: readonly EffectiveChange[]) => ComponentChildren;
  };
  /** Whether a trial can say what changes in effective configurations. */
  readonly hasImpact?: boolean;
  /** Whether it can be one of several writes of a plan. */
  readonly isPlannable?: boolean;
  /** When the change ends by itself; absent where it does not. */
  readonly until?: string | undefined;
  /** Why, where that was said already. */
  readonly reason?: string;
  readonly verb: string;
  readonly onClose: () => void;
  readonly onPublished: () => void;
  /**
   * Where the document has changed meanwhile; the problem is shown in place where nobody takes it.
   */
  readonly onOutdated?: (problem: Problem) => void;
}

/** A header carries bytes, of one line: a reason in any script is sent as UTF-8 in them. */
const headerText = (text: string): string =>
  String.fromCharCode(...new TextEncoder().encode(text.replaceAll(/\s*\n\s*/g, ' ')));

function conditionOf({ revision, isNew }: Review): Record<string, string> {
  if (revision !== undefined) return { 'if-match': `"${revision}"` };
  return isNew ? { 'if-none-match': '*' } : {};
}

export function ReviewAndPublish(review: Review): VNode {
  const { title, address, method, body, revision, about, verb, onClose, onPublished } = review;
  const { hasImpact = false, isPlannable = false, effect, until } = review;
  const [reason, setReason] = useState(review.reason ?? '');
  const { isBusy, problem: refusal, run, forget } = useAction();
  /** The owners of what is changed, whose that is not any more then. */
  const [owners, setOwners] = useState<string>();
  const condition = conditionOf(review);
  const headers = { ...condition, ...(owners !== undefined && { 'x-take-over': owners }) };
  const sent = body === undefined ? {} : { body };
  const key = JSON.stringify([method, address, body, revision, owners, until]);
  const trial = useLoaded(key, async (aborted) => {
    const path = trialAddress(address, { hasImpact, context: effect?.context, until });
    const sending = { ...sent, headers, signal: aborted };
    const answer = await withRecentSignIn(() => call<Trial>(method, path, sending));
    return answer.body;
  });
  const { onOutdated } = review;
  const outdated = trial.problem?.code === 'precondition_failed' ? trial.problem : undefined;
  useEffect(() => {
    if (outdated) onOutdated?.(outdated);
  }, [outdated]);

  const write = async (more: Readonly<Record<string, string>> = {}): Promise<void> => {
    const why = reason.trim();
    const said = why !== '' && { 'x-change-reason': headerText(why) };
    const path = withQuery(address, { ...(until !== undefined && { until }) });
    await call(method, path, { ...sent, headers: { ...headers, ...said, ...more } });
    onPublished();
  };
  const publish = (): void =>
    void run(async () => {
      try {
        await write();
      } catch (error) {
        const problem = problemOf(error);
        if (problem.code !== 'precondition_failed' || !onOutdated) throw error;
        onOutdated(problem);
      }
    });
  const changes = trial.data?.changes ?? [];
  /** Nothing is lost by leaving: what was edited is in the plan. */
  const plan = (): void => {
    addToPlan({
      action: method.toLowerCase() as PlanItem['action'],
      path: address,
      ...(body !== undefined && { body }),
      ...(revision !== undefined && { if_match: `"${revision}"` }),
    });
    guardLeaving(undefined);
    go('/platform/plan');
  };
  if (refusal?.changeSet)
    return (
      <Dialog title={title} onClose={onClose}>
        <Refused
          refused={refusal.changeSet}
          title={title}
          reason={reason.trim()}
          ifMatch={condition['if-match']}
          isNew={review.isNew}
          breakGlass={(why) => write({ 'x-break-glass': headerText(why) })}
          onBack={forget}
        />
      </Dialog>
    );
  return (
    <Dialog title={title} onClose={onClose}>
      <Form onSend={publish}>
        {about}
        {trial.data ? (
          <Tried trial={trial.data} effect={effect} />
        ) : (
          trial.isBusy && <Loading says="Trying it…" />
        )}
        <ProblemOrOwner
          problem={trial.problem ?? refusal}
          owners={owners}
          onTakeOver={(names) => {
            forget();
            setOwners(names);
          }}
        />
        {outdated && !onOutdated && (
          <p>Close this, look at the document as it is now, and begin again.</p>
        )}
        <ReasonField
          value={reason}
          required={false}
          placeholder="Why, for the history"
          onValue={setReason}
        />
        <footer>
          <Button class="secondary" says="Cancel" onClick={onClose} />
          {isPlannable && (
            <Button
              class="secondary"
              says="Add to the plan"
              disabled={changes.length === 0}
              onClick={plan}
            />
          )}
          <Button type="submit" says={verb} isBusy={isBusy} disabled={changes.length === 0} />
        </footer>
      </Form>
    </Dialog>
  );
}

/** What the trial said: of the document, of effective values and guardrails, and of tenants. */
const Tried = ({
  trial: { changes, effective, warnings = [], impact, complete = true, over_time: overTime },
  effect,
}: {
  readonly trial: Trial;
  readonly effect: Review['effect'];
}): VNode => (
  <>
    <div>
      {effective && effect?.show(effective)}
      <Changes changes={changes} />
    </div>
    {warnings.map(({ path, message }) => (
      <p class="warning" key={path}>
        <code>{path}</code> {message}
      </p>
    ))}
    {impact && <BlastRadius impact={impact} isComplete={complete} />}
    {overTime && <LimitsEffect overTime={overTime} />}
    {impact?.next_cursor && <p class="fine">More values change; the plan shows all of them.</p>}
  </>
);
