/**
 * A plan: several writes of the platform, what they would do together to every tenant, and the
 * writing of exactly that. What is applied is what was looked at: its digest says so, and where
 * anything has moved the answer names what.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf } from '../address.ts';
import { useAction } from '../action.ts';
import { call } from '../api.ts';
import { useDraft } from '../drafts.ts';
import { useLoaded } from '../loading.ts';
import { RowButton, Table } from '../lists.tsx';
import { Button, Code, Value } from '../inline.tsx';
import { Changes, Dialog, Empty, Heading, Loading, ProblemBox } from '../parts.tsx';
import { addToPlan, emptyPlan, planItems, removeFromPlan, type PlanItem } from '../plan-items.ts';
import { parsedJson } from '../typed-values.ts';
import { BlastRadius, LimitsEffect, type Impact } from './impact.tsx';
import { canBeStaged, NewRollout } from './new-rollout.tsx';
import { Refused } from './propose.tsx';
import { Form, ReasonField } from '../fields.tsx';

type Planned = ResultOf<'global-config.plan'>;
type Applied = ResultOf<'global-config.plan.apply'>;

export function Plan(): VNode {
  const items = planItems.value;
  const [applied, setApplied] = useState<Applied>();
  const finish = (done: Applied): void => {
    setApplied(done);
    emptyPlan();
  };
  return (
    <section>
      <Heading
        title="Plan"
        about="Several writes of the platform at once, and what they do to every tenant"
      />
      {applied && items.length === 0 && <Done applied={applied} />}
      {items.length > 0 && <Items items={items} />}
      {items.length === 0 && (
        <Empty>
          The plan is empty. Choose <strong>Add to the plan</strong> where a change of{' '}
          <a href={hrefOf('/platform/global')}>global configuration</a>,{' '}
          <a href={hrefOf('/platform/service-types')}>service types</a> or{' '}
          <a href={hrefOf('/platform/bounds')}>guardrails</a> is reviewed, or write an item below.
        </Empty>
      )}
      <NewItem />
      {items.length > 0 && <Look key={JSON.stringify(items)} items={items} onApplied={finish} />}
    </section>
  );
}

const Items = ({ items }: { readonly items: readonly PlanItem[] }): VNode => (
  <Table
    label="Writes of the plan"
    items={items}
    keyOf={({ path }) => path}
    columns={[
      ['Document', ({ path }) => <Code>{path}</Code>],
      [
        'Write',
        ({ action, if_match: ifMatch }) => (
          <>
            {action}
            {ifMatch !== undefined && (
              <div class="fine">of revision {ifMatch.replaceAll('"', '')}</div>
            )}
          </>
        ),
      ],
      ['Body', ({ body }) => (body === undefined ? '–' : <Value value={body} longest={200} />)],
      [
        { unseen: 'Action' },
        ({ path }) => <RowButton says="Take out" of={path} onClick={() => removeFromPlan(path)} />,
      ],
    ]}
  />
);

const actions = ['patch', 'put', 'delete'] as const;

interface TypedItem {
  readonly action: PlanItem['action'];
  readonly path: string;
  readonly body: string;
}
const newItem: TypedItem = { action: 'patch', path: '', body: '' };

function NewItem(): VNode {
  const [typed = newItem, setTyped] = useDraft<TypedItem>('item of the plan');
  const [isOpenAtFirst] = useState(typed !== newItem);
  const [problem, setProblem] = useState<string>();
  const put = (change: Partial<TypedItem>): void => setTyped({ ...typed, ...change });
  const add = (): void => {
    const text = typed.body.trim();
    try {
      const body = text === '' ? undefined : parsedJson(text);
      addToPlan({
        action: typed.action,
        path: typed.path.trim(),
        ...(body !== undefined && { body }),
      });
      setProblem(undefined);
      setTyped(undefined);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : 'This is no JSON.');
    }
  };
  return (
    <details class="add" open={isOpenAtFirst}>
      <summary>Write an item</summary>
      <Form class="fields" onSend={add}>
        <label>
          <span class="name">Write</span>
          <select
            name="action"
            value={typed.action}
            onChange={({ currentTarget }) => put({ action: actions[currentTarget.selectedIndex]! })}
          >
            {actions.map((each) => (
              <option key={each} value={each}>
                {each}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span class="name">Document</span>
          <input
            name="path"
            required
            placeholder="/config/global/default_region"
            autocomplete="off"
            spellcheck={false}
            value={typed.path}
            onInput={({ currentTarget }) => put({ path: currentTarget.value })}
          />
        </label>
        <label class="json">
          <span class="name">Body</span>
          <textarea
            name="body"
            rows={4}
            spellcheck={false}
            placeholder={'{"config_value": "europe-west1"}'}
            aria-invalid={problem ? 'true' : undefined}
            aria-describedby="plan-body-hint"
            value={typed.body}
            onInput={({ currentTarget }) => put({ body: currentTarget.value })}
          ></textarea>
          <small id="plan-body-hint" class={problem ? 'unfit' : ''}>
            {problem ?? 'JSON as the write takes it; none for a delete'}
          </small>
        </label>
        <p>
          <Button type="submit" class="secondary" says="Add to the plan" />
        </p>
      </Form>
    </details>
  );
}

const ChangesOfPlan = ({
  plan: { base, changes },
  onAgain,
}: {
  readonly plan: Planned;
  readonly onAgain: () => void;
}): VNode => (
  <section aria-label="Changes of the plan">
    <h2>Changes</h2>
    <p class="fine">
      On revision <span class="number">{base.platform}</span> of the platform.{' '}
      <Button class="link" says="Plan again" onClick={onAgain} />
    </p>
    <Changes
      changes={changes.map((change) => ({ ...change, path: `${change.resource} ${change.path}` }))}
    />
  </section>
);

function Look({
  items,
  onApplied,
}: {
  readonly items: readonly PlanItem[];
  readonly onApplied: (applied: Applied) => void;
}): VNode {
  const [more, setMore] = useState<{ readonly of: Planned; readonly pages: readonly Planned[] }>();
  const [isApplying, setApplying] = useState(false);
  const [isStaging, setStaging] = useState(false);
  const further = useAction();
  const plan = async (cursor?: string, aborted?: AbortSignal): Promise<Planned> => {
    const sending = {
      body: { items, limit: 50, ...(cursor !== undefined && { cursor }) },
      ...(aborted && { signal: aborted }),
    };
    const { body } = await call<Planned>('POST', '/config/plan', sending);
    return body;
  };
  const { data, problem, isBusy, reload } = useLoaded('plan', (aborted) =>
    plan(undefined, aborted),
  );
  // A page of the plan before says nothing of this one.
  const furtherPages = more && more.of === data ? more.pages : [];
  const pages = data ? [data, ...furtherPages] : [];
  const last = pages.at(-1);
  const cursor = last?.impact.next_cursor;
  const next = (): Promise<void> =>
    further.run(async () => {
      const page = await plan(cursor ?? undefined);
      setMore(data && { of: data, pages: [...furtherPages, page] });
    });
  const again = (): void => {
    further.forget();
    setApplying(false);
    reload();
  };
  const impact: Impact | undefined = last && {
    ...last.impact,
    items: pages.flatMap((page) => page.impact.items),
  };
  return (
    <div>
      <ProblemBox problem={problem} retry={again} />
      {!data && isBusy && <Loading says="Planning…" />}
      {data && <ChangesOfPlan plan={data} onAgain={again} />}
      {impact && last && (
        <BlastRadius
          impact={impact}
          isComplete={last.complete}
          onMore={cursor ? () => void next() : undefined}
        />
      )}
      {data?.over_time && <LimitsEffect overTime={data.over_time} />}
      <ProblemBox problem={further.problem} retry={again} />
      {data && (
        <footer class="actions">
          <Button
            says="Apply exactly this…"
            isBusy={isBusy}
            disabled={last?.digest === null || data.changes.length === 0}
            onClick={() => setApplying(true)}
          />
          <Button
            class="secondary"
            says="Roll out in stages…"
            disabled={
              isBusy || last?.digest === null || data.changes.length === 0 || !canBeStaged(items)
            }
            onClick={() => setStaging(true)}
          />
          {!canBeStaged(items) && (
            <span class="fine">
              Only global configuration and service types roll out in stages; what else is here
              reaches all tenants at once.
            </span>
          )}
          {last?.digest === null && (
            <span class="fine">
              Show more until all tenants were looked at: only a whole plan can be applied.
            </span>
          )}
        </footer>
      )}
      {isStaging && last?.digest && (
        <NewRollout
          source={{ items: [...items], digest: last.digest }}
          title={titleOf(items)}
          reason=""
          onClose={() => setStaging(false)}
          onPlanned={emptyPlan}
        />
      )}
      {isApplying && last?.digest && (
        <Apply
          items={items}
          digest={last.digest}
          onClose={() => setApplying(false)}
          onApplied={onApplied}
          onAgain={again}
        />
      )}
    </div>
  );
}

const titleOf = ({ length }: readonly PlanItem[]): string =>
  `Plan of ${length} ${length === 1 ? 'write' : 'writes'}`;

function Apply({
  items,
  digest,
  onClose,
  onApplied,
  onAgain,
}: {
  readonly items: readonly PlanItem[];
  readonly digest: string;
  readonly onClose: () => void;
  readonly onApplied: (applied: Applied) => void;
  readonly onAgain: () => void;
}): VNode {
  const [reason, setReason] = useState('');
  const { isBusy, problem, run, forget } = useAction();
  const apply = (): void =>
    void run(async () => {
      const why = reason.trim();
      const body = { digest, items, ...(why !== '' && { reason: why }) };
      const answer = await call<Applied>('POST', '/config/plan/apply', { body });
      onApplied(answer.body);
    });
  const hasMoved = problem?.code === 'precondition_failed';
  if (problem?.changeSet)
    return (
      <Dialog title="Apply the plan" onClose={onClose}>
        <Refused
          refused={problem.changeSet}
          title={titleOf(items)}
          reason={reason.trim()}
          onBack={forget}
          onProposed={emptyPlan}
        />
      </Dialog>
    );
  return (
    <Dialog title="Apply the plan" onClose={onClose}>
      <Form onSend={apply}>
        <p>
          All {items.length} {items.length === 1 ? 'write is' : 'writes are'} made at once, or none
          of them where anything that the plan depends on has moved since.
        </p>
        <ProblemBox problem={problem} />
        {hasMoved && (
          <p>
            Nothing was written. <Button class="link" says="Plan again" onClick={onAgain} />, and
            look at it once more.
          </p>
        )}
        <ReasonField
          value={reason}
          required={false}
          placeholder="Why, for the history"
          onValue={setReason}
        />
        <footer>
          <Button class="secondary" says="Cancel" onClick={onClose} />
          <Button type="submit" says="Apply the plan" isBusy={isBusy} disabled={hasMoved} />
        </footer>
      </Form>
    </Dialog>
  );
}

const Done = ({ applied }: { readonly applied: Applied }): VNode => (
  <div class="notice" role="status">
    <p>
      <strong>
        Applied: the platform is at revision <span class="number">{applied.revision}</span>.
      </strong>
    </p>
    <ul>
      {applied.items.map(({ path, outcome, revision }) => (
        <li key={path}>
          <Code>{path}</Code> {outcome} as revision <span class="number">{revision}</span>
        </li>
      ))}
    </ul>
    <p>
      <a href={hrefOf('/platform/history')}>History of the platform</a>
    </p>
  </div>
);
