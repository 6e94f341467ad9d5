/** Checkpoints, to be kept elsewhere: a tenant has that of its own chain. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { decodeCursor, defaultLimit, pageOf } from '../../../shared/documents/paging.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { tenantOfChain } from '../../../shared/security/audit-chain.ts';
import { visibleTenant } from '../rules/visible-tenant.ts';
import { currentVerifierKey, newestCheckpoint, newestCheckpoints } from '../stores/checkpoints.ts';

export const checkpointActions = (db: DataSource, settings: () => Settings) =>
  ({
    async 'audit.checkpoints.list'({ tenant_id: asked, limit = defaultLimit, cursor }, { caller }) {
      const tenant = visibleTenant(caller, asked);
      const after = decodeCursor(cursor) ?? '';
      const rows =
        tenant === undefined
          ? await newestCheckpoints(db.manager, after, limit + 1)
          : await newestCheckpoint(db.manager, tenant);
      const verifierKey = currentVerifierKey(settings());
      return pageOf(
        rows,
        limit,
        ({ chain }) => chain,
        ({ chain, made_at, ...shown }) => ({
          ...shown,
          tenant_id: tenantOfChain(chain),
          made_at: made_at.toISOString(),
          verifier_key: verifierKey,
        }),
      );
    },
  }) satisfies Handlers;
