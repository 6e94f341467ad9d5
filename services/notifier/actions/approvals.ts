/** Asking for approval, and reading approvals. Deciding is in deciding.ts. */
import { randomUUID } from 'node:crypto';
import type { EntityManager } from 'typeorm';
import { isMachine } from '../../../shared/access.ts';
import { BatchQueue } from '../../../shared/concurrency/batch-queue.ts';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { auditFacts, readSnapshot, recordEvents } from '../../../shared/commits/commit.ts';
import { addressOf } from '../../../shared/contracts/effective-config.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import { approvalScope } from '../../../shared/contracts/revision-scopes.ts';
import { defaultLimit, newestFirst } from '../../../shared/documents/paging.ts';
import { codeOf, invalid, StrataError } from '../../../shared/errors.ts';
import { canonicalHash } from '../../../shared/schema/canonical-hash.ts';
import { momentOf } from '../../../shared/schema/moment.ts';
import { approvalView } from '../rules/approval.ts';
import {
  chainWithout,
  frozenPolicyOf,
  requireRight,
  strictestOf,
} from '../rules/approval-policy.ts';
import {
  channelsNamed,
  costProblems,
  timeoutSeconds,
  type ApprovalTerms,
} from '../rules/approval-terms.ts';
import { isTooOld } from '../rules/automation.ts';
import { countNamed, destinationsOf } from '../channels/destinations.ts';
import { firstTimes, type EscalationLimits } from '../rules/escalation.ts';
import { approverChainOf } from '../../../shared/approver-chain.ts';
import type { FrozenConfig } from '../rules/frozen-config.ts';
import { noticesOf } from '../rules/notice.ts';
import { principalsOf, requesterOf } from '../rules/principals.ts';
import { requestProofOf } from '../rules/proof.ts';
import {
  ApprovalEntity,
  shownOfApproval,
  type ApprovalRow,
  type FrozenPolicy,
  type ShownApproval,
  type StoredRequester,
} from '../schema.ts';
import { changedAfter, markChanged, requireApproval } from '../stores/approvals.ts';
import { databaseTime } from '../stores/clock.ts';
import { findRepeated } from '../stores/idempotency.ts';
import { queueForSomebody } from '../stores/notices.ts';
import { requireRoom } from '../stores/usage.ts';
import {
  acknowledge,
  callingCandidate,
  decide,
  decidingCandidate,
  type ApprovalOptions,
} from './deciding.ts';

export function approvalActions(options: ApprovalOptions) {
  const { db, onChanged, approvalChanges } = options;
  const viewers = new BatchQueue(Infinity, showViewer);
  return {
    async 'notifier.approvals.request'({ tenant_id: tenantId, body }, request) {
      return approvalView(await requestApproval(options, tenantId, body, request));
    },

    'notifier.approvals.list': (params) =>
      newestFirst(db, ApprovalEntity, params, approvalView, (query) =>
        query.select(shownOfApproval.map((column) => `${query.alias}.${column}`)),
      ),

    async 'notifier.approvals.get'(
      { tenant_id: tenantId, approval_id: id, revision, wait = 0 },
      request,
    ) {
      const { caller } = request;
      let known: number | null | undefined = revision;
      const row = await approvalChanges.until({
        tenantId,
        id,
        ms: wait * 1000,
        caller,
        fits(next) {
          // Where the caller names none, from the one that was read first.
          if (known === undefined) known = next.revision;
          return next.state !== 'pending' || next.revision !== known;
        },
      });
      const shown = requireApproval(row);
      if (shown.state !== 'pending' || caller.type !== 'user' || isMachine(caller))
        return approvalView(shown);
      const { promise, resolve, reject } = Promise.withResolvers<Viewer>();
      viewers.add(`${caller.id} ${id} ${shown.revision}`, { row: shown, request, resolve, reject });
      return { ...approvalView(shown), viewer: await promise };
    },

    async 'notifier.approvals.changes'({ tenant_id: tenantId, after, limit = defaultLimit }) {
      const scope = approvalScope(tenantId);
      const { value: items, asOf } = await readSnapshot(db, scope, async (manager) =>
        after === undefined ? [] : changedAfter(manager, tenantId, after, limit),
      );
      return { items, revision: asOf[scope]! };
    },

    'notifier.approvals.decide': ({ tenant_id: tenantId, approval_id: id, body }, request) =>
      decide(options, tenantId, id, body, decidingCandidate(tenantId, request), request),

    async 'notifier.approvals.ack'({ tenant_id: tenantId, approval_id: id }, request) {
      const row = await db.transaction((manager) => acknowledge(manager, tenantId, id, request));
      onChanged(tenantId);
      return approvalView(row);
    },
  } satisfies Handlers;
}

/** The approval that is asked for, or was by an earlier request with the same key. */
export async function requestApproval(
  options: ApprovalOptions,
  tenantId: string,
  body: ApprovalRequest,
  request: Request,
  onBehalfOf?: StoredRequester['for'],
): Promise<ApprovalRow> {
  const { db, settings, takeMails } = options;
  const repeated = await findRepeated(db.manager, ApprovalEntity, tenantId, body);
  if (repeated) return repeated;
  refuseLarge(body);
  await requireRoom(db.manager, tenantId, 'approvals_pending', settings());

  const at = await databaseTime(db.manager);
  const plan = await planOf(tenantId, body, request, onBehalfOf);
  const problems = costProblems(body.cost_impact, plan.terms);
  if (problems.length > 0) throw invalid(problems);
  await takeMails(tenantId, request.caller, countNamed(plan.chain, plan.frozen));
  const made = await db.transaction(async (manager) => {
    if (isTooOld({ at }, await databaseTime(manager)))
      throw new StrataError('timeout', 'Nothing was asked: it took too long to find whom to ask.');
    return insertApproval(manager, options, tenantId, body, plan, request);
  });
  if (made) {
    announceApproval(options, tenantId, plan);
    return made;
  }
  // A request with the same key was faster.
  const faster = await findRepeated(db.manager, ApprovalEntity, tenantId, body);
  if (!faster) throw new Error('an approval with the same idempotency_key is gone');
  return faster;
}

type Viewer = Awaited<ReturnType<typeof viewerOf>>;
interface Looking {
  readonly row: ShownApproval;
  readonly request: Request;
  readonly resolve: (viewer: Viewer) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * One reading for all requests of one person for one approval that came before it began: those that
 * wait for the same end at the same moment.
 */
async function showViewer(_name: string, looking: readonly Looking[]): Promise<[]> {
  // Who came last has the most time left to be answered.
  const { row, request } = looking.at(-1)!;
  await viewerOf(row, request).then(
    (viewer) => looking.forEach(({ resolve }) => resolve(viewer)),
    (error: unknown) => looking.forEach(({ reject }) => reject(error)),
  );
  return [];
}

/** Whether the person who looks could decide now, and if not, why. */
async function viewerOf(row: ShownApproval, request: Request) {
  const candidate = await callingCandidate(row.tenant_id, request)(row);
  try {
    requireRight(row, candidate);
    return { may_decide: true, code: null, why_not: null };
  } catch (error) {
    if (!(error instanceof StrataError)) throw error;
    return { may_decide: false, code: codeOf(error), why_not: error.message };
  }
}

export type ApprovalRequest = ParamsOf<'notifier.approvals.request'>['body'];

/** What other services say of an approval that is asked for. */
export interface ApprovalPlan {
  readonly chain: string[];
  readonly frozen: FrozenConfig;
  readonly limits: EscalationLimits;
  readonly policy: FrozenPolicy;
  readonly terms: ApprovalTerms;
  readonly requester: StoredRequester;
}

/**
 * In bytes of JSON. Each notice carries them, and an approval may have some two hundred notices at
 * each hop.
 */
const largestPart = 32 * 1024;

function refuseLarge(body: ApprovalRequest): void {
  const problems = (['resource', 'metadata'] as const)
    .filter((part) => Buffer.byteLength(JSON.stringify(body[part] ?? null)) > largestPart)
    .map((part) => ({ path: `/${part}`, message: 'is larger than 32 KiB of JSON' }));
  if (problems.length > 0) throw invalid(problems);
}

export async function planOf(
  tenantId: string,
  body: ApprovalRequest,
  request: Request,
  onBehalfOf?: StoredRequester['for'],
): Promise<ApprovalPlan> {
  const requester = requesterOf(
    request.caller,
    await requesterNameOf(tenantId, request),
    onBehalfOf && (await withAccount(onBehalfOf, request)),
  );
  const context = addressOf(body);
  const [
    { config, revision, counted_recipients: counted, slack_counts, recent_changes: recent },
    terms,
  ] = await Promise.all([
    request.call('tenant-config.notifications.open', {
      tenant_id: tenantId,
      asked_by: principalsOf(requester),
    }),
    request.call('config-resolver.approval-terms', { tenant_id: tenantId, ...context }),
  ]);
  const {
    approver_groups: approverGroups,
    escalation,
    approval_policy: approvalPolicy,
    ...channelConfig
  } = config;
  const chainOf = (groups: typeof approverGroups): string[] =>
    approverChainOf(groups, body.action, body.risk_level);
  const chain = chainWithout(
    chainOf(approverGroups),
    recent.map(({ before, after }) => ({
      before: chainOf(before.approver_groups),
      after: chainOf(after.approver_groups),
    })),
  );
  const approvers = await request.call('tenant-config.members.approvers', {
    tenant_id: tenantId,
    groups: chain,
  });
  return {
    chain,
    frozen: {
      config: channelConfig,
      revision,
      ...approvers,
      recipients: counted,
      slack_counts,
      ...channelsNamed(terms),
    },
    limits: {
      max_hops: escalation.max_hops,
      window_seconds: escalation.escalation_window_minutes * 60,
      timeout_seconds: timeoutSeconds(terms),
    },
    terms,
    policy: strictestOf([
      frozenPolicyOf(approvalPolicy, body.risk_level),
      ...recent.map(({ before }) => frozenPolicyOf(before.approval_policy, body.risk_level)),
    ]),
    requester,
  };
}

/** Rights are given by ids, also by somebody whom a gateway knows by mail address. */
async function withAccount(
  subject: NonNullable<StoredRequester['for']>,
  { call }: Request,
): Promise<StoredRequester['for']> {
  if (!subject.id.includes('@')) return subject;
  const account = await call('auth.users.find', { email: subject.id });
  return account ? { ...subject, user_id: account.id } : subject;
}

/** The caller's name, as people know them. */
async function requesterNameOf(tenantId: string, { caller, call }: Request): Promise<string> {
  if (caller.type === 'user') {
    const [account] = await call('auth.users.get', { user_ids: [caller.id] });
    return account?.display_name ?? account?.email ?? caller.id;
  }
  if (caller.type !== 'service_account') return caller.id;
  const address = { tenant_id: tenantId, account_id: caller.id };
  const { name } = await call('tenant-config.service-accounts.resolve', address);
  return name;
}

/** What an automation that waits for the end of its approval says of why. */
export interface AskingAutomation {
  readonly currency: string | null;
  readonly because: string[];
}

/**
 * Writes the approval, its first notices and its event. Null where another request with the same
 * key has made it meanwhile.
 */
export async function insertApproval(
  manager: EntityManager,
  { vault, settings }: ApprovalOptions,
  tenantId: string,
  body: ApprovalRequest,
  { chain, frozen, limits, policy, requester }: ApprovalPlan,
  request: Request,
  asker?: AskingAutomation,
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
    cost_currency: asker?.currency ?? null,
    asked_because: asker?.because ?? null,
    metadata: body.metadata ?? null,
    hop: 0,
    max_hops: limits.max_hops,
    window_seconds: limits.window_seconds,
    chain,
    context: contextOf(body),
    policy,
    approved_by: null,
    frozen: vault.seal(frozen, tenantId),
    requested_by: requester,
    request_id: request.requestId,
    idempotency_key: body.idempotency_key ?? null,
    request_hash: canonicalHash(body),
    created_at: now,
    acknowledged_by: null,
    acknowledged_at: null,
    decided_by: null,
    decided_by_name: null,
    decided_at: null,
    comment: null,
    via: null,
    revision: null,
    awaited: asker !== undefined,
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
  await queueForSomebody(manager, row, frozen, destinations, (to) =>
    noticesOf(row, 'approval.requested', to, now),
  );
  const event = {
    action: 'approval.requested',
    tenant_id: tenantId,
    target: row.id,
    payload: requestProofOf(row),
  };
  await recordEvents(manager, [auditFacts(event, request)]);
  const revision = await markChanged(manager, row);
  // Whoever asks for another waits for this counter, and counts this one.
  await requireRoom(manager, tenantId, 'approvals_pending', settings(), 1);
  return { ...row, revision };
}

/** Once the transaction that inserted the approval has committed. */
export function announceApproval(
  { onQueued, onChanged, onNoDecision }: ApprovalOptions,
  tenantId: string,
  { chain, frozen }: ApprovalPlan,
): void {
  onQueued();
  onChanged(tenantId);
  if (chain.length > 0 && frozen.groups_with_deciders?.length === 0) onNoDecision();
}

/** Null where the approval is about nothing that has configuration. */
function contextOf(body: ApprovalRequest): ApprovalRow['context'] {
  const context = addressOf(body);
  return Object.keys(context).length > 0 ? context : null;
}

function requestedExpiry({ expires_at: text }: ApprovalRequest, now: Date): Date | undefined {
  if (text === undefined) return undefined;
  const expiry = momentOf(text)!;
  if (expiry <= now) throw invalid([{ path: '/expires_at', message: 'is not in the future' }]);
  return expiry;
}
