import { MoreThan, type DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/cluster/request.ts';
import { authScope } from '../../../shared/contracts/revision-scopes.ts';
import { StrataError } from '../../../shared/errors.ts';
import { commitChange } from '../../../shared/commits/commit.ts';
import { decodeCursor, defaultLimit, pageOf } from '../../../shared/documents/paging.ts';
import type { Settings } from '../../../shared/settings.ts';
import { UserEntity, type UserRow } from '../schema.ts';
import { endSessions } from '../sign-in.ts';
import { accountOf, addressOf } from './accounts.ts';
import { apiKeyKeysOf } from './api-keys.ts';

/** Accounts as platform administrators see them. */
export const userActions = (db: DataSource, settings: () => Settings) => {
  const managed = (user: UserRow) => ({
    ...accountOf(user, settings()),
    email_verified: user.email_verified,
    status: user.status,
    created_at: user.created_at.toISOString(),
  });
  return {
    async 'auth.users.list'({ limit = defaultLimit, cursor, email }) {
      const after = decodeCursor(cursor, 'id');
      const rows = await db.manager.find(UserEntity, {
        where: {
          ...(email === undefined ? {} : { email: addressOf(email) }),
          ...(after === undefined ? {} : { id: MoreThan(after) }),
        },
        order: { id: 'ASC' },
        take: limit + 1,
      });
      return pageOf(rows, limit, ({ id }) => id, managed);
    },

    /** Disabling ends the account's sessions on every node by the time it is answered, and its API keys until it is enabled again. */
    async 'auth.users.patch'({ user_id: id, body: { status } }, request) {
      if (id === request.caller.id && status === 'disabled')
        throw new StrataError('conflict', 'You cannot disable your own account.');
      const { result } = await commitChange(db, request, authScope, async (manager) => {
        const user = await manager.findOne(UserEntity, {
          where: { id },
          lock: { mode: 'pessimistic_write' },
        });
        if (!user) throw new StrataError('not_found', 'There is no such account.');
        await manager.update(UserEntity, { id }, { status });
        return {
          result: { ...user, status },
          keys: [
            ...(status === 'disabled' ? await endSessions(manager, id) : []),
            ...(await apiKeyKeysOf(manager, id)),
          ],
          events:
            status === user.status
              ? []
              : [
                  {
                    action: status === 'disabled' ? 'auth.user_disabled' : 'auth.user_enabled',
                    tenant_id: null,
                    target: id,
                    payload: { email: user.email },
                  },
                ],
        };
      });
      return managed(result);
    },
  } satisfies Handlers;
};
