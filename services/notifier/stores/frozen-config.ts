import { createVault } from '../../../shared/security/vault.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import type { FrozenConfig } from '../rules/frozen-config.ts';

export interface FrozenConfigVault {
  readonly seal: (frozen: FrozenConfig, tenantId: string) => string;
  /** Throws where neither SECRET_KEY nor SECRET_KEY_PREVIOUS is the key that it was sealed with. */
  readonly open: (sealed: string, tenantId: string) => FrozenConfig;
  /** Undefined there: what was asked is still decided, and ends. */
  readonly openIfKept: (sealed: string, tenantId: string) => FrozenConfig | undefined;
}

/** Seals a FrozenConfig as a whole, because webhook secrets and chat addresses are in it. */
export function createFrozenConfigVault(settings: () => Settings): FrozenConfigVault {
  const vault = () => createVault(settings(), 'frozen notification_config');
  // What opens was sealed here, so its shape is known.
  const open = (sealed: string, tenantId: string) =>
    JSON.parse(vault().open(sealed, tenantId)) as FrozenConfig;
  return {
    seal: (frozen, tenantId) => vault().seal(JSON.stringify(frozen), tenantId),
    open,
    openIfKept(sealed, tenantId) {
      try {
        return open(sealed, tenantId);
      } catch {
        return undefined;
      }
    },
  };
}
