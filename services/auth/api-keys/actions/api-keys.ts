/**
 * API keys. They belong to who made them, in the tenant they were signed in to. Only a sign-in
 * makes or changes one, never a key; the contracts say so by `keyScope: null`.
 */
import { IsNull, type DataSource, type EntityManager } from 'typeorm';
import type { Caller } from '../../../../shared/access.ts';
import type { Handlers } from '../../../../shared/contract-runtime/request.ts';
import { commitChange, readSnapshot, type EventDraft } from '../../../../shared/commits/commit.ts';
import { commitRemoval } from '../../../../shared/commits/removals.ts';
import { holderOf, shareOf, takeShares } from '../../../../shared/commits/shares.ts';
import {
  apiKeyCacheKey,
  ResolvedKey as ResolvedKeySchema,
} from '../../../../shared/contracts/auth-api-keys.ts';
import { requireQuota } from '../../../../shared/commits/usage.ts';
import { authScope } from '../../../../shared/contracts/revision-scopes.ts';
import type { ResultOf } from '../../../../shared/contracts/index.ts';
import { lockRow } from '../../../../shared/database/locked-row.ts';
import { pageById } from '../../../../shared/documents/paging.ts';
import { StrataError } from '../../../../shared/errors.ts';
import { viewBy } from '../../../../shared/schema/view.ts';
import { apiKeyPrefix, createApiKeys, newApiKey } from '../../../../shared/security/api-keys.ts';
import type { Settings } from '../../../../shared/settings/settings.ts';
import type { AuthParts } from '../../parts.ts';
import { platformRolesIn } from '../../accounts/rules/accounts.ts';
import {
  apiKeyView,
  dayMs,
  inheritedFrom,
  listedApiKey,
  makeApiKey,
  auditedFacts,
  type NewKey,
} from '../rules/api-keys.ts';
import { ownSessionOf } from '../../sessions/rules/own-session.ts';
import { ApiKeyEntity, type ApiKeyRow } from '../../schema.ts';
import { identityEvent } from '../../stores/audit-events.ts';
import { databaseTime, hasPassed } from '../../stores/clock.ts';
import { requireRoom } from '../../stores/room.ts';
import { requireGoodFor, requireOpenSession } from '../../sessions/stores/sessions.ts';
import { findUser } from '../../accounts/stores/users.ts';
import { endUnlessAccepted, requireAccepted } from '../tenant-policy.ts';

type ResolvedKey = ResultOf<'auth.api-key.resolve'>;

const eventAbout = (action: string, ownerId: string, row: NewKey['row']): EventDraft =>
  identityEvent(action, ownerId, auditedFacts(row));

/** Throws `not_found` for a key that is another's, or nobody's. */
async function lockOwnKey(manager: EntityManager, userId: string, id: string): Promise<ApiKeyRow> {
  const row = await lockRow(manager, ApiKeyEntity, { id, user_id: userId });
  if (!row) throw new StrataError('not_found', 'You have no such API key.');
  return row;
}

/** Throws 409 where the person has as many keys in the tenant as they may. */
const requireRoomForKey = (
  manager: EntityManager,
  userId: string,
  tenantId: string | null,
  settings: Settings,
): Promise<void> => {
  const keys = { user_id: userId, tenant_id: tenantId ?? IsNull() };
  const room = {
    setting: 'api_keys_per_person',
    what: tenantId === null ? 'API keys' : 'API keys in this tenant',
    advice: 'Revoke one first.',
  } as const;
  return requireRoom(manager, userId, settings, room, async () => {
    const count = await manager.countBy(ApiKeyEntity, keys);
    if (count < settings.api_keys_per_person) return count;
    // One that has expired may be rotated, as long as there is room for it.
    await manager.delete(ApiKeyEntity, { ...keys, expires_at: hasPassed() });
    return manager.countBy(ApiKeyEntity, keys);
  });
};

/**
 * The key as the gateway needs it, with what it may do on the platform now. A gateway that keeps it
 * sees itself when it expires.
 */
async function resolve(
  manager: EntityManager,
  id: string,
  settings: Settings,
): Promise<ResolvedKey | null> {
  const row = await manager.findOneBy(ApiKeyEntity, { id });
  if (!row) return null;
  const owned = await ownerOf(manager, row, settings);
  const isOver = await manager.existsBy(ApiKeyEntity, { id, expires_at: hasPassed() });
  return owned && { ...viewBy(ResolvedKeySchema, row), ...owned, usable: owned.usable && !isOver };
}

/**
 * What follows from whose it is. Whether a service account is there and active is tenant-config's
 * to say.
 */
async function ownerOf(
  manager: EntityManager,
  key: ApiKeyRow,
  settings: Settings,
): Promise<Pick<ResolvedKey, 'owner' | 'platform_roles' | 'usable'> | null> {
  const { user_id: userId, service_account_id: accountId } = key;
  if (accountId !== null) {
    const owner = { type: 'service_account', id: accountId } as const;
    return { owner, platform_roles: [], usable: true };
  }
  const user = userId === null ? null : await findUser(manager, userId);
  if (!user) return null;
  return {
    owner: { type: 'user', id: user.id },
    platform_roles: platformRolesIn(key, user, settings),
    usable: user.status === 'active',
  };
}

/** Throws 429 where the person has had too many made lately: each is a mail, too. */
const takeKey = (db: DataSource, caller: Caller, settings: Settings): Promise<void> =>
  takeShares(db, caller, [shareOf('API key', holderOf(caller), settings, 'api_keys_per_minute')]);

export function apiKeyActions({
  db,
  settings,
  notices,
}: Pick<AuthParts, 'db' | 'settings' | 'notices'>) {
  return {
    async 'auth.api-key.create'({ body }, request) {
      const { id: userId, tenant_id: tenantId } = request.caller;
      await takeKey(db, request.caller, settings());
      const ids = { user_id: userId, service_account_id: null, tenant_id: tenantId };
      const holder = { ...ids, made_by: userId };
      const { row, key } = makeApiKey(holder, body, settings(), await databaseTime(db.manager));
      const result = await commitChange(db, request, authScope, async (manager) => {
        const { user, session } = await requireOpenSession(manager, ownSessionOf(request.caller));
        await requireRoomForKey(manager, userId, tenantId, settings());
        if (tenantId !== null) await requireQuota(manager, tenantId, 'api_keys', settings());
        await manager.insert(ApiKeyEntity, { ...row, ...inheritedFrom(session) });
        return {
          result: { owner: user, method: session.method },
          keys: [apiKeyCacheKey({ key_id: row.id })],
          events: [eventAbout('auth.api_key_created', request.caller.id, row)],
        };
      });
      const { owner, method } = result;
      await endUnlessAccepted(db, row, method, request);
      notices.send(owner.email, { kind: 'api_key_made', which: apiKeyPrefix(row.id) }, request);
      return { ...apiKeyView(row), api_key: key };
    },

    async 'auth.api-key.list'(page, { caller: { id, confined_to: confinedTo } }) {
      const own = { user_id: id, ...(confinedTo !== undefined && { tenant_id: confinedTo }) };
      return pageById(db.manager, ApiKeyEntity, own, page, listedApiKey);
    },

    async 'auth.api-key.revoke'({ key_id: id }, request) {
      await commitRemoval(db, request, authScope, async (manager) => {
        const row = await lockOwnKey(manager, request.caller.id, id);
        requireGoodFor(request.caller.confined_to, row.tenant_id);
        await manager.delete(ApiKeyEntity, { id });
        const event = eventAbout('auth.api_key_revoked', request.caller.id, row);
        return { result: undefined, keys: request.keys, events: [event] };
      });
      return null;
    },

    async 'auth.api-key.rotate'({ key_id: id }, request) {
      const { key, secret } = newApiKey(id);
      await takeKey(db, request.caller, settings());
      const { id: userId, signed_in_with: signedInWith = 'password' } = request.caller;
      const known = await db.manager.findOneBy(ApiKeyEntity, { id, user_id: userId });
      if (known) await requireAccepted(signedInWith, userId, known.tenant_id, request.call);
      const result = await commitChange(db, request, authScope, async (manager) => {
        const { user, session } = await requireOpenSession(manager, ownSessionOf(request.caller));
        const row = await lockOwnKey(manager, request.caller.id, id);
        requireGoodFor(session.confined_to, row.confined_to);
        const now = await databaseTime(manager);
        const change = {
          hash: createApiKeys(settings()).hash(secret),
          expires_at: new Date(now.getTime() + row.days * dayMs),
          made_with: session.method,
        };
        await manager.update(ApiKeyEntity, { id }, change);
        return {
          result: { owner: user, rotated: { ...row, ...change } },
          keys: request.keys,
          events: [eventAbout('auth.api_key_rotated', request.caller.id, row)],
        };
      });
      const { owner, rotated } = result;
      await endUnlessAccepted(db, rotated, rotated.made_with, request);
      notices.send(owner.email, { kind: 'api_key_rotated', which: apiKeyPrefix(id) }, request);
      return { ...apiKeyView(rotated), api_key: key };
    },

    'auth.api-key.resolve': ({ key_id: id }) =>
      readSnapshot(db, authScope, (manager) => resolve(manager, id, settings())),

    /** Once a minute at most: a key in heavy use would write its row all the time. */
    async 'auth.api-key.used'({ key_id: id }) {
      await db.query(
        `UPDATE auth.api_keys SET last_used_at = now() WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')`,
        [id],
      );
      return null;
    },
  } satisfies Handlers;
}
