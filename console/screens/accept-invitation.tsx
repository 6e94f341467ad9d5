/**
 * Becoming a member by a mailed link: with a password where the account has none, else by signing
 * in afterwards.
 */
import type { VNode } from 'preact';
import { useEffect } from 'preact/hooks';
import { go, hrefOf } from '../address.ts';
import { useAction } from '../action.ts';
import { Form, NewPassword, useFields } from '../fields.tsx';
import { Button } from '../inline.tsx';
import { ProblemBox } from '../parts.tsx';
import { signIn } from '../session.ts';
import { notice } from './sign-in.tsx';

export function AcceptInvitation({ token }: { readonly token: string | undefined }): VNode {
  const { typed, field } = useFields({ password: '' });
  const { isBusy, problem, run } = useAction();
  useEffect(() => {
    document.title = 'Invitation · Strata';
  }, []);
  const accept = (password: Partial<typeof typed>): void =>
    void run(async () => {
      const next = await signIn({ token, ...password });
      if (next)
        notice.value = `You are a member of ${next.tenant.name} now. Sign in as ${next.email}.`;
      go('', { replace: true });
    });
  if (token === undefined)
    return (
      <main class="narrow">
        <h1>Invitation</h1>
        <p>The link of an invitation can be read once. Open it from the mail again.</p>
        <p>
          <a href={hrefOf('')}>To sign-in</a>
        </p>
      </main>
    );
  return (
    <main class="narrow sign-in">
      <h1>You are invited</h1>
      <Form onSend={() => accept(typed)}>
        <ProblemBox problem={problem} />
        <NewPassword label="Choose a password" {...field('password')} />
        <p class="fine">12 characters at least, and not a common one.</p>
        <Button type="submit" says="Accept and sign in" isBusy={isBusy} />
        <p class="fine">
          Do you have an account with a password, passkey or provider?{' '}
          <Button
            class="link"
            says="Accept without a new password"
            disabled={isBusy}
            onClick={() => accept({})}
          />
        </p>
      </Form>
    </main>
  );
}
