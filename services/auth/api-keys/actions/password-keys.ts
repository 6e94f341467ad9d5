/**
 * API keys for a tenant that people made who were signed in by password alone. A tenant that wants
 * stronger sign-ins learns which these are, and may end them with the same change. Keys from before
 * it was kept count with them.
 */
import type { EntityManager } from 'typeorm';
import type { Handlers } from '../../../../shared/contract-runtime/request.ts';
import { commitChange, type EventDraft } from '../../../../shared/commits/commit.ts';
import {
  apiKeyCacheKey,
  maxPasswordKeysShown,
} from '../../../../shared/contracts/auth-api-keys.ts';
import type { ResultOf } from '../../../../shared/contracts/index.ts';
import { authScope } from '../../../../shared/contracts/revision-scopes.ts';
import { decodeCursor, defaultLimit, pageOf } from '../../../../shared/documents/paging.ts';
import { apiKeyPrefix } from '../../../../shared/security/api-keys.ts';
import type { AuthParts } from '../../parts.ts';
import { listedApiKey } from '../rules/api-keys.ts';
import type { ApiKeyRow } from '../../schema.ts';

type PasswordKey = ResultOf<'auth.api-key.by-password'>['items'][number];
type KeyWithAddress = ApiKeyRow & { readonly email: string | null };

/** Of `auth.api_keys k`, for the tenant $1. */
const isByPassword = `k.tenant_id = $1 AND k.expires_at > now()
  AND (k.made_with IS NULL OR k.made_with = 'password')`;

const findKeys = (
  manager: EntityManager,
  tenantId: string,
  most: number,
  after?: string,
): Promise<KeyWithAddress[]> =>
  manager.query(
    `SELECT k.*, u.email FROM auth.api_keys k LEFT JOIN auth.users u ON u.id = k.user_id
     WHERE ${isByPassword} AND ($3::uuid IS NULL OR k.id > $3) ORDER BY k.id LIMIT $2`,
    [tenantId, most, after ?? null],
  );

const ownerOf = ({ user_id: userId, service_account_id: accountId }: ApiKeyRow) =>
  accountId === null
    ? ({ type: 'user', id: userId! } as const)
    : ({ type: 'service_account', id: accountId } as const);

function viewOf(row: KeyWithAddress): PasswordKey {
  const { tenant_id: _tenant, ...listed } = listedApiKey(row);
  return { ...listed, owner: ownerOf(row), email: row.email };
}

/** What each person is told of, in one mail. */
function prefixesByAddress(rows: readonly KeyWithAddress[]): Map<string, string[]> {
  const all = new Map<string, string[]>();
  for (const { id, email } of rows)
    if (email !== null) all.set(email, [...(all.get(email) ?? []), apiKeyPrefix(id)]);
  return all;
}

export function passwordKeyActions({ db, notices }: AuthParts) {
  return {
    async 'auth.api-key.by-password'({ tenant_id: tenantId, limit = defaultLimit, cursor }) {
      const after = decodeCursor(cursor, 'id');
      const rows = await findKeys(db.manager, tenantId, limit + 1, after);
      return pageOf(rows, limit, ({ id }) => id, viewOf);
    },

    /** The audit's events name the account of each key, whose `GET /auth/activity` has them. */
    async 'auth.api-key.settle-by-password'({ tenant_id: tenantId, body }, request) {
      const { end: ends, actor } = body;
      if (!ends) {
        const [{ count }] = await db.query<[{ count: number }]>(
          `SELECT count(*)::int AS count FROM auth.api_keys k WHERE ${isByPassword}`,
          [tenantId],
        );
        const rows = await findKeys(db.manager, tenantId, maxPasswordKeysShown);
        return { count, ended: false, items: rows.map(viewOf) };
      }
      const ended = await commitChange(db, request, authScope, async (manager) => {
        const [rows] = await manager.query<[KeyWithAddress[], number]>(
          `DELETE FROM auth.api_keys k WHERE ${isByPassword}
           RETURNING k.*, (SELECT email FROM auth.users u WHERE u.id = k.user_id) AS email`,
          [tenantId],
        );
        const events = rows.map((row): EventDraft => ({
          action: 'auth.api_key_ended',
          tenant_id: tenantId,
          target: ownerOf(row).id,
          payload: { key_id: row.id, name: row.name, because: 'sign_in_policy' },
          actor,
        }));
        const keys = rows.map(({ id }) => apiKeyCacheKey({ key_id: id }));
        return { result: rows, keys, events };
      });
      for (const [email, prefixes] of prefixesByAddress(ended))
        notices.send(email, { kind: 'api_keys_ended', which: prefixes.join(', ') }, request);
      return {
        count: ended.length,
        ended: true,
        items: ended.slice(0, maxPasswordKeysShown).map(viewOf),
      };
    },
  } satisfies Handlers;
}
