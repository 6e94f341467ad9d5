/**
 * What makes one kind of stored document different from another, for whoever adds a kind.
 * `document.ts` does the rest, the same for all: preconditions, validation, and one transaction
 * with row, history, audit event and change record.
 *
 * The steps of a write, in order:
 *
 * | step                | of the kind          | may use                                       |
 * | ------------------- | -------------------- | --------------------------------------------- |
 * | before              | `prepare`            | other services, slow lookups                  |
 * | in the transaction  | `read` or `readToWrite` | the database, under the lock of the scope  |
 * |                     | `complete`           | what `prepare` found                          |
 * |                     | `schema`, `check`, `warnings` | what `prepare` found                 |
 * |                     | `secrets.seal`       | keys                                          |
 * |                     | `checkInTransaction` | the database, under the lock of the scope     |
 * |                     | `save` or `remove`   | the database                                  |
 * |                     | `recordHistory`      | the database                                  |
 * |                     | or `saveWithHistory` for these two | the database                    |
 *
 * Up to `checkInTransaction` they only read: a write that is refused has nothing to take back from
 * a commit that it shares with others (../commits/combined.ts).
 */
import type { TSchema } from 'typebox';
import type { EntityManager } from 'typeorm';
import type { Caller } from '../access.ts';
import type { Request } from '../contract-runtime/request.ts';
import type { WriteAction } from '../contracts/history.ts';
import type { RevisionScope } from '../contracts/revision-scopes.ts';
import type { Problem, StrataError } from '../errors.ts';

/** A document as it is kept: with the revision that wrote it, by whom and when (RFC 3339, UTC). */
export interface Stored<Document> {
  readonly document: Document;
  readonly revision: number;
  readonly updated_by: string;
  /** Who that is, for people; null where the tenant, or the platform, does not know them. */
  readonly updated_by_name?: string | null;
  readonly updated_at: string;
}

/** What a write finds. */
export interface Before<Document> {
  /** As it is stored; null where there is none. */
  readonly current: Stored<Document> | null;
  /** What refuses every write where that which the document belongs to does not exist. */
  readonly missingOwner?: StrataError | undefined;
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
}

/**
 * `Address` names one document of the kind, by the path parameters of its contracts. `Context` is
 * what `prepare` finds out for the rules; `undefined` where they need nothing.
 */
export interface DocumentKind<Address, Document, Context = undefined> {
  /** In the names of audit events, `config.<auditName>.updated`. */
  readonly auditName: string;
  /** Every document passes it before it is stored, also one that a rollback restores. */
  readonly schema: TSchema;
  /** The counter that a write takes its revision from. Writes of one scope follow each other. */
  revisionScope(address: Address): RevisionScope;
  /** Whose audit events they are; null for the platform's. */
  tenantId(address: Address): string | null;
  /** The document's own name, in the history and in audit events. */
  resourceId(address: Address): string;

  read(manager: EntityManager, address: Address): Promise<Stored<Document> | null>;
  /** Only for kinds without `saveWithHistory`. */
  save?(manager: EntityManager, address: Address, stored: Stored<Document>): Promise<void>;
  /** Absent where documents of the kind are never removed. */
  remove?(manager: EntityManager, address: Address): Promise<void>;

  /**
   * In place of `read`, for what a write begins with, where the document belongs to something that
   * has to exist.
   */
  readToWrite?(manager: EntityManager, address: Address): Promise<Before<Document>>;

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
   * Rules that a schema can't say and that need nothing but `prepare`'s findings. Returns problems
   * (answered with 422), or throws a StrataError where another code is right.
   */
  check(write: ProposedWrite<Address, Document, Context>): Problem[];
  /** What may be stored and deserves a word to whoever writes it. */
  warnings?(write: ProposedWrite<Address, Document, Context>): Problem[];
  /**
   * Rules that need the database. Runs in the transaction, under the lock of the scope's counter:
   * until it commits, no other write of the scope can change what this reads there. `next` is the
   * document as it will be stored, null for a removal. Returns or throws as `check` does. Keep it
   * short, and ask no other service: writers of the scope wait.
   */
  checkInTransaction?(
    manager: EntityManager,
    address: Address,
    next: Document | null,
    current: Document | null,
  ): Promise<Problem[]>;
  /**
   * Whether this caller may write the document and not read it, as an API key of the writing scope
   * alone.
   */
  isHidden?(document: Document, caller: Caller): boolean;
  /**
   * Whether tenants read this document of the platform. They learn that the platform wrote it, and
   * not who.
   */
  isForTenants?(document: Document): boolean;
  /** Only for kinds that hold secrets. */
  readonly secrets?: SecretHandling<Address, Document>;

  /** Only for kinds with a history. */
  recordHistory?(
    manager: EntityManager,
    address: Address,
    record: WriteRecord<Document>,
    request: Request,
  ): Promise<void>;
  /** In place of `save` and `recordHistory`, where one statement does both. `after` is not null. */
  saveWithHistory?(
    manager: EntityManager,
    address: Address,
    record: WriteRecord<Document>,
    request: Request,
  ): Promise<void>;
  /** A PATCH of what does not exist begins with `{}` instead of 404. */
  readonly patchCreates?: true;
  /**
   * Whether this document takes effect only after a restart or reload; the answer to its write then
   * says so.
   */
  requiresRestart?(document: Document): boolean;
}

export interface SecretHandling<Address, Document> {
  /**
   * The same value, a stored document or any part of one, with every secret masked: all that
   * anybody outside gets to see.
   */
  conceal<Part>(value: Part): Part;
  /**
   * The document as it is stored: new secrets encrypted; where the mask was sent back, the secret
   * of `current` stays.
   */
  seal(document: Document, address: Address, current: Document | null): Document;
}
