/**
 * Change sets of one service's documents: how they are opened, edited, decided and taken back.
 * `apply.ts` applies them, `rules.ts` has their states.
 */
import { randomUUID } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import { isMachine, type Caller } from '../access.ts';
import { commitChanges } from '../commits/commit.ts';
import { holdAccounts, holdRights, whileAsRead, type ReadRight } from '../commits/held-rights.ts';
import type { ApplyWhen } from '../contracts/change-sets.ts';
import { documentScope } from '../contracts/revision-scopes.ts';
import type { Request } from '../contract-runtime/request.ts';
import { invalid, StrataError } from '../errors.ts';
import { synchronizedNow } from '../process/synchronized-clock.ts';
import { diff } from '../schema/diff.ts';
import { concealSecrets } from '../security/document-secrets.ts';
import { pathOf } from '../documents/document-paths.ts';
import type { AllDocuments } from '../documents/document.ts';
import { claimsOf, type Claims } from '../documents/managed-fields.ts';
import {
  requireAccess,
  requirePowers,
  trialsOf,
  writeOf,
  writesOf,
  type ProposedItem,
  rebasedItem,
} from './items.ts';
import {
  askedOf,
  breakerOf,
  digestOf,
  groupsOfAll,
  overlap,
  personOf,
  reminderOf,
  requireAnother,
  requireDigest,
  requireState,
  withAuthor,
} from './rules.ts';
import { graceMs } from './schedule.ts';
import type { ChangeSetRow, Content, StoredItem, StoredPerson } from './schema.ts';
import {
  changeRow,
  countRow,
  findChangeSet,
  insertRow,
  lockAsRead,
  recordStep,
  requireFewOpen,
  type Change,
  type Of,
  type OnStep,
} from './store.ts';

/** Somebody's right, with the revisions of the scopes that say it, while which it is so. */
export interface ProvenRight<Right> extends ReadRight {
  readonly right: Right;
}

/** Who may do what now, as the service knows it. */
export interface Rights {
  /** The author as a caller with the roles of now; null where they have no right any more. */
  author(
    tenantId: string | null,
    person: StoredPerson,
    request: Request,
  ): Promise<ProvenRight<Caller | null>>;
  /** Null where they may approve it, else why not. */
  approver(
    tenantId: string | null,
    person: Pick<StoredPerson, 'type' | 'id'>,
    asked: ReturnType<typeof askedOf> & { readonly groups: readonly string[] },
    request: Request,
  ): Promise<ProvenRight<StrataError | null>>;
}

export interface ChangeSetOptions {
  readonly db: DataSource;
  readonly entity: Of['entity'];
  readonly documents: AllDocuments;
  readonly rights: Rights;
  /** Why nothing is applied by itself at a moment; undefined as its right where it may be. */
  readonly stoppedBy: StoppedBy;
  readonly onStep?: OnStep;
}
export type StoppedBy = (
  tenantId: string | null,
  at: Date,
  request: Request,
) => Promise<ProvenRight<string | undefined>>;

export interface Proposed extends Claims {
  readonly title: string;
  readonly reason: string;
  readonly items: readonly ProposedItem[];
  readonly apply?: ApplyWhen;
}

/** A change set that is not stored yet. */
export type Draft = Omit<ChangeSetRow, 'created_at' | 'updated_at' | 'revision'>;

const submittedAt = (now: Date, { apply }: Content): Change => ({
  state: 'pending',
  due_at: reminderOf(now, apply),
  content: { submitted_at: now.toISOString() },
});

/**
 * Who approves it applies it with that. Where their node dies between the two, the schedule does so
 * after this time.
 */
const takenOverMs = 10_000;

export class ChangeSets {
  readonly #options: ChangeSetOptions;

  constructor(options: ChangeSetOptions) {
    this.#options = options;
  }

  of(tenantId: string | null): Of {
    return { entity: this.#options.entity, tenantId };
  }

  find(tenantId: string | null, id: string): Promise<ChangeSetRow> {
    return findChangeSet(this.#options.db.manager, this.of(tenantId), id);
  }

  async create(tenantId: string | null, body: Proposed, request: Request): Promise<ChangeSetRow> {
    const draft = await this.draft(tenantId, body, request);
    return this.#options.db.transaction(async (manager) => {
      const row = await this.insert(manager, draft, request);
      await countRow(manager, this.of(tenantId), row.id);
      await requireFewOpen(manager, this.of(tenantId));
      return row;
    });
  }

  /** Opens it and asks for approval. */
  async propose(tenantId: string | null, body: Proposed, request: Request): Promise<ChangeSetRow> {
    const draft = await this.draft(tenantId, body, request);
    return this.#options.db.transaction(async (manager) => {
      const row = await this.insert(manager, draft, request);
      const of = this.of(tenantId);
      const pending = await changeRow(
        manager,
        of,
        row,
        row.created_at,
        submittedAt(row.created_at, row.content),
      );
      await requireFewOpen(manager, of);
      await recordStep(manager, 'submitted', pending, request, this.#options.onStep);
      return pending;
    });
  }

  /** Whoever inserts it also changes or counts it, after all that they lock. */
  async insert(manager: EntityManager, draft: Draft, request: Request): Promise<ChangeSetRow> {
    const stored = await insertRow(manager, this.of(draft.tenant_id), draft);
    await recordStep(manager, 'created', stored, request, this.#options.onStep);
    return stored;
  }

  /** What it would be, tried as its writes would be, and stored nowhere. */
  async draft(tenantId: string | null, body: Proposed, request: Request): Promise<Draft> {
    const author = personOf(request.caller);
    const { title, reason, apply = 'on_approval' } = body;
    const tried = await this.#try(tenantId, body.items, body, request);
    const content: Content = {
      title,
      reason,
      apply: checkedTimes(newTime(apply), body),
      ...tried,
      ...claimsOf(body),
      authors: [author],
      submitted_at: null,
      approved_by: [],
      note: null,
      ended_by: null,
    };
    return {
      id: randomUUID(),
      tenant_id: tenantId,
      state: 'draft',
      digest: digestOf(tenantId, content),
      content,
      due_at: null,
    };
  }

  /** It becomes a draft of another digest, without approvals, whose editor is its last author. */
  edit(tenantId: string | null, id: string, body: Partial<Proposed>, request: Request) {
    return this.#redraft(tenantId, id, 'edited', request, async (row) => {
      const { items, apply, ...texts } = body;
      const claims = { ...claimsOf(row.content), ...claimsOf(body) };
      const tried = items === undefined ? {} : await this.#try(tenantId, items, claims, request);
      const applied = apply === undefined ? row.content.apply : newTime(apply);
      return { ...texts, ...tried, apply: checkedTimes(applied, claims) };
    });
  }

  /** On the documents of now; what others did to them since is shown as `moved`. */
  rebase(tenantId: string | null, id: string, request: Request) {
    return this.#redraft(tenantId, id, 'rebased', request, async (row) => {
      const tried = await this.#again(row, request);
      const moved = row.content.items.flatMap(({ path, before }, index) =>
        diff(before ?? undefined, tried.items[index]!.before ?? undefined).map((change) => ({
          resource: path,
          ...concealSecrets(change),
        })),
      );
      return { ...tried, moved };
    });
  }

  #redraft(
    tenantId: string | null,
    id: string,
    step: string,
    request: Request,
    contentOf: (row: ChangeSetRow) => Promise<Partial<Content>>,
  ): Promise<ChangeSetRow> {
    return whileAsRead(async () => {
      const row = await this.find(tenantId, id);
      this.#requireWriter(row, request);
      requireState(row, 'edit');
      const { moved: _moved, ...earlier } = row.content;
      const content: Content = {
        ...earlier,
        ...(await contentOf(row)),
        authors: withAuthor(row.content.authors, personOf(request.caller)),
        submitted_at: null,
        approved_by: [],
        note: null,
      };
      const digest = digestOf(tenantId, content);
      return this.change(row, step, { state: 'draft', digest, content, due_at: null }, request);
    });
  }

  submit(tenantId: string | null, id: string, request: Request): Promise<ChangeSetRow> {
    return whileAsRead(async () => {
      const row = await this.find(tenantId, id);
      this.#requireWriter(row, request);
      requireState(row, 'submit');
      const pending = (now: Date): Change => submittedAt(now, row.content);
      return this.change(row, 'submitted', pending, request);
    });
  }

  approve(
    tenantId: string | null,
    id: string,
    { digest, comment }: { readonly digest: string; readonly comment?: string },
    request: Request,
  ): Promise<ChangeSetRow> {
    return this.#decide(tenantId, id, request, 'approve', 'approved', (row, person, now) => {
      requireDigest(row, digest);
      if (overlap(person, row.content.approved_by))
        throw new StrataError('conflict', 'You have approved it already; others are still asked.');
      const approval = { ...person, at: now.toISOString(), comment: comment ?? null };
      const approved_by = [...row.content.approved_by, approval];
      const content = { approved_by };
      if (approved_by.length < row.content.required) return { content };
      const { apply } = row.content;
      if (apply === 'manual') return { state: 'approved', due_at: null, content };
      const at = apply === 'on_approval' ? now.getTime() + takenOverMs : Date.parse(apply.at);
      return { state: 'scheduled', due_at: new Date(at), content };
    });
  }

  reject(
    tenantId: string | null,
    id: string,
    comment: string | undefined,
    request: Request,
  ): Promise<ChangeSetRow> {
    return this.#decide(tenantId, id, request, 'reject', 'rejected', () => ({
      state: 'rejected',
      due_at: null,
      content: { note: comment ?? 'rejected', ended_by: request.caller.id },
    }));
  }

  /** By somebody who could have approved it, and did not apply it. */
  review(tenantId: string | null, id: string, request: Request): Promise<ChangeSetRow> {
    return this.#decide(tenantId, id, request, 'review', 'reviewed', ({ content }, person) => {
      const { break_glass: emergency } = content;
      if (!emergency || emergency.reviewed_by !== null)
        throw new StrataError('conflict', 'There is no emergency to review.');
      if (person.principals.includes(breakerOf(emergency.by)))
        throw new StrataError('approval_own_request');
      return { content: { break_glass: { ...emergency, reviewed_by: request.caller.id } } };
    });
  }

  /** Rights first, so that whoever may not decide learns nothing else. */
  #decide(
    tenantId: string | null,
    id: string,
    request: Request,
    step: 'approve' | 'reject' | 'review',
    event: string,
    changeOf: (row: ChangeSetRow, person: StoredPerson, now: Date) => Change,
  ): Promise<ChangeSetRow> {
    return whileAsRead(async () => {
      const row = await this.find(tenantId, id);
      const { documents, rights } = this.#options;
      const person = decidingPerson(request.caller);
      requireAnother(row.content, person);
      requirePowers(
        row.content.items.map((item) => writeOf(documents, item, tenantId)),
        request.caller,
      );
      const { groups } = row.content;
      const asked = { ...askedOf(row.content), groups };
      const provenRight = await rights.approver(tenantId, person, asked, request);
      if (provenRight.right) throw provenRight.right;
      requireState(row, step);
      return this.change(row, event, (now) => changeOf(row, person, now), request, [provenRight]);
    });
  }

  cancel(tenantId: string | null, id: string, request: Request): Promise<ChangeSetRow> {
    return whileAsRead(async () => {
      const row = await this.find(tenantId, id);
      this.#requireWriter(row, request);
      requireState(row, 'cancel');
      const content = { ended_by: request.caller.id };
      return this.change(row, 'cancelled', { state: 'cancelled', content, due_at: null }, request);
    });
  }

  async requireWriterOf(tenantId: string | null, id: string, request: Request): Promise<void> {
    this.#requireWriter(await this.find(tenantId, id), request);
  }

  /** Throws 403 where the caller could not write what the change set writes. */
  #requireWriter({ content, tenant_id: tenantId }: ChangeSetRow, { caller }: Request): void {
    const { documents } = this.#options;
    requireAccess(
      content.items.map((item) => writeOf(documents, item, tenantId)),
      caller,
    );
  }

  /** A step of the row as it was read, while the standings are so. */
  change(
    row: ChangeSetRow,
    step: string,
    change: Change | ((now: Date) => Change),
    request: Request,
    provenRights: readonly ProvenRight<unknown>[] = [],
  ): Promise<ChangeSetRow> {
    const of = this.of(row.tenant_id);
    return this.#options.db.transaction(async (manager) => {
      const now = await lockAsRead(manager, of, row);
      await holdRights(manager, provenRights);
      const made = typeof change === 'function' ? change(now) : change;
      const changed = await changeRow(manager, of, row, now, made);
      await recordStep(manager, step, changed, request, this.#options.onStep);
      await holdAccounts(manager, provenRights);
      return changed;
    });
  }

  /** What the items would do now, as the caller, who has to be allowed each of them. */
  async #try(
    tenantId: string | null,
    items: readonly ProposedItem[],
    claims: Claims,
    request: Request,
  ): Promise<Pick<Content, 'items' | 'required' | 'groups'>> {
    const { db, documents } = this.#options;
    const writes = writesOf(documents, items, tenantId);
    requireAccess(writes, request.caller);
    const works = await trialsOf(writes, items, claimsOf(claims), request);
    const scope = documentScope(tenantId);
    const tried = await commitChanges(db, request, scope, works, { discard: true });
    const asked = tried.map(({ result }) => result.required);
    return {
      items: tried.map(
        ({ result: { before, after, baseRevision: base, answer } }, index): StoredItem => {
          const { action, body } = items[index]!;
          const { kind } = writes[index]!.documents;
          return {
            action,
            path: pathOf(kind.actions, writes[index]!.params),
            ...(!kind.seal && body !== undefined && { body }),
            base,
            before,
            after,
            changes: 'dry_run' in answer ? answer.changes : [],
          };
        },
      ),
      required: Math.max(1, ...asked.map((each) => each?.required ?? 1)),
      groups: groupsOfAll(asked.map((each) => each?.groups ?? [])),
    };
  }

  /** The same items on the documents of now. */
  #again({ content, tenant_id: tenantId }: ChangeSetRow, request: Request) {
    const items = content.items.map(rebasedItem);
    return this.#try(tenantId, items, content, request);
  }
}

/** A person who is there, or the operator's console: no key approves. */
function decidingPerson(caller: Caller): StoredPerson {
  if (isMachine(caller) || (caller.type !== 'user' && caller.type !== 'operator'))
    throw new StrataError('insufficient_scope', 'API keys and services do not decide change sets.');
  return personOf(caller);
}

/** Reviewers would approve what is then suspended, since it is too late for it. */
function newTime(apply: ApplyWhen): ApplyWhen {
  if (typeof apply === 'object' && Date.parse(apply.at) + graceMs < synchronizedNow())
    throw invalid([{ path: '/apply/at', message: 'has passed' }]);
  return apply;
}

function checkedTimes(apply: ApplyWhen, { until }: Claims): ApplyWhen {
  if (typeof apply !== 'object') return apply;
  const at = Date.parse(apply.at);
  if (Number.isNaN(at)) throw invalid([{ path: '/apply/at', message: 'is no time' }]);
  if (until !== undefined && Date.parse(until) <= at)
    throw invalid([{ path: '/until', message: 'is before it is applied' }]);
  return apply;
}
