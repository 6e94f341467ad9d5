/** THE MAP: every action of Strata, typed. */
import type { Static } from 'typebox';
import { accessReportContracts } from './access-report.ts';
import { accessContracts } from './access.ts';
import { agentContracts } from './agents.ts';
import { auditContracts } from './audit.ts';
import { automationContracts } from './automations.ts';
import { apiKeyContracts } from './auth-api-keys.ts';
import { workloadContracts } from './auth-workload.ts';
import { invitationContracts } from './auth-invitations.ts';
import { passkeyContracts } from './auth-passkeys.ts';
import { ssoContracts } from './auth-sso.ts';
import { authContracts } from './auth.ts';
import { boundContracts } from './bounds.ts';
import { budgetUsageContracts } from './budget-usage.ts';
import { budgetContracts } from './budgets.ts';
import { changeSetActions } from './change-sets.ts';
import { changeSetNoticeContracts } from './change-set-notices.ts';
import { changePolicyContracts } from './change-policy.ts';
import { clusterContracts } from './cluster.ts';
import { consoleSessionContracts } from './console-session.ts';
import { contextContracts } from './contexts.ts';
import type { Contract } from './contract.ts';
import { effectiveConfigContracts } from './effective-config.ts';
import { eventDestinationContracts } from './event-destinations.ts';
import { decideContracts } from './decide.ts';
import { decisionContracts } from './decisions.ts';
import { feedContracts } from './feed.ts';
import { freezeContracts } from './freezes.ts';
import { globalEntryContracts } from './global-entries.ts';
import { historyContracts } from './history.ts';
import { layerContracts } from './layers.ts';
import { managedFieldContracts } from './managed-fields.ts';
import { temporaryChangeContracts } from './temporary-changes.ts';
import { memberContracts } from './members.ts';
import { notificationContracts } from './notification-config.ts';
import { notifierContracts } from './notifier.ts';
import { ofrepContracts } from './ofrep.ts';
import { scimGroupContracts } from './scim-groups.ts';
import { scimContracts } from './scim.ts';
import { planContracts } from './plan.ts';
import { projectContracts } from './projects.ts';
import { riskContracts } from './risk.ts';
import { rolloutGateContracts } from './rollout-gates.ts';
import { rolloutContracts } from './rollouts.ts';
import { serviceAccountContracts } from './service-accounts.ts';
import { serviceInstanceContracts } from './service-instances.ts';
import { serviceTypeContracts } from './service-types.ts';
import { tenantContracts } from './tenants.ts';
import { usageContracts } from './usage.ts';
import { visitContracts } from './visits.ts';
import { watchContracts } from './watch.ts';

export const contracts = {
  // config-resolver: the merged configuration, and what it is merged from
  ...effectiveConfigContracts,
  ...decideContracts,
  ...ofrepContracts,
  ...layerContracts,
  // global-config has the platform's, tenant-config the tenants'
  ...boundContracts,
  ...budgetContracts,
  ...freezeContracts,
  ...changePolicyContracts,
  ...changeSetActions,
  ...managedFieldContracts,
  ...temporaryChangeContracts,
  // config-resolver joins what tenant-config and the notifier count
  ...usageContracts,

  // tenant-config
  ...tenantContracts,
  ...memberContracts,
  ...scimContracts,
  ...scimGroupContracts,
  ...accessReportContracts,
  ...riskContracts,
  ...agentContracts,
  ...serviceInstanceContracts,
  ...projectContracts,
  ...notificationContracts,
  ...historyContracts,
  ...contextContracts,

  // global-config
  ...globalEntryContracts,
  ...serviceTypeContracts,
  ...planContracts,
  ...rolloutContracts,
  ...rolloutGateContracts,

  // auth
  ...authContracts,
  ...invitationContracts,
  ...ssoContracts,
  ...passkeyContracts,
  ...apiKeyContracts,
  ...workloadContracts,

  // tenant-config has the accounts, auth their keys
  ...serviceAccountContracts,

  ...auditContracts,
  // tenant-config has the document, the audit how far each has come
  ...eventDestinationContracts,
  ...notifierContracts,
  ...automationContracts,
  ...budgetUsageContracts,
  // config-resolver explains and replays what the notifier keeps
  ...decisionContracts,
  ...changeSetNoticeContracts,
  ...accessContracts,

  // every node, and what the gateway answers itself: streams, and the console's session
  ...clusterContracts,
  ...feedContracts,
  ...visitContracts,
  ...watchContracts,
  ...consoleSessionContracts,
} as const;

export type Contracts = typeof contracts;
export type ActionName = keyof Contracts;
export type ParamsOf<A extends ActionName> = Static<Contracts[A]['params']>;
export type ResultOf<A extends ActionName> = Static<Contracts[A]['result']>;

/**
 * The same table for whoever goes through all contracts: each as any contract, without its own
 * types.
 */
export const contractTable: Readonly<Record<ActionName, Contract>> = contracts;

/** The contract of an action, by any name; undefined where there is none. */
export const contractOf = (name: string): Contract | undefined =>
  Object.hasOwn(contractTable, name) ? contractTable[name as ActionName] : undefined;
