/**
 * API keys of service accounts. The accounts are tenant-config's, which says at each use whether
 * one is there and which roles it has; a key whose account is gone is invalid.
 */
import type { EntityManager } from 'typeorm';
import type { Handlers } from '../../../../shared/contract-runtime/request.ts';
import { commitChange, type EventDraft } from '../../../../shared/commits/commit.ts';
import { commitRemoval } from '../../../../shared/commits/removals.ts';
import { apiKeyCacheKey } from '../../../../shared/contracts/auth-api-keys.ts';
import { trustCacheKey } from '../../../../shared/contracts/auth-workload.ts';
import { requireQuota } from '../../../../shared/commits/usage.ts';
import { authScope } from '../../../../shared/contracts/revision-scopes.ts';
import { maxKeysOfServiceAccount } from '../../../../shared/contracts/service-accounts.ts';
import { pageById } from '../../../../shared/documents/paging.ts';
import { StrataError } from '../../../../shared/errors.ts';
import type { AuthParts } from '../../parts.ts';
import {
  apiKeyView,
  inheritedFrom,
  listedApiKey,
  makeApiKey,
  auditedFacts,
  type NewKey,
} from '../rules/api-keys.ts';
import { ownSessionOf } from '../../sessions/rules/own-session.ts';
import { ApiKeyEntity, WorkloadTrustEntity } from '../../schema.ts';
import { requireOpenSession } from '../../sessions/stores/sessions.ts';
import { commitByAdministrator } from '../../stores/by-administrators.ts';
import { databaseTime, hasPassed } from '../../stores/clock.ts';
import type { AccountAddress } from '../../../../shared/contracts/service-accounts.ts';
import { endUnlessAccepted } from '../tenant-policy.ts';

const keysOf = ({ tenant_id, account_id: account }: AccountAddress) => ({
  tenant_id,
  service_account_id: account,
});

/** In the chain of the tenant, whose principal it is. */
const eventAbout = (action: string, row: NewKey['row']): EventDraft => ({
  action,
  tenant_id: row.tenant_id,
  target: row.service_account_id,
  payload: auditedFacts(row),
});

export function serviceAccountKeyActions({ db, settings }: AuthParts) {
  /** Throws 409 where the account has as many keys as it may. Expired ones give way. */
  async function requireRoom(manager: EntityManager, address: AccountAddress): Promise<void> {
    const keys = keysOf(address);
    await manager.delete(ApiKeyEntity, { ...keys, expires_at: hasPassed() });
    const count = await manager.countBy(ApiKeyEntity, keys);
    if (count < maxKeysOfServiceAccount) return;
    throw new StrataError(
      'conflict',
      `A service account has at most ${maxKeysOfServiceAccount} API keys. Revoke one first.`,
    );
  }

  return {
    async 'auth.service-account-key.create'({ body, ...address }, request) {
      // Throws 404 where the tenant has no such account.
      await request.call('tenant-config.service-accounts.resolve', address);
      const owner = { user_id: null, ...keysOf(address), made_by: request.caller.id };
      const { row, key } = makeApiKey(owner, body, settings(), await databaseTime(db.manager));
      const { tenant_id: tenantId } = address;
      const result = await commitByAdministrator(db, request, tenantId, async (manager) => {
        const { session } = await requireOpenSession(manager, ownSessionOf(request.caller));
        await requireRoom(manager, address);
        await requireQuota(manager, tenantId, 'api_keys', settings());
        await manager.insert(ApiKeyEntity, { ...row, ...inheritedFrom(session) });
        return {
          result: session.method,
          keys: [apiKeyCacheKey({ key_id: row.id })],
          events: [eventAbout('auth.service_account_key_created', row)],
        };
      });
      await endUnlessAccepted(db, row, result, request);
      return { ...apiKeyView(row), api_key: key };
    },

    async 'auth.service-account-key.list'({ limit, cursor, ...address }, request) {
      await request.call('tenant-config.service-accounts.resolve', address);
      const page = { limit, cursor };
      return pageById(db.manager, ApiKeyEntity, keysOf(address), page, listedApiKey);
    },

    async 'auth.service-account-key.revoke'({ key_id: id, ...address }, request) {
      await commitRemoval(db, request, authScope, async (manager) => {
        const row = await manager.findOneBy(ApiKeyEntity, { id, ...keysOf(address) });
        if (!row) throw new StrataError('not_found', 'The service account has no such API key.');
        await manager.delete(ApiKeyEntity, { id });
        const event = eventAbout('auth.service_account_key_revoked', row);
        return { result: undefined, keys: request.keys, events: [event] };
      });
      return null;
    },

    async 'auth.service-account-key.revoke-all'(address, request) {
      await commitChange(db, request, authScope, async (manager) => {
        const rows = await manager.findBy(ApiKeyEntity, keysOf(address));
        await manager.delete(ApiKeyEntity, keysOf(address));
        await manager.delete(WorkloadTrustEntity, address);
        return {
          result: undefined,
          keys: [trustCacheKey(address), ...rows.map(({ id }) => apiKeyCacheKey({ key_id: id }))],
          events: [],
        };
      });
      return null;
    },
  } satisfies Handlers;
}
