/**
 * What ends an approval, or holds up its escalation: decisions, withdrawals, acknowledgements. Each
 * is settled under the lock on its row.
 */
import { isDeepStrictEqual } from 'node:util';
import type { DataSource, EntityManager } from 'typeorm';
import { isMachine, type Caller } from '../../../shared/access.ts';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import { actorOf, auditFacts, recordEvents } from '../../../shared/commits/commit.ts';
import {
  holdAccounts,
  holdRights,
  identitiesOf,
  isKeyGood,
  Outdated,
  whileAsRead,
  requireCredential,
  type Principal,
  type ReadRight,
} from '../../../shared/commits/held-rights.ts';
import { sessionCacheKey } from '../../../shared/contracts/auth.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import type { DecisionRight } from '../../../shared/contracts/notifier.ts';
import { StrataError } from '../../../shared/errors.ts';
import { approvalView, type Approval } from '../rules/approval.ts';
import {
  groupsAsked,
  policyOf,
  refuseTwice,
  requireRight,
  type Candidate,
} from '../rules/approval-policy.ts';
import { reminderOf } from '../rules/escalation.ts';
import { lostConfig, stayingOf, type Approvers } from '../rules/frozen-config.ts';
import { noticesOf } from '../rules/notice.ts';
import { principalsOf, storedKeyOf } from '../rules/principals.ts';
import { proofOf, withdrawalProofOf } from '../rules/proof.ts';
import {
  ApprovalEntity,
  type ApprovalRow,
  type ShownApproval,
  type StoredApprover,
} from '../schema.ts';
import { findApproval, lockApproval, markChanged } from '../stores/approvals.ts';
import type { FrozenConfigVault } from '../stores/frozen-config.ts';
import type { TakeMails } from '../stores/mail-shares.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { cancelUnsent, queueNotices } from '../stores/notices.ts';
import type { TenantChanges } from '../worker/tenant-changes.ts';

export interface ApprovalOptions {
  readonly db: DataSource;
  readonly vault: FrozenConfigVault;
  /** Called when notices have been queued. */
  readonly onQueued: () => void;
  /** Called when an approval of the tenant has changed. */
  readonly onChanged: (tenantId: string) => void;
  readonly approvalChanges: TenantChanges<ShownApproval>;
  readonly settings: () => Settings;
  readonly takeMails: TakeMails;
  /** Called for each approval none of whose groups has anybody who could decide. */
  readonly onNoDecision: () => void;
}

function refuseDecided(row: ApprovalRow, now: Date): void {
  if (row.state === 'pending' && row.expires_at > now) return;
  throw new StrataError('conflict', whyEnded(row));
}

function whyEnded(row: ApprovalRow): string {
  if (row.decided_at) return `It was ${row.state} by ${row.decided_by_name ?? row.decided_by}.`;
  if (row.state === 'withdrawn') return 'It was withdrawn: no one needs it any more.';
  return 'It has expired without a decision.';
}

type DecisionBody = ParamsOf<'notifier.approvals.decide'>['body'];

/**
 * Finds who wants to decide, with the right that they have now; it depends on the groups that were
 * asked so far.
 */
export type FindCandidate<Row = ApprovalRow> = (row: Row) => Promise<Candidate>;

/** By what a right to decide is found: the groups that were asked so far, when, and by whom. */
export const askedOf = (row: ShownApproval) => ({
  groups: groupsAsked(row.chain, row.hop),
  asked: { at: row.created_at.toISOString(), by: principalsOf(row.requested_by) },
});

/** Whoever calls the API, or the console. */
export function callingCandidate(
  tenantId: string,
  { caller, call }: Request,
): FindCandidate<ShownApproval> {
  const known = {
    type: actorOf(caller).type,
    id: caller.id,
    api_key: storedKeyOf(caller),
    via: 'api',
    isMachine: isMachine(caller),
  } as const;
  const identities = [
    ...identitiesOf(principalOf(known)),
    ...(caller.session_id === undefined
      ? []
      : [sessionCacheKey({ session_id: caller.session_id })]),
  ];
  return async (row) => {
    if (caller.type === 'operator')
      return {
        ...known,
        name: caller.id,
        email: null,
        right: 'console',
        whyNot: null,
        revisions: {},
      };
    const who =
      caller.type === 'service_account' ? { account_id: caller.id } : { user_id: caller.id };
    const {
      decider,
      why_not: whyNot,
      revisions,
    } = await call('tenant-config.members.decider', {
      tenant_id: tenantId,
      ...who,
      ...askedOf(row),
    });
    const { name = caller.id, email = null, right: ofAccount = null } = decider ?? {};
    const right = withinRule(ofAccount, caller);
    const ofMaker = right && (await whyNotOfMaker(tenantId, row, { caller, call }));
    const found = { ...known, name, email, revisions, identities };
    if (ofMaker) return { ...found, right: null, whyNot: ofMaker };
    return { ...found, right, whyNot };
  };
}

const principalOf = ({
  type,
  id,
  api_key: key,
}: Pick<StoredApprover, 'type' | 'id' | 'api_key'>): Principal => ({
  isPerson: type === 'user',
  id,
  key: key?.id,
});

/**
 * The same for a decision: the key or the session of the call must be good by then. It is looked at
 * after the right was read, so that its end after that is seen under the row's lock.
 */
export function decidingCandidate(tenantId: string, request: Request): FindCandidate {
  const find = callingCandidate(tenantId, request);
  return async (row) => {
    const candidate = await find(row);
    await requireCredential(principalOf(candidate), request);
    return candidate;
  };
}

/**
 * A workload has no right by a role of its account that its rule has not. One that decides it has, or
 * it could not call.
 */
const withinRule = (right: DecisionRight | null, { type, roles }: Caller): DecisionRight | null =>
  type === 'service_account' &&
  right === 'groups_without_members' &&
  !roles.includes('tenant_admin')
    ? null
    : right;

/**
 * Why whoever made the key of a service account could not decide for having been given that by the
 * requester, or too late: then their key does not either, however long the account has been there.
 */
async function whyNotOfMaker(
  tenantId: string,
  row: ShownApproval,
  { caller, call }: Pick<Request, 'caller' | 'call'>,
): Promise<Candidate['whyNot']> {
  const maker = caller.api_key?.made_by;
  if (caller.type !== 'service_account' || !maker) return null;
  const { why_not: whyNot } = await call('tenant-config.members.decider', {
    tenant_id: tenantId,
    user_id: maker,
    account_id: caller.id,
    ...askedOf(row),
  });
  return whyNot;
}

/** Somebody who has approved, with what they could decide by now. */
interface Earlier extends Pick<Candidate, 'right'>, ReadRight {
  readonly approver: StoredApprover;
}

/**
 * An approval of one of several people counts as long as they could decide, and one by a key as long
 * as that is good: whoever revokes a key takes back what somebody else may have done with it.
 */
async function earlierOf(row: ApprovalRow, { call }: Pick<Request, 'call'>): Promise<Earlier[]> {
  const withRightNow = async (approver: StoredApprover): Promise<Earlier> => {
    const { type, id, right } = approver;
    // The console is no member; nor is an address, whose approval was the only one.
    if (right === 'console' || right === 'recipient') return { approver, right, revisions: {} };
    const { decider, revisions } = await call('tenant-config.members.decider', {
      tenant_id: row.tenant_id,
      ...(type === 'service' ? { account_id: id } : { user_id: id }),
      // Groups that were asked after they had approved take nothing from them.
      ...askedOf(right === 'groups_without_members' ? { ...row, hop: 0 } : row),
    });
    // After the revisions were read, so that its end after that is seen under the row's lock.
    const isGood = await isKeyGood(principalOf(approver), call);
    const rightNow = isGood ? (decider?.right ?? null) : null;
    return {
      approver,
      right: rightNow,
      revisions,
      identities: identitiesOf(principalOf(approver)),
    };
  };
  return Promise.all((row.approved_by ?? []).map(withRightNow));
}

const validOf = (earlier: readonly Earlier[]): StoredApprover[] =>
  earlier.filter((each) => each.right !== null).map((each) => each.approver);

/** With those alone whose approval counts now, as long as it is not decided. */
export const withValidApprovals = async (
  row: ApprovalRow,
  request: Pick<Request, 'call'>,
): Promise<ApprovalRow> =>
  row.state === 'pending' ? { ...row, approved_by: validOf(await earlierOf(row, request)) } : row;

/**
 * Takes a decision: a denial ends the approval, an approval does once there are as many as it
 * needs. The end cancels what was not sent, and tells those who may have observed it.
 */
export async function decide(
  options: ApprovalOptions,
  tenantId: string,
  id: string,
  body: DecisionBody,
  findCandidate: FindCandidate,
  request: Request,
): Promise<Approval> {
  const { db, onQueued, onChanged } = options;
  const attempt = async (): Promise<Approval> => {
    const asked = await findApproval(db.manager, tenantId, id);
    const candidate = await findCandidate(asked);
    // Before all who are asked are read, which may be everybody.
    requireRight(asked, candidate);
    const [earlier, present] = await Promise.all([
      body.decision === 'approve' ? earlierOf(asked, request) : [],
      presentOf(asked, request),
    ]);
    const row = await db.transaction((manager) =>
      settle(manager, options, { asked, earlier, body, candidate, present }, request),
    );
    if (row.state !== 'pending') onQueued();
    onChanged(tenantId);
    return approvalView(row);
  };
  return whileAsRead(
    attempt,
    'Who may decide this approval kept changing. Nothing was decided; try again.',
  );
}

interface Attempt {
  /** As it was when rights were asked for. */
  readonly asked: ApprovalRow;
  readonly earlier: readonly Earlier[];
  readonly body: DecisionBody;
  readonly candidate: Candidate;
  readonly present: Approvers | undefined;
}

/**
 * Under the lock on the approval's row: rights first, so that whoever may not decide learns nothing
 * else.
 */
async function settle(
  manager: EntityManager,
  { vault }: ApprovalOptions,
  { asked, earlier, body, candidate, present }: Attempt,
  request: Request,
): Promise<ApprovalRow> {
  const { decision, comment = null } = body;
  const { id, tenant_id: tenantId } = asked;
  const { row, now } = await lockApproval(manager, tenantId, id);
  const isAsRead = row.hop === asked.hop && isDeepStrictEqual(row.approved_by, asked.approved_by);
  if (!isAsRead) throw new Outdated();
  await holdRights(manager, [candidate, ...earlier]);
  const right = requireRight(row, candidate);
  refuseDecided(row, now);
  const valid = validOf(earlier);
  refuseTwice({ approved_by: valid }, candidate, decision);

  const {
    isMachine: _isMachine,
    whyNot: _whyNot,
    revisions: _revisions,
    identities: _identities,
    ...who
  } = candidate;
  const approver: StoredApprover = { ...who, right, at: now.toISOString(), comment };
  const approvedBy = decision === 'approve' ? [...valid, approver] : (row.approved_by ?? []);
  const isOpen = decision === 'approve' && approvedBy.length < policyOf(row).required;
  const end = {
    state: decision === 'approve' ? 'approved' : 'denied',
    decided_by: candidate.id,
    decided_by_name: candidate.name,
    decided_at: now,
    comment,
    via: candidate.via,
    escalates_at: null,
  } as const;
  const change = { approved_by: approvedBy, ...(isOpen ? {} : end) };
  const changed: ApprovalRow = { ...row, ...change };
  await manager.update(ApprovalEntity, { id }, change);
  if (!isOpen) await notifyOfEnd(manager, vault, changed, 'approval.decided', { now, present });
  const event = {
    action: isOpen ? 'approval.partly_approved' : `approval.${changed.state}`,
    tenant_id: tenantId,
    target: id,
    payload: proofOf(changed, approver),
    // Nobody is signed in who follows a link, or clicks in Slack.
    ...(candidate.via !== 'api' && { actor: { type: 'user', id: candidate.id } as const }),
  };
  await recordEvents(manager, [auditFacts(event, request)]);
  const revision = await markChanged(manager, row);
  await holdAccounts(manager, [candidate, ...earlier]);
  return { ...changed, revision };
}

/**
 * Who is asked for it by now. Undefined where that is not known: it ends all the same, and all who
 * were reached are told.
 */
export const presentOf = (
  { tenant_id, chain }: Pick<ApprovalRow, 'tenant_id' | 'chain'>,
  { call }: Pick<Request, 'call'>,
): Promise<Approvers | undefined> =>
  call('tenant-config.members.approvers', { tenant_id, groups: chain }).catch(() => undefined);

async function notifyOfEnd(
  manager: EntityManager,
  vault: FrozenConfigVault,
  ended: ApprovalRow,
  type: 'approval.decided' | 'approval.withdrawn',
  { now, present }: { readonly now: Date; readonly present: Approvers | undefined },
): Promise<void> {
  const reached = await cancelUnsent(manager, ended.id);
  const frozen = vault.openIfKept(ended.frozen, ended.tenant_id) ?? lostConfig;
  const notified = present ? stayingOf(reached, frozen, present) : reached;
  await queueNotices(manager, ended, frozen.revision, noticesOf(ended, type, notified, now));
}

/**
 * Ends an approval that nobody waits for any more, inside the caller's transaction; one that has
 * ended stays as it is.
 */
export async function withdraw(
  manager: EntityManager,
  { vault }: ApprovalOptions,
  tenantId: string,
  id: string,
  present: Approvers | undefined,
  request: Request,
): Promise<void> {
  const { row, now } = await lockApproval(manager, tenantId, id);
  if (row.state !== 'pending') return;
  const change = { state: 'withdrawn', escalates_at: null } as const;
  const changed: ApprovalRow = { ...row, ...change };
  await manager.update(ApprovalEntity, { id }, change);
  await notifyOfEnd(manager, vault, changed, 'approval.withdrawn', { now, present });
  const event = {
    action: 'approval.withdrawn',
    tenant_id: tenantId,
    target: id,
    payload: withdrawalProofOf(changed),
  };
  await recordEvents(manager, [auditFacts(event, request)]);
  await markChanged(manager, row);
}

/** Pauses escalation; a second acknowledgement changes nothing. */
export async function acknowledge(
  manager: EntityManager,
  tenantId: string,
  id: string,
  request: Request,
): Promise<ApprovalRow> {
  const { row, now } = await lockApproval(manager, tenantId, id);
  refuseDecided(row, now);
  if (row.acknowledged_at) return row;
  const change = {
    acknowledged_by: request.caller.id,
    acknowledged_at: now,
    escalates_at: null,
    // Without a last window it ends later, unless it would have expired with that.
    reminds_at: row.reminds_at && (reminderOf(now, row.expires_at) ?? row.reminds_at),
  };
  await manager.update(ApprovalEntity, { id }, change);
  const event = {
    action: 'approval.acknowledged',
    tenant_id: tenantId,
    target: id,
    payload: { hop: row.hop },
  };
  await recordEvents(manager, [auditFacts(event, request)]);
  const revision = await markChanged(manager, row);
  return { ...row, ...change, revision };
}
