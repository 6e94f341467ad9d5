import canonicalize from 'canonicalize';
import { createHash, randomUUID } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import type { Handlers, Request } from '../../../shared/cluster/request.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import { invalid, StrataError } from '../../../shared/errors.ts';
import { auditFacts, recordEvents, type EventDraft } from '../../../shared/commits/commit.ts';
import { momentOf } from '../../../shared/schema/moment.ts';
import { decodeTimeCursor, defaultLimit, pageOf } from '../../../shared/documents/paging.ts';
import { approvalView, groupAt, type Approval } from '../rules/approval.ts';
import { chainOf, firstTimes } from '../rules/escalation.ts';
import { noticesOf, targetsOf } from '../rules/notice.ts';
import type { FrozenVault } from '../stores/frozen.ts';
import { cancelUnsent, queueNotices } from '../stores/notices.ts';
import { ApprovalEntity, type ApprovalRow } from '../schema.ts';

export interface ApprovalOptions {
  readonly db: DataSource;
  readonly vault: FrozenVault;
  /** Called when notices have been queued. */
  readonly onQueued: () => void;
}
export interface Decider {
  readonly by: string;
  readonly via: 'api' | 'link';
  readonly actor?: EventDraft['actor'];
}
type Verdict = ParamsOf<'notifier.approvals.decide'>['body'];

const hashOf = (body: unknown): string =>
  createHash('sha256').update(canonicalize(body)!).digest('hex');
const nowOf = async (manager: EntityManager): Promise<Date> =>
  (await manager.query<{ now: Date }[]>('SELECT now() AS now'))[0]!.now;

export async function findApproval(
  manager: EntityManager,
  tenantId: string,
  id: string,
  lock = false,
): Promise<ApprovalRow> {
  const row = await manager.findOne(ApprovalEntity, {
    where: { id, tenant_id: tenantId },
    ...(lock ? { lock: { mode: 'pessimistic_write' as const } } : {}),
  });
  if (!row) throw new StrataError('not_found', 'The tenant has no such approval.');
  return row;
}

/** One row decides every race: whoever locks it first while it is pending. */
async function lockPending(
  manager: EntityManager,
  tenantId: string,
  id: string,
): Promise<{ row: ApprovalRow; now: Date }> {
  const row = await findApproval(manager, tenantId, id, true);
  const now = await nowOf(manager);
  if (row.state === 'pending' && row.expires_at > now) return { row, now };
  throw new StrataError(
    'conflict',
    row.decided_at
      ? `It was ${row.state} by ${row.decided_by}.`
      : 'It has expired without a decision.',
  );
}

/** Approves or denies once, cancels what was not sent, and tells those already told. */
export async function decide(
  { db, vault, onQueued }: ApprovalOptions,
  tenantId: string,
  id: string,
  verdict: Verdict,
  decider: Decider,
  request: Request,
): Promise<Approval> {
  const { decision, comment = null } = verdict;
  const next = await db.transaction(async (manager) => {
    const { row, now } = await lockPending(manager, tenantId, id);
    const change = {
      state: decision === 'approve' ? ('approved' as const) : ('denied' as const),
      decided_by: decider.by,
      decided_at: now,
      comment,
      via: decider.via,
      escalates_at: null,
    };
    const decided = { ...row, ...change };
    await manager.update(ApprovalEntity, { id }, change);
    const told = await cancelUnsent(manager, id);
    await queueNotices(
      manager,
      decided,
      vault.open(row.frozen, tenantId),
      noticesOf(decided, 'approval.decided', told, now),
    );
    await recordEvents(manager, [
      auditFacts(
        {
          action: `approval.${change.state}`,
          tenant_id: tenantId,
          target: id,
          payload: { action: row.action, hop: row.hop, comment, via: decider.via },
          ...(decider.actor ? { actor: decider.actor } : {}),
        },
        request,
      ),
    ]);
    return decided;
  });
  onQueued();
  return approvalView(next);
}

export function approvalActions(options: ApprovalOptions) {
  const { db, vault, onQueued } = options;
  return {
    async 'notifier.approvals.request'({ tenant_id: tenantId, body }, request) {
      const { idempotency_key: key, expires_at: asked, ...wish } = body;
      const hash = hashOf(body);
      const known = async (manager: EntityManager): Promise<ApprovalRow | null> =>
        key === undefined
          ? null
          : manager.findOneBy(ApprovalEntity, { tenant_id: tenantId, idempotency_key: key });
      const same = (row: ApprovalRow): Approval => {
        if (row.request_hash !== hash)
          throw new StrataError('conflict', 'This idempotency_key was used for another request.');
        return approvalView(row);
      };
      const before = await known(db.manager);
      if (before) return same(before);

      const [{ config, revision }, { document: risk }] = await Promise.all([
        request.call('tenant-config.notifications.open', { tenant_id: tenantId }),
        request.call('tenant-config.risk.get', { tenant_id: tenantId }),
      ]);
      const chain = chainOf(config.approver_groups, wish.action, wish.risk_level);
      const approvers = await request.call('tenant-config.members.approvers', {
        tenant_id: tenantId,
        groups: chain,
      });
      const { webhook, email, chat, escalation } = config;
      const frozen = {
        config: { webhook, email, ...(chat ? { chat } : {}) },
        revision,
        ...approvers,
      };

      const made = await db.transaction(async (manager) => {
        const now = await nowOf(manager);
        const expires = asked === undefined ? undefined : momentOf(asked);
        if (asked !== undefined && !(expires && expires > now))
          throw invalid([{ path: '/expires_at', message: 'is not in the future' }]);
        const row: ApprovalRow = {
          id: randomUUID(),
          tenant_id: tenantId,
          state: 'pending',
          action: wish.action,
          risk_level: wish.risk_level,
          title: wish.title,
          description: wish.description ?? null,
          resource: wish.resource ?? null,
          cost_impact: wish.cost_impact ?? null,
          metadata: wish.metadata ?? null,
          hop: 0,
          max_hops: escalation.max_hops,
          window_seconds: escalation.escalation_window_minutes * 60,
          chain,
          frozen: vault.seal(frozen, tenantId),
          requested_by: { type: request.caller.type, id: request.caller.id },
          request_id: request.requestId,
          idempotency_key: key ?? null,
          request_hash: hash,
          created_at: now,
          acknowledged_by: null,
          acknowledged_at: null,
          decided_by: null,
          decided_at: null,
          comment: null,
          via: null,
          ...firstTimes(now, expires, {
            max_hops: escalation.max_hops,
            window_seconds: escalation.escalation_window_minutes * 60,
            timeout_seconds: risk.global_settings.approval_timeout_minutes * 60,
          }),
        };
        const inserted = await manager
          .createQueryBuilder()
          .insert()
          .into(ApprovalEntity)
          .values(row as never)
          .orIgnore()
          .returning('id')
          .execute();
        if ((inserted.raw as unknown[]).length === 0) return null;
        await queueNotices(
          manager,
          row,
          frozen,
          noticesOf(row, 'approval.requested', targetsOf(row, frozen, 0), now),
        );
        await recordEvents(manager, [
          auditFacts(
            {
              action: 'approval.requested',
              tenant_id: tenantId,
              target: row.id,
              payload: {
                action: row.action,
                risk_level: row.risk_level,
                title: row.title,
                cost_impact: row.cost_impact,
                group: groupAt(chain, 0),
              },
            },
            request,
          ),
        ]);
        return row;
      });
      // Another request with the same key was faster.
      if (!made) return same((await known(db.manager))!);
      onQueued();
      return approvalView(made);
    },

    async 'notifier.approvals.list'({ tenant_id: tenantId, state, limit = defaultLimit, cursor }) {
      const after = decodeTimeCursor(cursor);
      const query = db.manager
        .createQueryBuilder(ApprovalEntity, 'a')
        .where('a.tenant_id = :tenantId', { tenantId });
      if (state !== undefined) query.andWhere('a.state = :state', { state });
      if (after) query.andWhere('(a.created_at, a.id) < (:time, :id)', after);
      const rows = await query
        .orderBy({ 'a.created_at': 'DESC', 'a.id': 'DESC' })
        .limit(limit + 1)
        .getMany();
      return pageOf(
        rows,
        limit,
        (row) => `${row.created_at.toISOString()} ${row.id}`,
        approvalView,
      );
    },

    async 'notifier.approvals.get'({ tenant_id: tenantId, approval_id: id }) {
      return approvalView(await findApproval(db.manager, tenantId, id));
    },

    'notifier.approvals.decide': ({ tenant_id: tenantId, approval_id: id, body }, request) =>
      decide(options, tenantId, id, body, { by: request.caller.id, via: 'api' }, request),

    async 'notifier.approvals.ack'({ tenant_id: tenantId, approval_id: id }, request) {
      return approvalView(
        await db.transaction(async (manager) => {
          const { row, now } = await lockPending(manager, tenantId, id);
          if (row.acknowledged_at) return row;
          const change = {
            acknowledged_by: request.caller.id,
            acknowledged_at: now,
            escalates_at: null,
          };
          await manager.update(ApprovalEntity, { id }, change);
          await recordEvents(manager, [
            auditFacts(
              {
                action: 'approval.acknowledged',
                tenant_id: tenantId,
                target: id,
                payload: { hop: row.hop },
              },
              request,
            ),
          ]);
          return { ...row, ...change };
        }),
      );
    },
  } satisfies Handlers;
}
