/**
 * Combined commits: writes of one scope that wait for each other in this process are committed
 * together.
 *
 * Each write locks the counter of its scope until it is committed, and a commit waits for the disk.
 * So what comes while one is on its way waits in this process, and is then one transaction: locked
 * once, committed once, made known once. Each write in it keeps its own revision, history entry,
 * audit event, precondition and answer, as if it had been committed by itself after the previous
 * one.
 *
 * | Rule | Why |
 * |---|---|
 * | a write is judged on what the previous one has stored | preconditions and rules see what they would have waited for |
 * | nothing of a write is stored before it is judged | a refused write has nothing to undo, and no other write fails with it |
 * | no write is answered before the commit, not even a refused one | a refusal may be by what is rolled back |
 * | what changes nothing is answered, and neither counted nor stored | a history of revisions that say nothing hides those that do |
 * | any other failure undoes the transaction, and each write in it is then tried by itself | it is answered to the write whose it is |
 * | once the commit was sent, its failure is that of all, and nothing is tried again | it may have been committed |
 * | a write whose caller has timed out is not begun | after a stall the next ones do not wait for it |
 * | one transaction takes `maxWrites` writes, and none after `maxBytes` of documents | the lock and the wait of the first are short |
 *
 * Other processes wait at the counter's row, as for a single write. Dry runs are not combined: they
 * are rolled back.
 */
import { setImmediate } from 'node:timers/promises';
import type { DataSource, EntityManager } from 'typeorm';
import { allEnded } from '../database/all-ended.ts';
import { tenantOfScope } from '../contracts/revision-scopes.ts';
import { pipelinedTransaction } from '../database/pipelined-transaction.ts';
import { isDatabaseFailure } from '../database/failures.ts';
import { StrataError } from '../errors.ts';
import { BatchQueue } from '../concurrency/batch-queue.ts';
import { noteIfOfPlatform, realmOf } from './actor-names.ts';
import {
  countUpTo,
  lockAndCountFirst,
  recordChanges,
  recordOf,
  type Change,
  type ChangeToRecord,
  type Committing,
  type Outcome,
  type Policies,
  type Work,
} from './commit.ts';

export const maxWrites = 32;
const maxBytes = 1024 * 1024;

/** A write that is judged, and not stored yet. */
export interface Checked<T> extends Outcome<T> {
  /** Of the document that it stores. */
  readonly bytes: number;
  /** Absent where it changes nothing: then it has no revision, and leaves no record. */
  readonly store?: () => Promise<void>;
}
/** What a write has once the counter of its scope is locked. */
export interface Counted {
  readonly revision: number;
  readonly at: Date;
  readonly policies: Policies;
}
/**
 * As `Work`, but it only reads: what it throws refuses this write alone. What it reads may be sent
 * before the lock is answered, since a connection keeps the order. It leaves no statement on its
 * way when it throws.
 */
export type Check<T> = (manager: EntityManager, counted: Promise<Counted>) => Promise<Checked<T>>;

/** The same for a commit of its own, or one with a fixed number of changes. */
export const storing =
  <T>(check: Check<T>): Work<T> =>
  async (manager, at, revision, policies) => {
    const checked = await check(manager, Promise.resolve({ revision, at, policies }));
    await checked.store?.();
    return checked;
  };

/** Who commits, and for how long somebody waits for the answer. */
export interface Combining extends Committing {
  /** By performance.now(). */
  readonly until: number;
}

/** A write that waits for its turn, or for the commit that it is in. */
interface Waiting {
  readonly by: Combining;
  readonly check: Check<unknown>;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Those of a pool of connections: what stores a document in it commits with what else does. */
const queueOf = new WeakMap<DataSource, BatchQueue<Waiting>>();

function queueIn(db: DataSource): BatchQueue<Waiting> {
  const known = queueOf.get(db);
  if (known) return known;
  const queue = new BatchQueue<Waiting>(maxWrites, (scope, writes) =>
    commitTogether(db, scope, writes),
  );
  queueOf.set(db, queue);
  return queue;
}

/**
 * One change of a revision scope, as `commitChange` makes it, in one transaction with others of the
 * scope that wait in this process. Throws what `check` and the database throw; then nothing is
 * committed, unless the database did not answer the commit.
 */
export async function commitCombined<T>(
  db: DataSource,
  by: Combining,
  scope: string,
  check: Check<T>,
): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let checked: Checked<T> | undefined;
  const checkAndKeep: Check<T> = async (manager, counted) => {
    checked = await check(manager, counted);
    return checked;
  };
  queueIn(db).add(scope, { by, check: checkAndKeep, resolve, reject });
  await promise;
  return checked!.result;
}

/** Thrown inside the transaction to roll it back where no write in it is to be stored. */
class NothingAccepted extends Error {
  /** What those that change nothing are answered by, if there are any. */
  readonly current: Change | undefined;
  constructor(current: Change | undefined) {
    super('nothing accepted');
    this.current = current;
  }
}

interface Accepted extends Counted {
  readonly write: Waiting;
  readonly checked: Checked<unknown>;
}

/**
 * What the first write of a transaction has, and when that was known here, by performance.now().
 */
interface Locked extends Counted {
  readonly since: number;
}

/** What the write after so many others of the transaction has. */
function countedAfter(count: number, { revision, at, policies, since }: Locked): Counted {
  // The database's clock, as far as it has come since the lock: a later write has a later time.
  const sinceLock = count === 0 ? 0 : Math.floor(performance.now() - since);
  return { revision: revision + count, at: new Date(at.getTime() + sinceLock), policies };
}

const isLate = ({ by }: Waiting): boolean => performance.now() > by.until;

const tooLate = (): StrataError =>
  new StrataError('timeout', 'The write waited too long for its turn. Nothing was written.');

/** Refuses those that have waited too long, and returns the others. */
function refuseLate(writes: readonly Waiting[]): Waiting[] {
  const { late = [], rest = [] } = Object.groupBy(writes, (write) =>
    isLate(write) ? 'late' : 'rest',
  );
  for (const write of late) write.reject(tooLate());
  return rest;
}

/** Settles the writes, but for those that it returns: these are left for the next transaction. */
async function commitTogether(
  db: DataSource,
  scope: string,
  all: readonly Waiting[],
): Promise<readonly Waiting[]> {
  const writes = refuseLate(all);
  if (writes.length === 0) return [];
  const group = new Group(scope, writes);
  try {
    const change = await pipelinedTransaction(db, (manager) => group.write(manager));
    group.answer(change);
  } catch (error) {
    if (error instanceof NothingAccepted) group.answerOthers(error.current);
    else if (group.mayTryEachAlone())
      for (const write of group.taken()) await commitTogether(db, scope, [write]);
    else group.fail(error);
  }
  return group.left();
}

function settle({ write, error }: { readonly write: Waiting; readonly error?: unknown }): void {
  if (error === undefined) write.resolve();
  else write.reject(error);
}

/** What follows an answer takes up to a millisecond: other requests have their turns in between. */
async function inTurn(answers: readonly (() => void)[]): Promise<void> {
  for (const answer of answers) {
    answer();
    await setImmediate();
  }
}

/** The writes of one transaction, and how far it has come. */
class Group {
  readonly #scope: string;
  readonly #writes: readonly Waiting[];
  readonly #accepted: Accepted[] = [];
  readonly #refused: { readonly write: Waiting; readonly error: unknown }[] = [];
  readonly #unchanged: { readonly write: Waiting; readonly keys: readonly string[] }[] = [];
  #taken = 0;
  #isLocked = false;
  #isCommitting = false;

  constructor(scope: string, writes: readonly Waiting[]) {
    this.#scope = scope;
    this.#writes = writes;
  }

  /** Everything up to the commit, which is sent next. */
  async write(manager: EntityManager): Promise<Change> {
    const scope = this.#scope;
    const locked = this.#lock(manager);
    /** What the write before stores. */
    let storing: Promise<void> | undefined;
    let bytes = 0;
    for (const write of this.#writes) {
      if (bytes > maxBytes) break;
      await storing;
      storing = undefined;
      this.#taken += 1;
      const count = this.#accepted.length;
      const counted = locked.then((first) => countedAfter(count, first));
      const checked = await this.#check(write, manager, counted);
      if (!checked) continue;
      if (!checked.store) {
        this.#unchanged.push({ write, keys: checked.keys });
        continue;
      }
      this.#accepted.push({ write, checked, ...(await counted) });
      storing = checked.store();
      bytes += checked.bytes;
    }
    const last = this.#accepted.at(-1);
    if (!last) throw new NothingAccepted(await this.#current(manager, locked));
    const [, { id }] = await allEnded([
      storing,
      recordChanges(manager, scope, this.#records()),
      this.#accepted.length > 1 && countUpTo(manager, scope, last.revision, last.at),
      this.#noteWriters(manager),
    ]);
    this.#isCommitting = true;
    const keys = this.#accepted.flatMap(({ checked }) => checked.keys);
    const all = new Set([...keys, ...this.#unchangedKeys()]);
    return { id, scope, revision: last.revision, keys: [...all] };
  }

  /**
   * What was found unchanged was perhaps committed a moment ago, and other nodes may not know it
   * yet. So it is made known as a change is, by the revision that there is. A lease that has seen
   * this transaction end has seen what was committed before it was locked.
   */
  async #current(manager: EntityManager, locked: Promise<Locked>): Promise<Change | undefined> {
    if (this.#unchanged.length === 0) return undefined;
    const { revision } = await locked;
    const [row] = await manager.query<[{ id: string }]>('SELECT pg_current_xact_id()::text AS id');
    const keys = [...new Set(this.#unchangedKeys())];
    return { id: row.id, scope: this.#scope, revision: revision - 1, keys };
  }

  #unchangedKeys(): string[] {
    return this.#unchanged.flatMap(({ keys }) => keys);
  }

  async #lock(manager: EntityManager): Promise<Locked> {
    const { revision, changed_at: at, policies } = await lockAndCountFirst(manager, this.#scope);
    this.#isLocked = true;
    return { revision, at, policies, since: performance.now() };
  }

  #records(): ChangeToRecord[] {
    return this.#accepted.map(({ write, checked, revision, at }) =>
      recordOf(write.by, { revision, at }, checked),
    );
  }

  async #noteWriters(manager: EntityManager): Promise<void> {
    const realm = realmOf(tenantOfScope(this.#scope));
    for (const { write } of this.#accepted) await noteIfOfPlatform(manager, realm, write.by.caller);
  }

  /** Undefined where the write is refused. Throws where the transaction cannot continue. */
  async #check(
    write: Waiting,
    ...found: Parameters<Check<unknown>>
  ): Promise<Checked<unknown> | undefined> {
    try {
      return await write.check(...found);
    } catch (error) {
      if (isDatabaseFailure(error)) throw error;
      this.#refused.push({ write, error });
      return undefined;
    }
  }

  /**
   * After the commit. Every request is given the one change, which is made known once for all of
   * them.
   */
  answer(change: Change): void {
    for (const { write } of this.#accepted) write.by.committed.push(change);
    this.answerOthers(change, this.#accepted);
  }

  /** Those that have no part in the commit, behind those that do. */
  answerOthers(change: Change | undefined, accepted: readonly Accepted[] = []): void {
    for (const { write } of this.#unchanged) if (change) write.by.committed.push(change);
    const answered = [...accepted, ...this.#unchanged, ...this.#refused];
    void inTurn(answered.map((each) => () => settle(each)));
  }

  /** Nothing was committed for certain, and what failed may be one write among several. */
  mayTryEachAlone(): boolean {
    return !this.#isCommitting && this.#taken > 1;
  }

  /** Also those that were refused, perhaps for what is not there now. */
  fail(error: unknown): void {
    const failed = this.#isLocked ? this.taken() : this.#writes;
    for (const write of failed) write.reject(error);
    this.#taken = failed.length;
  }

  taken(): readonly Waiting[] {
    return this.#writes.slice(0, this.#taken);
  }

  left(): readonly Waiting[] {
    return this.#writes.slice(this.#taken);
  }
}
