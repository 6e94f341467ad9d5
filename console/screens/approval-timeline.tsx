/** What happened to an approval, and what will. */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { localTime } from '../format.ts';
import { Said, Strong, Time, Who } from '../inline.tsx';
import { Section } from '../parts.tsx';

type Approval = ResultOf<'notifier.approvals.get'>;

interface Step {
  readonly at: string | null;
  readonly what: VNode | string;
  readonly state: 'past' | 'now' | 'ahead';
}

/** What happened and what will, from the approval itself. */
function stepsOf(approval: Approval): Step[] {
  const {
    chain,
    hop,
    max_hops: most,
    decision,
    acknowledged,
    escalates_at: next,
    state,
  } = approval;
  const groupAt = (number: number): string =>
    chain[Math.min(number, chain.length - 1)] ?? 'everybody who may decide';
  const asked = Array.from({ length: hop + 1 }, (_, number): Step => ({
    at: number === 0 ? approval.created_at : null,
    what: (
      <span>
        {number === 0 ? 'Asked' : 'Escalated to'} <Strong>{groupAt(number)}</Strong>
      </span>
    ),
    state: state === 'pending' && number === hop ? 'now' : 'past',
  }));
  const taken: Step[] = acknowledged
    ? [
        {
          at: acknowledged.at,
          what: (
            <span>
              <Who id={acknowledged.by} /> acknowledged; escalation pauses
            </span>
          ),
          state: 'past',
        },
      ]
    : [];
  if (decision) {
    const says = (
      <span>
        <strong>{decision.decision === 'approve' ? 'Approved' : 'Denied'}</strong> by{' '}
        <Who id={decision.by} name={decision.name ?? undefined} />{' '}
        {decision.via === 'link' && '(by the mailed link)'}
        {decision.via === 'slack' && '(in Slack)'}
        <Said>{decision.comment}</Said>
      </span>
    );
    return [...asked, ...taken, { at: decision.at, what: says, state: 'past' }];
  }
  if (state !== 'pending')
    return [...asked, ...taken, { at: approval.expires_at, what: state, state: 'past' }];
  const ahead: Step[] =
    next === null || hop >= most
      ? []
      : [
          {
            at: next,
            what: (
              <span>
                Escalates to <Strong>{groupAt(hop + 1)}</Strong>
              </span>
            ),
            state: 'ahead',
          },
        ];
  return [
    ...asked,
    ...taken,
    ...ahead,
    { at: approval.expires_at, what: 'It expires', state: 'ahead' },
  ];
}

export const Timeline = ({ approval }: { readonly approval: Approval }): VNode => (
  <Section title="Timeline">
    <ol class="timeline">
      {stepsOf(approval).map(({ at, what, state }, index) => (
        <li key={index} class={state}>
          {what}{' '}
          {at !== null && (
            <span class="fine" title={localTime(at)}>
              <Time at={at} />
            </span>
          )}
        </li>
      ))}
    </ol>
    <p class="fine">
      Groups and times were fixed when it was asked: later changes of the approval routing do not
      change them.
    </p>
  </Section>
);
