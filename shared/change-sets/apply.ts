/**
 * Applying a change set: all of its writes in one transaction, with consecutive revisions, and with
 * that the change set as applied. So it is applied once, or not at all, wherever a node dies.
 *
 * | Found now                                   | Becomes   |
 * | ------------------------------------------- | --------- |
 * | a document that somebody wrote since        | stale     |
 * | its last author may not write it any more   | suspended |
 * | one who approved it may not any more        | suspended |
 * | a rule or policy of now is against it       | suspended |
 * | a row that says another digest              | failed    |
 * | an outage                                   | as it was |
 */
import { commitChanges, type Work } from '../commits/commit.ts';
import { holdAccounts, holdRights, Outdated, whileAsRead } from '../commits/held-rights.ts';
import { documentScope } from '../contracts/revision-scopes.ts';
import type { Request } from '../contract-runtime/request.ts';
import type { WrittenDocument } from '../documents/document.ts';
import { claimsOf } from '../documents/managed-fields.ts';
import { codeOf, statusOf, StrataError } from '../errors.ts';
import type { ChangeSets, ChangeSetOptions, Draft, Proposed, ProvenRight } from './change-sets.ts';
import { placingsOf, requireAccess, writeOf } from './items.ts';
import {
  askedOf,
  digestOf,
  giversAmong,
  personOf,
  requireEnough,
  requireState,
  type Step,
} from './rules.ts';
import type { Due } from './schedule.ts';
import type { ChangeSetRow } from './schema.ts';
import { isOfStops } from './stops.ts';
import { changeRow, lockAsRead, recordStep, requireReviewed } from './store.ts';

/**
 * So long after it was found due, or had its last approval, it is applied by itself. A node may stand
 * still in between, while a freeze begins or it becomes too late: the schedule then looks again.
 */
const longestAgoMs = 30_000;

/** What is against applying it now, which ends or suspends it. */
class Prevented extends Error {
  readonly state: 'stale' | 'suspended' | 'failed';
  constructor(state: Prevented['state'], message: string) {
    super(message);
    this.state = state;
  }
}

export class Applying {
  readonly #options: ChangeSetOptions;
  readonly #changeSets: ChangeSets;

  constructor(options: ChangeSetOptions, changeSets: ChangeSets) {
    this.#options = options;
    this.#changeSets = changeSets;
  }

  /** Answers the change set as it is then: applied, or with the reason why not. */
  apply(
    tenantId: string | null,
    id: string,
    step: Extract<Step, 'apply' | 'run' | 'break_glass'>,
    request: Request,
    {
      emergency,
      dueAt,
    }: {
      /** Why it is applied without approvals. */
      readonly emergency?: string;
      /** When it is applied by itself, which a stop keeps it from. */
      readonly dueAt?: Date;
    } = {},
  ): Promise<ChangeSetRow> {
    return whileAsRead(async () => {
      const row = await this.#changeSets.find(tenantId, id);
      requireState(row, step);
      if (dueAt) requireDue(row, dueAt);
      try {
        const unstopped = dueAt && (await this.#requireNoStop(row, dueAt, request));
        const since = step === 'run' ? laterOf(row.updated_at, dueAt) : undefined;
        return (await this.#write(row, request, { emergency, unstopped, since })).applied;
      } catch (error) {
        // Whoever breaks the glass is there, and the change set stays what it was.
        if (emergency !== undefined)
          throw error instanceof Prevented ? new StrataError('conflict', error.message) : error;
        const prevented = preventedBy(error);
        if (!prevented) throw error;
        const { state, message } = prevented;
        return await this.#leave(row, state, message, request);
      }
    });
  }

  /** Makes writes that were refused, at once, as the change set that they would have been. */
  async breakGlass(
    tenantId: string | null,
    body: Proposed,
    request: Request,
    emergency: string,
  ): Promise<readonly WrittenDocument<unknown>[]> {
    const draft = await this.#changeSets.draft(tenantId, body, request);
    return whileAsRead(async () => {
      try {
        return (await this.#write(draft, request, { emergency })).answers;
      } catch (error) {
        throw error instanceof Prevented ? new StrataError('conflict', error.message) : error;
      }
    });
  }

  /** At its time. What nobody applied in time is not made up for, and a stop holds it, too. */
  async run(
    tenantId: string | null,
    id: string,
    { late, now }: Due,
    request: Request,
  ): Promise<ChangeSetRow> {
    if (!late) return this.apply(tenantId, id, 'run', request, { dueAt: now });
    const note = 'Its time had passed before it could be applied.';
    return whileAsRead(async () => {
      const row = await this.#changeSets.find(tenantId, id);
      requireState(row, 'run');
      requireDue(row, now);
      return this.#leave(row, 'suspended', note, request);
    });
  }

  /** Undefined where no stop matters to it. */
  async #requireNoStop(
    { tenant_id: tenantId, content }: ChangeSetRow,
    at: Date,
    request: Request,
  ): Promise<ProvenRight<unknown> | undefined> {
    if (isOfStops(content.items)) return undefined;
    const stop = await this.#options.stoppedBy(tenantId, at, request);
    if (stop.right !== undefined) throw new Prevented('suspended', stop.right);
    return stop;
  }

  async #write(
    row: ChangeSetRow | Draft,
    request: Request,
    {
      emergency,
      unstopped,
      since,
    }: {
      readonly emergency: string | undefined;
      readonly unstopped?: ProvenRight<unknown> | undefined;
      readonly since?: Date | undefined;
    },
  ): Promise<{ applied: ChangeSetRow; answers: WrittenDocument<unknown>[] }> {
    const { db, documents, onStep } = this.#options;
    const { content, tenant_id: tenantId, id } = row;
    if (digestOf(tenantId, content) !== row.digest)
      throw new Prevented('failed', 'What is stored is not what the digest stands for.');
    const isEmergency = emergency !== undefined;
    const { author, provenRights } = await this.#requireRights(row, request, isEmergency);
    // Its power is that of the step, and not of each write.
    const { power: _power, ...others } = request;
    const requireNow = isEmergency ? () => undefined : requireEnough(content);
    const people = isEmergency ? [...content.authors, personOf(request.caller)] : content.authors;
    const changeSet = { id, isEmergency, by: giversAmong(people), requireEnough: requireNow };
    const own: Request = { ...others, caller: author, changeSet };
    const said = { reason: content.reason, ...claimsOf(content) };
    const placings = await placingsOf(documents, content.items, tenantId, said, own);
    const of = this.#changeSets.of(tenantId);
    const scope = documentScope(tenantId);
    // Its own scope is locked by the first write, which follows the revision that was looked at.
    const { [scope]: follows, ...elsewhere } = unstopped?.revisions ?? {};
    const works = follows === undefined ? placings : following(follows, placings);
    const answers: WrittenDocument<unknown>[] = [];
    const held: { row?: ChangeSetRow; now?: Date } = {};
    await commitChanges(db, own, scope, works, {
      begin: async (manager) => {
        held.row = isStored(row) ? row : await this.#changeSets.insert(manager, row, request);
        held.now = isStored(row) ? await lockAsRead(manager, of, row) : held.row.created_at;
        if (since) requireRecent(since, held.now);
        await holdRights(manager, [...provenRights, { right: undefined, revisions: elsewhere }]);
        if (isEmergency) await requireReviewed(manager, of, request.caller.id);
      },
      finished: async (manager, outcomes) => {
        const revisions = outcomes.map(({ result: { answer } }) =>
          'revision' in answer ? answer.revision : 0,
        );
        const now = held.now!;
        const change = {
          state: 'applied',
          due_at: null,
          content: {
            revisions,
            note: null,
            ended_by: request.caller.id,
            ...(isEmergency && {
              break_glass: {
                by: request.caller.id,
                at: now.toISOString(),
                reason: emergency,
                reviewed_by: null,
              },
            }),
          },
        } as const;
        held.row = await changeRow(manager, of, held.row!, now, change);
        const step = isEmergency ? 'broke_glass' : 'applied';
        await recordStep(manager, step, held.row, request, onStep);
        await holdAccounts(manager, provenRights);
        answers.push(...outcomes.map(({ result }) => result.answer));
      },
    });
    return { applied: held.row!, answers };
  }

  /** Who wrote it and who approved it may do so still. */
  async #requireRights(row: Draft, request: Request, isEmergency: boolean) {
    const { rights, documents } = this.#options;
    const { content, tenant_id: tenantId } = row;
    if (!isEmergency && content.approved_by.length < content.required)
      throw new Prevented('suspended', 'It has fewer approvals than it needs.');
    const author = await rights.author(tenantId, content.authors.at(-1)!, request);
    if (!author.right)
      throw new Prevented('suspended', 'Its author has no right to write it any more.');
    requireAccess(
      content.items.map((item) => writeOf(documents, item, tenantId)),
      author.right,
    );
    const provenRights: ProvenRight<unknown>[] = [author];
    if (isEmergency) return { author: author.right, provenRights };
    const asked = { ...askedOf(content), groups: content.groups };
    for (const approval of content.approved_by) {
      const approver = await rights.approver(tenantId, approval, asked, request);
      if (approver.right)
        throw new Prevented('suspended', `${approval.id} may not approve it any more.`);
      provenRights.push(approver);
    }
    return { author: author.right, provenRights };
  }

  /** Not applied, for the reason in the note. */
  #leave(
    row: ChangeSetRow,
    state: ChangeSetRow['state'],
    note: string,
    request: Request,
  ): Promise<ChangeSetRow> {
    const change = { state, due_at: null, content: { note } };
    return this.#changeSets.change(row, state, change, request);
  }
}

/** Throws `Outdated` where the first one would not follow this revision. */
function following<T>(revision: number, [first, ...others]: readonly Work<T>[]): Work<T>[] {
  const begin: Work<T> = async (manager, at, next, policies) => {
    if (next !== revision + 1) throw new Outdated();
    return first!(manager, at, next, policies);
  };
  return [begin, ...others];
}

/** Since it was found due it may have been edited, approved and scheduled again. */
function requireDue({ due_at: dueAt }: ChangeSetRow, now: Date): void {
  if (dueAt === null || dueAt > now) throw new StrataError('conflict', 'It is not due.');
}

/** It was changed later than now where the database's clock was set back. */
const laterOf = (one: Date, other: Date = one): Date => (one > other ? one : other);

function requireRecent(since: Date, now: Date): void {
  if (now.getTime() - since.getTime() > longestAgoMs)
    throw new StrataError(
      'service_unavailable',
      'It stood still for too long. Nothing was written.',
    );
}

const isStored = (row: ChangeSetRow | Draft): row is ChangeSetRow => 'updated_at' in row;

/** Undefined for what says nothing of the change set, such as an outage. */
function preventedBy(error: unknown): Prevented | undefined {
  if (error instanceof Prevented) return error;
  if (error instanceof Outdated || !(error instanceof StrataError)) return undefined;
  const code = codeOf(error);
  if (statusOf(code) >= 500 || code === 'rate_limited') return undefined;
  return new Prevented(code === 'precondition_failed' ? 'stale' : 'suspended', noteOf(error));
}

/** Why, in a line. */
export function noteOf(error: StrataError): string {
  const { errors } = error.data as {
    readonly errors?: readonly { path: string; message: string }[];
  };
  const first = errors?.[0];
  return first ? `${first.path} ${first.message}` : error.message;
}
