/** Approvals: what waits for a person, what was decided, and one of them with its timeline. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { ofTenant, parameter, query, tenantShown } from '../address.ts';
import { useAction } from '../action.ts';
import { call, get, withQuery } from '../api.ts';
import { FormDialog } from '../dialogs.tsx';
import { useDraft } from '../drafts.ts';
import { longJson } from '../format.ts';
import { approvalStates, riskLevels } from '../known-values.ts';
import { useLiveApprovals, useLoaded, useGet } from '../loading.ts';
import { Field, FilterField, Filters, fitting, SelectField } from '../fields.tsx';
import { Table, Waiting } from '../lists.tsx';
import {
  Button,
  FineTime,
  Link,
  Risk,
  Said,
  State,
  StateNow,
  stateTitle,
  Strong,
  Time,
  Who,
} from '../inline.tsx';
import { Empty, Fact, Heading, ProblemBox, Section, TextBlock } from '../parts.tsx';
import { setsForMe, useWhatWaits } from '../inbox.ts';
import { decides, user } from '../session.ts';
import { sortedBy, type Orders } from '../sorting.ts';
import { SetTable } from './change-sets.tsx';
import { ownerOf } from './change-sets.ts';
import { DeliveryTable } from './deliveries.tsx';
import { Timeline } from './approval-timeline.tsx';
import type { ScreenProperties } from './screen.ts';

type Approvals = ResultOf<'notifier.approvals.list'>;
type Approval = ResultOf<'notifier.approvals.get'>;
type Deliveries = ResultOf<'notifier.deliveries.list'>;

export const Approvals = ({ rest: [id] }: ScreenProperties): VNode =>
  id === undefined ? <Inbox /> : <OneApproval key={id} id={id} />;

function Inbox(): VNode {
  const state = query.value.get('state') ?? 'pending';
  const address = withQuery(ofTenant('/approvals'), {
    limit: '200',
    state: state === 'all' ? undefined : state,
  });
  const { data, problem, reload } = useGet<Approvals>(address);
  useLiveApprovals(reload);
  const { sets, problem: ofSets } = useSets(state === 'pending');
  const shown = fitting(
    data?.items,
    ({ title, action, risk_level: risk }) => `${title} ${action} ${risk}`,
  );
  return (
    <section>
      <Heading title="Approvals" />
      <Filters class="question two">
        <SelectField
          name="state"
          label="State"
          value={state}
          options={[...approvalStates, 'all'].map((value) => ({ value, title: stateTitle(value) }))}
        />
        <FilterField placeholder="title, action or risk" />
      </Filters>
      <Waiting data={data} problem={problem ?? ofSets} retry={reload} />
      {shown?.length === 0 && sets?.length === 0 && (
        <Empty>{state === 'pending' ? 'Nothing waits for a decision.' : 'No approval fits.'}</Empty>
      )}
      {sets && sets.length > 0 && (
        <Section title="Change sets that wait for you">
          <SetTable owner={ownerOf(tenantShown.value)} sets={sets} />
        </Section>
      )}
      {shown && shown.length > 0 && (
        <Section title="Requests of automations">
          <ApprovalTable items={shown} />
        </Section>
      )}
      {data?.next_cursor && <p class="fine">These are the newest 200.</p>}
    </section>
  );
}

/** Of the configuration, to approve or to review; none beside requests that are decided. */
function useSets(isPending: boolean) {
  const { data, problem, reload } = useLoaded(`sets ${isPending}`, (aborted) =>
    isPending ? setsForMe(tenantShown.value, aborted) : Promise.resolve([]),
  );
  useWhatWaits(reload);
  return { sets: fitting(data, ({ title, reason }) => `${title} ${reason}`), problem };
}

const orders: Orders<Approval> = {
  what: ({ title }) => title,
  risk: ({ risk_level: risk }) => riskLevels.indexOf(risk),
  cost: ({ cost_impact: cost }) => cost,
  state: ({ state }) => stateTitle(state),
  asked: ({ created_at: at }) => at,
  ends: ({ decision, expires_at: at }) => decision?.at ?? at,
};

const ApprovalTable = ({ items }: { readonly items: readonly Approval[] }): VNode => (
  <Table
    label="Approvals"
    items={sortedBy(items, orders, parameter('sort'))}
    columns={[
      [
        { sort: 'what', title: 'What is asked' },
        (each) => (
          <>
            <Link to={ofTenant(`/approvals/${each.id}`)}>{each.title}</Link>
            <div class="fine">
              <code>{each.action}</code>
            </div>
          </>
        ),
      ],
      [{ sort: 'risk', title: 'Risk' }, (each) => <Risk level={each.risk_level} />],
      [
        { sort: 'cost', title: 'Cost', look: 'number' },
        (each) => (
          <>
            {each.cost_impact ?? <span class="muted">–</span>} {each.cost_currency}
          </>
        ),
      ],
      [{ sort: 'state', title: 'State' }, (each) => <State state={each.state} />],
      [{ sort: 'asked', title: 'Asked', look: 'wide' }, (each) => <Time at={each.created_at} />],
      [
        { sort: 'ends', title: 'Ends' },
        (each) => <Time at={each.decision?.at ?? each.expires_at} />,
      ],
    ]}
  />
);

function OneApproval({ id }: { readonly id: string }): VNode {
  const address = ofTenant(`/approvals/${encodeURIComponent(id)}`);
  const { data, problem, reload } = useGet<Approval>(address);
  const isPending = data?.state === 'pending';
  // Others decide, and hops fire, while somebody looks.
  useLiveApprovals(reload, id);
  return (
    <section class="approval">
      <Heading title={data?.title ?? 'Approval'}>
        <StateNow state={data?.state} />
      </Heading>
      <Waiting
        data={data}
        problem={problem}
        retry={reload}
        unknown="There is no approval with this id."
      />
      {data && <Facts approval={data} />}
      {data && isPending && <Decide address={address} approval={data} onDone={reload} />}
      {data && <Timeline approval={data} />}
      {data && <DeliveryList approvalId={data.id} state={`${data.state} ${data.hop}`} />}
    </section>
  );
}

function Facts({ approval }: { readonly approval: Approval }): VNode {
  const { description, resource, cost_impact: cost, metadata, what_happens: happens } = approval;
  const { service_id: service, service_type: type, agent_type: agent } = approval;
  const { cost_currency: currency, asked_because: reasons = [] } = approval;
  return (
    <div>
      {description !== null && (
        <p class="prose">
          <bdi>{description}</bdi>
        </p>
      )}
      <dl class="facts">
        <Fact name="Action" says={<code>{approval.action}</code>} />
        <Fact name="Risk" says={<Risk level={approval.risk_level} />} />
        <Fact name="Cost impact">
          <span class="number">
            {cost ?? '–'} {currency}
          </span>
        </Fact>
        {reasons.length > 0 && (
          <Fact name="Why it asks" isWhole>
            {reasons.map((reason) => (
              <div key={reason}>
                <bdi>{reason}</bdi>
              </div>
            ))}
          </Fact>
        )}
        {(service !== undefined || type !== undefined) && (
          <Fact name="Service">
            <bdi>{service ?? 'every one'}</bdi>
            {type !== undefined && <span class="muted"> {type}</span>}
          </Fact>
        )}
        {agent !== undefined && <Fact name="Agent" says={<bdi>{agent}</bdi>} />}
        <Fact name="Asked by" says={<Asker approval={approval} />} />
        <Fact name="Approved so far">
          {approval.approved_by.length} of {approval.policy.required}
          {approval.approved_by.map(({ by, name, at, comment }) => (
            <div key={`${by} ${at}`}>
              <bdi title={by}>{name}</bdi> <FineTime at={at} />
              <Said>{comment}</Said>
            </div>
          ))}
        </Fact>
        {resource !== null && (
          <Fact name="Resource" isWhole>
            {typeof resource === 'string' ? (
              <code>{resource}</code>
            ) : (
              <TextBlock label="Resource" text={longJson(resource)} />
            )}
          </Fact>
        )}
      </dl>
      {metadata !== null && (
        <Section title="Parameters">
          <TextBlock label="Parameters of the action" text={longJson(metadata)} />
        </Section>
      )}
      {happens && (
        <dl class="happens">
          <Fact name="If you approve" says={happens.approve} />
          <Fact name="If you deny" says={happens.deny} />
          <Fact name="If no one decides" says={happens.silence} />
        </dl>
      )}
    </div>
  );
}

/** Keys and service accounts have names of their own, where the answer gives one. */
function Asker({ approval }: { readonly approval: Approval }): VNode {
  const { type, id, name, api_key: key } = approval.requested_by;
  return (
    <span>
      {name === null && type !== 'user' && <span class="muted">{type.replaceAll('_', ' ')} </span>}
      <Who id={id} name={name ?? undefined} />
      {name !== null && key && (
        <span class="muted">
          , API key <bdi>{key.name}</bdi>
        </span>
      )}
    </span>
  );
}

function Decide({
  address,
  approval,
  onDone,
}: {
  readonly address: string;
  readonly approval: Approval;
  readonly onDone: () => void;
}): VNode {
  const [comment = '', setComment] = useDraft<string>(`comment ${address}`);
  const { isBusy, doing, problem, run } = useAction();
  const [isConfirming, setConfirming] = useState(false);
  const isCritical = approval.risk_level === 'critical';
  const isOwn = !approval.policy.allow_self && approval.requested_by.id === user.value?.id;
  const act = (what: string, path: string, body?: object): Promise<void> =>
    run(async () => {
      try {
        await call('POST', `${address}/${path}`, body ? { body } : {});
        if (path === 'decision') setComment(undefined);
      } finally {
        onDone();
      }
    }, what);
  const decide = (decision: 'approve' | 'deny'): void => {
    const said = comment.trim();
    void act(decision, 'decision', { decision, ...(said !== '' && { comment: said }) });
  };
  if (!decides()) return <div />;
  if (isOwn) return <p class="notice">You asked for this, so somebody else decides it.</p>;
  const refused = approval.viewer?.may_decide === false;
  return (
    <div class="decide">
      <ProblemBox problem={problem} />
      {refused && (
        <p class="notice" id="why-not">
          {approval.viewer?.why_not}
        </p>
      )}
      <Field
        label="Comment"
        name="comment"
        rows={2}
        maxlength={2000}
        value={comment}
        placeholder="Why, for those who read it later"
        onValue={setComment}
      />
      <div class="buttons">
        <Button
          says={isCritical ? 'Approve…' : 'Approve'}
          disabled={refused || isBusy}
          aria-describedby={refused ? 'why-not' : undefined}
          aria-busy={doing === 'approve'}
          onClick={() => (isCritical ? setConfirming(true) : decide('approve'))}
        />
        <Button
          class="danger"
          says="Deny"
          disabled={refused || isBusy}
          aria-describedby={refused ? 'why-not' : undefined}
          aria-busy={doing === 'deny'}
          onClick={() => decide('deny')}
        />
        {approval.acknowledged === null && (
          <Button
            class="secondary"
            says="Acknowledge"
            disabled={isBusy}
            title="Pauses escalation"
            onClick={() => void act('ack', 'ack')}
          />
        )}
      </div>
      {isConfirming && (
        <FormDialog
          title="Approve what is critical"
          verb="Approve it"
          isDangerous
          work={async () => {
            setConfirming(false);
            decide('approve');
          }}
          onClose={() => setConfirming(false)}
        >
          <p>
            <Strong>{approval.title}</Strong>
          </p>
          <p>{approval.what_happens?.approve}</p>
        </FormDialog>
      )}
    </div>
  );
}

function DeliveryList({
  approvalId,
  state,
}: {
  readonly approvalId: string;
  /** Whom it was told changes with it. */
  readonly state: string;
}): VNode {
  const address = withQuery(ofTenant('/notifications/deliveries'), {
    approval_id: approvalId,
    limit: '200',
  });
  const { data, problem } = useLoaded(`${address} ${state}`, (aborted) =>
    get<Deliveries>(address, aborted),
  );
  return (
    <Section title="Notified">
      <ProblemBox problem={problem} />
      <DeliveryTable items={data?.items} empty="No one: the approval routing names no target." />
    </Section>
  );
}
