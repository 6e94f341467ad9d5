/**
 * What tenants use and how much they may, of those who count it: `tenant-config`, with what `auth`
 * keeps for tenants, and the notifier.
 */
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { usageNames, type NearLimit } from '../../../shared/contracts/usage.ts';
import { decodeCursor, defaultLimit, pageOf } from '../../../shared/documents/paging.ts';
import { limitOf, quotaSettings } from '../../../shared/settings/quotas.ts';
import type { Settings } from '../../../shared/settings/settings.ts';

const keyOf = ({ what, tenant_id }: NearLimit): string => `${what} ${tenant_id}`;

export const usageActions = (settings: () => Settings) =>
  ({
    async 'config-resolver.usage.get'({ tenant_id }, { call }) {
      const [kept, unended] = await Promise.all([
        call('tenant-config.usage.read', { tenant_id }),
        call('notifier.usage.read', { tenant_id }),
      ]);
      const used = { ...kept, ...unended, streams: null };
      return {
        items: usageNames.map((what) => ({
          what,
          used: used[what],
          limit: limitOf(what, settings()),
          setting: quotaSettings[what].toUpperCase(),
        })),
      };
    },

    async 'config-resolver.usage.near'({ percent = 80, limit = defaultLimit, cursor }, { call }) {
      const [after_what, after_tenant] = decodeCursor(cursor, 'usage')?.split(' ') ?? [];
      const part = {
        percent,
        limit: limit + 1,
        ...(after_what !== undefined && { after_what }),
        ...(after_tenant !== undefined && { after_tenant }),
      };
      const parts = await Promise.all([
        call('tenant-config.usage.near', part),
        call('notifier.usage.near', part),
      ]);
      // Keys are of ASCII, so this is the order of the parts.
      const rows = parts.flat().sort((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1));
      return pageOf(rows, limit, keyOf, (row) => row);
    },
  }) satisfies Handlers;
