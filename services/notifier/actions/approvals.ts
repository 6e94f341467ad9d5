/** Asking for approval, reading approvals, deciding and acknowledging them. */
import canonicalize from 'canonicalize';
import { createHash, randomUUID } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import type { Handlers, Request } from '../../../shared/cluster/request.ts';
import {
  actorOf,
  auditFacts,
  recordEvents,
  type EventDraft,
} from '../../../shared/commits/commit.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import type { DecisionVia } from '../../../shared/contracts/notifier.ts';
import {
  decodeCursor,
  defaultLimit,
  readPage,
  timeAndId,
} from '../../../shared/documents/paging.ts';
import { invalid, StrataError } from '../../../shared/errors.ts';
import { momentOf } from '../../../shared/schema/moment.ts';
import { approvalView, groupAt, type Approval } from '../rules/approval.ts';
import { destinationsOf } from '../rules/destinations.ts';
import { approverChainOf, firstTimes, type EscalationLimits } from '../rules/escalation.ts';
import type { FrozenConfig } from '../rules/frozen-config.ts';
import { noticesOf } from '../rules/notice.ts';
import { ApprovalEntity, type ApprovalRow } from '../schema.ts';
import { databaseTime } from '../stores/clock.ts';
import type { FrozenConfigVault } from '../stores/frozen-config.ts';
import { cancelUnsent, queueNotices } from '../stores/notices.ts';

export interface ApprovalOptions {
  readonly db: DataSource;
  readonly vault: FrozenConfigVault;
  /** Called when notices have been queued. */
  readonly onQueued: () => void;
  /** How many approvals of a tenant may be pending. */
  readonly maxPending: () => number;
}

export function approvalActions(options: ApprovalOptions) {
  const { db, onQueued, maxPending } = options;
  return {
    async 'notifier.approvals.request'({ tenant_id: tenantId, body }, request) {
      const repeated = await findRepeated(db.manager, tenantId, body);
      if (repeated) return approvalView(repeated);
      refuseLarge(body);
      await refuseTooManyPending(db.manager, tenantId, maxPending());

      const plan = await planOf(tenantId, body, request);
      const made = await db.transaction((manager) =>
        insertApproval(manager, options, tenantId, body, plan, request),
      );
      if (made) {
        onQueued();
        return approvalView(made);
      }
      // A request with the same key was faster.
      const faster = await findRepeated(db.manager, tenantId, body);
      if (!faster) throw new Error('an approval with the same idempotency_key is gone');
      return approvalView(faster);
    },

    async 'notifier.approvals.list'({ tenant_id: tenantId, state, limit = defaultLimit, cursor }) {
      const rowsAfter = (key: string | undefined) => {
        const query = db.manager
          .createQueryBuilder(ApprovalEntity, 'a')
          .where('a.tenant_id = :tenantId', { tenantId });
        if (state !== undefined) query.andWhere('a.state = :state', { state });
        if (key !== undefined)
          query.andWhere('(a.created_at, a.id) < (:time, :id)', timeAndId(key));
        return query.orderBy({ 'a.created_at': 'DESC', 'a.id': 'DESC' });
      };
      return readPage({
        limit,
        after: decodeCursor(cursor, 'time'),
        rowsAfter,
        keyOf: (row) => `${row.created_at.toISOString()} ${row.id}`,
        itemOf: approvalView,
      });
    },

    async 'notifier.approvals.get'({ tenant_id: tenantId, approval_id: id }) {
      const row = await findApproval(db.manager, tenantId, id);
      return approvalView(row);
    },

    'notifier.approvals.decide': ({ tenant_id: tenantId, approval_id: id, body }, request) =>
      decide(options, tenantId, id, body, { by: request.caller.id, via: 'api' }, request),

    async 'notifier.approvals.ack'({ tenant_id: tenantId, approval_id: id }, request) {
      const row = await db.transaction((manager) => acknowledge(manager, tenantId, id, request));
      return approvalView(row);
    },
  } satisfies Handlers;
}

export type ApprovalRequest = ParamsOf<'notifier.approvals.request'>['body'];

/** What other services say of an approval that is asked for. */
export interface ApprovalPlan {
  readonly chain: string[];
  readonly frozen: FrozenConfig;
  readonly limits: EscalationLimits;
}

export const hashOf = (body: object): string => {
  const text = canonicalize(body) ?? '';
  return createHash('sha256').update(text).digest('hex');
};

/** The approval that was made under the request's idempotency key, if any; refuses the key for another request. */
async function findRepeated(
  manager: EntityManager,
  tenantId: string,
  body: ApprovalRequest,
): Promise<ApprovalRow | null> {
  const { idempotency_key: key } = body;
  if (key === undefined) return null;
  const row = await manager.findOneBy(ApprovalEntity, {
    tenant_id: tenantId,
    idempotency_key: key,
  });
  if (row && row.request_hash !== hashOf(body))
    throw new StrataError('conflict', 'This idempotency_key was used for another request.');
  return row;
}

/** In bytes of JSON. Each notice carries them, and an approval may have some two hundred notices at each hop. */
const largestPart = 32 * 1024;

function refuseLarge(body: ApprovalRequest): void {
  const problems = (['resource', 'metadata'] as const)
    .filter((part) => Buffer.byteLength(JSON.stringify(body[part] ?? null)) > largestPart)
    .map((part) => ({ path: `/${part}`, message: 'is larger than 32 KiB of JSON' }));
  if (problems.length > 0) throw invalid(problems);
}

/** Requests at the same moment may pass it by their number; nothing grows without end all the same. */
export async function refuseTooManyPending(
  manager: EntityManager,
  tenantId: string,
  most: number,
): Promise<void> {
  const [row] = await manager.query<[{ pending: number }]>(
    `SELECT count(*)::int AS pending FROM (
       SELECT FROM notifier.approvals WHERE tenant_id = $1 AND state = 'pending' LIMIT $2) AS counted`,
    [tenantId, most],
  );
  if (row.pending < most) return;
  throw new StrataError(
    'rate_limited',
    `The tenant has ${most} approvals pending (APPROVALS_MAX_PENDING). Decide some, or wait until they expire.`,
    { headers: { 'retry-after': '60' } },
  );
}

export async function planOf(
  tenantId: string,
  body: ApprovalRequest,
  request: Request,
): Promise<ApprovalPlan> {
  const [{ config, revision }, { document: risk }] = await Promise.all([
    request.call('tenant-config.notifications.open', { tenant_id: tenantId }),
    request.call('tenant-config.risk.get', { tenant_id: tenantId }),
  ]);
  const { approver_groups: approverGroups, escalation, ...channelConfig } = config;
  const chain = approverChainOf(approverGroups, body.action, body.risk_level);
  const approvers = await request.call('tenant-config.members.approvers', {
    tenant_id: tenantId,
    groups: chain,
  });
  return {
    chain,
    frozen: { config: channelConfig, revision, ...approvers },
    limits: {
      max_hops: escalation.max_hops,
      window_seconds: escalation.escalation_window_minutes * 60,
      timeout_seconds: risk.global_settings.approval_timeout_minutes * 60,
    },
  };
}

/** Writes the approval, its first notices and its event. Null where another request with the same key has made it meanwhile. */
export async function insertApproval(
  manager: EntityManager,
  { vault }: ApprovalOptions,
  tenantId: string,
  body: ApprovalRequest,
  { chain, frozen, limits }: ApprovalPlan,
  request: Request,
): Promise<ApprovalRow | null> {
  const now = await databaseTime(manager);
  const row: ApprovalRow = {
    id: randomUUID(),
    tenant_id: tenantId,
    state: 'pending',
    action: body.action,
    risk_level: body.risk_level,
    title: body.title,
    description: body.description ?? null,
    resource: body.resource ?? null,
    cost_impact: body.cost_impact ?? null,
    metadata: body.metadata ?? null,
    hop: 0,
    max_hops: limits.max_hops,
    window_seconds: limits.window_seconds,
    chain,
    frozen: vault.seal(frozen, tenantId),
    requested_by: actorOf(request.caller),
    request_id: request.requestId,
    idempotency_key: body.idempotency_key ?? null,
    request_hash: hashOf(body),
    created_at: now,
    acknowledged_by: null,
    acknowledged_at: null,
    decided_by: null,
    decided_at: null,
    comment: null,
    via: null,
    ...firstTimes(now, requestedExpiry(body, now), limits),
  };
  const inserted = await manager
    .createQueryBuilder()
    .insert()
    // By its name, because the mapper's type of a partial row admits no column of any JSON.
    .into(ApprovalEntity.options.name)
    .values(row)
    .orIgnore()
    .returning('id')
    .execute();
  const insertedIds: unknown[] = inserted.raw;
  if (insertedIds.length === 0) return null;

  const destinations = destinationsOf(row, frozen, 0);
  const notices = noticesOf(row, 'approval.requested', destinations, now);
  await queueNotices(manager, row, frozen.revision, notices);
  const event = {
    action: 'approval.requested',
    tenant_id: tenantId,
    target: row.id,
    payload: {
      action: row.action,
      risk_level: row.risk_level,
      title: row.title,
      resource: row.resource,
      cost_impact: row.cost_impact,
      group: groupAt(chain, 0),
    },
  };
  await recordEvents(manager, [auditFacts(event, request)]);
  return row;
}

function requestedExpiry({ expires_at: text }: ApprovalRequest, now: Date): Date | undefined {
  if (text === undefined) return undefined;
  const expiry = momentOf(text);
  if (!expiry || expiry <= now)
    throw invalid([{ path: '/expires_at', message: 'is not in the future' }]);
  return expiry;
}

export async function findApproval(
  manager: EntityManager,
  tenantId: string,
  id: string,
): Promise<ApprovalRow> {
  const row = await manager.findOneBy(ApprovalEntity, { id, tenant_id: tenantId });
  return found(row);
}

function found(row: ApprovalRow | null): ApprovalRow {
  if (!row) throw new StrataError('not_found', 'The tenant has no such approval.');
  return row;
}

/** Locks an approval that is still to be decided. Whoever locks it first settles every race: the next one finds it decided. */
async function lockPending(
  manager: EntityManager,
  tenantId: string,
  id: string,
): Promise<{ row: ApprovalRow; now: Date }> {
  const locked = await manager.findOne(ApprovalEntity, {
    where: { id, tenant_id: tenantId },
    lock: { mode: 'pessimistic_write' },
  });
  const row = found(locked);
  const now = await databaseTime(manager);
  if (row.state === 'pending' && row.expires_at > now) return { row, now };
  const why = row.decided_at
    ? `It was ${row.state} by ${row.decided_by}.`
    : 'It has expired without a decision.';
  throw new StrataError('conflict', why);
}

type DecisionBody = ParamsOf<'notifier.approvals.decide'>['body'];

export interface Decider {
  /** User id; the mail address of a recipient who is no member. */
  readonly by: string;
  readonly via: DecisionVia;
  /** Of the audit event, where it is not the caller. */
  readonly actor?: EventDraft['actor'];
}

/** Approves or denies an approval once, cancels what was not sent, and tells those who may have heard of it. */
export async function decide(
  { db, vault, onQueued }: ApprovalOptions,
  tenantId: string,
  id: string,
  body: DecisionBody,
  decider: Decider,
  request: Request,
): Promise<Approval> {
  const { decision, comment = null } = body;
  const decided = await db.transaction(async (manager) => {
    const { row, now } = await lockPending(manager, tenantId, id);
    const change = {
      state: decision === 'approve' ? 'approved' : 'denied',
      decided_by: decider.by,
      decided_at: now,
      comment,
      via: decider.via,
      escalates_at: null,
    } as const;
    const changed: ApprovalRow = { ...row, ...change };
    await manager.update(ApprovalEntity, { id }, change);

    const reached = await cancelUnsent(manager, id);
    const { revision } = vault.open(row.frozen, tenantId);
    const notices = noticesOf(changed, 'approval.decided', reached, now);
    await queueNotices(manager, changed, revision, notices);
    const event = {
      action: `approval.${change.state}`,
      tenant_id: tenantId,
      target: id,
      payload: { action: row.action, hop: row.hop, comment, via: decider.via },
      ...(decider.actor ? { actor: decider.actor } : {}),
    };
    await recordEvents(manager, [auditFacts(event, request)]);
    return changed;
  });
  onQueued();
  return approvalView(decided);
}

/** Pauses escalation; a second acknowledgement changes nothing. */
async function acknowledge(
  manager: EntityManager,
  tenantId: string,
  id: string,
  request: Request,
): Promise<ApprovalRow> {
  const { row, now } = await lockPending(manager, tenantId, id);
  if (row.acknowledged_at) return row;
  const change = {
    acknowledged_by: request.caller.id,
    acknowledged_at: now,
    escalates_at: null,
  };
  await manager.update(ApprovalEntity, { id }, change);
  const event = {
    action: 'approval.acknowledged',
    tenant_id: tenantId,
    target: id,
    payload: { hop: row.hop },
  };
  await recordEvents(manager, [auditFacts(event, request)]);
  return { ...row, ...change };
}
