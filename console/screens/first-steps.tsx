/**
 * What a tenant needs before automation can act safely, while some of it is missing: each step leads
 * to where it is done.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf, ofTenant, tenantShown } from '../address.ts';
import { get } from '../api.ts';
import { useLoaded } from '../loading.ts';
import { Button, State } from '../inline.tsx';
import { decides } from '../roles.ts';

type Routing = ResultOf<'tenant-config.notifications.effective'>;
type Members = ResultOf<'tenant-config.members.list'>;

/** Enough to see whether anybody else may decide. */
const someMembers = '?limit=50';

async function steps(aborted: AbortSignal) {
  const of = ofTenant();
  const [contexts, routing, members, usage] = await Promise.all([
    get<ResultOf<'tenant-config.contexts'>>(`${of}/contexts`, aborted),
    get<Routing>(`${of}/config/notifications/effective`, aborted),
    get<Members>(`${of}/users${someMembers}`, aborted),
    get<ResultOf<'notifier.budgets.usage'>>(`${of}/budgets/usage`, aborted),
  ]);
  const deciders = members.items.filter(decides);
  const asked = Object.values(routing.approver_groups.risk_levels ?? {}).flat();
  return [
    {
      title: 'Describe a service',
      why: 'Limits hold for a service by its name.',
      href: `${of}/documents`,
      isDone: contexts.services.length > 0,
    },
    {
      title: 'Invite a second person who decides',
      why: 'The person who asks for an approval cannot give it.',
      href: `${of}/members`,
      isDone: deciders.length > 1,
    },
    {
      title: 'Say who is asked for approval, and how',
      why: 'Without groups everybody who may decide is asked, by mail.',
      href: `${of}/documents/notifications`,
      isDone: asked.length > 0 || routing.webhook.endpoints.length > 0,
    },
    {
      title: 'Set a budget',
      why: 'Without one automation spends what each single action may.',
      href: `${of}/budgets`,
      isDone: usage.items.length > 0,
    },
  ];
}

const keptAs = (): string => `strata-first-steps-${tenantShown.value}`;

export function FirstSteps(): VNode | null {
  const [isHidden, setHidden] = useState(() => localStorage.getItem(keptAs()) !== null);
  const { data = [] } = useLoaded(`first steps ${isHidden}`, (aborted) =>
    isHidden ? Promise.resolve([]) : steps(aborted),
  );
  const missing = data.filter(({ isDone }) => !isDone);
  if (missing.length === 0) return null;
  const hide = (): void => {
    localStorage.setItem(keptAs(), 'hidden');
    setHidden(true);
  };
  return (
    <section class="steps" aria-label="First steps">
      <div class="heading">
        <h2>First steps</h2>
        <p class="fine">
          {data.length - missing.length} of {data.length} done
        </p>
        <span class="grow"></span>
        <Button class="link" says="Hide" onClick={hide} />
      </div>
      <ol>
        {data.map(({ title, why, href, isDone }) => (
          <li key={title} class={isDone ? 'done' : ''}>
            {isDone ? (
              <>
                {title} <State state="active" says="done" />
              </>
            ) : (
              <>
                <a href={hrefOf(href)}>{title}</a> <span class="muted">{why}</span>
              </>
            )}
          </li>
        ))}
      </ol>
    </section>
  );
}
