/** What the shell gives to a screen. */
import type { TenantRole } from '../../shared/contracts/roles.ts';

/** A screen of a tenant, at `/tenants/{id}/{name}`; `rest` are the further parts of the path. */
export interface ScreenProperties {
  readonly tenantId: string;
  readonly rest: readonly string[];
}
/** A screen of the platform, at `/platform/{name}`. */
export type PlatformScreenProperties = Pick<ScreenProperties, 'rest'>;
export type Role = TenantRole;
