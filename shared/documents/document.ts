/**
 * Reading and writing one stored document, the same for every configuration resource: preconditions, the new document from a
 * body or a merge patch, validation, and one transaction with row, history, audit event and change record.
 */
import type { TSchema } from 'typebox';
import type { DataSource, EntityManager } from 'typeorm';
import type { Request } from '../cluster/request.ts';
import type { Loaded } from '../cluster/coherence/entry.ts';
import { invalid, StrataError, type Problem } from '../errors.ts';
import { commitChange, readSnapshot } from '../commits/commit.ts';
import { diff } from '../schema/diff.ts';
import { applyMergePatch } from '../schema/merge-patch.ts';
import { problemsOf } from '../schema/validate.ts';
import { checkPreconditions } from './preconditions.ts';

export interface Stored<D> {
  readonly document: D;
  readonly revision: number;
  readonly updated_by: string;
  readonly updated_at: string;
}

export type WriteAction = 'create' | 'update' | 'delete' | 'rollback';

/** What a history needs of a write; `before` and `after` are as stored, null where there is no document. */
export interface Entry<D> {
  readonly revision: number;
  readonly action: WriteAction;
  readonly before: D | null;
  readonly after: D | null;
  readonly at: string;
  readonly reason: string | null;
}

/** What makes one kind of document different from another. `P` is its address, `C` what its rules need to know of others. */
export interface DocumentKind<P, D, C = undefined> {
  /** As audit events name it: `config.<resource>.updated`. */
  readonly resource: string;
  readonly schema: TSchema;
  readonly scope: (params: P) => string;
  readonly tenantId: (params: P) => string | null;
  /** The document's own name, as the history's resource_id. */
  readonly target: (params: P) => string;
  readonly read: (manager: EntityManager, params: P) => Promise<Stored<D> | null>;
  /** `row` null removes. */
  readonly save: (manager: EntityManager, params: P, row: Stored<D> | null) => Promise<void>;
  /** Asked before the transaction: no lock is held while another service is waited for. */
  readonly prepare: (params: P, request: Request) => Promise<C>;
  /** The whole document from what was sent: ids from the path, absent fields filled. */
  readonly settle: (draft: Draft, params: P, current: D | null, context: C) => unknown;
  /** Rules that a schema can't say. */
  readonly check: (
    next: D,
    params: P,
    current: D | null,
    context: C,
    request: Request,
  ) => Problem[];
  /** As a reader sees it; secrets masked. */
  readonly show?: (stored: D) => D;
  /** The same for any part of a stored document. */
  readonly conceal?: (part: unknown) => unknown;
  /** As it is stored; a mask keeps what is stored. */
  readonly seal?: (shown: D, params: P, current: D | null) => D;
  readonly record?: (
    manager: EntityManager,
    params: P,
    entry: Entry<D>,
    request: Request,
  ) => Promise<void>;
  /** For the audit event, beside the revision. */
  readonly restarts?: (document: D) => boolean;
}

interface WriteOptions {
  readonly if_match?: string | undefined;
  readonly if_none_match?: '*' | undefined;
  readonly reason?: string | undefined;
  readonly dry_run?: boolean | undefined;
}
type Draft = Record<string, unknown> | null;
type Change = ReturnType<typeof diff>[number];
/** What a write wants: a draft to settle, a stored document to restore as it was, or nothing at all. */
interface Next<D> {
  readonly action: WriteAction;
  readonly draft: Draft;
  readonly restore?: D;
  readonly remove?: true;
}
type Body<P> = P & WriteOptions & { readonly body: unknown };

const pastTense = {
  create: 'created',
  update: 'updated',
  delete: 'deleted',
  rollback: 'rolled_back',
} as const;

export type WrittenDocument<D> =
  | {
      outcome: 'created' | 'updated' | 'deleted';
      document: D | null;
      revision: number;
      updated_by: string;
      updated_at: string;
      requires_restart?: true;
    }
  | { dry_run: true; changes: Change[]; invalidates: string[] };

export function documentActions<P, D, C>(db: DataSource, kind: DocumentKind<P, D, C>) {
  const show = (document: D): D => kind.show?.(document) ?? document;
  const conceal = (value: unknown): unknown => kind.conceal?.(value) ?? value;
  const refuse = (problems: Problem[]): void => {
    if (problems.length > 0) throw invalid(problems);
  };

  /** `next` is given what is stored, as a reader sees it, and says what shall be. */
  async function change(
    params: P & WriteOptions,
    request: Request,
    keys: readonly string[],
    next: (current: Stored<D> | null) => Next<D>,
  ): Promise<WrittenDocument<D>> {
    const context = await kind.prepare(params, request);
    const { result } = await commitChange<WrittenDocument<D>>(
      db,
      request,
      kind.scope(params),
      async (manager, revision) => {
        const current = await kind.read(manager, params);
        checkPreconditions(params, current);
        const wanted = next(current && { ...current, document: show(current.document) });
        const after = stored(wanted, params, current, context, request);
        const at = new Date().toISOString();
        const row = wanted.remove
          ? null
          : { document: after as D, revision, updated_by: request.caller.id, updated_at: at };
        await kind.save(manager, params, row);

        const before = current?.document ?? null;
        const reason = params.reason ?? null;
        await kind.record?.(
          manager,
          params,
          { revision, action: wanted.action, before, after, at, reason },
          request,
        );
        const changes = diff(before ?? undefined, after ?? undefined).map(
          (entry) => conceal(entry) as Change,
        );
        const event = {
          action: `config.${kind.resource}.${pastTense[wanted.action]}`,
          tenant_id: kind.tenantId(params),
          target: kind.target(params),
          payload: { revision, reason, changes },
        };
        const answer: WrittenDocument<D> = params.dry_run
          ? { dry_run: true, changes, invalidates: [...keys] }
          : {
              outcome: row === null ? 'deleted' : current === null ? 'created' : 'updated',
              document: row && show(row.document),
              revision,
              updated_by: request.caller.id,
              updated_at: at,
              ...(row !== null && kind.restarts?.(row.document)
                ? { requires_restart: true as const }
                : {}),
            };
        return { result: answer, keys, events: [event] };
      },
      { discard: params.dry_run === true },
    );
    return result;
  }

  /** The next document as it will be stored, once it has passed the schema and the rules; a restored one passes them too. */
  function stored(
    wanted: Next<D>,
    params: P,
    current: Stored<D> | null,
    context: C,
    request: Request,
  ): D | null {
    if (wanted.remove) return null;
    const before = current?.document ?? null;
    const document =
      wanted.restore === undefined
        ? kind.settle(wanted.draft, params, before, context)
        : show(wanted.restore);
    refuse(problemsOf(kind.schema, document));
    refuse(kind.check(document as D, params, before, context, request));
    return wanted.restore ?? kind.seal?.(document as D, params, before) ?? (document as D);
  }

  return {
    change,
    get: (params: P): Promise<Loaded<Stored<D> | null>> =>
      readSnapshot(db, kind.scope(params), async (manager) => {
        const found = await kind.read(manager, params);
        return found && { ...found, document: show(found.document) };
      }),
    put: (params: Body<P>, request: Request) =>
      change(params, request, request.keys, (current) => ({
        action: current === null ? 'create' : 'update',
        draft: params.body as Draft,
      })),
    patch: (params: Body<P>, request: Request) =>
      change(params, request, request.keys, (current) => {
        if (current === null) throw new StrataError('not_found');
        return { action: 'update', draft: applyMergePatch(current.document, params.body) as Draft };
      }),
    delete: (params: P & WriteOptions, request: Request) =>
      change(params, request, request.keys, (current) => {
        if (current === null) throw new StrataError('not_found');
        return { action: 'delete', draft: null, remove: true };
      }),
  };
}
