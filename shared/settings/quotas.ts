/** Which setting says how much of something a tenant may have. */
import type { UsageName } from '../contracts/usage.ts';
import type { Settings } from './settings.ts';

export const quotaSettings = {
  api_keys: 'api_keys_per_tenant',
  approvals_pending: 'approvals_max_pending',
  automations_live: 'automations_live_per_tenant',
  documents: 'documents_per_tenant',
  endpoints: 'approval_webhook_endpoints_cap',
  history_per_hour: 'history_entries_per_hour_per_tenant',
  members: 'members_per_tenant',
  service_accounts: 'service_accounts_per_tenant',
  streams: 'watch_max_streams_per_tenant',
} as const satisfies Record<UsageName, keyof Settings>;

export const limitOf = (what: UsageName, settings: Settings): number =>
  settings[quotaSettings[what]];

/** The part of the limit, at least one. */
export const leastOf = (what: UsageName, percent: number, settings: Settings): number =>
  Math.max(1, Math.ceil((limitOf(what, settings) * percent) / 100));
