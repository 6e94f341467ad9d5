/**
 * The Authorization API of AuthZEN, and requests for approval by its profile. A denial that may be
 * asked for carries a binding token, so nothing is kept of it; what was approved is the approval's
 * row, which is compared with the question that is asked again.
 */
import { randomUUID } from 'node:crypto';
import { actsByRoles, type Caller } from '../../../shared/access.ts';
import { actorOf } from '../../../shared/commits/commit.ts';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import type { Answer, Question, TaskAnswer } from '../../../shared/contracts/access.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import {
  codeOf,
  invalid,
  statusOf as httpStatusOf,
  StrataError,
  type Problem,
} from '../../../shared/errors.ts';
import { isUuid } from '../../../shared/schema/uuid.ts';
import { partProblems } from '../rules/action-digest.ts';
import {
  answerOf,
  approvalOf,
  approvalType,
  approvedUntil,
  bindingHash,
  boundMembers,
  denialType,
  intentOf,
  nextActions,
  ofQuestion,
  refusalOf,
  requestableSeconds,
  statusOf,
  upTo,
  type Refusal,
} from '../rules/authzen.ts';
import { ApprovalEntity, type ApprovalRow } from '../schema.ts';
import { findApproval } from '../stores/approvals.ts';
import { databaseTime } from '../stores/clock.ts';
import { requestApproval } from './approvals.ts';
import { presentOf, withdraw, type ApprovalOptions } from './deciding.ts';
import type { Grants } from './granting.ts';

interface AccessOptions extends ApprovalOptions {
  readonly grants: Grants;
}

const onBehalf = 'decide:on_behalf';

/** Else somebody could ask as another, who then could not decide. */
function requireSubject({ subject }: Question, caller: Caller): void {
  if (!actsByRoles(caller) || caller.scopes?.includes(onBehalf)) return;
  const { type, id } = actorOf(caller);
  if (subject.type === type && subject.id === id) return;
  throw new StrataError(
    'insufficient_scope',
    `The subject is not the caller, whose type and id are ${type} and ${id}. To name somebody else takes an API key with the scope ${onBehalf}.`,
  );
}

export function accessActions(options: AccessOptions) {
  const { db, grants } = options;
  return {
    async 'notifier.access.evaluate'({ tenant_id: tenantId, body }, request) {
      const now = await databaseTime(db.manager);
      return evaluate(options, tenantId, body, now, request);
    },

    async 'notifier.access.evaluate-several'({ tenant_id: tenantId, body }, request) {
      const { evaluations = [], options: how, ...shared } = body;
      const now = await databaseTime(db.manager);
      if (evaluations.length === 0)
        return evaluate(options, tenantId, requireWhole(shared, ''), now, request);
      const ask = async (each: Part, index: number): Promise<Answer> => {
        try {
          const question = requireWhole({ ...shared, ...each }, `/evaluations/${index}`);
          return await evaluate(options, tenantId, question, now, request);
        } catch (error) {
          return unanswerable(error, randomUUID());
        }
      };
      const answers = await ofOneMoment(() => Promise.all(evaluations.map(ask)));
      return { evaluations: upTo(how?.evaluations_semantic ?? 'execute_all', answers) };
    },

    async 'notifier.access.request'({ tenant_id: tenantId, body, idempotency_key: key }, request) {
      const { denial, requested_access: _requested, client: _client, ...question } = body;
      requireSubject(question, request.caller);
      const problems = (['resource', 'action'] as const).flatMap((part) =>
        partProblems({ properties: question[part].properties }).map((each) => ({
          ...each,
          path: `/${part}${each.path}`,
        })),
      );
      if (problems.length > 0) throw invalid(problems);
      await requireDenial(options, tenantId, question, denial, request.caller);
      const { subject } = question;
      const row = await requestApproval(
        options,
        tenantId,
        {
          ...approvalOf(question),
          // Keys are the requester's own, as the tasks are.
          ...(key !== undefined && { idempotency_key: `access ${request.caller.id} ${key}` }),
        },
        request,
        { type: subject.type, id: subject.id },
      );
      // Who asks for approval elsewhere names keys as they like, also as they are named here.
      if (!isTaskOf(row, request.caller))
        throw new StrataError('conflict', 'This idempotency key was used for another request.');
      return taskOf(grants, row);
    },

    async 'notifier.access.task'(params, request) {
      return taskOf(grants, await foundTask(options, params, request.caller));
    },

    async 'notifier.access.cancel'(params, request) {
      const { tenant_id: tenantId, task_id: id } = params;
      const row = await foundTask(options, params, request.caller);
      const { state } = row;
      if (state !== 'pending' && state !== 'withdrawn')
        throw new StrataError('conflict', `It is ${state}, so it cannot be withdrawn.`);
      const present = await presentOf(row, request);
      await db.transaction((manager) => withdraw(manager, options, tenantId, id, present, request));
      options.onQueued();
      options.onChanged(tenantId);
      return taskOf(grants, await findApproval(db.manager, tenantId, id));
    },
  } satisfies Handlers;
}

type Part = Partial<Question>;

function requireWhole(question: Part, at: string): Question {
  const { subject, resource, action } = question;
  const missing = Object.entries({ subject, resource, action })
    .filter(([, part]) => part === undefined)
    .map(([name]): Problem => ({
      path: `${at}/${name}`,
      message: 'is said neither here nor for all',
    }));
  if (missing.length > 0) throw invalid(missing);
  return question as Question;
}

const mostTries = 5;

/** Again where the configuration changed between two of them. */
async function ofOneMoment(ask: () => Promise<Answer[]>): Promise<Answer[]> {
  for (let tries = 1; tries <= mostTries; tries += 1) {
    const answers = await ask();
    const revisions = answers
      .map(({ context }) => context?.revision)
      .filter((revision) => revision !== undefined);
    if (new Set(revisions.map((revision) => JSON.stringify(revision))).size <= 1) return answers;
  }
  throw new StrataError('service_unavailable', 'The configuration kept changing. Try again.');
}

async function evaluate(
  options: AccessOptions,
  tenantId: string,
  question: Question,
  now: Date,
  request: Request,
): Promise<Answer> {
  requireSubject(question, request.caller);
  const id = randomUUID();
  try {
    const decided = await request.call('config-resolver.decide', {
      tenant_id: tenantId,
      body: { ...intentOf(question), at: now.toISOString() },
    });
    const answer = answerOf(decided, id);
    const brought = question.context?.approval;
    if (decided.decision === 'approval_required')
      return brought === undefined
        ? requestable(options, tenantId, question, answer, now, request.caller)
        : reevaluate(options, tenantId, question, answer, now, request.caller);
    if (decided.decision === 'allow' || brought === undefined) return answer;
    return refusedAgain(answer, 'policy_denied');
  } catch (error) {
    return unanswerable(ofQuestion(error), id);
  }
}

/** A question that cannot be answered is no failure of the service, and allows nothing. */
function unanswerable(error: unknown, id: string): Answer {
  const status = httpStatusOf(codeOf(error));
  if (status >= 500 || !(error instanceof Error)) throw error;
  // The protocol has 400 for what is no question.
  const said = { status: status === 422 ? 400 : status, message: error.message };
  return { decision: false, context: { evaluation_id: id, error: said } };
}

const pointOf = (grants: Grants, tenantId: string): string =>
  `${grants.issuer}/tenants/${tenantId}`;

const requesterText = (caller: Caller): string => {
  const { type, id } = actorOf(caller);
  return `${type}:${id}`;
};

/** The denial with how to ask people for it. */
async function requestable(
  options: AccessOptions,
  tenantId: string,
  question: Question,
  { decision, context }: Answer,
  now: Date,
  caller: Caller,
): Promise<Answer> {
  const point = pointOf(options.grants, tenantId);
  const iat = Math.floor(now.getTime() / 1000);
  const exp = iat + requestableSeconds;
  const expiresAt = new Date(exp * 1000).toISOString();
  const token = await options.grants.sign(denialType, {
    aud: point,
    sub: requesterText(caller),
    iat,
    exp,
    jti: context!.evaluation_id,
    denial_expires_at: expiresAt,
    binding_context_members: boundMembers,
    binding_hash: bindingHash(question),
  });
  const endpoint = `${point}/access/v1/requests`;
  const access = { endpoint, expires_at: expiresAt, binding_token: token };
  return {
    decision,
    context: { ...context, evaluated_at: now.toISOString(), access_request: access },
  };
}

type Denial = ParamsOf<'notifier.access.request'>['body']['denial'];

/** Throws where this was not denied to this caller as what may be asked for, or too long ago. */
async function requireDenial(
  options: AccessOptions,
  tenantId: string,
  question: Question,
  { binding_token: token, expires_at: expiresAt }: Denial,
  caller: Caller,
): Promise<void> {
  const said = await options.grants.verify(denialType, token);
  const isBound =
    said?.aud === pointOf(options.grants, tenantId) &&
    said.sub === requesterText(caller) &&
    said.denial_expires_at === expiresAt &&
    said.binding_hash === bindingHash(question);
  if (!isBound) throw new StrataError('denial_invalid');
  const now = await databaseTime(options.db.manager);
  if (now.getTime() >= said.exp! * 1000) throw new StrataError('denial_expired');
}

/** By what people decided about exactly this. */
async function reevaluate(
  options: AccessOptions,
  tenantId: string,
  question: Question,
  answer: Answer,
  now: Date,
  caller: Caller,
): Promise<Answer> {
  const row = await broughtApproval(options, tenantId, question, caller);
  const refusal = row === null ? 'approval_unverifiable' : refusalOf(question, row, now);
  if (refusal === undefined) {
    const approval = { id: row!.id, approved_until: approvedUntil(row!)!.toISOString() };
    const { evaluation_id, revision } = answer.context!;
    return { decision: true, context: { evaluation_id, revision, approval } };
  }
  const refused = refusedAgain(answer, refusal);
  return nextActions[refusal] === 'request'
    ? requestable(options, tenantId, question, refused, now, caller)
    : refused;
}

const retrySeconds = 5;

const refusedAgain = ({ decision, context }: Answer, reason: Refusal): Answer => ({
  decision,
  context: {
    ...context,
    reason,
    next_action: nextActions[reason],
    ...(nextActions[reason] === 'retry' && { retry_after: retrySeconds }),
  },
});

/** Null where there is no such approval for this caller and subject, or its state is another's. */
async function broughtApproval(
  options: AccessOptions,
  tenantId: string,
  { subject, context }: Question,
  caller: Caller,
): Promise<ApprovalRow | null> {
  const { id, state } = Object(context?.approval) as { id?: unknown; state?: unknown };
  if (typeof id !== 'string' || !isUuid(id)) return null;
  const row = await options.db.manager.findOneBy(ApprovalEntity, { id, tenant_id: tenantId });
  if (!row || !isOf(row, caller)) return null;
  const { type, id: who } = row.requested_by.for ?? {};
  if (type !== subject.type || who !== subject.id) return null;
  if (state === undefined) return row;
  const said =
    typeof state === 'string' ? await options.grants.verify(approvalType, state) : undefined;
  const isItsOwn = said?.jti === id && said.aud === pointOf(options.grants, tenantId);
  return isItsOwn ? row : null;
}

const isOf = ({ requested_by: by }: ApprovalRow, caller: Caller): boolean => {
  const { type, id } = actorOf(caller);
  return by.type === type && by.id === id;
};

const isTaskOf = (row: ApprovalRow, caller: Caller): boolean =>
  row.requested_by.for !== undefined && isOf(row, caller);

/** Who knows the id of somebody else's approval learns nothing by it. */
async function foundTask(
  { db }: AccessOptions,
  { tenant_id: tenantId, task_id: id }: ParamsOf<'notifier.access.task'>,
  caller: Caller,
): Promise<ApprovalRow> {
  const row = await findApproval(db.manager, tenantId, id);
  if (!isTaskOf(row, caller))
    throw new StrataError('not_found', 'The tenant has no such request of yours.');
  return row;
}

async function taskOf(grants: Grants, row: ApprovalRow): Promise<TaskAnswer> {
  const point = pointOf(grants, row.tenant_id);
  const endpoint = `${point}/access/v1/requests/${row.id}`;
  const task = {
    id: row.id,
    status: statusOf(row),
    status_endpoint: endpoint,
    expires_at: row.expires_at.toISOString(),
    links: { cancel: `${endpoint}/cancel` },
  };
  const until = approvedUntil(row);
  if (until === null) return { task };
  const state = await grants.sign(approvalType, {
    aud: point,
    sub: `${row.requested_by.type}:${row.requested_by.id}`,
    iat: Math.floor(row.decided_at!.getTime() / 1000),
    exp: Math.floor(until.getTime() / 1000),
    jti: row.id,
  });
  const approval = {
    id: row.id,
    approved_at: row.decided_at!.toISOString(),
    approved_until: until.toISOString(),
    state,
  };
  return { task, result: { mode: 'reevaluate', approval } };
}
