/** What the shell gives to a screen. */
import type { TenantRole } from '../../shared/contracts/roles.ts';

/**
 * A screen of a tenant is at `/tenants/{id}/{name}`, one of the platform at `/platform/{name}`; `rest`
 * are the further parts of the path.
 */
export interface ScreenProperties {
  readonly rest: readonly string[];
}
export type Role = TenantRole;
