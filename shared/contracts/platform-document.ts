/**
 * What the contracts of the platform's configuration documents have in common: everyone reads, its
 * administrators write.
 */
import { dryRun, type Access } from './contract.ts';
import { impactQuery } from './impact.ts';
import { platformScope, type RevisionScope } from './revision-scopes.ts';

export const platformReaders = { level: 'authenticated', services: true } as const satisfies Access;
export const platformAdmins = { level: 'platform_admin' } as const satisfies Access;

/**
 * For `documentContracts`: who reads, writes and tries a document of the platform, and what its
 * revisions count.
 */
export const ofPlatform = {
  readers: platformReaders,
  writers: platformAdmins,
  writeScope: 'platform:write',
  leadsTo: 'configuration',
  trial: { ...dryRun, ...impactQuery },
  revisionScopes: (): RevisionScope[] => [platformScope],
} as const;
