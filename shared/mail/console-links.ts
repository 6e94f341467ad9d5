/**
 * Where mails and chat messages lead people: to the console, under the address by which browsers
 * reach the gateways.
 */
import type { Settings } from '../settings/settings.ts';

type Known = Pick<Settings, 'base_url'>;

/**
 * A secret is in the fragment, which browsers send to no server and so to no access log; the
 * console takes it out of the address.
 */
const withSecret = ({ base_url: base }: Known, page: string, token: string): string =>
  `${base}/console/${page}#token=${token}`;

export const invitationLink = (settings: Known, token: string): string =>
  withSecret(settings, 'accept-invitation', token);

export const approvalAddress = (
  { base_url: base }: Known,
  tenantId: string,
  approvalId: string,
): string => `${base}/console/tenants/${tenantId}/approvals/${approvalId}`;

/** Of a change set of a tenant, or of the platform's where there is none. */
export const changeSetAddress = (
  { base_url: base }: Known,
  tenantId: string | null,
  id: string,
): string =>
  `${base}/console/${tenantId === null ? 'platform' : `tenants/${tenantId}`}/change-sets/${id}`;

export const resetLink = (settings: Known, token: string): string =>
  withSecret(settings, 'reset-password', token);
