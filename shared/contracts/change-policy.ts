/**
 * change_policy: which configuration is only changed under four eyes, and whose approval it takes.
 * One document each: `change_policy_platform`, which also says what holds in every tenant, and
 * `change_policy_{tenant_id}`, which adds to that. Without one, nothing needs an approval.
 */
import { Type, type Static } from 'typebox';
import { documentsOfBoth } from './documents-of-both.ts';
import { Optional, SomeOf, StrictObject, TitledObject } from './fields.ts';
import { configTypes, platformConfigTypes } from './history.ts';
import { dryRun } from './contract.ts';

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
    description: "Which changes of a tenant's configuration need approval by others",
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

const policies = documentsOfBoth(
  'change-policy',
  { document: PlatformChangePolicy, trial: dryRun },
  { document: ChangePolicy, trial: dryRun },
  // It says whose approval counts, and so takes what that takes.
  { leadsTo: 'approvers', writeScope: 'approvals:configure' },
);
export const { platformKey: platformChangePolicyKey, tenantKey: changePolicyKey } = policies;

export const changePolicyContracts = {
  ...policies.ofPlatform,
  ...policies.ofTenant,
} as const;
