/**
 * Changes by administrators, of who may sign in and with what. They wait for their turn among all
 * changes of accounts, and whoever loses the role on the way has made none after that.
 */
import { IsNull, type DataSource, type EntityManager } from 'typeorm';
import { actsByRoles, type Caller } from '../../../shared/access.ts';
import {
  commitChange,
  commitChanges,
  revisionsOf,
  type Work,
} from '../../../shared/commits/commit.ts';
import { holdRights, whileAsRead } from '../../../shared/commits/held-rights.ts';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import { authScope, memberScope } from '../../../shared/contracts/revision-scopes.ts';
import { StrataError } from '../../../shared/errors.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { platformRolesOf } from '../accounts/rules/accounts.ts';
import { findUser } from '../accounts/stores/users.ts';
import { ApiKeyEntity, SessionEntity } from '../schema.ts';

/**
 * What a tenant's service accounts are entered with. Who its administrators are is tenant-config's to
 * say, ahead of the change. The members' revision is held before the accounts', as wherever both are.
 * Throws 403 where the caller is none any more when it comes to its turn.
 */
export const commitByAdministrator = <T>(
  db: DataSource,
  request: Request,
  tenantId: string,
  work: Work<T>,
): Promise<T> =>
  whileAsRead(async () => {
    const revisions = await revisionsOf(db.manager, [memberScope(tenantId)]);
    const memberships = await request.call('tenant-config.members.of', {
      user_id: request.caller.id,
    });
    const own = memberships.find(({ tenant_id: id }) => id === tenantId);
    if (own?.tenant_status !== 'active' || !own.roles.includes('tenant_admin'))
      throw new StrataError(
        'insufficient_role',
        'You are no tenant_admin of this tenant any more.',
      );
    const [outcome] = await commitChanges(db, request, authScope, [work], {
      begin: (manager) => holdRights(manager, [{ revisions }]),
    });
    return outcome!.result;
  });

/** The same of the platform's administrators. Throws 401 where their session or key has ended, too. */
export const commitByPlatformAdministrator = <T>(
  db: DataSource,
  request: Request,
  settings: Settings,
  work: Work<T>,
): Promise<T> =>
  commitChange(db, request, authScope, async (manager, ...now) => {
    await requireStillAdministrator(manager, request.caller, settings);
    return work(manager, ...now);
  });

async function requireStillAdministrator(
  manager: EntityManager,
  caller: Caller,
  settings: Settings,
): Promise<void> {
  if (!actsByRoles(caller)) return;
  const { id, session_id: sessionId, api_key: key } = caller;
  // Nobody ends one meanwhile, which takes the same turns.
  const session = { id: sessionId!, revoked_at: IsNull() };
  if (sessionId !== undefined && !(await manager.existsBy(SessionEntity, session)))
    throw new StrataError('auth_session_revoked');
  if (key !== undefined && !(await manager.existsBy(ApiKeyEntity, { id: key.id })))
    throw new StrataError('auth_api_key_invalid');
  const user = await findUser(manager, id);
  const isStill = user?.status === 'active' && platformRolesOf(user, settings).length > 0;
  if (!isStill) throw new StrataError('insufficient_role', 'You are no platform_admin any more.');
}
