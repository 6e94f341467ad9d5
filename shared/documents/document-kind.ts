/**
 * What makes one kind of stored document different from another, for whoever adds a kind.
 * `document.ts` does the rest, the same for all: preconditions, validation, and one transaction
 * with row, history, audit event and change record.
 *
 * The steps of a write, in order:
 *
 * | step               | of the kind          | may use                                                         |
 * | ------------------ | -------------------- | --------------------------------------------------------------- |
 * | before             | `prepare`            | other services, slow lookups                                    |
 * | in the transaction | `load`               | the database, under the lock of the scope                       |
 * |                    | `complete`           | what `prepare` found                                            |
 * |                    | `schema`, `check`    | what `prepare` found                                            |
 * |                    | `seal`               | keys                                                            |
 * |                    | `checkInTransaction` | the database, under the lock of the scope; what `prepare` found |
 * |                    | `store`              | the database                                                    |
 *
 * Up to `checkInTransaction` they only read: a write that is refused has nothing to take back from
 * a commit that it shares with others (../commits/combined-commits.ts).
 */
import type { TSchema } from 'typebox';
import type { EntityManager } from 'typeorm';
import { seesPlatform, type Caller } from '../access.ts';
import type { Request } from '../contract-runtime/request.ts';
import type { WriteAction } from '../contracts/history.ts';
import type { TenantRole } from '../contracts/roles.ts';
import { StrataError, type Problem } from '../errors.ts';

/** A document as it is kept: with the revision that wrote it, by whom and when (RFC 3339, UTC). */
export interface Stored<Document> {
  readonly document: Document;
  readonly revision: number;
  readonly updated_by: string;
  /** Who that is, for people; null where the tenant, or the platform, does not know them. */
  readonly updated_by_name?: string | null;
  readonly updated_at: string;
}

/**
 * The document of a row. It passed its kind's schema when it was written, so its type is taken on
 * trust.
 */
export const storedFrom = <Document>({
  document,
  revision,
  updated_by,
  updated_at,
}: {
  readonly document: unknown;
  readonly revision: number;
  readonly updated_by: string;
  readonly updated_at: Date;
}): Stored<Document> => ({
  document: document as Document,
  revision,
  updated_by,
  updated_at: updated_at.toISOString(),
});

/** Of these a tenant, or the platform, has one each. */
export type SingleName = 'bounds' | 'budgets' | 'freezes' | 'change_policy' | 'event_destinations';

/** What such a document is called: in audit events, in the history and in actions. */
export const singleNames = <Name extends SingleName>(
  service: 'tenant-config' | 'global-config',
  name: Name,
) => ({
  auditName: name,
  configType: `${name}_config` as const,
  actions: `${service}.${name.replaceAll('_', '-')}`,
});

/** A document before and after a write; null for none. */
export interface Both<Document> {
  readonly before: Document | null;
  readonly after: Document | null;
}

/** What a write finds. */
export interface Before<Document> {
  /** As it is stored; null where there is none. */
  readonly current: Stored<Document> | null;
  /** What refuses every write where that which the document belongs to does not exist. */
  readonly missingOwner?: StrataError | undefined;
  /** Of the writer in the tenant now; absent where they do not act by roles of it. */
  readonly roles?: readonly TenantRole[] | undefined;
}

/**
 * What was sent, before it is a document: the body of a PUT, or the current document after a merge
 * patch.
 */
export type Draft = Readonly<Record<string, unknown>> | null;

/**
 * A document that passed the schema and is not stored yet. Its secrets are as they were sent, so a
 * mask may stand for one.
 */
export interface ProposedWrite<Address, Document, Context> {
  readonly next: Document;
  readonly address: Address;
  /** As it is stored; null where there is none. */
  readonly current: Document | null;
  readonly context: Context;
  readonly caller: Caller;
  /** When it is written, by the database's clock. */
  readonly at: Date;
}

/**
 * One write as the history keeps it; `before` and `after` are as stored, null where there is no
 * document.
 */
export interface WriteRecord<Document> {
  readonly revision: number;
  readonly action: WriteAction;
  readonly before: Document | null;
  readonly after: Document | null;
  readonly at: string;
  readonly reason: string | null;
  /** It is rolled back: where a trial takes no lock, it needs no entry of the history either. */
  readonly isTrial?: boolean;
}

/** What `check` finds. */
export interface Findings {
  /** Answered with 422. */
  readonly refused: Problem[];
  /** What may be stored and deserves a word to whoever writes it. */
  readonly warned?: Problem[];
  /** Takes effect only after a restart or reload, which the answer says. */
  readonly requiresRestart?: boolean;
}

/**
 * `Address` names one document of the kind, by the path parameters of its contracts. `Context` is
 * what `prepare` finds out for the rules; `undefined` where they need nothing.
 */
export interface DocumentKind<Address, Document, Context = undefined> {
  /** In the names of audit events, `config.<auditName>.updated`. */
  readonly auditName: string;
  /** What the history, and change policies, call the kind. */
  readonly configType: string;
  /** The beginning of the names of its actions, such as `tenant-config.risk`. */
  readonly actions: string;
  /** Every document passes it before it is stored, also one that a rollback restores. */
  readonly schema: TSchema;
  /** Whose revisions and audit events they are; null for the platform's. */
  tenantId(address: Address): string | null;
  /** The document's own name, in the history and in audit events. */
  resourceId(address: Address): string;
  /** A PATCH of what does not exist begins with `{}` instead of 404. */
  readonly patchCreates?: true;
  /**
   * Each write is a transaction of its own: what another write of the same transaction is judged by
   * was read before.
   */
  readonly commitsAlone?: true;
  /** What it does was approved in another place, so that policies ask nothing of the write itself. */
  readonly approvedElsewhere?: true;
  /** It has no PUT, so no folder sets it. */
  readonly hasNoPut?: true;
  /** It has no DELETE, so what made it is not taken back. */
  readonly isAlwaysThere?: true;

  load(manager: EntityManager, address: Address, writer?: Caller): Promise<Before<Document>>;
  /** The row, or its removal where `after` is null, and the entry of the history. */
  store(
    manager: EntityManager,
    address: Address,
    record: WriteRecord<Document>,
    request: Request,
  ): Promise<void>;

  /**
   * Runs before the transaction, so that no lock is held while another service is waited for.
   * `body` is what the request sent, unchecked for a PATCH, undefined for a removal or a rollback.
   */
  prepare(address: Address, request: Request, body: unknown): Promise<Context>;
  /**
   * The whole document from what was sent: its id from the address, defaults where fields are
   * absent. The schema judges the result.
   */
  complete(draft: Draft, address: Address, current: Document | null, context: Context): unknown;
  /**
   * Rules that a schema can't say and that need nothing but `prepare`'s findings. Throws a
   * StrataError where another code than 422 is right.
   */
  check(write: ProposedWrite<Address, Document, Context>): Findings;
  /**
   * Rules that need the database. Runs in the transaction, under the lock of the scope's counter:
   * until it commits, no other write of the scope can change what this reads there. `next` is the
   * document as it will be stored, null for a removal. Returns problems, or throws as `check` does.
   * Keep it short, and ask no other service: writers of the scope wait.
   */
  checkInTransaction?(
    manager: EntityManager,
    address: Address,
    next: Document | null,
    current: Document | null,
    context: Context,
  ): Promise<Problem[]>;
  /**
   * Only for kinds that hold secrets, which are masked wherever the document is shown. The document
   * as it is stored: new secrets encrypted; where the mask was sent back, the secret of `current`
   * stays.
   */
  seal?(document: Document, address: Address, current: Document | null): Document;
  /** Throws 409 where a secret of a stored document does not open. Only for kinds that seal. */
  requireOpen?(document: Document, address: Address): void;
  /** What a PUT of the document takes; the document itself where absent. */
  bodyOf?(document: Document): unknown;
  /**
   * Whether the change can only deny automation more, which a change policy may leave free. Absent
   * where none is known to. Null stands for no document.
   */
  tightens?(before: Document | null, after: Document | null): boolean;
  /**
   * Whether tenants read this document of the platform. They learn that the platform wrote it, and
   * not who; any other is for those who see what is the platform's.
   */
  isForTenants?(document: Document): boolean;
}

type Visible<Document> = Pick<DocumentKind<unknown, Document>, 'isForTenants'>;

/** Whether a document is the platform's alone, and so does not exist for this caller. */
export const isHidden = <Document>(
  { isForTenants }: Visible<Document>,
  current: Pick<Stored<Document>, 'document'> | null,
  caller: Caller,
): boolean =>
  current !== null && isForTenants?.(current.document) === false && !seesPlatform(caller);

/**
 * Throws `not_found` where the answer would show a document to a writer who may not read it, such as
 * an API key of the writing scope alone.
 */
export function refuseHidden<Document>(
  kind: Visible<Document>,
  current: Pick<Stored<Document>, 'document'> | null,
  caller: Caller,
): void {
  if (isHidden(kind, current, caller)) throw new StrataError('not_found');
}
