/**
 * The shell: who is signed in and for which tenant, where one can go, and what is wrong with the
 * connection.
 */
import { signal } from '@preact/signals';
import type { ComponentType, VNode } from 'preact';
import { useEffect } from 'preact/hooks';
import { go, hrefOf, path } from './address.ts';
import { isOffline, isStale, problemOf, type Problem } from './api.ts';
import { html, view } from './html.ts';
import { followChanges, followPlatform, followSession } from './live.ts';
import { keepLooking, lookAround } from './outage.ts';
import { Heading, ProblemBox } from './parts.ts';
import { learnNames } from './people.ts';
import {
  hasEnded,
  hasRole,
  isAskedAgain,
  isPlatformAdmin,
  renew,
  signOut,
  switchTenant,
  tenant,
  tokens,
  user,
  type Tokens,
} from './session.ts';
import { AcceptInvitation } from './screens/accept-invitation.ts';
import { Account } from './screens/account.ts';
import { Accounts } from './screens/accounts.ts';
import { Approvals } from './screens/approvals.ts';
import { Audit, AuditOfPlatform } from './screens/audit.ts';
import { Automations } from './screens/automations.ts';
import { Compare } from './screens/compare.ts';
import { DeliveryLog } from './screens/deliveries.ts';
import { Documents } from './screens/documents.ts';
import { EffectiveValues } from './screens/effective-values.ts';
import { Groups } from './screens/groups.ts';
import { HistoryOfChanges, HistoryOfPlatform } from './screens/history.ts';
import { Invitations } from './screens/invitations.ts';
import { Members } from './screens/members.ts';
import { Nodes } from './screens/nodes.ts';
import { Notifications } from './screens/notifications.ts';
import { Plan } from './screens/plan.ts';
import { GlobalConfiguration, PlatformBounds, ServiceTypes } from './screens/platform-documents.ts';
import type { PlatformScreenProperties, Role, ScreenProperties } from './screens/screen.ts';
import { ResetPassword } from './screens/reset-password.ts';
import { ServiceAccounts } from './screens/service-accounts.ts';
import { SignIn, SignInAgain } from './screens/sign-in.ts';
import { SingleSignOn } from './screens/single-sign-on.ts';
import { Tenants } from './screens/tenants.ts';
import { nextTheme, theme } from './theme.ts';

interface Screen {
  readonly name: string;
  readonly title: string;
  readonly roles: readonly Role[];
  readonly component: ComponentType<ScreenProperties>;
}

const everyone: readonly Role[] = ['tenant_admin', 'operator', 'viewer'];
const admins: readonly Role[] = ['tenant_admin'];
const screens: readonly Screen[] = [
  {
    name: 'effective',
    title: 'Effective values',
    roles: everyone,
    component: EffectiveValues,
  },
  { name: 'compare', title: 'Compare', roles: everyone, component: Compare },
  {
    name: 'documents',
    title: 'Documents',
    roles: ['tenant_admin', 'operator'],
    component: Documents,
  },
  {
    name: 'automations',
    title: 'Automations',
    roles: ['tenant_admin', 'operator'],
    component: Automations,
  },
  {
    name: 'approvals',
    title: 'Approvals',
    roles: ['tenant_admin', 'operator'],
    component: Approvals,
  },
  {
    name: 'notifications',
    title: 'Notifications',
    roles: ['tenant_admin', 'operator'],
    component: Notifications,
  },
  {
    name: 'deliveries',
    title: 'Deliveries',
    roles: ['tenant_admin', 'operator'],
    component: DeliveryLog,
  },
  {
    name: 'history',
    title: 'History',
    roles: ['tenant_admin', 'operator'],
    component: HistoryOfChanges,
  },
  { name: 'members', title: 'Members', roles: admins, component: Members },
  { name: 'groups', title: 'Approver groups', roles: admins, component: Groups },
  {
    name: 'service-accounts',
    title: 'Service accounts',
    roles: admins,
    component: ServiceAccounts,
  },
  { name: 'audit', title: 'Audit', roles: admins, component: Audit },
];

interface PlatformScreen {
  readonly name: string;
  readonly title: string;
  readonly component: ComponentType<PlatformScreenProperties>;
}

/** For the platform's administrators, whichever tenant they act for. */
const platformScreens: readonly PlatformScreen[] = [
  { name: 'tenants', title: 'Tenants', component: Tenants },
  { name: 'accounts', title: 'Accounts', component: Accounts },
  { name: 'global', title: 'Global configuration', component: GlobalConfiguration },
  { name: 'service-types', title: 'Service types', component: ServiceTypes },
  { name: 'bounds', title: 'Bounds and stop', component: PlatformBounds },
  { name: 'plan', title: 'Plan', component: Plan },
  { name: 'history', title: 'History', component: HistoryOfPlatform },
  { name: 'audit', title: 'Audit of all', component: AuditOfPlatform },
  { name: 'nodes', title: 'Nodes', component: Nodes },
];

const startProblem = signal<Problem | undefined>(undefined);
/** The gateway could not be asked who is signed in. */
export function cannotStart(error: unknown): void {
  startProblem.value = problemOf(error);
}

export function App({ linkToken }: { readonly linkToken: string | undefined }): VNode {
  if (!isSecureContext) return html`<${NeedsHttps} />`;
  if (path.value === '/accept-invitation') return view(AcceptInvitation, { token: linkToken });
  if (path.value === '/reset-password') return view(ResetPassword, { token: linkToken });
  if (path.value === '/sso') return html`<${SingleSignOn} />`;
  if (tokens.value === undefined) return html`<${Starting} />`;
  if (tokens.value === null) return view(SignIn, { over: false });
  return view(Shell, { signedIn: tokens.value });
}

/**
 * Over plain http with a host name browsers keep no secure cookie, so nobody could stay signed in.
 */
function NeedsHttps(): VNode {
  const address = `https://${location.host}${location.pathname}`;
  return html`<main class="narrow">
    <h1>Strata needs https</h1>
    <p>
      This page came over plain http, where a browser cannot keep a session safe. Open${' '}
      <a href=${address}>${address}</a>, or, on the machine that runs Strata,${' '}
      <code>http://localhost</code>.
    </p>
  </main>`;
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
  return html`<main class="narrow">
    <h1 class="brand">Strata</h1>
    ${
      problem
        ? view(ProblemBox, { problem, retry })
        : html`<p class="muted" role="status">One moment…</p>`
    }
  </main>`;
}

/** What the address names: a screen of a tenant, or one of the platform. */
interface Place {
  readonly tenantId?: string;
  readonly isPlatform?: true;
  readonly name?: string;
  readonly rest: readonly string[];
}

/** `/tenants/{id}/{screen}/…` or `/platform/{screen}/…` in its parts. */
function placeOf(address: string): Place {
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

function Shell({ signedIn }: { readonly signedIn: Tokens }): VNode {
  const place = placeOf(path.value);
  const { tenantId } = place;
  const current = signedIn.tenant;
  useEffect(() => void learnNames(), [current?.id]);
  const mayWatch = current !== null && hasRole('tenant_admin', 'operator') && !hasEnded.value;
  useEffect(() => (mayWatch ? followChanges(current.id) : undefined), [current?.id, mayWatch]);
  const seesPlatform = place.isPlatform === true && isPlatformAdmin.value && !hasEnded.value;
  useEffect(() => (seesPlatform ? followPlatform() : undefined), [seesPlatform]);
  const { session_id: session } = signedIn;
  const isOpen = !hasEnded.value;
  useEffect(() => (isOpen ? followSession(session) : undefined), [session, isOpen]);
  useEffect(() => (isOpen ? keepLooking() : undefined), [isOpen]);
  const isMember = signedIn.memberships.some(({ tenant_id: id }) => id === tenantId);
  const isElsewhere = tenantId !== undefined && tenantId !== current?.id;
  useEffect(() => {
    const follows = isElsewhere && isMember && !hasFollowedLink;
    hasFollowedLink = true;
    if (follows) void switchTenant(tenantId).catch(cannotStart);
  }, [tenantId, isElsewhere, isMember]);
  useEffect(() => {
    if (path.value !== '') return;
    if (current) go(`/tenants/${current.id}/effective`, { replace: true });
    else if (isPlatformAdmin.value && signedIn.memberships.length === 0)
      go('/platform/tenants', { replace: true });
  }, [path.value, current?.id]);
  return html`<div class="shell">
    <a class="skip" href="#content">Skip to the content</a>
    <${TopBar} signedIn=${signedIn} />
    <${Banners} />
    <div class="columns">
      ${(current !== null || isPlatformAdmin.value) && view(Navigation, { tenantId: current?.id, place })}
      <main id="content" tabindex="-1">
        ${isElsewhere ? view(Elsewhere, { tenantId, signedIn }) : view(Content, { place })}
      </main>
    </div>
    ${hasEnded.value && html`<${SignIn} over=${true} />`}
    ${isAskedAgain.value && html`<${SignInAgain} />`}
  </div>`;
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
  return html`<header class="top">
    <a class="brand" href=${hrefOf('')}>Strata</a>
    <${TenantChoice} signedIn=${signedIn} />
    <span class="grow"></span>
    <button type="button" class="plain" onClick=${nextTheme} title="Change between system, light and dark">
      Theme: ${theme.value}
    </button>
    <a class="me" href=${hrefOf('/account')} title=${`Your account, ${signedIn.user.email}`}><bdi>${signedIn.user.display_name ?? signedIn.user.email}</bdi></a>
    <button type="button" class="plain" onClick=${leave}>Sign out</button>
  </header>`;
}

function TenantChoice({ signedIn }: { readonly signedIn: Tokens }): VNode {
  const { memberships, tenant: current } = signedIn;
  if (memberships.length === 0) return html`<span class="muted">No tenant</span>`;
  if (memberships.length === 1 && current) {
    const roles = current.roles.join(', ').replaceAll('_', ' ');
    return html`<span class="tenant"><strong><bdi>${current.name}</bdi></strong> <span class="fine">${roles}</span></span>`;
  }
  const choose = async (event: Event): Promise<void> => {
    const { value } = event.target as HTMLSelectElement;
    try {
      await switchTenant(value);
      go(`/tenants/${value}/effective`);
    } catch (error) {
      cannotStart(error);
    }
  };
  return html`<select aria-label="Tenant" value=${current?.id ?? ''} onChange=${choose}>
    ${!current && html`<option value="">Choose a tenant</option>`}
    ${memberships.map(({ tenant_id: id, name }) => html`<option key=${id} value=${id}>${name}</option>`)}
  </select>`;
}

function Banners(): VNode {
  return html`<div class="banners" role="status">
    ${
      isOffline.value &&
      html`<p class="banner">
        <strong>Offline.</strong> Strata cannot be reached; what is shown may be old.
        <button type="button" class="link" onClick=${() => void lookAround()}>Try again</button>
      </p>`
    }
    ${
      isStale.value &&
      html`<p class="banner">
        <strong>Last known values.</strong> A part of Strata is away: reads may be old, and writes are refused until it is back.
      </p>`
    }
    ${startProblem.value && view(ProblemBox, { problem: startProblem.value })}
  </div>`;
}

const visibleScreens = (): readonly Screen[] => screens.filter(({ roles }) => hasRole(...roles));

interface Link {
  readonly title: string;
  readonly href: string;
  readonly isCurrent: boolean;
}

function Navigation({
  tenantId,
  place,
}: {
  readonly tenantId: string | undefined;
  readonly place: Place;
}): VNode {
  const own = tenantId === undefined ? [] : visibleScreens();
  const ofTenant = own.map(({ name, title }): Link => ({
    title,
    href: hrefOf(`/tenants/${tenantId}/${name}`),
    isCurrent: !place.isPlatform && name === place.name,
  }));
  const ofPlatform = platformScreens.map(({ name, title }): Link => ({
    title,
    href: hrefOf(`/platform/${name}`),
    isCurrent: place.isPlatform === true && name === place.name,
  }));
  const list = (links: readonly Link[], label?: string): VNode =>
    html`<ul aria-label=${label}>
      ${links.map(({ title, href, isCurrent }) => html`<li key=${href}><a href=${href} aria-current=${isCurrent ? 'page' : undefined}>${title}</a></li>`)}
    </ul>`;
  return html`<nav class="side" aria-label="Screens">
    <div>
      ${ofTenant.length > 0 && list(ofTenant)}
      ${isPlatformAdmin.value && html`<p class="group" aria-hidden="true">Platform</p>`}
      ${isPlatformAdmin.value && list(ofPlatform, 'Platform')}
    </div>
  </nav>`;
}

/** The address names a tenant that the session is not for. */
function Elsewhere({
  tenantId,
  signedIn,
}: {
  readonly tenantId: string;
  readonly signedIn: Tokens;
}): VNode {
  const membership = signedIn.memberships.find(({ tenant_id: id }) => id === tenantId);
  if (!membership)
    return html`<${Message} title="Not one of your tenants">
      <p>This page belongs to a tenant that <bdi>${signedIn.user.email}</bdi> is no member of.</p>
    <//>`;
  const now = signedIn.tenant?.name ?? 'no tenant';
  return html`<${Message} title=${`This page is about ${membership.name}`}>
    <p>You act for <strong><bdi>${now}</bdi></strong>: another tab went there.</p>
    <p>
      <button type="button" onClick=${() => void switchTenant(tenantId).catch(cannotStart)}>
        Continue with ${membership.name}
      </button>
    </p>
  <//>`;
}

function Message({
  title,
  children,
}: {
  readonly title: string;
  readonly children?: unknown;
}): VNode {
  return html`<section class="narrow"><${Heading} title=${title} />${children}</section>`;
}

function Content({ place }: { readonly place: Place }): VNode | null {
  const { tenantId, name, rest } = place;
  if (path.value === '' && tenant.value) return null;
  const [, first, ...inAccount] = path.value.split('/');
  if (first === 'account') return view(Account, { rest: inAccount });
  if (place.isPlatform) return view(OfPlatform, { place });
  if (tenantId === undefined) return html`<${WithoutTenant} />`;
  const screen = screens.find((each) => each.name === name);
  if (!screen)
    return html`<${Message} title="There is nothing here"><p>The address names no screen.</p><//>`;
  if (!hasRole(...screen.roles))
    return html`<${Message} title=${screen.title}>
      <p>Your roles in <bdi>${tenant.value?.name}</bdi> do not show this.</p>
    <//>`;
  return view(screen.component, { key: `${tenantId}/${screen.name}`, tenantId, rest });
}

function OfPlatform({ place: { name, rest } }: { readonly place: Place }): VNode {
  const screen = platformScreens.find((each) => each.name === name);
  if (!screen)
    return html`<${Message} title="There is nothing here"><p>The address names no screen.</p><//>`;
  if (!isPlatformAdmin.value)
    return html`<${Message} title=${screen.title}><p>Only administrators of the platform see this.</p><//>`;
  return view(screen.component, { key: screen.name, rest });
}

/** Somebody who is a member of no tenant, or continues in none. */
function WithoutTenant(): VNode {
  if (path.value !== '')
    return html`<${Message} title="There is nothing here"><p>The address names no screen.</p><//>`;
  const memberships = tokens.value?.memberships ?? [];
  if (memberships.length > 0)
    return html`<${Message} title="Choose a tenant">
      <ul class="choices">
        ${memberships.map(
          ({ tenant_id: id, name, roles }) => html`<li key=${id}>
            <button type="button" class="secondary" onClick=${() => void switchTenant(id).catch(cannotStart)}>
              <bdi>${name}</bdi> <span class="fine">${roles.join(', ').replaceAll('_', ' ')}</span>
            </button>
          </li>`,
        )}
      </ul>
    <//>`;
  return html`<${Message} title=${`Welcome, ${user.value?.email}`}>
    <p>You are a member of no tenant. Ask an administrator to invite you.</p>
    <${Invitations} />
    <p><a href=${hrefOf('/account')}>Your account</a></p>
  <//>`;
}
