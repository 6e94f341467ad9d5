/** Chains that wait for an event that is refused: for those who mend its cause. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { auditFacts, recordEvents } from '../../../shared/commits/commit.ts';
import { decodeCursor, defaultLimit, pageOf } from '../../../shared/documents/paging.ts';
import { platformChain, tenantOfChain } from '../../../shared/security/audit-chain.ts';
import { tryChainsAgain, waitingChains } from '../stores/waiting-chains.ts';

export const waitingActions = (db: DataSource) =>
  ({
    async 'audit.waiting.list'({ limit = defaultLimit, cursor }) {
      const rows = await waitingChains(db.manager, decodeCursor(cursor) ?? '', limit + 1);
      return pageOf(
        rows,
        limit,
        ({ chain }) => chain,
        ({ chain, since, retry_at, ...shown }) => ({
          ...shown,
          tenant_id: tenantOfChain(chain),
          since: since.toISOString(),
          retry_at: retry_at.toISOString(),
        }),
      );
    },

    async 'audit.waiting.retry'({ body: { tenant_id: tenantId } }, request) {
      const chain = tenantId === null ? platformChain : tenantId;
      const chains = await db.transaction(async (manager) => {
        const found = await tryChainsAgain(manager, chain);
        const draft = {
          action: 'audit.chains_retried',
          tenant_id: null,
          target: chain ?? null,
          payload: { chains: found },
        };
        await recordEvents(manager, [auditFacts(draft, request)]);
        return found;
      });
      return { chains };
    },
  }) satisfies Handlers;
