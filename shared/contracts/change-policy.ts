/**
 * change_policy: which configuration is only changed under four eyes, and whose approval it takes.
 * One document each: `change_policy_platform`, which also says what holds in every tenant, and
 * `change_policy_{tenant_id}`, which adds to that. Without one, nothing needs an approval.
 */
import { Type, type Static } from 'typebox';
import { documentContracts } from './document-contracts.ts';
import { Optional, SomeOf, StrictObject, TitledObject } from './fields.ts';
import { configTypes, platformConfigTypes } from './history.ts';
import { ofPlatform, platformAdmins } from './platform-document.ts';
import { dryRun } from './contract.ts';
import { ofTenant, tenantPath, type TenantAddress } from './tenant-document.ts';

const optional = Type.Optional;

const rules = {
  keys: Optional.Array(
    Type.String({ minLength: 1, maxLength: 200, description: 'Name of a key' }),
    {
      minItems: 1,
      maxItems: 100,
      uniqueItems: true,
      description: 'Changes of these keys, in whichever document they are',
    },
  ),
  required: Optional.Integer({
    minimum: 1,
    maximum: 10,
    description: 'How many people approve; 1 by default',
  }),
  tightening: Optional.Enum(['free', 'guarded'], {
    description:
      '`free`: what can only deny automation more needs no approval, such as a freeze that is added; `guarded` by default',
  }),
};
/** A rollout is approved as what it writes. */
const guardedTypes = platformConfigTypes.filter((type) => type !== 'rollout_config');
const ofKinds = <Names extends string[]>(names: readonly [...Names]) =>
  optional(
    SomeOf(names, {
      minItems: 1,
      description: 'Documents of these kinds; with neither this nor `keys`, all documents',
    }),
  );
const groups = Optional.Array(
  Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$', description: 'Approver group' }),
  {
    minItems: 1,
    maxItems: 20,
    uniqueItems: true,
    description: 'Their members approve; without it, operators, reviewers and tenant_admins do',
  },
);

export const ChangePolicy = StrictObject(
  { config_types: ofKinds(configTypes), ...rules, groups },
  {
    title: 'ChangePolicy',
    description: "What of a tenant's configuration is changed under four eyes alone",
    examples: [{ config_types: ['tenant_risk_config', 'bounds_config'], tightening: 'free' }],
  },
);
export type ChangePolicy = Static<typeof ChangePolicy>;

export const PlatformChangePolicy = StrictObject(
  {
    platform: optional(
      TitledObject(
        'ChangePolicyOfPlatform',
        "For the platform's own documents, which its administrators approve",
        { config_types: ofKinds(guardedTypes), ...rules },
      ),
    ),
    tenants: optional(ChangePolicy),
  },
  {
    title: 'PlatformChangePolicy',
    description: 'What is changed under four eyes alone, of the platform and of every tenant',
    examples: [{ platform: { required: 1 } }],
  },
);
export type PlatformChangePolicy = Static<typeof PlatformChangePolicy>;

export const platformChangePolicyKey = 'change_policy_platform';
export const changePolicyKey = ({ tenant_id }: TenantAddress): string =>
  `change_policy_${tenant_id}`;

/** It says whose approval counts, and so takes what that takes. */
const powerful = { leadsTo: 'approvers', writeScope: 'approvals:configure' } as const;

const platform = documentContracts({
  ...ofPlatform,
  ...powerful,
  trial: dryRun,
  readers: { ...platformAdmins, services: true },
  title: "the platform's change_policy",
  url: '/config/change-policy',
  path: {},
  document: PlatformChangePolicy,
  body: PlatformChangePolicy,
  key: () => platformChangePolicyKey,
});
const tenant = documentContracts({
  ...ofTenant,
  ...powerful,
  title: "the tenant's change_policy",
  url: '/tenants/{tenant_id}/config/change-policy',
  path: tenantPath,
  document: ChangePolicy,
  body: ChangePolicy,
  key: changePolicyKey,
});

export const changePolicyContracts = {
  'global-config.change-policy.get': { ...platform.get, keyScope: 'platform:read' },
  'global-config.change-policy.put': platform.put,
  'global-config.change-policy.patch': platform.patch,
  'global-config.change-policy.delete': platform.delete,
  'tenant-config.change-policy.get': tenant.get,
  'tenant-config.change-policy.put': tenant.put,
  'tenant-config.change-policy.patch': tenant.patch,
  'tenant-config.change-policy.delete': tenant.delete,
} as const;
