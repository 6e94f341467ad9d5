/** What the platform's documents have in common. They have no history of their own; the audit shows their changes. */
import { platformScope } from '../../../shared/contracts/revision-scopes.ts';

export const platformDocument = {
  revisionScope: () => platformScope,
  tenantId: () => null,
  prepare: async () => undefined,
} as const;
