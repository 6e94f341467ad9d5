/** Proof that nobody changed the record. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/cluster/request.ts';
import { platformChain } from '../rules/chain.ts';
import { visibleTenant } from '../rules/visible-tenant.ts';
import { chainNames, verifyChain } from '../stores/chains.ts';

export const verifyActions = (db: DataSource) =>
  ({
    async 'audit.verify'({ tenant_id: asked }, { caller }) {
      const tenant = visibleTenant(caller, asked);
      const names = tenant === undefined ? await chainNames(db) : [tenant];
      const chains = [];
      for (const name of names) {
        const proof = await verifyChain(db, name);
        chains.push({ tenant_id: name === platformChain ? null : name, ...proof });
      }
      return { valid: chains.every((chain) => chain.broken_at === undefined), chains };
    },
  }) satisfies Handlers;
