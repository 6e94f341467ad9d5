/** A new password by a mailed link. */
import type { VNode } from 'preact';
import { useEffect } from 'preact/hooks';
import { go, hrefOf } from '../address.ts';
import { useAction } from '../action.ts';
import { send } from '../api.ts';
import { Form, NewPassword, useFields } from '../fields.tsx';
import { Button } from '../inline.tsx';
import { ProblemBox } from '../parts.tsx';
import { notice } from './sign-in.tsx';

export function ResetPassword({ token }: { readonly token: string | undefined }): VNode {
  const { typed, field } = useFields({ password: '' });
  const { isBusy, problem, run } = useAction();
  useEffect(() => {
    document.title = 'New password · Strata';
  }, []);
  const reset = (): void =>
    void run(async () => {
      await send('POST', '/auth/password/reset', { body: { token, new_password: typed.password } });
      notice.value = 'The password is changed, and every session has ended. Sign in with it.';
      go('', { replace: true });
    });
  if (token === undefined)
    return (
      <main class="narrow">
        <h1>New password</h1>
        <p>The link can be read once. Open it from the mail again, or ask for another.</p>
        <p>
          <a href={hrefOf('')}>To sign-in</a>
        </p>
      </main>
    );
  return (
    <main class="narrow sign-in">
      <h1>New password</h1>
      <Form onSend={reset}>
        <ProblemBox problem={problem} />
        <NewPassword label="Choose a password" {...field('password')} />
        <p class="fine">
          12 characters at least, and not a common one. Every session ends, and every API key.
        </p>
        <Button type="submit" says="Set the password" isBusy={isBusy} />
        {problem && (
          <p class="fine">
            Another link is asked for where you sign in: <a href={hrefOf('')}>To sign-in</a>
          </p>
        )}
      </Form>
    </main>
  );
}
