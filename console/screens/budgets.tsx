/** What automation may spend in a period, what is spent of it, and what holds the rest. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf, ofTenant, query, setQuery } from '../address.ts';
import { Waiting, RowButton } from '../lists.tsx';
import { lookAgainMs, useEvery, useList, useLive, useLoaded, useGet } from '../loading.ts';
import { Button, Code, Said, Time } from '../inline.tsx';
import { Empty, Heading, ProblemBox } from '../parts.tsx';
import { counts, keyOf, unitOf, type Automation, type Usage } from './budget-usage.ts';
import { addressOf, kindNamed, mayWrite } from './document-kinds.ts';
import { LimitEditor, ReviewMember } from './limit-editor.tsx';
import { SpendingByDay } from './spending-by-day.tsx';
import { readStored } from './stored.ts';

const kind = kindNamed('budgets')!;
const firstBudget = { amount: '100.00', currency: 'EUR', per: 'month', warn_at: 0.8 };

export function Budgets(): VNode {
  const usage = useGet<ResultOf<'notifier.budgets.usage'>>(ofTenant('/budgets/usage'));
  const address = addressOf(kind.path);
  const document = useLoaded(address, (aborted) => readStored(address, aborted));
  const running = useList<Automation>(ofTenant('/automations?state=running'));
  const [editing, setEditing] = useState<{ name?: string; isRemoving?: true }>();
  const reload = (): void => {
    usage.reload();
    document.reload();
    running.reload();
  };
  useLive(reload, ({ config_type: type }) => type !== 'freezes_config');
  useEvery(lookAgainMs, () => {
    usage.reload();
    running.reload();
  });
  const items = usage.data?.items;
  const shown = items?.find((each) => keyOf(each) === query.value.get('budget')) ?? items?.[0];
  const isWritable = mayWrite(kind) && document.data !== undefined;
  const done = (): void => {
    setEditing(undefined);
    reload();
  };
  const member = { kind, address, onClose: () => setEditing(undefined), onPublished: done };
  return (
    <section>
      <Heading title="Budgets" about={kind.about}>
        <span class="grow"></span>
        {isWritable && <Button class="small" says="New budget…" onClick={() => setEditing({})} />}
      </Heading>
      <Waiting data={items} problem={usage.problem} retry={usage.reload} />
      <ProblemBox problem={document.problem ?? running.problem} retry={reload} />
      {items?.length === 0 && (
        <Empty>There is no budget: automation spends what its other limits allow.</Empty>
      )}
      <div class="panels budgets">
        {items?.map((each) => (
          <BudgetPanel
            key={keyOf(each)}
            usage={each}
            running={running.data}
            isShown={each === shown}
            {...(isWritable &&
              each.by === 'tenant' && {
                onEdit: () => setEditing({ name: each.name }),
                onRemove: () => setEditing({ name: each.name, isRemoving: true }),
              })}
          />
        ))}
      </div>
      {shown && <SpendingByDay key={keyOf(shown)} usage={shown} />}
      {editing && !editing.isRemoving && document.data && (
        <LimitEditor {...member} stored={document.data} name={editing.name} first={firstBudget} />
      )}
      {editing?.isRemoving && document.data && (
        <ReviewMember
          {...member}
          stored={document.data}
          title={`Remove the budget ${editing.name!}`}
          name={editing.name!}
          patch={null}
          about={<p>What was spent is kept: one that is made again under its name counts on.</p>}
          verb="Remove"
        />
      )}
    </section>
  );
}

/** What a part is of the whole, for drawing alone: amounts are decimals of any size. */
const shareOf = (part: string, whole: number): number =>
  whole > 0 ? Math.max(0, Math.min(100, (Number(part) / whole) * 100)) : 0;

function Bar({ usage }: { readonly usage: Usage }): VNode {
  const { amount, spent, held, remaining } = usage;
  const unit = unitOf(usage);
  const whole = Math.max(Number(amount), Number(spent) + Number(held));
  const spentShare = shareOf(spent, whole);
  const label = `${spent} spent, ${held} held, ${remaining} left of ${amount} ${unit}`;
  return (
    <svg class="bar" role="img" aria-label={label}>
      <rect class="spent" width={`${spentShare}%`} height="100%" />
      <rect class="held" x={`${spentShare}%`} width={`${shareOf(held, whole)}%`} height="100%" />
      {usage.rule.warn_at !== undefined && (
        <line
          x1={`${shareOf(String(Number(amount) * usage.rule.warn_at), whole)}%`}
          x2={`${shareOf(String(Number(amount) * usage.rule.warn_at), whole)}%`}
          y1="0"
          y2="100%"
        />
      )}
    </svg>
  );
}

/** More are behind the link. */
const mostHolding = 5;

function BudgetPanel({
  usage,
  running = [],
  isShown,
  onEdit,
  onRemove,
}: {
  readonly usage: Usage;
  readonly running: readonly Automation[] | undefined;
  readonly isShown: boolean;
  readonly onEdit?: () => void;
  readonly onRemove?: () => void;
}): VNode {
  const { name, by, amount, spent, held, remaining, resets_at: resetsAt, rule } = usage;
  const unit = unitOf(usage);
  const isOver = remaining.startsWith('-');
  const holding = rule.counts === 'actions' ? [] : running.filter((each) => counts(usage, each));
  return (
    <section aria-label={`Budget ${name} of the ${by}`} class={isShown ? 'shown' : ''}>
      <div class="heading">
        <h2>
          <bdi>{name}</bdi>
        </h2>
        {by !== 'tenant' && <span class="tag">of the {by}</span>}
        {rule.mode === 'warn' && <span class="tag">only warns</span>}
      </div>
      <p class="figure">
        <strong class={isOver ? 'number over' : 'number'}>{remaining}</strong> {unit} left of{' '}
        <span class="number">{amount}</span> per {rule.per}
      </p>
      <Bar usage={usage} />
      <dl class="facts">
        <div class="spent">
          <dt>Spent</dt>
          <dd class="number">{spent}</dd>
        </div>
        <div class="held">
          <dt>Held</dt>
          <dd class="number">{held}</dd>
        </div>
        <div>
          <dt>{rule.window === 'rolling' ? 'Counts until' : 'Resets'}</dt>
          <dd>
            <Time at={resetsAt} />
          </dd>
        </div>
      </dl>
      <p class="fine">
        {rule.over === 'approval_required' ? 'Beyond it approval is needed' : 'Beyond it is denied'}
        {' · '}
        {rule.window === 'rolling' ? 'rolling' : (rule.timezone ?? 'UTC')}
        {rule.match && ' · only some automations'}
        <Said>{rule.reason}</Said>
      </p>
      {holding.length > 0 && (
        <ul class="holding" aria-label={`Holds of ${name}`}>
          {holding.slice(0, mostHolding).map((each) => (
            <li key={each.id}>
              <Code>{each.action}</Code>{' '}
              <bdi>{each.service_id ?? each.service_type ?? each.agent_type ?? ''}</bdi>{' '}
              <span class="number">{each.cost_impact ?? 0}</span> {unit}
            </li>
          ))}
          {holding.length > mostHolding && (
            <li>
              <a href={hrefOf(ofTenant('/automations'))}>and {holding.length - mostHolding} more</a>
            </li>
          )}
        </ul>
      )}
      <p class="acts">
        <Button
          class="small"
          says="By day"
          aria-pressed={isShown}
          aria-label={`Spending of ${name} by day`}
          onClick={() => setQuery({ budget: keyOf(usage), day: '' })}
        />
        {onEdit && <RowButton says="Edit…" of={name} onClick={onEdit} />}
        {onRemove && <RowButton isDangerous says="Remove…" of={name} onClick={onRemove} />}
      </p>
    </section>
  );
}
