/** A look into a tenant for the platform: how it begins, what says so meanwhile, how it ends. */
import type { VNode } from 'preact';
import { useEffect } from 'preact/hooks';
import type { Visit } from '../shared/contracts/visits.ts';
import { useAction } from './action.ts';
import { go } from './address.ts';
import { call } from './api.ts';
import { FormDialog } from './dialogs.tsx';
import { Field, useFields } from './fields.tsx';
import { clockTime } from './format.ts';
import { Button, Strong } from './inline.tsx';
import { ProblemBox } from './parts.tsx';
import { renew, switchTenant, tokens, type Tokens } from './session.ts';

export function LookInside({
  tenant,
  onClose,
}: {
  readonly tenant: { readonly id: string; readonly name: string };
  readonly onClose: () => void;
}): VNode {
  const { typed, field } = useFields({ reason: '' });
  const work = async (): Promise<void> => {
    await call('POST', `/tenants/${tenant.id}/visits`, { body: { reason: typed.reason.trim() } });
    await switchTenant(tenant.id);
    // The shell goes where whoever reads begins.
    go('');
  };
  return (
    <FormDialog
      title={`Look inside ${tenant.name}`}
      verb="Look inside"
      work={work}
      onClose={onClose}
    >
      <p>
        For 30 minutes you see what a reviewer sees, and change nothing, here or elsewhere. The
        tenant’s administrators are notified by mail, and read the reason.
      </p>
      <Field
        label="Reason"
        required
        minlength={10}
        maxlength={500}
        placeholder="Such as the number of their ticket"
        {...field('reason')}
      />
    </FormDialog>
  );
}

export async function endVisit(tenantId: string, visitId: string): Promise<Visit> {
  const { body } = await call<Visit>('POST', `/tenants/${tenantId}/visits/${visitId}/end`);
  return body;
}

/** A clock that is a little ahead asks again until the session is back. */
const lookAgainMs = 2000;

type Visiting = Tokens & Required<Pick<Tokens, 'visit'>>;
const isVisiting = (signedIn: Tokens | null | undefined): signedIn is Visiting =>
  signedIn?.visit !== undefined && signedIn.tenant !== null;

/** On every screen while the session looks into a tenant. */
export function VisitBar(): VNode | null {
  const signedIn = tokens.value;
  const visit = signedIn?.visit;
  const action = useAction();
  useEffect(() => {
    if (visit === undefined) return undefined;
    const leftMs = Math.max(0, Date.parse(visit.until) - Date.now());
    const timer = setTimeout(() => void renew(), leftMs + lookAgainMs);
    return () => clearTimeout(timer);
  }, [visit?.id, visit?.until]);
  if (!isVisiting(signedIn)) return null;
  const { id, name } = signedIn.tenant!;
  const end = (): void =>
    void action.run(async () => {
      await endVisit(id, signedIn.visit.id);
      await renew();
      go('/platform/tenants');
    });
  return (
    <>
      <p class="banner" role="status">
        You are looking at <Strong>{name}</Strong>, read-only, until{' '}
        {clockTime(signedIn.visit.until)}.
        <Button class="link" says="End" aria-busy={action.isBusy} onClick={end} />
      </p>
      <ProblemBox problem={action.problem} />
    </>
  );
}
