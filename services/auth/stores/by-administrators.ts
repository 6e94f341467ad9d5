/**
 * Changes of what a tenant's service accounts are entered with. Its administrators make them, and who
 * they are is tenant-config's to say, ahead of the change.
 */
import type { DataSource } from 'typeorm';
import { whileAsRead } from '../../../shared/change-sets/change-sets.ts';
import { Outdated } from '../../../shared/change-sets/store.ts';
import { commitChanges, revisionsOf, type Work } from '../../../shared/commits/commit.ts';
import { areStillSo } from '../../../shared/commits/held-rights.ts';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import { authScope, memberScope } from '../../../shared/contracts/revision-scopes.ts';
import { StrataError } from '../../../shared/errors.ts';

/**
 * Throws 403 where the caller is no administrator any more when the change comes to its turn: whoever
 * loses the role has not made a credential after that. The members' revision is held before the
 * accounts', as wherever both are.
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
      async begin(manager) {
        if (!(await areStillSo(manager, [{ revisions }]))) throw new Outdated();
      },
    });
    return outcome!.result;
  });
