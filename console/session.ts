/**
 * Who is signed in. The access token is in this module's memory alone; the refresh token is in a
 * cookie that no script sees. The tabs of a browser share the cookie: they renew one after the
 * other, and tell each other when somebody signs out or goes to another tenant.
 */
import { computed, signal } from '@preact/signals';
import type { TenantRole } from '../shared/contracts/roles.ts';
import type { ResultOf } from '../shared/contracts/index.ts';
import { Problem, send, useCredentials } from './api.ts';

export type Tokens = Exclude<ResultOf<'gateway.console.refresh'>, null>;
type SignInResult = ResultOf<'gateway.console.sign-in'>;

/** Null while nobody is signed in; undefined until that is known. */
export const tokens = signal<Tokens | null | undefined>(undefined);
/** The session ended under a page in use, which stays as it is until somebody signs in again. */
export const hasEnded = signal(false);

export const tenant = computed(() => tokens.value?.tenant ?? null);
export const user = computed(() => tokens.value?.user ?? null);
/** Whether the session looks into a tenant for the platform, and does nothing else meanwhile. */
export const isVisiting = computed(() => tokens.value?.visit !== undefined);
export const isPlatformAdmin = computed(
  () => !isVisiting.value && (user.value?.platform_roles.includes('platform_admin') ?? false),
);
/** Whether the person has one of the roles in the tenant that they act for. */
export const hasRole = (...roles: readonly TenantRole[]): boolean =>
  tenant.value?.roles.some((role) => roles.includes(role)) ?? false;
export const readsConfiguration = (): boolean => hasRole('tenant_admin', 'operator', 'reviewer');
/** Whether the person is asked to approve, as all are who read the configuration as members. */
export const decides = (): boolean => readsConfiguration() && !isVisiting.value;

type News = { readonly what: 'signed_out' | 'changed' };
const otherTabs = new BroadcastChannel('strata-session');
otherTabs.addEventListener('message', ({ data }: MessageEvent<News>) => {
  if (data.what === 'signed_out') end();
  else void renew();
});
const notifyTabs = (what: News['what']): void => otherTabs.postMessage({ what } satisfies News);

let timer: ReturnType<typeof setTimeout> | undefined;
/** The tenant that the session comes back to, while it reads in another one. */
let home: string | undefined;

function accept(given: Tokens | null): void {
  clearTimeout(timer);
  home = undefined;
  if (given === null) {
    end();
    return;
  }
  tokens.value = given;
  hasEnded.value = false;
  // In time, so that no request has to wait for it.
  timer = setTimeout(() => void renew(), given.expires_in * 800);
}

function end(): void {
  clearTimeout(timer);
  if (tokens.value) hasEnded.value = true;
  else tokens.value = null;
}

/**
 * One at a time over all tabs: whoever waits continues with the cookie that the previous one was given.
 */
const inTurn = <T>(work: () => Promise<T>): Promise<T> =>
  navigator.locks.request('strata-session', work) as Promise<T>;

const session = '/console/session';

async function refreshed(tenantId?: string): Promise<Tokens | null> {
  const body = tenantId === undefined ? {} : { tenant_id: tenantId };
  const { body: given } = await send<Tokens | undefined>('POST', `${session}/refresh`, { body });
  return given ?? null;
}

/** In its own tenant, unless the person may not be there any more. */
async function refreshedAtHome(): Promise<Tokens | null> {
  try {
    return await refreshed(home);
  } catch (error) {
    if (home === undefined || !(error instanceof Problem) || error.status !== 403) throw error;
    return refreshed();
  }
}

let renewing: Promise<boolean> | undefined;

/** Whether the session continues. A failure that may pass leaves it as it is. */
export function renew(): Promise<boolean> {
  renewing ??= inTurn(async () => {
    try {
      accept(await refreshedAtHome());
      return tokens.value !== null && !hasEnded.value;
    } catch (error) {
      if (error instanceof Problem && error.status === 401) end();
      else if (tokens.value === undefined) throw error;
      return false;
    }
  }).finally(() => {
    renewing = undefined;
  });
  return renewing;
}

/** Throws a `Problem` where that is refused. Undefined where it signed in. */
export async function signIn(
  body: object,
): Promise<Extract<SignInResult, { sign_in_required: true }> | undefined> {
  const before = tokens.value;
  const { body: given } = await inTurn(() => send<SignInResult>('POST', session, { body }));
  if ('sign_in_required' in given) return given;
  accept(given);
  notifyTabs('changed');
  if (before && wanted.value) await replaced(before);
  wanted.value?.answer(before?.user.id === given.user.id);
  return undefined;
}

/**
 * Ends the session that another took the place of, so that none is left that nobody holds. It would
 * end by itself, too.
 */
async function replaced({ access_token: token }: Tokens): Promise<void> {
  const headers = { authorization: `Bearer ${token}` };
  await send('POST', '/auth/logout', { body: {}, headers }).catch(() => undefined);
}

/** A recent sign-in that something waits for; answered with whether the same person signed in. */
interface Wanted {
  readonly answer: (isSame: boolean) => void;
}
const wanted = signal<Wanted | undefined>(undefined);
/** Whether somebody is asked to sign in again, in the session that they are in. */
export const isAskedAgain = computed(() => wanted.value !== undefined);
export const signInNoMore = (): void => wanted.value?.answer(false);

/**
 * Does it, after asking to sign in where that was too long ago for it. `work` is called again from
 * its beginning then.
 */
export async function withRecentSignIn<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const wantsIt = error instanceof Problem && error.code === 'auth_reauth_required';
    if (!wantsIt || !(await signedInAgain())) throw error;
    return work();
  }
}

async function signedInAgain(): Promise<boolean> {
  signInNoMore();
  const isSame = await new Promise<boolean>((answer) => {
    wanted.value = { answer };
  });
  wanted.value = undefined;
  return isSame;
}

export async function signOut(): Promise<void> {
  await inTurn(() => send('DELETE', session));
  home = undefined;
  tokens.value = null;
  hasEnded.value = false;
  clearTimeout(timer);
  notifyTabs('signed_out');
}

export async function switchTenant(tenantId: string): Promise<void> {
  await inTurn(async () => accept(await refreshed(tenantId)));
  notifyTabs('changed');
}

/**
 * Reads in another tenant of the person's. A session acts for one tenant at a time: it goes there
 * and comes back, while no tab renews. What another tab asks meanwhile is asked again afterwards.
 */
export const readIn = <T>(
  tenantId: string,
  read: (headers: Readonly<Record<string, string>>) => Promise<T>,
): Promise<T> =>
  inTurn(async () => {
    home = tenant.value?.id;
    try {
      const there = await refreshed(tenantId);
      if (there === null) {
        end();
        throw new Problem(401, 'auth_session_revoked', 'The session has ended.');
      }
      return await read({ authorization: `Bearer ${there.access_token}` });
    } finally {
      // Where that fails, the next request that is refused for it comes back, or the next renewal.
      await comeBack().catch(() => undefined);
    }
  });

async function comeBack(): Promise<void> {
  if (home !== undefined) accept(await refreshedAtHome());
}

/** When neither this tab nor another is away in another tenant. */
const atHome = (): Promise<void> => inTurn(comeBack);

useCredentials({ atHome, token: () => tokens.value?.access_token, renew });
