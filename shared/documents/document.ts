/**
 * Reading and writing one stored document, the same for every configuration resource.
 * `document-kind.ts` says what a kind adds.
 */
import type { DataSource, EntityManager } from 'typeorm';
import type { Caller } from '../access.ts';
import { allEnded } from '../database/all-ended.ts';
import type { Loaded } from '../coherence/entry.ts';
import type { Request } from '../contract-runtime/request.ts';
import { namesIn, platformName, realmOf } from '../commits/actor-names.ts';
import { commitCombined, storing, type Judge } from '../commits/combined.ts';
import { commitChange, readSnapshot, type Work } from '../commits/commit.ts';
import type { DocumentAction } from '../contracts/history.ts';
import { boundedProblems, invalid, StrataError, type Problem } from '../errors.ts';
import { diff, type Difference } from '../schema/diff.ts';
import { applyMergePatch } from '../schema/merge-patch.ts';
import { problemsOf } from '../schema/validate.ts';
import type { Before, DocumentKind, Draft, Stored, WriteRecord } from './document-kind.ts';
import { sizeWithinLimits } from './document-size.ts';
import { checkPreconditions } from './preconditions.ts';

/** The options of every write, as `write()` in `shared/contracts/contract.ts` defines them. */
interface WriteOptions {
  readonly if_match?: string;
  readonly if_none_match?: '*';
  readonly reason?: string;
  readonly dry_run?: boolean;
}

/** What a write answers: what it did, or what it would do. */
export type WrittenDocument<Document> =
  | {
      outcome: 'created' | 'updated' | 'deleted';
      document: Document | null;
      revision: number;
      updated_by: string;
      updated_by_name?: string | null;
      updated_at: string;
      requires_restart?: true;
      warnings?: Problem[];
    }
  | { dry_run: true; changes: Difference[]; invalidates: string[]; warnings?: Problem[] };

/**
 * A write inside its transaction: what it answers, and the document around it; null where there is
 * none.
 */
export interface Attempt<Document> {
  readonly answer: WrittenDocument<Document>;
  readonly before: Document | null;
  readonly after: Document | null;
}

export const writeVerbs = ['put', 'patch', 'delete'] as const;
export type WriteVerb = (typeof writeVerbs)[number];

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
  /**
   * Restores what a history entry calls `before` or `after`, under the same rules as any write.
   * `cacheKeys` are the document's: the contract of a rollback can't know them.
   */
  rollback(
    params: Address & WriteOptions,
    request: Request,
    after: unknown,
    cacheKeys: readonly string[],
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
}

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

export function documentActions<Address, Document, Context>(
  db: DataSource,
  kind: DocumentKind<Address, Document, Context>,
): DocumentActions<Address, Document> {
  const conceal = <Part>(value: Part): Part => kind.secrets?.conceal(value) ?? value;
  /**
   * For most kinds null in the history means that there was no document; for a kind whose schema
   * admits null, it is one.
   */
  const nullIsDocument = problemsOf(kind.schema, null).length === 0;

  /** What a write finds. */
  interface Found {
    readonly address: Address;
    readonly current: Stored<Document> | null;
    readonly context: Context;
    readonly request: Request;
  }
  interface Next {
    readonly document: Document;
    readonly warnings: readonly Problem[];
  }
  /** What a write makes of it; `next` null removes the document. */
  interface Plan {
    readonly action: DocumentAction;
    readonly next: Next | null;
    /** It is answered as what created the document. */
    readonly isNew?: boolean;
  }

  /** What a write did. */
  interface Done {
    readonly next: Plan['next'];
    readonly isNew: boolean;
    readonly written: Omit<Stored<Document>, 'document'>;
  }

  /**
   * What readers of the document read for the id of its author. Kept with it in memory, so that a
   * read there costs nothing.
   */
  async function nameOf(
    manager: EntityManager,
    address: Address,
    id: string,
    document?: Document,
  ): Promise<string | null> {
    if (document !== undefined && kind.isForTenants?.(document)) return platformName;
    const names = await namesIn(manager, realmOf(kind.tenantId(address)), [id]);
    return names.of(id);
  }

  const named = async (
    manager: EntityManager,
    address: Address,
    stored: Stored<Document>,
  ): Promise<Stored<Document>> => ({
    ...stored,
    updated_by_name: await nameOf(manager, address, stored.updated_by, stored.document),
  });

  /** The document, once it has passed the schema and the rules of its kind. */
  function checked(document: unknown, { address, current, context, request }: Found): Next {
    refuse(problemsOf(kind.schema, document));
    const next = document as Document;
    const proposed = {
      next,
      address,
      current: current?.document ?? null,
      context,
      caller: request.caller,
    };
    refuse(kind.check(proposed));
    return { document: next, warnings: kind.warnings?.(proposed) ?? [] };
  }

  /** The document to store from what was sent. */
  function fromDraft(draft: Draft, found: Found): Next {
    const { address, context } = found;
    const current = found.current?.document ?? null;
    const next = checked(kind.complete(draft, address, current, context), found);
    if (!kind.secrets) return next;
    return { ...next, document: kind.secrets.seal(next.document, address, current) };
  }

  /**
   * The document to store from the history, with its secrets as they were sealed then. Rules see
   * masks in their place, as they do in what readers send back; so a rule of today may refuse it.
   */
  function fromHistory(after: unknown, found: Found): Plan['next'] {
    if (after === null && !nullIsDocument) {
      if (!kind.remove) throw alwaysThere();
      return null;
    }
    refuseHidden({ document: after as Document }, found.request.caller);
    const { warnings } = checked(conceal(after), found);
    return { document: after as Document, warnings };
  }

  /** Throws `not_found` where the answer would show a document to a writer who may not read it. */
  function refuseHidden(current: Pick<Stored<Document>, 'document'> | null, caller: Caller): void {
    if (current && kind.isHidden?.(current.document, caller)) throw new StrataError('not_found');
  }

  const readToWrite = async (manager: EntityManager, address: Address): Promise<Before<Document>> =>
    kind.readToWrite?.(manager, address) ?? { current: await kind.read(manager, address) };

  /** Null is the document's end. */
  async function store(
    manager: EntityManager,
    address: Address,
    stored: Stored<Document> | null,
    record: WriteRecord<Document>,
    request: Request,
  ): Promise<void> {
    if (stored && kind.saveWithHistory)
      return kind.saveWithHistory(manager, address, record, request);
    await allEnded([
      stored ? kind.save!(manager, address, stored) : kind.remove!(manager, address),
      kind.recordHistory?.(manager, address, record, request),
    ]);
  }

  async function judgeOf(
    params: Address & WriteOptions,
    request: Request,
    body: unknown,
    cacheKeys: readonly string[],
    planOf: (found: Found) => Plan,
  ): Promise<Judge<Attempt<Document>>> {
    const context = await kind.prepare(params, request, body);
    const reason = params.reason ?? null;
    const isDryRun = params.dry_run === true;

    return async (manager, counted) => {
      const [{ revision, at: changedAt }, { current, missingOwner }] = await allEnded([
        counted,
        readToWrite(manager, params),
      ]);
      // A trial shows what it would change.
      if (isDryRun) refuseHidden(current, request.caller);
      // Who writes may know who wrote, also where readers are told only that the platform did.
      const author = current && (await nameOf(manager, params, current.updated_by));
      checkPreconditions(params, current && { ...current, updated_by_name: author });
      const {
        action,
        next,
        isNew = false,
      } = planOf({ address: params, current, context, request });
      const bytes = next === null ? 0 : sizeWithinLimits(next.document);

      const at = changedAt.toISOString();
      const updatedBy = request.caller.id;
      const written = {
        revision,
        updated_by: updatedBy,
        updated_by_name: await nameOf(manager, params, updatedBy, next?.document),
        updated_at: at,
      };
      const before = current?.document ?? null;
      // To the history, a document that is null is none.
      const after = next?.document ?? null;
      if (missingOwner) throw missingOwner;
      const problems = await kind.checkInTransaction?.(manager, params, after, before);
      refuse(problems ?? []);
      if (next === null && !kind.remove)
        throw new Error(`config.${kind.auditName} is a document that always exists`);

      // To `diff`, undefined is what does not exist, and null a value.
      const changes = diff(before ?? undefined, after ?? undefined).map(conceal);
      const event = {
        action: `config.${kind.auditName}.${pastTense[action]}`,
        tenant_id: kind.tenantId(params),
        target: kind.resourceId(params),
        payload: { revision, reason, changes },
      };
      const answer: WrittenDocument<Document> = isDryRun
        ? { dry_run: true, changes, invalidates: [...cacheKeys], ...warningsOf(next) }
        : answerTo({ written, next, isNew });
      // Nothing is stored behind an answer that will not be given.
      request.checkAnswer(answer);
      return {
        result: { answer, before, after },
        keys: cacheKeys,
        events: [event],
        bytes,
        async store() {
          const record = { revision, action, before, after, at, reason };
          const stored = next && { document: next.document, ...written };
          await store(manager, params, stored, record, request);
        },
      };
    };
  }

  async function write(
    params: Address & WriteOptions,
    request: Request,
    judge: Judge<Attempt<Document>>,
  ): Promise<WrittenDocument<Document>> {
    const scope = kind.revisionScope(params);
    const { result } =
      params.dry_run === true
        ? await commitChange(db, request, scope, storing(judge), { discard: true })
        : await commitCombined(db, request, scope, judge);
    return result.answer;
  }

  function answerTo({ next, written, isNew }: Done): WrittenDocument<Document> {
    if (next === null) return { outcome: 'deleted', document: null, ...written };
    const { document } = next;
    return {
      outcome: isNew ? 'created' : 'updated',
      document: conceal(document),
      ...written,
      ...(kind.requiresRestart?.(document) && { requires_restart: true as const }),
      ...warningsOf(next),
    };
  }

  /** As many as one answer names. */
  const warningsOf = (next: Next | null): { warnings?: Problem[] } =>
    next === null || next.warnings.length === 0 ? {} : { warnings: boundedProblems(next.warnings) };

  /** What each verb makes of what it finds. The body passed the contract's schema. */
  function planOf(verb: WriteVerb, body: unknown, found: Found): Plan {
    const isNew = found.current === null;
    const action = isNew ? 'create' : 'update';
    if (verb === 'put') return { action, next: fromDraft(body as Draft, found), isNew };
    if (isNew && (verb === 'delete' || !kind.patchCreates)) throw new StrataError('not_found');
    if (verb === 'delete') return { action: 'delete', next: null };
    refuseHidden(found.current, found.request.caller);
    const shown = found.current === null ? {} : conceal(found.current.document);
    return {
      action,
      next: fromDraft(applyMergePatch(shown, body as Readonly<Record<string, unknown>>), found),
    };
  }

  /** The write of a verb, up to its commit. */
  const judgeOfVerb = (
    verb: WriteVerb,
    params: WriteParams<Address>,
    request: Request,
  ): Promise<Judge<Attempt<Document>>> => {
    const { body } = params;
    return judgeOf(params, request, body, request.keys, (found) => planOf(verb, body, found));
  };

  const writeBy =
    (verb: WriteVerb) =>
    async (params: WriteParams<Address>, request: Request): Promise<WrittenDocument<Document>> =>
      write(params, request, await judgeOfVerb(verb, params, request));

  return {
    get: (address) =>
      readSnapshot(db, kind.revisionScope(address), async (manager) => {
        const stored = await kind.read(manager, address);
        if (!stored) return null;
        const shown = await named(manager, address, stored);
        return { ...shown, document: conceal(stored.document) };
      }),

    put: writeBy('put'),
    patch: writeBy('patch'),
    delete: writeBy('delete'),
    prepare: async (verb, params, request) => storing(await judgeOfVerb(verb, params, request)),

    async rollback(params, request, after, cacheKeys) {
      const judge = await judgeOf(params, request, undefined, cacheKeys, (found) => ({
        action: 'rollback',
        next: fromHistory(after, found),
        isNew: found.current === null,
      }));
      return write(params, request, judge);
    },
  };
}
