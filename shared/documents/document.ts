/**
 * Reading and writing one stored document, the same for every configuration resource.
 * `document-kind.ts` says what a kind adds.
 */
import type { DataSource, EntityManager } from 'typeorm';
import { letOthersRun } from '../concurrency/large-work.ts';
import { allEnded } from '../database/all-ended.ts';
import type { Loaded } from '../coherence/entry.ts';
import type { Request } from '../contract-runtime/request.ts';
import { namesIn, platformName, realmOf } from '../commits/actor-names.ts';
import { commitCombined, storing, type Check, type Checked } from '../commits/combined-commits.ts';
import { commitChange, readSnapshot, type Work } from '../commits/commit.ts';
import type { DocumentAction } from '../contracts/history.ts';
import { contractOf } from '../contracts/index.ts';
import { documentScope, type RevisionScope } from '../contracts/revision-scopes.ts';
import { boundedProblems, invalid, StrataError, type Problem } from '../errors.ts';
import { diff } from '../schema/diff.ts';
import { applyMergePatch } from '../schema/merge-patch.ts';
import { problemsOf } from '../schema/validate.ts';
import { concealSecrets } from '../security/document-secrets.ts';
import { approvalRequired, requiredOf, type Sent, type WriteVerb } from './change-policy.ts';
export { writeVerbs, type WriteVerb } from './change-policy.ts';
import type { Attempt, WrittenDocument } from './written.ts';
export type { Attempt, WrittenDocument } from './written.ts';
import {
  isHidden,
  refuseHidden,
  type DocumentKind,
  type Draft,
  type Findings,
  type Stored,
} from './document-kind.ts';
import { sizeWithinLimits } from './document-size.ts';
import { claimsOf, ownersAfter, storeManaged, type Claims } from './managed-fields.ts';
import { storeTemporary, temporaryAfter, type TemporaryWrite } from './temporary-changes.ts';
import { checkPreconditions } from './preconditions.ts';

/** The options of every write, as `write()` in `shared/contracts/contract.ts` defines them. */
interface WriteOptions extends Claims {
  readonly if_match?: string;
  readonly if_none_match?: '*';
  readonly reason?: string;
  readonly dry_run?: boolean;
}

type WriteParams<Address> = Address & WriteOptions & { readonly body?: unknown };

/**
 * The handlers of one kind's contracts, and the write behind a rollback. Documents are answered
 * with their secrets masked.
 *
 * Writes throw 412 where a precondition fails, 422 with every problem found, 413 for a document
 * that would be too large to store, and whatever the kind's own rules throw. `delete` throws 404
 * where there is no document, and so does `patch` for most kinds. With `dry_run` they do
 * everything, to see that it would work, and undo it.
 */
export interface DocumentActions<Address, Document> {
  readonly kind: Pick<
    DocumentKind<Address, Document>,
    'actions' | 'configType' | 'resourceId' | 'bodyOf' | 'seal' | 'isForTenants'
  >;
  get(address: Address): Promise<Loaded<Stored<Document> | null>>;
  put(
    params: Address & WriteOptions & { readonly body: Draft },
    request: Request,
  ): Promise<WrittenDocument<Document>>;
  patch(
    params: Address & WriteOptions & { readonly body: Readonly<Record<string, unknown>> },
    request: Request,
  ): Promise<WrittenDocument<Document>>;
  delete(params: Address & WriteOptions, request: Request): Promise<WrittenDocument<Document>>;
  /** Restores what a history entry calls `before` or `after`, under the same rules as any write. */
  rollback(
    params: Address & WriteOptions,
    request: Request,
    after: unknown,
  ): Promise<WrittenDocument<Document>>;
  /**
   * The work of a write, for a commit that the caller makes, of which it may be only a part. The
   * body is the contract's; with `dry_run` the caller discards it.
   */
  prepare(
    verb: WriteVerb,
    params: WriteParams<Address>,
    request: Request,
  ): Promise<Work<Attempt<Document>>>;
  /**
   * The work of a write whose document is known, as a change set has it: null removes it. Secrets are
   * sealed in it, as in the history. `sent` is what it was proposed as.
   */
  place(
    params: Address & WriteOptions,
    request: Request,
    after: unknown,
    sent?: Pick<Sent, 'verb' | 'body'>,
  ): Promise<Work<Attempt<Document>>>;
}

/** The documents of one service. */
export type AllDocuments = readonly DocumentActions<object, unknown>[];

const pastTense = {
  create: 'created',
  update: 'updated',
  delete: 'deleted',
  rollback: 'rolled_back',
} as const satisfies Record<DocumentAction, string>;

/** Only a rollback can ask for it: such a document has no DELETE. */
const alwaysThere = (): StrataError =>
  new StrataError(
    'conflict',
    'This document is always there, so what made it cannot be undone. Restore one of its revisions instead.',
  );

function refuse(problems: readonly Problem[]): void {
  if (problems.length > 0) throw invalid([...problems]);
}

/** What a write finds. */
interface Found<Address, Document, Context> {
  readonly address: Address;
  readonly current: Stored<Document> | null;
  readonly context: Context;
  readonly request: Request;
  readonly at: Date;
}
interface Next<Document> {
  readonly document: Document;
  readonly findings: Findings;
}
/** What a write makes of it; `next` null removes the document. */
interface Plan<Document> {
  readonly action: DocumentAction;
  readonly next: Next<Document> | null;
  /** It is answered as what created the document. */
  readonly isNew?: boolean;
}

/** As many as one answer names. */
const warningsOf = <Document>(
  next: Next<Document> | null,
  temporary?: TemporaryWrite,
): { warnings?: Problem[] } => {
  const warned = [...(next?.findings.warned ?? []), ...(temporary?.warned ?? [])];
  return warned.length === 0 ? {} : { warnings: boundedProblems(warned) };
};

export const documentActions = <Address, Document, Context>(
  db: DataSource,
  kind: DocumentKind<Address, Document, Context>,
): DocumentActions<Address, Document> => new Documents(db, kind);

class Documents<Address, Document, Context> implements DocumentActions<Address, Document> {
  readonly #db: DataSource;
  readonly kind: DocumentKind<Address, Document, Context>;

  readonly put = this.#writeBy('put');
  readonly patch = this.#writeBy('patch');
  readonly delete = this.#writeBy('delete');

  constructor(db: DataSource, kind: DocumentKind<Address, Document, Context>) {
    this.#db = db;
    this.kind = kind;
  }

  /**
   * For most kinds null in the history means that there was no document; for a kind whose schema
   * admits null, it is one. Asked when it matters: to compile every schema took a fifth of a start.
   */
  get #nullIsDocument(): boolean {
    return problemsOf(this.kind.schema, null).length === 0;
  }

  readonly get = (address: Address): Promise<Loaded<Stored<Document> | null>> =>
    readSnapshot(this.#db, this.#scopeOf(address), async (manager) => {
      const { current } = await this.kind.load(manager, address);
      if (!current) return null;
      const { document, updated_by: author } = current;
      const name = await this.#nameOf(manager, address, author, document);
      return { ...current, updated_by_name: name, document: this.#conceal(document) };
    });

  async prepare(
    verb: WriteVerb,
    params: WriteParams<Address>,
    request: Request,
  ): Promise<Work<Attempt<Document>>> {
    return storing(await this.#checkOfVerb(verb, params, request));
  }

  async place(
    params: Address & WriteOptions,
    request: Request,
    after: unknown,
    proposed: Pick<Sent, 'verb' | 'body'> = {},
  ): Promise<Work<Attempt<Document>>> {
    const keys = this.#keysOf(params);
    const check = await this.#checkOf(params, request, { proposed }, keys, (found) => {
      const next = this.#fromHistory(after, found);
      const isNew = found.current === null;
      if (next === null) return { action: 'delete', next };
      return { action: isNew ? 'create' : 'update', next, isNew };
    });
    return storing(check);
  }

  readonly rollback = async (
    params: Address & WriteOptions,
    request: Request,
    after: unknown,
  ): Promise<WrittenDocument<Document>> => {
    const check = await this.#checkOf(params, request, {}, this.#keysOf(params), (found) => ({
      action: 'rollback',
      next: this.#fromHistory(after, found),
      isNew: found.current === null,
    }));
    return this.#write(params, request, check);
  };

  #writeBy(verb: WriteVerb) {
    return async (params: WriteParams<Address>, request: Request) => {
      const check = await this.#checkOfVerb(verb, params, request, { isAlone: true });
      return this.#write(params, request, check);
    };
  }

  async #write(
    params: Address & WriteOptions,
    request: Request,
    check: Check<Attempt<Document>>,
  ): Promise<WrittenDocument<Document>> {
    const scope = this.#scopeOf(params);
    const { answer } =
      params.dry_run === true || this.kind.commitsAlone
        ? await commitChange(this.#db, request, scope, storing(check), {
            discard: params.dry_run === true,
          })
        : await commitCombined(this.#db, request, scope, check);
    return answer;
  }

  /** The write of a verb, up to its commit. */
  #checkOfVerb(
    verb: WriteVerb,
    params: WriteParams<Address>,
    request: Request,
    alone: Pick<Sent, 'isAlone'> = {},
  ): Promise<Check<Attempt<Document>>> {
    const { body } = params;
    return this.#checkOf(params, request, { verb, body, ...alone }, request.keys, (found) =>
      this.#planOf(verb, body, found),
    );
  }

  async #checkOf(
    params: Address & WriteOptions,
    request: Request,
    sent: Sent,
    cacheKeys: readonly string[],
    planOf: (found: Found<Address, Document, Context>) => Plan<Document>,
  ): Promise<Check<Attempt<Document>>> {
    const kind = this.kind;
    const context = await kind.prepare(params, request, sent.body);
    const reason = params.reason ?? null;
    const isDryRun = params.dry_run === true;

    return async (manager, counted) => {
      // Whoever applies a change set holds the rights of all who have a part in it.
      const writer = request.changeSet ? undefined : request.caller;
      const [{ revision, at: changedAt, policies }, { current, missingOwner, roles }] =
        await allEnded([counted, kind.load(manager, params, writer)]);
      if (roles) request.checkRoles(roles);
      // A trial shows what it would change.
      if (isDryRun) refuseHidden(this.kind, current, request.caller);
      // Who writes may know who wrote, also where readers are told only that the platform did.
      const author = current && (await this.#nameOf(manager, params, current.updated_by));
      const known = current && { ...current, updated_by_name: author };
      checkPreconditions(params, known, !isHidden(kind, current, request.caller));
      const plan = planOf({ address: params, current, context, request, at: changedAt });
      const { action, next } = plan;
      const bytes = next === null ? 0 : sizeWithinLimits(next.document);
      await letOthersRun(bytes);

      const at = changedAt.toISOString();
      const updatedBy = request.caller.id;
      const written = {
        revision,
        updated_by: updatedBy,
        updated_by_name: await this.#nameOf(manager, params, updatedBy, next?.document),
        updated_at: at,
      };
      const before = current?.document ?? null;
      // To the history, a document that is null is none.
      const after = next?.document ?? null;
      if (missingOwner) throw missingOwner;
      const problems = await kind.checkInTransaction?.(manager, params, after, before, context);
      refuse(problems ?? []);

      // To `diff`, undefined is what does not exist, and null a value.
      const changes = diff(before ?? undefined, after ?? undefined).map((each) =>
        this.#conceal(each),
      );
      const isRemoved = after === null && !this.#nullIsDocument;
      const owners = await ownersAfter(manager, kind, params, policies, {
        ...(sent.proposed ?? sent),
        changes,
        after: isRemoved ? null : (after ?? {}),
        by: updatedBy,
        at,
      });
      const temporary = await temporaryAfter(manager, kind, params, policies, {
        before,
        after,
        changes,
        isRemoved,
        isNew: current === null,
        isEnd: request.ending !== undefined,
        revision,
        at: changedAt,
        by: updatedBy,
        reason,
      });
      const required =
        kind.approvedElsewhere || request.ending
          ? null
          : requiredOf(kind, params, policies, { before, after, changes }, temporary?.ended);
      if (required && !isDryRun) {
        const { changeSet } = request;
        const left = isRemoved ? undefined : { document: this.#conceal(after as Document) };
        if (!changeSet) throw approvalRequired(kind, params, sent, left, params);
        changeSet.requireEnough(required);
      }
      const isUnchanged = current !== null && next !== null && changes.length === 0;
      if (isUnchanged && sent.isAlone && !isDryRun && !kind.commitsAlone && !owners)
        return this.#unchanged(plan, current, author, cacheKeys, temporary);
      const event = {
        action: `config.${kind.auditName}.${pastTense[action]}`,
        tenant_id: kind.tenantId(params),
        target: kind.resourceId(params),
        payload: {
          revision,
          reason,
          changes,
          ...(request.changeSet && { changeset_id: request.changeSet.id }),
          ...(request.ending && { temporary_change_id: request.ending.id }),
          ...claimsOf(params),
        },
      };
      const answer: WrittenDocument<Document> = isDryRun
        ? { dry_run: true, changes, invalidates: [...cacheKeys], ...warningsOf(next, temporary) }
        : this.#answerTo(plan, written, temporary);
      // Nothing is stored behind an answer that will not be given.
      request.checkAnswer(answer);
      await letOthersRun(bytes);
      return {
        result: { answer, before, after, baseRevision: current?.revision ?? null, required },
        keys: cacheKeys,
        events: [event],
        bytes,
        store: async () => {
          const record = { revision, action, before, after, at, reason, isTrial: isDryRun };
          await kind.store(manager, params, record, request);
          if (isDryRun) return;
          if (owners) await storeManaged(manager, owners);
          if (temporary) await storeTemporary(manager, temporary);
          policies.managed ||= owners !== undefined;
          policies.temporary ||= temporary !== undefined;
        },
      };
    };
  }

  /** What each verb makes of what it finds. The body passed the contract's schema. */
  #planOf(
    verb: WriteVerb,
    body: unknown,
    found: Found<Address, Document, Context>,
  ): Plan<Document> {
    const isNew = found.current === null;
    const action = isNew ? 'create' : 'update';
    if (verb === 'put') return { action, next: this.#fromDraft(body as Draft, found), isNew };
    if (isNew && (verb === 'delete' || !this.kind.patchCreates)) throw new StrataError('not_found');
    if (verb === 'delete') return { action: 'delete', next: null };
    refuseHidden(this.kind, found.current, found.request.caller);
    const shown = found.current === null ? {} : this.#conceal(found.current.document);
    const patched = applyMergePatch(shown, body as Readonly<Record<string, unknown>>);
    return { action, next: this.#fromDraft(patched, found) };
  }

  /** The document to store from what was sent. */
  #fromDraft(draft: Draft, found: Found<Address, Document, Context>): Next<Document> {
    const { address, context } = found;
    const current = found.current?.document ?? null;
    const next = this.#checked(this.kind.complete(draft, address, current, context), found);
    if (!this.kind.seal) return next;
    return { ...next, document: this.kind.seal(next.document, address, current) };
  }

  /**
   * The document to store from the history, with its secrets as they were sealed then. Rules see
   * masks in their place, as they do in what readers send back; so a rule of today may refuse it.
   */
  #fromHistory(after: unknown, found: Found<Address, Document, Context>): Next<Document> | null {
    if (after === null && !this.#nullIsDocument) {
      if (this.kind.isAlwaysThere) throw alwaysThere();
      return null;
    }
    refuseHidden(this.kind, { document: after as Document }, found.request.caller);
    this.kind.requireOpen?.(after as Document, found.address);
    const { findings } = this.#checked(this.#conceal(after), found);
    return { document: after as Document, findings };
  }

  /** The document, once it has passed the schema and the rules of its kind. */
  #checked(
    document: unknown,
    { address, current, context, request, at }: Found<Address, Document, Context>,
  ): Next<Document> {
    refuse(problemsOf(this.kind.schema, document));
    const next = document as Document;
    const { caller } = request;
    const findings = this.kind.check({
      next,
      address,
      current: current?.document ?? null,
      context,
      caller,
      at,
    });
    refuse(findings.refused);
    return { document: next, findings };
  }

  /** The document is as it was sent, and stays with its revision, author and time. */
  #unchanged(
    plan: Plan<Document>,
    { document: _current, ...as }: Stored<Document>,
    author: string | null,
    keys: readonly string[],
    temporary: TemporaryWrite | undefined,
  ): Checked<Attempt<Document>> {
    const answer = this.#answerTo(plan, { ...as, updated_by_name: author }, temporary);
    const document = plan.next!.document;
    const result = {
      answer,
      before: document,
      after: document,
      baseRevision: as.revision,
      required: null,
    };
    return { result, keys, events: [], bytes: 0 };
  }

  #answerTo(
    { next, isNew = false }: Plan<Document>,
    written: Omit<Stored<Document>, 'document'>,
    temporary: TemporaryWrite | undefined,
  ): WrittenDocument<Document> {
    if (next === null) return { outcome: 'deleted', document: null, ...written };
    return {
      outcome: isNew ? 'created' : 'updated',
      document: this.#conceal(next.document),
      ...written,
      ...(next.findings.requiresRestart && { requires_restart: true as const }),
      ...warningsOf(next, temporary),
    };
  }

  /**
   * What readers of the document read for the id of its author. Kept with it in memory, so that a
   * read there costs nothing.
   */
  async #nameOf(
    manager: EntityManager,
    address: Address,
    id: string,
    document?: Document,
  ): Promise<string | null> {
    if (document !== undefined && this.kind.isForTenants?.(document)) return platformName;
    const names = await namesIn(manager, realmOf(this.kind.tenantId(address)), [id]);
    return names.of(id);
  }

  #conceal<Part>(value: Part): Part {
    return this.kind.seal ? concealSecrets(value) : value;
  }

  /** The cache keys of the document, for writes whose own contract can't know them. */
  #keysOf(address: Address): readonly string[] {
    return contractOf(`${this.kind.actions}.put`)?.drops?.({ ...(address as object) }) ?? [];
  }

  /** The counter that a write takes its revision from. Writes of one scope follow each other. */
  #scopeOf(address: Address): RevisionScope {
    return documentScope(this.kind.tenantId(address));
  }
}
