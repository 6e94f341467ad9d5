/** Signing in: with a password, a passkey, or through the provider of an address. */
import { signal } from '@preact/signals';
import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { useAction } from '../action.ts';
import { send } from '../api.ts';
import { Field, Form, useFields } from '../fields.tsx';
import { Notice } from '../lists.tsx';
import { Button } from '../inline.tsx';
import { Dialog, ProblemBox } from '../parts.tsx';
import { askForPasskey, canUsePasskeys } from '../passkeys.ts';
import { isAskedAgain, signIn, signInNoMore, tenant, user } from '../session.ts';
import { startSingleSignOn } from './single-sign-on.tsx';

type Way = 'password' | 'passkey' | 'sso';
/** What the page before had to say, such as that a password was changed. */
export const notice = signal<string | undefined>(undefined);

/** `over` asks again on top of a page whose session has ended: what was typed there stays. */
export function SignIn({ over = false }: { readonly over?: boolean }): VNode {
  if (over)
    return (
      <Dialog title="Sign in again" isAside>
        <p>The session has ended. What you typed is still here.</p>
        <SignInForm />
      </Dialog>
    );
  return (
    <main class="narrow sign-in">
      <h1 class="brand">Strata</h1>
      <SignInForm />
    </main>
  );
}

/**
 * What is about to be done changes how somebody signs in, and wants a sign-in of the last minutes.
 */
export const SignInAgain = (): VNode => (
  <Dialog title="Sign in once more" isAside onClose={signInNoMore}>
    <p>
      No one else who finds this page open is to do this, so it needs a sign-in of the last 10
      minutes.
    </p>
    <SignInForm />
  </Dialog>
);

/** The session continues where it was. */
const inSameTenant = (): object =>
  isAskedAgain.value && tenant.value ? { tenant_id: tenant.value.id } : {};

function SignInForm(): VNode {
  // Whoever signs in again is known.
  const [known] = useState(user.value?.email ?? '');
  const { typed, field } = useFields({ email: known, password: '' });
  const { isBusy, doing, problem, run } = useAction();
  const [isAsking, setAsking] = useState(false);
  useEffect(() => {
    document.title = 'Sign in · Strata';
  }, []);

  const attempt = (way: Way, work: () => Promise<unknown>): void => {
    notice.value = undefined;
    void run(work, way);
  };
  const withPassword = (): void =>
    attempt('password', () => signIn({ ...typed, ...inSameTenant() }));
  if (isAsking) return <ForgotForm email={typed.email} onDone={() => setAsking(false)} />;
  return (
    <Form onSend={withPassword}>
      <Notice says={notice.value} />
      <ProblemBox problem={problem} />
      <Field label="E-mail" type="email" autocomplete="username" required {...field('email')} />
      <Field
        label="Password"
        type="password"
        autocomplete="current-password"
        required
        autofocus={known !== ''}
        {...field('password')}
      />
      <Button type="submit" says="Sign in" aria-busy={doing === 'password'} disabled={isBusy} />
      <div class="ways">
        {canUsePasskeys && (
          <Button
            class="secondary"
            says="Use a passkey"
            disabled={isBusy}
            onClick={() => attempt('passkey', signInWithPasskey)}
          />
        )}
        <Button
          class="secondary"
          says="Single sign-on"
          disabled={isBusy}
          onClick={() => attempt('sso', () => startSingleSignOn(typed.email))}
        />
      </div>
      <p class="fine">
        <Button class="link" says="Forgot the password?" onClick={() => setAsking(true)} />
      </p>
    </Form>
  );
}

async function signInWithPasskey(): Promise<void> {
  await signIn({ ...(await askForPasskey()), ...inSameTenant() });
}

/** The same answer whether or not there is such an account. */
function ForgotForm({
  email: given,
  onDone,
}: {
  readonly email: string;
  readonly onDone: () => void;
}): VNode {
  const [email, setEmail] = useState(given);
  const { isBusy, problem, run } = useAction();
  const [isSent, setSent] = useState(false);
  const ask = (): void =>
    void run(async () => {
      await send('POST', '/auth/password/forgot', { body: { email } });
      setSent(true);
    });
  if (isSent)
    return (
      <div>
        <p role="status">
          If <bdi>{email}</bdi> has an account, a mail with a link is on its way.
        </p>
        <p>
          <Button class="link" says="Back to sign-in" onClick={onDone} />
        </p>
      </div>
    );
  return (
    <Form onSend={ask}>
      <ProblemBox problem={problem} />
      <Field
        label="E-mail"
        type="email"
        name="email"
        autocomplete="username"
        required
        value={email}
        onValue={setEmail}
      />
      <Button type="submit" says="Mail me a link" isBusy={isBusy} />
      <p class="fine">
        <Button class="link" says="Back to sign-in" onClick={onDone} />
      </p>
    </Form>
  );
}
