/**
 * What automation may do now and what it does: the emergency stop, the limits, the slots in use and
 * who holds them.
 */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf, ofTenant, parameter, query } from '../address.ts';
import { withQuery } from '../api.ts';
import { contextText } from '../format.ts';
import { automationStates } from '../known-values.ts';
import { lookAgainMs, useEvery, useList, useLive, useGet } from '../loading.ts';
import { FilterField, Filters, fitting, type Option, SelectField } from '../fields.tsx';
import { Pager, Table, Waiting } from '../lists.tsx';
import { Below, Code, Risk, Said, State, Time, Who } from '../inline.tsx';
import { Heading, ProblemBox, Section } from '../parts.tsx';
import { hasRole } from '../session.ts';
import { EmergencyStop } from './emergency-stop.tsx';
import { explainedIn, limitsIn, LimitTable } from './limit-table.tsx';
import { DecidingReason } from './reasons.tsx';

type Effective = ResultOf<'config-resolver.resolve'>;
export type Automation = ResultOf<'notifier.automations.list'>['items'][number];

const stateOptions: Option[] = [
  ...automationStates.map((value) => ({
    value,
    title: value.replace('_', ' for ').replace('waiting for slot', 'waiting for a slot'),
  })),
  { value: 'all' },
];

export function Automations(): VNode {
  const effective = ofTenant('/config/effective?explain=true');
  const limits = useGet<Effective>(effective);
  const running = ofTenant('/automations?state=running');
  const slots = useList<Automation>(running);
  useLive(limits.reload);
  useEvery(lookAgainMs, slots.reload);
  return (
    <section>
      <Heading title="Automations" about="What automation may do on its own, and what it does" />
      <ProblemBox problem={limits.problem ?? slots.problem} retry={limits.reload} />
      <div class="panels">
        <EmergencyStop
          address={ofTenant('/config/bounds')}
          whose="this tenant"
          mayWrite={hasRole('tenant_admin')}
          onChanged={limits.reload}
        />
        {limits.data && <Slots effective={limits.data} used={slots.data?.length} />}
      </div>
      {limits.data && <Limits effective={limits.data} />}
      <List />
    </section>
  );
}

/**
 * A bar with a place for each slot, as long as they can be told apart; the number says it to
 * everybody.
 */
function Slots({
  effective,
  used,
}: {
  readonly effective: Effective;
  readonly used: number | undefined;
}): VNode {
  const most = effective.values.max_concurrent_automations;
  const enabled = effective.values.automation_enabled;
  const stopped = explainedIn(effective, 'automation_enabled')?.enforced;
  return (
    <Section class="slots" title="Slots">
      <p class="figure">
        <strong class="number">{used ?? '–'}</strong> of{' '}
        <span class="number">{typeof most === 'number' ? most : '–'}</span> in use
      </p>
      {typeof most === 'number' && most > 0 && used !== undefined && (
        <meter min="0" max={most} value={Math.min(used, most)} aria-label="Slots in use">
          {used} of {most}
        </meter>
      )}
      <p>
        {enabled === false ? (
          <span>
            <strong>New automations are refused</strong>:{' '}
            {stopped
              ? `a guardrail of ${stopped.by === 'platform' ? 'the platform' : 'the tenant'} says so`
              : 'automation is disabled'}
            .<Said>{stopped?.rule.reason}</Said>
          </span>
        ) : (
          'New automations are decided by the limits below.'
        )}
      </p>
    </Section>
  );
}

const Limits = ({ effective }: { readonly effective: Effective }): VNode => (
  <section aria-label="Limits">
    <div class="heading">
      <h2>Limits</h2>
      <p class="fine">
        For no agent and no service; <a href={hrefOf(ofTenant('/effective'))}>effective values</a>{' '}
        has them for each.
      </p>
      <span class="grow"></span>
      <a href={hrefOf(ofTenant('/documents/risk'))}>Risk limits</a>
      <a href={hrefOf(ofTenant('/documents/bounds'))}>Guardrails</a>
    </div>
    <LimitTable label="Limits of automation" limits={limitsIn(effective)} />
  </section>
);

function List(): VNode {
  const state = query.value.get('state') ?? 'running';
  const cursor = parameter('cursor');
  const address = withQuery(ofTenant('/automations'), {
    state: state === 'all' ? undefined : state,
    limit: '100',
    cursor,
  });
  const { data, problem, reload } = useGet<ResultOf<'notifier.automations.list'>>(address);
  useEvery(lookAgainMs, reload);
  const shown = fitting(
    data?.items,
    (each) => `${each.action} ${contextText(each)} ${each.outcome ?? ''}`,
  );
  return (
    <Section title="Automations">
      <Filters class="question two">
        <SelectField name="state" label="State" value={state} options={stateOptions} />
        <FilterField placeholder="action, agent, service or outcome" />
      </Filters>
      <Waiting data={data} problem={problem} retry={reload} />
      <AutomationTable
        items={shown}
        empty={state === 'running' ? 'Nothing runs.' : 'No automation fits.'}
      />
      <Pager cursor={cursor} next={data?.next_cursor} />
    </Section>
  );
}

/** Why it waits, is refused, or how it ended. */
function RemarkOn({ automation }: { readonly automation: Automation }): VNode {
  const { approval_id: approval, outcome, reasons, state } = automation;
  const [first] = reasons;
  if (state === 'waiting_approval' && approval !== undefined)
    return <a href={hrefOf(ofTenant(`/approvals/${approval}`))}>its approval</a>;
  if (outcome !== null) return <bdi>{outcome}</bdi>;
  if (state === 'denied' && first) return <DecidingReason reason={first} place={automation} />;
  return <span class="muted">–</span>;
}

export const AutomationTable = ({
  items,
  empty,
}: {
  readonly items: readonly Automation[] | undefined;
  readonly empty: string;
}): VNode => (
  <Table
    label="Automations"
    empty={empty}
    look="lines"
    items={items}
    columns={[
      [
        'Action',
        (each) => (
          <>
            <Code>{each.action}</Code> <Risk level={each.risk_level} />
            <Below>{contextText(each)}</Below>
          </>
        ),
      ],
      ['State', (each) => <State state={each.state} says={each.state.replace('_', ' for ')} />],
      [
        'Who',
        (each) => (
          <>
            {each.requested_by.type !== 'user' && (
              <span class="muted">{each.requested_by.type.replaceAll('_', ' ')} </span>
            )}
            <Who id={each.requested_by.id} />
          </>
        ),
      ],
      ['Since', (each) => <Time at={each.started_at ?? each.created_at} />],
      ['Expires or ended', (each) => <Time at={each.ended_at ?? each.expires_at} />],
      ['Remark', (each) => <RemarkOn automation={each} />],
    ]}
  />
);
