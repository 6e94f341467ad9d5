/** What happened to an approval, and what will. */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { FineTime, Said, Strong, Who } from '../inline.tsx';
import { Section } from '../parts.tsx';

type Approval = ResultOf<'notifier.approvals.get'>;

interface Step {
  readonly at: string | null;
  readonly what: VNode | string;
  readonly state: 'past' | 'now' | 'ahead';
}

/** What happened and what will, from the approval itself. */
function stepsOf(approval: Approval): Step[] {
  const { chain, hop, decision, acknowledged, escalates_at: next, state } = approval;
  const groupAt = (number: number): string =>
    chain[Math.min(number, chain.length - 1)] ?? 'everybody who may decide';
  const steps = Array.from({ length: hop + 1 }, (_, number): Step => ({
    at: number === 0 ? approval.created_at : null,
    what: (
      <>
        {number === 0 ? 'Asked' : 'Escalated to'} <Strong>{groupAt(number)}</Strong>
      </>
    ),
    state: state === 'pending' && number === hop ? 'now' : 'past',
  }));
  if (acknowledged)
    steps.push({
      at: acknowledged.at,
      what: (
        <>
          <Who id={acknowledged.by} /> acknowledged; escalation pauses
        </>
      ),
      state: 'past',
    });
  if (decision)
    return [...steps, { at: decision.at, what: <Decided decision={decision} />, state: 'past' }];
  if (state !== 'pending')
    return [...steps, { at: approval.expires_at, what: state, state: 'past' }];
  if (next !== null && hop < approval.max_hops)
    steps.push({
      at: next,
      what: (
        <>
          Escalates to <Strong>{groupAt(hop + 1)}</Strong>
        </>
      ),
      state: 'ahead',
    });
  return [...steps, { at: approval.expires_at, what: 'It expires', state: 'ahead' }];
}

const Decided = ({
  decision: { decision, by, name, via, comment },
}: {
  readonly decision: NonNullable<Approval['decision']>;
}): VNode => (
  <>
    <strong>{decision === 'approve' ? 'Approved' : 'Denied'}</strong> by{' '}
    <Who id={by} name={name ?? undefined} /> {via === 'link' && '(by the mailed link)'}
    {via === 'slack' && '(in Slack)'}
    <Said>{comment}</Said>
  </>
);

export const Timeline = ({ approval }: { readonly approval: Approval }): VNode => (
  <Section title="Timeline">
    <ol class="timeline">
      {stepsOf(approval).map(({ at, what, state }, index) => (
        <li key={index} class={state}>
          {what} {at !== null && <FineTime at={at} />}
        </li>
      ))}
    </ol>
    <p class="fine">
      Groups and times were fixed when it was asked: later changes of the approval routing do not
      change them.
    </p>
  </Section>
);
