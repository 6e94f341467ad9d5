/** Exporting a chain, and cutting off what was exported. */
import type { DataSource } from 'typeorm';
import { seesPlatform, type Caller } from '../../../shared/access.ts';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { auditFacts } from '../../../shared/commits/commit.ts';
import { decodeCursor, defaultLimit, readPage } from '../../../shared/documents/paging.ts';
import { invalid, StrataError } from '../../../shared/errors.ts';
import { momentOf } from '../../../shared/schema/moment.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { platformChain } from '../../../shared/security/audit-chain.ts';
import { visibleTenant } from '../rules/visible-tenant.ts';
import { EventEntity, eventFrom } from '../schema.ts';
import { appendEvents, chainStart, verifyUntil } from '../stores/chains.ts';
import { cutAction, putCut, readCut, signed } from '../stores/cuts.ts';

/** What one cut verifies before it removes it: some seconds of work. */
const mostBytes = 32 * 1024 * 1024;

/**
 * The tenant's chain; the platform's for those who see what is the platform's and name none. Throws
 * 422 where others name none.
 */
function chainFor(caller: Caller, asked: string | undefined): string {
  const tenant = visibleTenant(caller, asked);
  if (tenant !== undefined) return tenant;
  if (seesPlatform(caller)) return platformChain;
  throw invalid([
    {
      path: '/tenant_id',
      message: "is required: the platform's chain needs a key with the scope platform:read",
    },
  ]);
}

export const cutActions = (db: DataSource, settings: () => Settings, onCut: () => void) =>
  ({
    /**
     * In the order of the chain, from the first event that is there; with `before` until the first
     * that is not from before.
     */
    async 'audit.export'({ tenant_id, before, limit = defaultLimit, cursor }, { caller }) {
      const chain = chainFor(caller, tenant_id);
      const until = before === undefined ? undefined : momentOf(before);
      if (before !== undefined && !until)
        throw invalid([{ path: '/before', message: 'is not a timestamp' }]);
      return readPage({
        limit,
        after: decodeCursor(cursor, 'number'),
        rowsAfter(key) {
          const query = db.manager
            .createQueryBuilder(EventEntity, 'e')
            .where('e.chain = :chain AND e.seq > :after', { chain, after: Number(key ?? 0) })
            .orderBy('e.seq', 'ASC');
          if (until)
            query.andWhere(
              `e.seq < COALESCE((SELECT min(seq) FROM audit.events WHERE chain = :chain AND occurred_at >= :until), e.seq + 1)`,
              { until },
            );
          return query;
        },
        keyOf: ({ seq }) => seq,
        itemOf: (row) => ({ ...eventFrom(row), seq: row.seq, hash: row.hash }),
      });
    },

    async 'audit.cut'({ body: { tenant_id: tenantId, seq, hash } }, request) {
      const chain = tenantId ?? platformChain;
      const cut = await db.transaction(async (manager) => {
        // Whoever cuts at the same time waits, and finds this cut.
        await manager.query('SELECT FROM audit.chains WHERE chain = $1 FOR UPDATE', [chain]);
        const earlier = await readCut(manager, chain);
        if (earlier && earlier.seq >= seq)
          throw new StrataError('conflict', `The chain is cut at ${earlier.seq} already.`);
        const from = earlier ?? chainStart;
        const reached = await verifyUntil(manager, chain, from, seq, mostBytes);
        if (reached.broken)
          throw new StrataError(
            'conflict',
            `The chain is broken at ${reached.broken.seq}: ${reached.broken.problem}. Nothing was cut.`,
          );
        if (reached.seq < seq)
          throw new StrataError(
            'payload_too_large',
            `One cut removes some 32 MiB of events. Cut at ${reached.seq} first.`,
          );
        if (reached.hash !== hash)
          throw new StrataError('conflict', `The event ${seq} of the chain has another hash.`);
        const statement = {
          chain,
          seq,
          hash,
          cut_at: new Date().toISOString(),
          cut_by: request.caller.id,
        };
        const made = signed(statement, settings());
        await putCut(manager, made);
        const draft = { action: cutAction, tenant_id: null, target: chain, payload: made };
        await appendEvents(manager, [auditFacts(draft, request)]);
        return made;
      });
      onCut();
      const { chain: _chain, ...shown } = cut;
      return { tenant_id: tenantId ?? null, ...shown };
    },
  }) satisfies Handlers;
