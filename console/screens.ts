/** The table of screens: their names in the address, their titles, and who is offered them. */
import type { ComponentType } from 'preact';
import { hasRole, isVisiting } from './session.ts';
import { AccessOverTime } from './screens/access-report.tsx';
import { Accounts } from './screens/accounts.tsx';
import { Approvals } from './screens/approvals.tsx';
import { Audit } from './screens/audit.tsx';
import { Automations } from './screens/automations.tsx';
import { Budgets } from './screens/budgets.tsx';
import { ChangeSets } from './screens/change-sets.tsx';
import { Compare } from './screens/compare.tsx';
import { Decisions } from './screens/decisions.tsx';
import { DeliveryLog } from './screens/deliveries.tsx';
import { Documents } from './screens/documents.tsx';
import { EffectiveValues } from './screens/effective-values.tsx';
import { EventDestinations, PlatformEventDestinations } from './screens/event-destinations.tsx';
import { Freezes, PlatformFreezes } from './screens/freezes.tsx';
import { Groups } from './screens/groups.tsx';
import { HistoryOfChanges } from './screens/history.tsx';
import { Members } from './screens/members.tsx';
import { Nodes } from './screens/nodes.tsx';
import { Notifications } from './screens/notifications.tsx';
import { Overview } from './screens/overview.tsx';
import { Plan } from './screens/plan.tsx';
import { PlatformOverview } from './screens/platform-overview.tsx';
import {
  GlobalConfiguration,
  PlatformBounds,
  PlatformBudgets,
  PlatformChangePolicy,
  ServiceTypes,
} from './screens/platform-documents.tsx';
import { Rollouts } from './screens/rollouts.tsx';
import type { Role, ScreenProperties } from './screens/screen.ts';
import { ServiceAccounts } from './screens/service-accounts.tsx';
import { Services } from './screens/services.tsx';
import { Tenants } from './screens/tenants.tsx';
import { TenantUsage, UsageOfTenants } from './screens/usage.tsx';
import { WhatIf } from './screens/what-if.tsx';

interface PlatformScreen {
  readonly name: string;
  readonly title: string;
  /** Of the navigation. */
  readonly group: string;
  readonly component: ComponentType<ScreenProperties>;
}
interface Screen extends PlatformScreen {
  readonly roles: readonly Role[];
  /** It asks by POST, which a visitor may not. */
  readonly isQuestion?: true;
}

const inGroups = <Row extends object>(groups: Readonly<Record<string, readonly Row[]>>) =>
  Object.entries(groups).flatMap(([group, rows]) => rows.map((row) => ({ group, ...row })));

const everyone: readonly Role[] = ['tenant_admin', 'operator', 'reviewer', 'viewer'];
const readers: readonly Role[] = ['tenant_admin', 'operator', 'reviewer'];
const admins: readonly Role[] = ['tenant_admin'];
/** By their group in the navigation. */
const screensOf: Readonly<Record<string, readonly Omit<Screen, 'group'>[]>> = {
  Tenant: [
    {
      name: 'overview',
      title: 'Overview',
      roles: ['tenant_admin', 'operator'],
      component: Overview,
    },
  ],
  Values: [
    { name: 'effective', title: 'Effective values', roles: everyone, component: EffectiveValues },
    { name: 'services', title: 'Services', roles: readers, component: Services },
    { name: 'what-if', title: 'What if', roles: everyone, isQuestion: true, component: WhatIf },
    { name: 'compare', title: 'Compare', roles: everyone, component: Compare },
    { name: 'documents', title: 'Configuration', roles: readers, component: Documents },
  ],
  Limits: [
    { name: 'budgets', title: 'Budgets', roles: readers, component: Budgets },
    { name: 'freezes', title: 'Freezes', roles: readers, component: Freezes },
  ],
  Approvals: [
    { name: 'approvals', title: 'Approvals', roles: readers, component: Approvals },
    { name: 'change-sets', title: 'Change sets', roles: readers, component: ChangeSets },
  ],
  Delivery: [
    { name: 'automations', title: 'Automations', roles: readers, component: Automations },
    { name: 'decisions', title: 'Decisions', roles: readers, component: Decisions },
    { name: 'notifications', title: 'Notifications', roles: readers, component: Notifications },
    { name: 'deliveries', title: 'Deliveries', roles: readers, component: DeliveryLog },
    {
      name: 'destinations',
      title: 'Event destinations',
      roles: admins,
      component: EventDestinations,
    },
  ],
  People: [
    { name: 'members', title: 'Members', roles: admins, component: Members },
    { name: 'groups', title: 'Approver groups', roles: admins, component: Groups },
    {
      name: 'service-accounts',
      title: 'Service accounts',
      roles: admins,
      component: ServiceAccounts,
    },
    { name: 'access', title: 'Access report', roles: admins, component: AccessOverTime },
  ],
  History: [
    {
      name: 'history',
      title: 'History',
      roles: [...readers, 'reverter'],
      component: HistoryOfChanges,
    },
    { name: 'usage', title: 'Usage', roles: admins, component: TenantUsage },
    { name: 'audit', title: 'Audit', roles: admins, component: Audit },
  ],
};
export const screens: readonly Screen[] = inGroups(screensOf);

/** Likewise. */
const platformScreensOf: Readonly<Record<string, readonly Omit<PlatformScreen, 'group'>[]>> = {
  Platform: [{ name: 'overview', title: 'Overview', component: PlatformOverview }],
  'Platform people': [
    { name: 'tenants', title: 'Tenants', component: Tenants },
    { name: 'accounts', title: 'Accounts', component: Accounts },
  ],
  'Platform values': [
    { name: 'global', title: 'Global configuration', component: GlobalConfiguration },
    { name: 'service-types', title: 'Service types', component: ServiceTypes },
    { name: 'bounds', title: 'Guardrails and emergency stop', component: PlatformBounds },
    { name: 'budgets', title: 'Budgets (all tenants)', component: PlatformBudgets },
    { name: 'freezes', title: 'Freezes (all tenants)', component: PlatformFreezes },
  ],
  'Platform changes': [
    { name: 'change-policy', title: 'Change policy', component: PlatformChangePolicy },
    { name: 'plan', title: 'Plan', component: Plan },
    { name: 'change-sets', title: 'Change sets', component: ChangeSets },
    { name: 'rollouts', title: 'Rollouts', component: Rollouts },
  ],
  'Platform operation': [
    { name: 'history', title: 'History', component: HistoryOfChanges },
    { name: 'audit', title: 'Audit log (all tenants)', component: Audit },
    {
      name: 'event-destinations',
      title: 'Event destinations',
      component: PlatformEventDestinations,
    },
    { name: 'usage', title: 'Usage', component: UsageOfTenants },
    { name: 'nodes', title: 'Nodes', component: Nodes },
  ],
};
/** For the platform's administrators, whichever tenant they act for. */
export const platformScreens: readonly PlatformScreen[] = inGroups(platformScreensOf);

/** Where somebody begins in a tenant: the first that their roles show. */
export const firstScreen = (): string => visibleScreens()[0]!.name;

/** Of the tenant, for the one who is signed in. */
export const visibleScreens = (): readonly Screen[] =>
  screens.filter(
    ({ roles, isQuestion = false }) => hasRole(...roles) && !(isQuestion && isVisiting.value),
  );
