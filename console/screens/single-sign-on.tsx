/** Signing in through an identity provider: out to it, and back with a code. */
import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { go, hrefOf } from '../address.ts';
import { Problem, problemOf, send } from '../api.ts';
import { ProblemBox } from '../parts.tsx';
import { isAskedAgain, signIn } from '../session.ts';

/**
 * Binds the code to this tab: who intercepts the code does not have it. Kept only while the browser
 * is at the provider.
 */
const verifierKey = 'strata-sso-verifier';

const base64url = (bytes: Uint8Array): string =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');

/** Where the browser comes back to; the provider's administrator lists it in `redirect_uris`. */
const redirectUri = (): string => location.origin + hrefOf('/sso');

export async function startSingleSignOn(email: string): Promise<void> {
  if (email === '')
    throw new Problem(
      0,
      'address_needed',
      'Type your e-mail address first: its domain says which provider signs you in.',
    );
  const verifier = base64url(crypto.getRandomValues(new Uint8Array(32)));
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier));
  const challenge = base64url(new Uint8Array(digest));
  const { body } = await send<{ authorization_url: string }>('POST', '/auth/login/sso/start', {
    body: {
      email,
      redirect_uri: redirectUri(),
      client_challenge: challenge,
      // A session at the provider is no recent sign-in.
      ...(isAskedAgain.value && { max_age: 0 }),
    },
  });
  sessionStorage.setItem(verifierKey, verifier);
  location.assign(body.authorization_url);
}

/**
 * Takes the code out of the address at once: it is good for one use, and no history should have it.
 */
function takeCode(): object | undefined {
  const query = new URLSearchParams(location.search);
  const [code, state, iss] = ['code', 'state', 'iss'].map((name) => query.get(name));
  const verifier = sessionStorage.getItem(verifierKey);
  sessionStorage.removeItem(verifierKey);
  if (location.search !== '') history.replaceState(null, '', location.pathname);
  if (!code || !state || !verifier) return undefined;
  return { code, state, client_verifier: verifier, ...(iss && { iss }) };
}

export function SingleSignOn(): VNode {
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    const body = takeCode();
    if (!body) {
      const says = 'The provider sent no code that belongs to this tab. Start again.';
      setProblem(new Problem(0, 'sso_incomplete', says));
      return;
    }
    signIn(body).then(
      () => go('', { replace: true }),
      (error: unknown) => setProblem(problemOf(error)),
    );
  }, []);
  return (
    <main class="narrow">
      <h1 class="brand">Strata</h1>
      {problem ? (
        <div>
          <ProblemBox problem={problem} />
          <p>
            <a href={hrefOf('')}>Back to sign-in</a>
          </p>
        </div>
      ) : (
        <p role="status" class="muted">
          Signing in…
        </p>
      )}
    </main>
  );
}
