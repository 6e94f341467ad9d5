/**
 * AuthZEN as Strata means it: a question is an intent, a decision its answer, and a request for
 * access an approval of exactly what the question says.
 *
 * | AuthZEN                         | Strata                                                    |
 * |---------------------------------|-----------------------------------------------------------|
 * | action.name                     | `action`                                                  |
 * | action.properties               | `risk_level`, `cost_impact`, `resource_scaling`, `is_rollback` |
 * | resource.type, resource.id      | `service_type`, `service_id`                              |
 * | resource.properties             | `parameters`                                              |
 * | context.agent_type              | `agent_type`                                              |
 * | subject                         | who asks, beside the caller                               |
 */
import canonicalize from 'canonicalize';
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { Type, type TProperties } from 'typebox';
import type { Answer, Question, TaskAnswer } from '../../../shared/contracts/access.ts';
import { intent, type Decided, type Intent } from '../../../shared/contracts/decide.ts';
import { strict } from '../../../shared/contracts/fields.ts';
import { invalid, StrataError, type Problem } from '../../../shared/errors.ts';
import { problemsOf } from '../../../shared/schema/validate.ts';
import type { ApprovalRow } from '../schema.ts';

export const denialType = 'strata-denial+jws';
export const approvalType = 'strata-approval+jws';
/** How long after a denial it may be asked for, in seconds. */
export const requestableSeconds = 600;
/** How long an approval counts, in milliseconds. */
const approvalMs = 15 * 60_000;

/** What of an intent is no property of the action: `Asked`, and what cannot be said here. */
const saidElsewhere = ['action', 'service_type', 'service_id', 'agent_type', 'takes_back'] as const;
const decidedBy: TProperties = Object.fromEntries(
  Object.entries(intent).filter(([name]) => !saidElsewhere.some((each) => each === name)),
);
const actionProperties = Type.Object(decidedBy, strict);

/** The properties of an action that decide; it may have thousands of others. */
function decidingOf({ properties = {} }: Question['action']) {
  const names = Object.keys(decidedBy).filter((name) => Object.hasOwn(properties, name));
  return Object.fromEntries(names.map((name) => [name, properties[name]]));
}

/** What else it has: that is bound and shown to people. */
const othersOf = ({ properties = {} }: Question['action']) =>
  Object.fromEntries(
    Object.entries(properties).filter(([name]) => !Object.hasOwn(decidedBy, name)),
  );

const Asked = Type.Object(
  {
    action: intent.action,
    service_type: intent.service_type,
    service_id: intent.service_id,
    agent_type: intent.agent_type,
  } satisfies TProperties,
  strict,
);
/** Where each field of an intent stands in the question. */
const placeOf: Readonly<Record<string, string>> = {
  '/action': '/action/name',
  '/service_type': '/resource/type',
  '/service_id': '/resource/id',
  '/agent_type': '/context/agent_type',
};

const inPlace = ({ path, message }: Problem): Problem => ({
  path: placeOf[path] ?? path,
  message,
});

/** What refuses an intent, with paths into the question. */
export function ofQuestion(error: unknown): unknown {
  if (!(error instanceof StrataError)) return error;
  const { errors } = error.data as { readonly errors?: readonly Problem[] };
  return errors ? invalid(errors.map(inPlace)) : error;
}

/** What it asks to decide. Throws 422, with paths into the question. */
export function intentOf({ action, resource, context }: Question): Intent {
  const asked = {
    action: action.name,
    service_type: resource.type,
    service_id: resource.id,
    ...(context?.agent_type !== undefined && { agent_type: context.agent_type }),
  };
  const properties = decidingOf(action);
  const problems: Problem[] = [
    ...problemsOf(Asked, asked).map(inPlace),
    ...problemsOf(actionProperties, properties).map(({ path, message }) => ({
      path: `/action/properties${path}`,
      message,
    })),
  ];
  if (problems.length > 0) throw invalid(problems);
  return { ...asked, ...properties } as Intent;
}

/** Of the context, what is bound beside subject, resource and action. */
export const boundMembers = ['agent_type'] as const;

/** Parts of questions as they are hashed: those of a batch have theirs in common, often all of its length. */
const writtenParts = new WeakMap<object, Buffer>();

function written<Part extends object>(part: Part, said: (part: Part) => object = (all) => all) {
  const known = writtenParts.get(part);
  if (known) return known;
  const text = Buffer.from(canonicalize(said(part))!);
  writtenParts.set(part, text);
  return text;
}

function withoutAct({ properties, ...who }: Question['subject']): object {
  if (properties === undefined) return who;
  const { act: _act, ...said } = properties;
  return { ...who, properties: said };
}

/** The `binding_hash` of the profile: of RFC 8785, whose names are in the order of the alphabet. */
export function bindingHash({ subject, resource, action, context = {} }: Question): string {
  const bound = boundMembers
    .filter((name) => context[name] !== undefined)
    .map((name) => [name, context[name]]);
  return createHash('sha256')
    .update('{"action":')
    .update(written(action))
    .update(`,"context":${canonicalize(Object.fromEntries(bound))},"resource":`)
    .update(written(resource))
    .update(',"subject":')
    .update(written(subject, withoutAct))
    .update('}')
    .digest('base64url');
}

/** What people are asked, and see: all that the question says but for `act`. */
export function approvalOf(question: Question) {
  const { action, risk_level, cost_impact, is_rollback: _claimed, ...touched } = intentOf(question);
  const { agent_type, service_id, service_type, ...figures } = touched;
  const { subject, resource } = question;
  const others = othersOf(question.action);
  return {
    action,
    risk_level,
    title: `${action} on ${resource.id}`,
    ...(cost_impact !== undefined && { cost_impact }),
    ...(agent_type !== undefined && { agent_type }),
    service_id: service_id!,
    service_type: service_type!,
    resource: {
      subject: { type: subject.type, id: subject.id },
      service_type,
      service_id,
      ...(agent_type !== undefined && { agent_type }),
      ...figures,
      ...(resource.properties !== undefined && { parameters: resource.properties }),
      ...(Object.keys(others).length > 0 && { action_properties: others }),
      binding_hash: bindingHash(question),
    },
  };
}

/** Whether exactly this was approved, by what people saw. */
function isApproved(question: Question, row: ApprovalRow): boolean {
  // Of another one nothing is worked out, however large it is.
  if (Object(row.resource).binding_hash !== bindingHash(question)) return false;
  const { action, risk_level, title, cost_impact = null, resource } = approvalOf(question);
  return (
    row.title === title &&
    row.description === null &&
    row.action === action &&
    row.risk_level === risk_level &&
    row.cost_impact === cost_impact &&
    isDeepStrictEqual(row.resource, resource)
  );
}

/** Until when it counts; null where it was not approved. */
export const approvedUntil = ({ state, decided_at: at }: ApprovalRow): Date | null =>
  state === 'approved' && at !== null ? new Date(at.getTime() + approvalMs) : null;

type Status = TaskAnswer['task']['status'];
const statuses: Readonly<Record<ApprovalRow['state'], Status>> = {
  pending: 'pending',
  approved: 'approved',
  denied: 'denied',
  expired: 'expired',
  exhausted: 'expired',
  withdrawn: 'cancelled',
};
export const statusOf = ({ state }: ApprovalRow): Status => statuses[state];

/** Why an approval that was brought does not count, and what to do next. */
export type Refusal =
  'approval_expired' | 'out_of_scope' | 'grant_pending' | 'policy_denied' | 'approval_unverifiable';
export const nextActions = {
  approval_expired: 'request',
  out_of_scope: 'request',
  grant_pending: 'retry',
  policy_denied: 'none',
  approval_unverifiable: 'none',
} as const satisfies Record<Refusal, 'request' | 'retry' | 'none'>;

/** Undefined where it counts: for exactly this question, at this moment. */
export function refusalOf(question: Question, row: ApprovalRow, now: Date): Refusal | undefined {
  if (!isApproved(question, row)) return 'out_of_scope';
  if (row.state === 'pending') return 'grant_pending';
  if (row.state === 'denied') return 'policy_denied';
  const until = approvedUntil(row);
  return until === null || now >= until ? 'approval_expired' : undefined;
}

/** What a decision says, without how to ask for approval. */
export function answerOf(decided: Decided, evaluationId: string): Answer {
  const { decision, reasons, warnings, retry_at: retryAt, revision, stale } = decided;
  const isAllowed = decision === 'allow';
  const [first] = reasons;
  const reason = decision === 'approval_required' ? decision : first?.rule;
  return {
    decision: isAllowed,
    context: {
      evaluation_id: evaluationId,
      revision,
      ...(!isAllowed && { reason, reasons }),
      ...(warnings && { warnings }),
      ...(retryAt !== undefined && { retry_at: retryAt }),
      ...(stale && { stale }),
    },
  };
}

/** The answers up to the one that the rest is left out after. */
export function upTo(semantic: string, answers: readonly Answer[]): Answer[] {
  const last = answers.findIndex(({ decision }) =>
    semantic === 'deny_on_first_deny' ? !decision : decision,
  );
  return semantic === 'execute_all' || last === -1 ? [...answers] : answers.slice(0, last + 1);
}
