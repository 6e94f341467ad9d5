/** THE MAP: every action of Strata, typed. */
import type { Static } from 'typebox';
import { auditContracts } from './audit.ts';
import { apiKeyContracts } from './auth-api-keys.ts';
import { ssoContracts } from './auth-sso.ts';
import { authContracts } from './auth.ts';
import { passkeyContracts } from './auth-passkeys.ts';
import { configResolverContracts } from './config-resolver.ts';
import type { Contract } from './contract.ts';
import { globalConfigContracts } from './global-config.ts';
import { nodeContracts } from './cluster.ts';
import { notifierContracts } from './notifier.ts';
import { tenantConfigContracts } from './tenant-config.ts';
import { watchContracts } from './watch.ts';

export const contracts = {
  ...configResolverContracts,
  ...tenantConfigContracts,
  ...globalConfigContracts,
  ...authContracts,
  ...ssoContracts,
  ...passkeyContracts,
  ...apiKeyContracts,
  ...auditContracts,
  ...notifierContracts,
  ...nodeContracts,
  ...watchContracts,
} as const;

export type Contracts = typeof contracts;
export type ActionName = keyof Contracts;
export type ParamsOf<A extends ActionName> = Static<Contracts[A]['params']>;
export type ResultOf<A extends ActionName> = Static<Contracts[A]['result']>;

export const contractOf = (name: string): Contract | undefined =>
  Object.hasOwn(contracts, name)
    ? (contracts as unknown as Record<string, Contract>)[name]
    : undefined;
