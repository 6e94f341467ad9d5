/** The table of screens: their names in the address, their titles, and who is offered them. */
import type { ComponentType } from 'preact';
import { hasRole, isVisiting } from './session.ts';
import { AccessOverTime } from './screens/access-report.tsx';
import { Accounts } from './screens/accounts.tsx';
import { Approvals } from './screens/approvals.tsx';
import { Audit, AuditOfPlatform } from './screens/audit.tsx';
import { Automations } from './screens/automations.tsx';
import { Budgets } from './screens/budgets.tsx';
import { ChangeSets, PlatformChangeSets } from './screens/change-sets.tsx';
import { Compare } from './screens/compare.tsx';
import { Decisions } from './screens/decisions.tsx';
import { DeliveryLog } from './screens/deliveries.tsx';
import { Documents } from './screens/documents.tsx';
import { EffectiveValues } from './screens/effective-values.tsx';
import { EventDestinations, PlatformEventDestinations } from './screens/event-destinations.tsx';
import { Freezes, PlatformFreezes } from './screens/freezes.tsx';
import { Groups } from './screens/groups.tsx';
import { HistoryOfChanges, HistoryOfPlatform } from './screens/history.tsx';
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
import type { PlatformScreenProperties, Role, ScreenProperties } from './screens/screen.ts';
import { ServiceAccounts } from './screens/service-accounts.tsx';
import { Services } from './screens/services.tsx';
import { Tenants } from './screens/tenants.tsx';
import { TenantUsage, UsageOfTenants } from './screens/usage.tsx';
import { WhatIf } from './screens/what-if.tsx';

interface Screen {
  readonly name: string;
  readonly title: string;
  /** Of the navigation. */
  readonly group: 'Tenant' | 'Values' | 'Limits' | 'Approvals' | 'Delivery' | 'People' | 'History';
  readonly roles: readonly Role[];
  /** It asks by POST, which a visitor may not. */
  readonly isQuestion?: true;
  readonly component: ComponentType<ScreenProperties>;
}

const everyone: readonly Role[] = ['tenant_admin', 'operator', 'reviewer', 'viewer'];
const readers: readonly Role[] = ['tenant_admin', 'operator', 'reviewer'];
const admins: readonly Role[] = ['tenant_admin'];
export const screens: readonly Screen[] = [
  {
    name: 'overview',
    group: 'Tenant',
    title: 'Overview',
    roles: ['tenant_admin', 'operator'],
    component: Overview,
  },
  {
    name: 'effective',
    group: 'Values',
    title: 'Effective values',
    roles: everyone,
    component: EffectiveValues,
  },
  { name: 'services', group: 'Values', title: 'Services', roles: readers, component: Services },
  {
    name: 'what-if',
    group: 'Values',
    title: 'What if',
    roles: everyone,
    isQuestion: true,
    component: WhatIf,
  },
  { name: 'compare', group: 'Values', title: 'Compare', roles: everyone, component: Compare },
  {
    name: 'documents',
    group: 'Values',
    title: 'Configuration',
    roles: readers,
    component: Documents,
  },
  { name: 'budgets', group: 'Limits', title: 'Budgets', roles: readers, component: Budgets },
  { name: 'freezes', group: 'Limits', title: 'Freezes', roles: readers, component: Freezes },
  {
    name: 'approvals',
    group: 'Approvals',
    title: 'Approvals',
    roles: readers,
    component: Approvals,
  },
  {
    name: 'change-sets',
    group: 'Approvals',
    title: 'Change sets',
    roles: readers,
    component: ChangeSets,
  },
  {
    name: 'automations',
    group: 'Delivery',
    title: 'Automations',
    roles: readers,
    component: Automations,
  },
  {
    name: 'decisions',
    group: 'Delivery',
    title: 'Decisions',
    roles: readers,
    component: Decisions,
  },
  {
    name: 'notifications',
    group: 'Delivery',
    title: 'Notifications',
    roles: readers,
    component: Notifications,
  },
  {
    name: 'deliveries',
    group: 'Delivery',
    title: 'Deliveries',
    roles: readers,
    component: DeliveryLog,
  },
  {
    name: 'destinations',
    group: 'Delivery',
    title: 'Event destinations',
    roles: admins,
    component: EventDestinations,
  },
  { name: 'members', group: 'People', title: 'Members', roles: admins, component: Members },
  { name: 'groups', group: 'People', title: 'Approver groups', roles: admins, component: Groups },
  {
    name: 'service-accounts',
    group: 'People',
    title: 'Service accounts',
    roles: admins,
    component: ServiceAccounts,
  },
  {
    name: 'access',
    group: 'People',
    title: 'Access report',
    roles: admins,
    component: AccessOverTime,
  },
  {
    name: 'history',
    group: 'History',
    title: 'History',
    roles: [...readers, 'reverter'],
    component: HistoryOfChanges,
  },
  { name: 'usage', group: 'History', title: 'Usage', roles: admins, component: TenantUsage },
  { name: 'audit', group: 'History', title: 'Audit', roles: admins, component: Audit },
];

interface PlatformScreen {
  readonly name: string;
  readonly title: string;
  /** Of the navigation. */
  readonly group: 'Platform' | `Platform ${'people' | 'values' | 'changes' | 'operation'}`;
  readonly component: ComponentType<PlatformScreenProperties>;
}

/** For the platform's administrators, whichever tenant they act for. */
export const platformScreens: readonly PlatformScreen[] = [
  {
    name: 'overview',
    group: 'Platform',
    title: 'Overview',
    component: PlatformOverview,
  },
  { name: 'tenants', group: 'Platform people', title: 'Tenants', component: Tenants },
  { name: 'accounts', group: 'Platform people', title: 'Accounts', component: Accounts },
  {
    name: 'global',
    group: 'Platform values',
    title: 'Global configuration',
    component: GlobalConfiguration,
  },
  {
    name: 'service-types',
    group: 'Platform values',
    title: 'Service types',
    component: ServiceTypes,
  },
  {
    name: 'bounds',
    group: 'Platform values',
    title: 'Guardrails and emergency stop',
    component: PlatformBounds,
  },
  {
    name: 'budgets',
    group: 'Platform values',
    title: 'Budgets (all tenants)',
    component: PlatformBudgets,
  },
  {
    name: 'freezes',
    group: 'Platform values',
    title: 'Freezes (all tenants)',
    component: PlatformFreezes,
  },
  {
    name: 'change-policy',
    group: 'Platform changes',
    title: 'Change policy',
    component: PlatformChangePolicy,
  },
  { name: 'plan', group: 'Platform changes', title: 'Plan', component: Plan },
  {
    name: 'change-sets',
    group: 'Platform changes',
    title: 'Change sets',
    component: PlatformChangeSets,
  },
  { name: 'rollouts', group: 'Platform changes', title: 'Rollouts', component: Rollouts },
  { name: 'history', group: 'Platform operation', title: 'History', component: HistoryOfPlatform },
  {
    name: 'audit',
    group: 'Platform operation',
    title: 'Audit log (all tenants)',
    component: AuditOfPlatform,
  },
  {
    name: 'event-destinations',
    group: 'Platform operation',
    title: 'Event destinations',
    component: PlatformEventDestinations,
  },
  { name: 'usage', group: 'Platform operation', title: 'Usage', component: UsageOfTenants },
  { name: 'nodes', group: 'Platform operation', title: 'Nodes', component: Nodes },
];

/** Where somebody begins in a tenant: the first that their roles show. */
export const firstScreen = (): string => visibleScreens()[0]!.name;

/** Of the tenant, for the one who is signed in. */
export const visibleScreens = (): readonly Screen[] =>
  screens.filter(
    ({ roles, isQuestion = false }) => hasRole(...roles) && !(isQuestion && isVisiting.value),
  );
