/**
 * Erasing what auth has of a tenant: sessions and keys of it end on every node with the change that
 * removes them.
 */
import type { AuthParts } from '../parts.ts';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { commitChange } from '../../../shared/commits/commit.ts';
import { authScope } from '../../../shared/contracts/revision-scopes.ts';
import {
  cacheKeysOf,
  eraseUncached,
  findCredentials,
  removeCredentials,
} from '../stores/erasure.ts';

export const erasureActions = ({ db }: AuthParts) =>
  ({
    async 'auth.tenants.erase'({ tenant_id: tenantId }, request) {
      const isUncachedGone = await db.transaction((manager) => eraseUncached(manager, tenantId));
      if (!isUncachedGone) return { done: false };
      const credentials = await findCredentials(db.manager, tenantId);
      const keys = cacheKeysOf(credentials);
      if (keys.length === 0) return { done: true };
      await commitChange(db, request, authScope, async (manager) => {
        await removeCredentials(manager, credentials);
        return { result: undefined, keys, events: [] };
      });
      return { done: false };
    },
  }) satisfies Handlers;
