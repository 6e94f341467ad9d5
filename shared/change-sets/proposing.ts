/**
 * Writes that a change_policy refuses, as their callers ask for that. The refusal is that of
 * `documents/document.ts`, where all documents are written; so this is no way around it.
 *
 * | The write has | It becomes                                                       |
 * | ------------- | ---------------------------------------------------------------- |
 * | `propose`     | a change set that waits for approval                             |
 * | `break_glass` | a change set that is applied at once, and that others review     |
 * | neither       | refused, with the change set that would do it                    |
 */
import { checkAccess } from '../access.ts';
import type { Handlers, Request } from '../contract-runtime/request.ts';
import { contractOf, type ActionName } from '../contracts/index.ts';
import type { WrittenDocument } from '../documents/document.ts';
import { claimsOf } from '../documents/managed-fields.ts';
import { codeOf, invalid, StrataError, type ErrorData, type ProposedChangeSet } from '../errors.ts';
import { Applying } from './apply.ts';
import { ChangeSets, type ChangeSetOptions, type Proposed } from './change-sets.ts';
import type { ProposedItem } from './items.ts';

/** The parameters of every write, beside its own. */
interface Params {
  readonly tenant_id?: string;
  readonly if_match?: string;
  readonly if_none_match?: '*';
  readonly propose?: boolean;
  readonly break_glass?: string;
  readonly body?: unknown;
}
type Write = (params: Params, request: Request) => Promise<unknown>;

/** What an action answers of the writes of its change set; by default, of the only one. */
export type AnswerOf = (answers: readonly WrittenDocument<unknown>[], params: Params) => unknown;

/** All handlers of a service, whose writes can be proposed. */
export function withProposals(
  handlers: Handlers,
  options: ChangeSetOptions,
  answerOf: Partial<Record<ActionName, AnswerOf>> = {},
): Handlers {
  const changeSets = new ChangeSets(options);
  const applying = new Applying(options, changeSets);

  async function propose(params: Params, refused: ProposedChangeSet, request: Request) {
    const tenantId = params.tenant_id ?? null;
    // Its power is that of the write, which was not made.
    const { power: _power, ...others } = request;
    const proposed = proposedBy(params, refused, reasonSaid(refused));
    const { id, digest, content } = await changeSets.propose(tenantId, proposed, others);
    const path = `${refused.path}/${id}`;
    return { change_set: { id, path, digest, required: content.required } };
  }

  async function breakGlass(
    name: ActionName,
    params: Params,
    refused: ProposedChangeSet,
    request: Request,
  ) {
    const tenantId = params.tenant_id ?? null;
    const emergency = params.break_glass!;
    const proposed = proposedBy(params, refused, reasonSaid(refused) || emergency);
    const own = { ...request, power: 'approvers' } as const;
    const answers = await applying.breakGlass(tenantId, proposed, own, emergency);
    return answerOf[name] ? answerOf[name](answers, params) : answers[0]!;
  }

  const orPropose =
    (name: ActionName, write: Write): Write =>
    async (params, request) => {
      const { propose: isProposed, break_glass: emergency, ...own } = params;
      if (!isProposed && emergency === undefined) return write(own, request);
      if (emergency !== undefined) requireBreaker(name, params, request);
      try {
        return await write(own, request);
      } catch (error) {
        const refused = refusedBy(error);
        if (!refused) throw error;
        return emergency === undefined
          ? propose(params, refused, request)
          : breakGlass(name, params, refused, request);
      }
    };

  const all = Object.entries(handlers) as [ActionName, Write][];
  const named = all.map(([name, handler]) => [
    name,
    'propose' in (contractOf(name)?.params.properties ?? {}) ? orPropose(name, handler) : handler,
  ]);
  return Object.fromEntries(named) as Handlers;
}

/** The change set that would do what the policy refused; undefined for every other error. */
function refusedBy(error: unknown): ProposedChangeSet | undefined {
  if (!(error instanceof StrataError) || codeOf(error) !== 'change_approval_required')
    return undefined;
  return (error.data as ErrorData).change_set;
}

/** Empty where no one gave a reason: a refusal has the title in its place. */
const reasonSaid = ({ body: { title, reason } }: ProposedChangeSet): string =>
  reason === title ? '' : reason;

/** Throws where the caller may not do what a change set's own action would ask for. */
function requireBreaker(name: ActionName, params: Params, { caller }: Request): void {
  if (params.propose)
    throw invalid([{ path: '/propose', message: 'is not for a write with X-Break-Glass' }]);
  const service = name.split('.')[0]!;
  checkAccess(contractOf(`${service}.changesets.break-glass`)!, caller, { ...params });
}

/** The change set of a refused write, under the conditions of the write. Throws 422 without a reason. */
export function proposedBy(params: Params, { body }: ProposedChangeSet, reason: string): Proposed {
  if (reason === '')
    throw invalid([
      { path: '/reason', message: 'is missing: X-Change-Reason says why it is proposed' },
    ]);
  const { if_match, if_none_match } = params;
  const conditions = {
    ...(if_match !== undefined && { if_match }),
    ...(if_none_match !== undefined && { if_none_match }),
  };
  const items = body.items.map((item) => ({ ...item, ...conditions }) as unknown as ProposedItem);
  const { title, apply } = body;
  return {
    title,
    reason,
    items,
    ...(apply !== undefined && { apply }),
    ...claimsOf(body),
  };
}
