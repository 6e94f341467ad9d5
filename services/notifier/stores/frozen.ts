import { createVault } from '../../../shared/security/vault.ts';
import type { Settings } from '../../../shared/settings.ts';
import type { Frozen } from '../rules/notice.ts';

export interface FrozenVault {
  readonly seal: (frozen: Frozen, tenantId: string) => string;
  readonly open: (sealed: string, tenantId: string) => Frozen;
}

/** Webhook secrets lie in it, so it is stored sealed as a whole. */
export function createFrozenVault(settings: () => Settings): FrozenVault {
  const vault = () => createVault(settings(), 'frozen notification_config');
  return {
    seal: (frozen, tenantId) => vault().seal(JSON.stringify(frozen), tenantId),
    open: (sealed, tenantId) => JSON.parse(vault().open(sealed, tenantId)) as Frozen,
  };
}
