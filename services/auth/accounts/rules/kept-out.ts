/** What keeps somebody from signing in, or from acting where they do, as far as the account says. */
import type { ResultOf } from '../../../../shared/contracts/index.ts';
import type { Membership } from './memberships.ts';

type Detail = ResultOf<'auth.users.read'>;

export function keptOutBy(
  account: Pick<Detail, 'status' | 'email_verified' | 'platform_roles'>,
  { password, passkeys, providers }: Detail['signs_in_with'],
  memberships: readonly Pick<Membership, 'tenant_status' | 'sign_in_policy'>[],
): Detail['kept_out_by'] {
  const isOfPlatform = account.platform_roles.length > 0;
  const open = memberships.filter(({ tenant_status: status }) => status === 'active');
  const hasStrong = passkeys > 0 || providers.length > 0;
  const areStrict = open.length > 0 && open.every((each) => each.sign_in_policy !== 'any');
  const reasons: readonly [Detail['kept_out_by'][number], boolean][] = [
    ['account_disabled', account.status === 'disabled'],
    ['address_unproved', !account.email_verified],
    ['no_way_in', !password && !hasStrong],
    ['no_tenant', open.length === 0 && !isOfPlatform],
    ['policy', password && !hasStrong && areStrict && !isOfPlatform],
  ];
  return reasons.filter(([, holds]) => holds).map(([reason]) => reason);
}
