/**
 * Exporting a chain, whole or from a number on. Each line says by its hash, and the previous one,
 * that none is missing; where only some actions are asked for, a line stands for those in between.
 */
import type { DataSource, EntityManager } from 'typeorm';
import { seesPlatform, type Caller } from '../../../shared/access.ts';
import { platformChain } from '../../../shared/security/audit-chain.ts';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import {
  decodeCursor,
  defaultLimit,
  encodeCursor,
  readPage,
} from '../../../shared/documents/paging.ts';
import { invalid } from '../../../shared/errors.ts';
import { momentOf } from '../../../shared/schema/moment.ts';
import { hasPrefix, prefixesOf } from '../rules/action-prefixes.ts';
import { visibleTenant } from '../rules/visible-tenant.ts';
import { EventEntity, type EventRow } from '../schema.ts';
import { cutOff, joined, withSkipped } from '../stores/lines.ts';

/** How many events one page looks through for those that are asked for. */
const mostSearched = 10_000;

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

/**
 * The number of the last event, or of the last before the first that is not from before a moment. That
 * one is looked for among as many as a page may have alone: else each page would read all before it.
 */
async function lastOf(
  manager: EntityManager,
  chain: string,
  until: Date | null,
  { begin, most }: { readonly begin: number; readonly most: number },
): Promise<number> {
  const [row] = await manager.query<{ last: number }[]>(
    `SELECT COALESCE((SELECT min(seq) - 1 FROM (
         SELECT seq, occurred_at FROM audit.events WHERE chain = $1 AND seq > $3 ORDER BY seq LIMIT $4
       ) AS next WHERE occurred_at >= $2),
       (SELECT seq FROM audit.chains WHERE chain = $1), 0)::int8 AS last`,
    [chain, until, begin, most + 1],
  );
  return Number(row!.last);
}

export const exportActions = (db: DataSource) =>
  ({
    async 'audit.export'(params, { caller }) {
      const { before, after, action, limit = defaultLimit } = params;
      const chain = chainFor(caller, params.tenant_id);
      const until = before === undefined ? null : momentOf(before);
      if (until === undefined) throw invalid([{ path: '/before', message: 'is not a timestamp' }]);
      const { manager } = db;
      const cursor = decodeCursor(params.cursor, 'number');
      const asksOn = cursor !== undefined || after !== undefined || action !== undefined;
      const asked = Number(cursor ?? after ?? 0);
      const gone = asksOn ? await cutOff(manager, chain, asked) : [];
      const begin = gone.at(-1)?.seq ?? asked;
      const most = action === undefined ? limit : mostSearched;
      const last = await lastOf(manager, chain, until, { begin, most });
      const end = action === undefined ? last : Math.min(last, begin + mostSearched);
      const { items: rows, next_cursor: next } = await readPage<EventRow, EventRow>({
        limit,
        after: String(begin),
        rowsAfter(key) {
          const query = manager
            .createQueryBuilder(EventEntity, 'e')
            .where('e.chain = :chain AND e.seq > :key AND e.seq <= :end', {
              chain,
              key: Number(key),
              end,
            })
            .orderBy('e.seq', 'ASC');
          if (action !== undefined) query.andWhere(hasPrefix, { prefixes: prefixesOf(action) });
          return query;
        },
        keyOf: ({ seq }) => seq,
        itemOf: (row) => row,
      });
      const reached = next === null ? end : rows.at(-1)!.seq;
      const part = { manager, chain, begin, end: reached };
      const lines = action === undefined ? await joined(part, rows) : await withSkipped(part, rows);
      return {
        items: [...gone, ...lines],
        next_cursor: reached < last ? encodeCursor(reached) : null,
      };
    },
  }) satisfies Handlers;
