/** Invitations to tenants that wait for one's own word. */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { useAction } from '../action.ts';
import { call } from '../api.ts';
import { useList } from '../loading.ts';
import { Button, Strong, Time } from '../inline.tsx';
import { ProblemBox, Section } from '../parts.tsx';
import { roleText } from '../roles.ts';
import { renew } from '../session.ts';

type Invitation = ResultOf<'auth.invitations.list'>['items'][number];

const address = '/auth/invitations';

/** Nothing where there are none. */
export function Invitations(): VNode | null {
  const { data, problem, reload } = useList<Invitation>(address);
  const { isBusy, problem: refusal, run } = useAction();
  const answer = (id: string, word: 'accept' | 'decline'): void =>
    void run(async () => {
      await call('POST', `${address}/${id}/${word}`);
      reload();
      // Says which tenants one is a member of now.
      if (word === 'accept') await renew();
    });
  if (!problem && !data?.length) return null;
  return (
    <Section class="kind" title="Invitations">
      <ProblemBox problem={problem ?? refusal} retry={reload} />
      <ul class="choices">
        {data?.map(({ id, tenant, roles, expires_at: ends }) => (
          <li key={id} class="notice">
            <p>
              You are invited to <Strong>{tenant.name}</Strong> as {roleText(roles)}.{' '}
              <span class="fine">
                Ends <Time at={ends} />
              </span>
            </p>
            <p class="buttons">
              <Button
                says="Accept"
                disabled={isBusy}
                aria-label={`Accept ${tenant.name}`}
                onClick={() => answer(id, 'accept')}
              />
              <Button
                class="secondary"
                says="Decline"
                disabled={isBusy}
                aria-label={`Decline ${tenant.name}`}
                onClick={() => answer(id, 'decline')}
              />
            </p>
          </li>
        ))}
      </ul>
    </Section>
  );
}
