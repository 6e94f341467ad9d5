/** Keeping and listing decisions that were recorded. */
import type { DataSource } from 'typeorm';
import { shareOf, takeShare, tenantHolder } from '../../../shared/commits/shares.ts';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import type {
  DecisionOfTenant,
  DecisionRule,
  OpaDecision,
  RecordedDecision,
} from '../../../shared/contracts/decisions.ts';
import {
  decodeCursor,
  defaultLimit,
  readPage,
  timeAndId,
} from '../../../shared/documents/paging.ts';
import { codeOf, invalid, StrataError } from '../../../shared/errors.ts';
import { momentOf, timestampOf } from '../../../shared/schema/moment.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { DecisionEntity } from '../schema.ts';
import { databaseTime } from '../stores/clock.ts';
import {
  countDecisions,
  decisionsOf,
  decisionView,
  insertDecisions,
  replayableAfter,
  tenantsWithDecisions,
} from '../stores/decisions.ts';

const dayMs = 86_400_000;
/** How far counts go back: by default, and at most. */
const countedDays = { hour: { default: 2, most: 31 }, day: { default: 30, most: 400 } } as const;

export const decisionActions = (db: DataSource, settings: () => Settings) =>
  ({
    async 'notifier.decisions.record'({ body: { decisions, required } }) {
      const kept: DecisionOfTenant[] = [];
      for (const [tenantId, own] of Map.groupBy(decisions, (each) => each.tenant_id)) {
        const hasRoom = await takeRoom(db, settings(), tenantId, own.length, required);
        if (hasRoom) kept.push(...own);
      }
      if (kept.length > 0) await insertDecisions(db, kept);
      return { refused: decisions.length - kept.length };
    },

    async 'notifier.decisions.list'(params) {
      const { tenant_id: tenantId, limit = defaultLimit, cursor, format } = params;
      const { rule, decision, service_id, from, until } = params;
      const filter = {
        from: from === undefined ? undefined : momentOf(from)!,
        until: until === undefined ? undefined : momentOf(until)!,
        rule,
        decision,
        service_id,
      };
      return readPage({
        limit,
        after: decodeCursor(cursor, 'time'),
        rowsAfter(key) {
          const query = decisionsOf(db, tenantId, filter);
          return key === undefined
            ? query
            : query.andWhere('(d.decided_at, d.decision_id) < (:time, :id)', timeAndId(key));
        },
        keyOf: (row) => `${row.decided_at.toISOString()} ${row.decision_id}`,
        itemOf: (row) =>
          format === 'opa' ? opaOf(tenantId, decisionView(row)) : decisionView(row),
      });
    },

    async 'notifier.decisions.get'({ tenant_id, decision_id }) {
      const row = await db.manager.findOneBy(DecisionEntity, { tenant_id, decision_id });
      if (!row) throw new StrataError('not_found', 'The tenant has no such recorded decision.');
      return decisionView(row);
    },

    'notifier.decisions.replayable': ({ tenant_id: tenantId, after, ...part }) =>
      replayableAfter(db, tenantId, {
        ...part,
        after: after === undefined ? undefined : timeAndId(after),
      }),

    'notifier.decisions.tenants': ({ from, limit }) => tenantsWithDecisions(db, from, limit),

    async 'notifier.decisions.counts'({ tenant_id: tenantId, by = 'day', ...span }) {
      const { default: usual, most } = countedDays[by];
      const until =
        span.until === undefined ? await databaseTime(db.manager) : momentOf(span.until)!;
      const from =
        span.from === undefined ? new Date(until.getTime() - usual * dayMs) : momentOf(span.from)!;
      if (until.getTime() - from.getTime() > most * dayMs)
        throw invalid([
          { path: '/from', message: `is more than ${most} days before until, by ${by}` },
        ]);
      const rows = await countDecisions(db, tenantId, by, from, until);
      return {
        from: timestampOf(from.getTime()),
        until: until.toISOString(),
        items: rows.map((row) => ({
          ...row,
          from: row.from.toISOString(),
          rule: row.rule as DecisionRule,
        })),
      };
    },
  }) satisfies Handlers;

/** Throws `rate_limited` where it is required and there is none. */
async function takeRoom(
  db: DataSource,
  settings: Settings,
  tenantId: string,
  count: number,
  isRequired: boolean,
): Promise<boolean> {
  const name = 'decisions_recorded_per_hour_per_tenant';
  const share = shareOf('decision', tenantHolder(tenantId), settings, name);
  try {
    await takeShare(db, share, count);
    return true;
  } catch (error) {
    if (isRequired || codeOf(error) !== 'rate_limited') throw error;
    return false;
  }
}

/** https://www.openpolicyagent.org/docs/management-decision-logs */
function opaOf(tenantId: string, decision: RecordedDecision): OpaDecision {
  const { decision_id, decided_at, at, intent, revision } = decision;
  const { reasons, warnings, retry_at, stale } = decision;
  return {
    decision_id,
    timestamp: decided_at,
    path: 'strata/decide',
    input: { tenant_id: tenantId, at, ...intent },
    result: {
      decision: decision.decision,
      reasons,
      ...(warnings && { warnings }),
      ...(retry_at !== undefined && { retry_at }),
      ...(stale && { stale }),
    },
    bundles: {
      tenant: { revision: String(revision.tenant) },
      platform: { revision: String(revision.platform) },
    },
  };
}
