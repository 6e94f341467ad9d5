/**
 * The shell: who is signed in and for which tenant, where one can go, and what is wrong with the
 * connection.
 */
import { signal } from '@preact/signals';
import { Fragment, type VNode } from 'preact';
import { useEffect } from 'preact/hooks';
import type { ResultOf } from '../shared/contracts/index.ts';
import { go, guardLeaving, hrefOf, isHeld, dropHeld, mayLeave, path } from './address.ts';
import { isOffline, isStale, problemOf, type Problem } from './api.ts';
import { followChanges, followPlatform, followSession, followValues } from './live.ts';
import { useLive, useGet } from './loading.ts';
import { Breadcrumbs, Navigation, type ScreenAddress } from './navigation.tsx';
import { openPalette, Palette } from './palette.tsx';
import { keepLooking, lookAround, recoveries } from './outage.ts';
import { Button, Strong } from './inline.tsx';
import { Dialog, Heading, ProblemBox } from './parts.tsx';
import { learnNames } from './people.ts';
import { roleText } from './roles.ts';
import { firstScreen, platformScreens, screens } from './screens.ts';
import {
  hasEnded,
  hasRole,
  isAskedAgain,
  isPlatformAdmin,
  readsConfiguration,
  renew,
  signOut,
  switchTenant,
  tenant,
  tokens,
  user,
  type Tokens,
} from './session.ts';
import { AcceptInvitation } from './screens/accept-invitation.tsx';
import { Account } from './screens/account.tsx';
import { Invitations } from './screens/invitations.tsx';
import { ResetPassword } from './screens/reset-password.tsx';
import { SignIn, SignInAgain } from './screens/sign-in.tsx';
import { SingleSignOn } from './screens/single-sign-on.tsx';
import { nextTheme, theme } from './theme.ts';
import { VisitBar } from './visit.tsx';

type Effective = ResultOf<'config-resolver.resolve'>;

const startProblem = signal<Problem | undefined>(undefined);
/** The gateway could not be asked who is signed in. */
export function cannotStart(error: unknown): void {
  startProblem.value = problemOf(error);
}

export function App({ linkToken }: { readonly linkToken: string | undefined }): VNode {
  if (!isSecureContext) return <NeedsHttps />;
  if (path.value === '/accept-invitation') return <AcceptInvitation token={linkToken} />;
  if (path.value === '/reset-password') return <ResetPassword token={linkToken} />;
  if (path.value === '/sso') return <SingleSignOn />;
  if (tokens.value === undefined) return <Starting />;
  if (tokens.value === null) return <SignIn over={false} />;
  return <Shell signedIn={tokens.value} />;
}

/**
 * Over plain http with a host name browsers keep no secure cookie, so nobody could stay signed in.
 */
function NeedsHttps(): VNode {
  const address = `https://${location.host}${location.pathname}`;
  return (
    <main class="narrow">
      <h1>Strata needs https</h1>
      <p>
        This page came over plain http, where a browser cannot keep a session safe. Open{' '}
        <a href={address}>{address}</a>, or, on the machine that runs Strata,{' '}
        <code>http://localhost</code>.
      </p>
    </main>
  );
}

/** Whoever opens the page during an outage is let in when it is over. */
const startAgainMs = 3000;

function Starting(): VNode {
  const problem = startProblem.value;
  const retry = (): void => {
    renew().then(() => {
      startProblem.value = undefined;
    }, cannotStart);
  };
  useEffect(() => {
    if (!problem) return undefined;
    const timer = setTimeout(retry, startAgainMs);
    return () => clearTimeout(timer);
  }, [problem]);
  return (
    <main class="narrow">
      <h1 class="brand">Strata</h1>
      {problem ? (
        <ProblemBox problem={problem} retry={retry} />
      ) : (
        <p class="muted" role="status">
          One moment…
        </p>
      )}
    </main>
  );
}

/** `/tenants/{id}/{screen}/…` or `/platform/{screen}/…` in its parts. */
function screenAddressOf(address: string): ScreenAddress {
  const [first, ...parts] = address.split('/').slice(1).map(decodeURIComponent);
  if (first === 'platform') {
    const [name, ...rest] = parts;
    return { isPlatform: true, ...(name !== undefined && { name }), rest };
  }
  const [tenantId, name, ...rest] = parts;
  if (first !== 'tenants' || tenantId === undefined) return { rest: [] };
  return { tenantId, ...(name !== undefined && { name }), rest };
}

/** A link of another tenant than the session's: whoever is its member goes there, once. */
let hasFollowedLink = false;

/** What tells of changes in the tenant, to whoever may read them. */
function watchOf({ tenant: current }: Tokens): typeof followChanges | undefined {
  if (current === null || hasEnded.value) return undefined;
  if (readsConfiguration()) return followChanges;
  return hasRole('viewer') ? followValues : undefined;
}

function Shell({ signedIn }: { readonly signedIn: Tokens }): VNode {
  const place = screenAddressOf(path.value);
  const { tenantId } = place;
  const current = signedIn.tenant;
  useEffect(() => void learnNames(), [current?.id]);
  const watch = watchOf(signedIn);
  useEffect(() => watch?.(current!.id), [current?.id, watch]);
  // What was refused is no news any more where somebody continues, or all is back.
  useEffect(() => {
    startProblem.value = undefined;
  }, [signedIn, path.value, recoveries.value]);
  const seesPlatform = place.isPlatform === true && isPlatformAdmin.value && !hasEnded.value;
  useEffect(() => (seesPlatform ? followPlatform() : undefined), [seesPlatform]);
  const { session_id: session } = signedIn;
  const isOpen = !hasEnded.value;
  useEffect(() => (isOpen ? followSession(session) : undefined), [session, isOpen]);
  useEffect(() => (isOpen ? keepLooking() : undefined), [isOpen]);
  const isMember = signedIn.memberships.some(({ tenant_id: id }) => id === tenantId);
  const isElsewhere = tenantId !== undefined && tenantId !== current?.id;
  const keepsEdits = isElsewhere && isMember && isHeld.value;
  useEffect(() => {
    const follows = isElsewhere && isMember && !hasFollowedLink;
    hasFollowedLink = true;
    if (follows) void switchTenant(tenantId).catch(cannotStart);
  }, [tenantId, isElsewhere, isMember]);
  useEffect(() => {
    if (path.value !== '') return;
    if (current) go(`/tenants/${current.id}/${firstScreen()}`, { replace: true });
    else if (isPlatformAdmin.value && signedIn.memberships.length === 0)
      go('/platform/overview', { replace: true });
  }, [path.value, current?.id]);
  return (
    <div class="shell">
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <TopBar signedIn={signedIn} />
      <Banners />
      <VisitBar />
      {current !== null && <Stopped key={current.id} tenantId={current.id} />}
      <div class="columns">
        {(current !== null || isPlatformAdmin.value) && (
          <Navigation tenantId={current?.id} place={place} />
        )}
        <main id="content" tabindex={-1}>
          {isElsewhere && !keepsEdits ? (
            <Elsewhere tenantId={tenantId} signedIn={signedIn} />
          ) : (
            <Fragment key={signedIn.user.id}>
              <Breadcrumbs place={place} />
              <Content place={place} isOfOther={isElsewhere} />
            </Fragment>
          )}
        </main>
      </div>
      <Palette />
      {keepsEdits && <EditedElsewhere tenantId={tenantId} signedIn={signedIn} />}
      {hasEnded.value && <SignIn over />}
      {isAskedAgain.value && <SignInAgain />}
    </div>
  );
}

function TopBar({ signedIn }: { readonly signedIn: Tokens }): VNode {
  const leave = async (): Promise<void> => {
    try {
      await signOut();
      go('', { replace: true });
    } catch (error) {
      cannotStart(error);
    }
  };
  return (
    <header class="top">
      <a class="brand" href={hrefOf('')}>
        Strata
      </a>
      <TenantChoice signedIn={signedIn} />
      <span class="grow"></span>
      <Button class="plain" says="Search" onClick={openPalette} title="Ctrl-K" />
      <Button
        class="plain theme"
        says={`Theme: ${theme.value}`}
        onClick={nextTheme}
        title="Change between system, light and dark"
      />
      <a class="me" href={hrefOf('/account')} title={`Your account, ${signedIn.user.email}`}>
        <bdi>{signedIn.user.display_name ?? signedIn.user.email}</bdi>
      </a>
      <Button class="plain" says="Sign out" onClick={leave} />
    </header>
  );
}

/**
 * Most browsers choose the next one by each such key, which would go through all tenants between: the
 * list is opened, in which Enter chooses.
 */
function openByKey(event: KeyboardEvent): void {
  const { key, altKey, ctrlKey, metaKey } = event;
  const select = event.target as HTMLSelectElement;
  const isChoosing = key.length === 1 || /^(Arrow|Page|Home|End)/.test(key);
  // A browser that lacks it opens the list by itself.
  if (!isChoosing || altKey || ctrlKey || metaKey || !('showPicker' in select)) return;
  event.preventDefault();
  select.showPicker();
}

function TenantChoice({ signedIn }: { readonly signedIn: Tokens }): VNode {
  const { memberships, tenant: current, visit } = signedIn;
  if (visit) return <span class="muted">Looking inside</span>;
  if (memberships.length === 0) return <span class="muted">No tenant</span>;
  if (memberships.length === 1 && current) {
    return (
      <span class="tenant" title={current.name}>
        <Strong>{current.name}</Strong> <span class="fine">{roleText(current.roles)}</span>
      </span>
    );
  }
  const choose = async (event: Event): Promise<void> => {
    const select = event.target as HTMLSelectElement;
    const { value } = select;
    if (!mayLeave()) {
      select.value = current?.id ?? '';
      return;
    }
    try {
      await switchTenant(value);
      guardLeaving(undefined);
      go(`/tenants/${value}/${firstScreen()}`);
    } catch (error) {
      // It says whom the page acts for.
      select.value = current?.id ?? '';
      cannotStart(error);
    }
  };
  return (
    <select aria-label="Tenant" value={current?.id ?? ''} onChange={choose} onKeyDown={openByKey}>
      {!current && <option value="">Choose a tenant</option>}
      {memberships.map(({ tenant_id: id, name }) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </select>
  );
}

/** On every screen while an emergency stop of the tenant or of the platform holds. */
function Stopped({ tenantId }: { readonly tenantId: string }): VNode | null {
  const { data, reload } = useGet<Effective>(`/tenants/${tenantId}/config/effective`);
  useLive(reload);
  const isStopped =
    data?.values.automation_enabled === false && data.enforced.includes('automation_enabled');
  if (!isStopped) return null;
  return (
    <p class="banner stopped" role="alert">
      <strong>Emergency stop.</strong> New automations of <bdi>{tenant.value?.name}</bdi> are
      refused.{' '}
      {readsConfiguration() && <a href={hrefOf(`/tenants/${tenantId}/automations`)}>Automations</a>}
    </p>
  );
}

const Banners = (): VNode => (
  <div class="banners" role="status">
    {isOffline.value && (
      <p class="banner">
        <strong>Offline.</strong> Strata cannot be reached; what is shown may be old.
        <Button class="link" says="Try again" onClick={() => void lookAround()} />
      </p>
    )}
    {isStale.value && (
      <p class="banner">
        <strong>Last known values.</strong> A part of Strata is away: reads may be old, and writes
        are refused until it is back.
      </p>
    )}
    {startProblem.value && <ProblemBox problem={startProblem.value} />}
  </div>
);

interface ElsewhereProperties {
  readonly tenantId: string;
  readonly signedIn: Tokens;
}

const ContinueWith = ({ id, name }: { readonly id: string; readonly name: string }): VNode => (
  <Button says={`Continue with ${name}`} onClick={() => void switchTenant(id).catch(cannotStart)} />
);

/** Over a page with unsaved edits or an open dialog, which stay. */
function EditedElsewhere({ tenantId, signedIn }: ElsewhereProperties): VNode {
  const { name } = signedIn.memberships.find(({ tenant_id: id }) => id === tenantId)!;
  return (
    <Dialog title={`This page is about ${name}`} isAside>
      <p>
        Another tab went to <Strong>{signedIn.tenant?.name ?? 'no tenant'}</Strong>. What you edited
        is still here.
      </p>
      <footer>
        <Button class="secondary" says="Drop the edits" onClick={dropHeld} />
        <ContinueWith id={tenantId} name={name} />
      </footer>
    </Dialog>
  );
}

/** The address names a tenant that the session is not for. */
function Elsewhere({ tenantId, signedIn }: ElsewhereProperties): VNode {
  const membership = signedIn.memberships.find(({ tenant_id: id }) => id === tenantId);
  if (!membership)
    return (
      <Message title="Not one of your tenants">
        <p>
          This page belongs to a tenant that <bdi>{signedIn.user.email}</bdi> is no member of.
        </p>
      </Message>
    );
  const now = signedIn.tenant?.name ?? 'no tenant';
  return (
    <Message title={`This page is about ${membership.name}`}>
      <p>
        You act for <Strong>{now}</Strong> now, here and in other tabs.
      </p>
      <p>
        <ContinueWith id={tenantId} name={membership.name} />
      </p>
    </Message>
  );
}

const Message = ({
  title,
  children,
}: {
  readonly title: string;
  readonly children?: unknown;
}): VNode => (
  <section class="narrow">
    <Heading title={title} />
    {children}
  </section>
);

const NothingHere = (): VNode => (
  <Message title="There is nothing here">
    <p>The address names no screen.</p>
  </Message>
);

function Content({
  place,
  isOfOther,
}: {
  readonly place: ScreenAddress;
  /** The session is for another tenant: its roles say nothing of this one. */
  readonly isOfOther: boolean;
}): VNode | null {
  const { tenantId, name, rest } = place;
  if (path.value === '' && tenant.value) return null;
  const [, first, ...inAccount] = path.value.split('/');
  if (first === 'account') return <Account rest={inAccount} />;
  if (place.isPlatform) return <OfPlatform place={place} />;
  if (tenantId === undefined) return <WithoutTenant />;
  const screen = screens.find((each) => each.name === name);
  if (!screen) return <NothingHere />;
  if (!isOfOther && !hasRole(...screen.roles))
    return (
      <Message title={screen.title}>
        <p>
          Your roles in <bdi>{tenant.value?.name}</bdi> do not show this.
        </p>
      </Message>
    );
  return <screen.component key={`${tenantId}/${screen.name}`} rest={rest} />;
}

function OfPlatform({ place: { name, rest } }: { readonly place: ScreenAddress }): VNode {
  const screen = platformScreens.find((each) => each.name === name);
  if (!screen) return <NothingHere />;
  if (!isPlatformAdmin.value)
    return (
      <Message title={screen.title}>
        <p>Only administrators of the platform see this.</p>
      </Message>
    );
  return <screen.component key={screen.name} rest={rest} />;
}

/** Somebody who is a member of no tenant, or continues in none. */
function WithoutTenant(): VNode {
  if (path.value !== '') return <NothingHere />;
  const memberships = tokens.value?.memberships ?? [];
  if (memberships.length > 0)
    return (
      <Message title="Choose a tenant">
        <ul class="choices">
          {memberships.map(({ tenant_id: id, name, roles }) => (
            <li key={id}>
              <button
                type="button"
                class="secondary"
                onClick={() => void switchTenant(id).catch(cannotStart)}
              >
                <bdi>{name}</bdi> <span class="fine">{roleText(roles)}</span>
              </button>
            </li>
          ))}
        </ul>
      </Message>
    );
  return (
    <Message title={`Welcome, ${user.value?.email}`}>
      <p>You are a member of no tenant. Ask an administrator to invite you.</p>
      <Invitations />
      <p>
        <a href={hrefOf('/account')}>Your account</a>
      </p>
    </Message>
  );
}
