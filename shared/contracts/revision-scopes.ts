/**
 * What a revision counts. Each scope has one counter, which every change of the scope raises by
 * one; a cached answer names the scopes that it was read from, and is outdated once one of them has
 * a newer revision for it.
 *
 * | scope              | counts changes of                                             |
 * | ------------------ | ------------------------------------------------------------- |
 * | `tenant:<id>`      | the tenant's configuration documents                          |
 * | `members:<id>`     | the tenant's name, status and memberships                     |
 * | `platform`         | global entries, service types and bounds                      |
 * | `auth`             | accounts, sessions, API keys, identity providers; reloads     |
 * | `approvals:<id>`   | the tenant's approvals, which nobody caches: for its streams and requests that wait |
 * | `automations:<id>` | states of the tenant's automations, for requests that wait    |
 * | `changesets:<id>`  | the tenant's change sets, or the `platform`'s, for streams    |
 */
export type RevisionScope =
  | `tenant:${string}`
  | `members:${string}`
  | `approvals:${string}`
  | `automations:${string}`
  | `changesets:${string}`
  | 'platform'
  | 'auth';

export const tenantScope = (tenantId: string): RevisionScope => `tenant:${tenantId}`;
/**
 * Apart from the tenant's configuration, whose history shows every one of its revisions, without
 * gaps.
 */
export const memberScope = (tenantId: string): RevisionScope => `members:${tenantId}`;
export const approvalScope = (tenantId: string): RevisionScope => `approvals:${tenantId}`;
export const automationScope = (tenantId: string): RevisionScope => `automations:${tenantId}`;
/** Of a tenant's change sets; null for the platform's. */
export const changeSetScope = (tenantId: string | null): RevisionScope =>
  `changesets:${tenantId ?? 'platform'}`;
export const platformScope: RevisionScope = 'platform';
/** Of a tenant's documents; null for the platform's. */
export const documentScope = (tenantId: string | null): RevisionScope =>
  tenantId === null ? platformScope : tenantScope(tenantId);
export const authScope: RevisionScope = 'auth';

/** All of a tenant's, for whoever erases it. */
export const scopesOfTenant = (tenantId: string): RevisionScope[] =>
  [tenantScope, memberScope, approvalScope, automationScope, changeSetScope].map((scope) =>
    scope(tenantId),
  );

/** The tenant whose configuration or memberships a scope counts; null for the platform's. */
export const tenantOfScope = (scope: string): string | null =>
  /^(?:tenant|members):(.+)$/.exec(scope)?.[1] ?? null;
