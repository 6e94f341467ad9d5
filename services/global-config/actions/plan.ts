/**
 * Plans of writes of the platform: what they would do to every tenant, and exactly those writes.
 *
 * | Step   | How                                                                                                       |
 * |--------|-----------------------------------------------------------------------------------------------------------|
 * | trial  | all items are written in one transaction, which also reads the layers before and after, and is undone       |
 * | impact | config-resolver holds both against the documents of all tenants                                             |
 * | limits | of budgets and freezes: against what tenants have spent and which of their automations are live        |
 * | digest | of the items, the platform's revision, the environment and what all tenants' documents say of the keys     |
 * | apply  | trial and digest once more; then the writes, if the platform's revision is still that one under its lock    |
 */
import type { DataSource, EntityManager } from 'typeorm';
import { seesPlatform, type Caller } from '../../../shared/access.ts';
import {
  decidingDocument,
  decisionsImpact,
} from '../../../shared/change-sets/deciding-documents.ts';
import { changedKeys, layersOfKeys, withPairs } from '../../../shared/bounds/platform-layers.ts';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import {
  changesAfter,
  commitChanges,
  revisionOf,
  tryChanges,
  type Work,
} from '../../../shared/commits/commit.ts';
import type { Budgets } from '../../../shared/contracts/budgets.ts';
import type { Freezes } from '../../../shared/contracts/freezes.ts';
import type { ParamsOf, ResultOf } from '../../../shared/contracts/index.ts';
import type { PlatformLayers } from '../../../shared/contracts/layers.ts';
import type { PlanItem } from '../../../shared/contracts/plan.ts';
import { platformScope } from '../../../shared/contracts/revision-scopes.ts';
import type {
  Attempt,
  DocumentActions,
  WriteVerb,
  WrittenDocument,
} from '../../../shared/documents/document.ts';
import { handlersOf, withTrials, type Verbs } from '../../../shared/documents/handlers.ts';
import {
  codeOf,
  invalid,
  StrataError,
  type ErrorData,
  type Problem,
} from '../../../shared/errors.ts';
import { canonicalHash } from '../../../shared/schema/canonical-hash.ts';
import { claimsOf, type Claims } from '../../../shared/documents/managed-fields.ts';
import type { PlatformDocuments } from '../documents/platform-documents.ts';
import { asksForImpact, requireReadingAll, type Triable } from '../../../shared/documents/trial.ts';
import {
  contractOfWrite,
  itemOf,
  kindOfPath,
  plannedWrite,
  type PlannedKind,
  type PlannedWrite,
} from '../rules/plan-items.ts';
import { readPlatformLayers } from '../stores/layers.ts';

type AnyAttempt = Attempt<unknown>;
type Impact = ResultOf<'config-resolver.impact'>;
type Planned = Omit<ResultOf<'global-config.plan'>, 'changes'>;

interface Trial {
  readonly outcomes: readonly AnyAttempt[];
  readonly revision: number;
  /** When it was made, by the database's clock. */
  readonly at: string;
  readonly keys: readonly string[];
  readonly before: PlatformLayers;
  readonly after: PlatformLayers;
}

/** A digest as it is sent: what it was made on, when, and a hash of everything. */
const digestForm = /^([0-9]{1,15})-([0-9]{1,15})-([0-9a-f]{64})$/;

type Look = Pick<
  ParamsOf<'config-resolver.impact'>['body'],
  'limit' | 'cursor' | 'since' | 'only_digest'
>;

export class Planner {
  readonly #db: DataSource;
  readonly #documents: PlatformDocuments;

  constructor(db: DataSource, documents: PlatformDocuments) {
    this.#db = db;
    this.#documents = documents;
  }

  /** The work of a write, whose parameters its contract has checked. */
  #prepare(
    { kind, verb, params, contract }: PlannedWrite,
    request: Request,
  ): Promise<Work<AnyAttempt>> {
    const own: Request = {
      ...request,
      keys: contract.drops?.(params) ?? [],
      // The answer of the plan is judged, and none of a single write is given.
      checkAnswer: () => undefined,
    };
    const documents: DocumentActions<object, unknown> = this.#documents[kind];
    return documents.prepare(verb, params, own);
  }

  /** Throws 422 for what is no write of the platform, by its place among the items. */
  async #worksOf(
    items: readonly PlanItem[],
    options: Claims & { readonly reason?: string; readonly dry_run?: true },
    request: Request,
  ): Promise<Work<AnyAttempt>[]> {
    const writes = items.map((item) => plannedWrite(item, options));
    const problems = writes.flatMap((write, index) =>
      'problems' in write ? write.problems.map((problem) => ofItem(problem, index)) : [],
    );
    if (problems.length > 0) throw invalid(problems);
    const works: Work<AnyAttempt>[] = [];
    for (const [index, write] of writes.entries()) {
      if ('problems' in write) continue;
      const work = await this.#prepare(write, request);
      works.push((manager, at, revision, policies) =>
        work(manager, at, revision, policies).catch((error: unknown) => {
          throw errorOfItem(error, index, items);
        }),
      );
    }
    return works;
  }

  async #attempt(works: readonly Work<AnyAttempt>[]): Promise<Trial> {
    let before: PlatformLayers | undefined;
    let after: PlatformLayers | undefined;
    let first: { revision: number; at: string } | undefined;
    const [begin, ...others] = works;
    const beginning: Work<AnyAttempt> = async (manager, at, revision, policies) => {
      first = { revision: revision - 1, at: at.toISOString() };
      before = await readPlatformLayers(manager);
      return begin!(manager, at, revision, policies);
    };
    const outcomes = await tryChanges(
      this.#db,
      platformScope,
      [beginning, ...others],
      async (manager) => {
        after = await readPlatformLayers(manager);
      },
    );
    const keys = changedKeys(before!, after!);
    const wanted = withPairs(keys);
    return {
      ...first!,
      keys,
      outcomes: outcomes.map(({ result }) => result),
      before: layersOfKeys(before!, wanted),
      after: layersOfKeys(after!, wanted),
    };
  }

  async #plan(
    items: readonly PlanItem[],
    works: readonly Work<AnyAttempt>[],
    look: Look,
    request: Request,
  ) {
    const trial = await this.#attempt(works);
    const overTime = look.cursor === undefined ? overTimeChanges(items, trial.outcomes) : undefined;
    const [{ impact, complete, digest }, over_time] = await Promise.all([
      lookAt(trial, items, look, request),
      overTime &&
        request.call('config-resolver.impact.over-time', { body: { by: 'platform', ...overTime } }),
    ]);
    const { revision, at, outcomes } = trial;
    return {
      outcomes,
      planned: {
        base: { platform: revision, at },
        digest: digest && `${revision}-${Date.parse(at)}-${digest}`,
        impact,
        complete,
        ...(over_time && { over_time }),
      },
    };
  }

  /** Throws 412 with what moved where the digest is not that of what would be written now. */
  async #requireUnmoved(
    digest: string,
    items: readonly PlanItem[],
    request: Request,
  ): Promise<number> {
    const [, revision, time, hash] = digestForm.exec(digest) ?? [];
    if (hash === undefined)
      throw invalid([{ path: '/digest', message: 'is not the digest of a complete plan' }]);
    const planned = Number(revision);
    await requireRevision(this.#db.manager, planned, request.caller);
    const works = await this.#worksOf(items, { dry_run: true }, request);
    const trial = await this.#attempt(works);
    const since = new Date(Number(time)).toISOString();
    const moved: string[] = [];
    let cursor: string | undefined;
    for (;;) {
      const look = { only_digest: true, since, ...(cursor !== undefined && { cursor }) };
      const found = await lookAt(trial, items, look, request);
      moved.push(...found.moved);
      if (found.digest === hash) return planned;
      if (found.complete || found.impact.next_cursor === null) break;
      cursor = found.impact.next_cursor;
    }
    const who =
      moved.length > 0 && seesPlatform(request.caller)
        ? `the configuration of ${moved.slice(0, 10).join(', ')}`
        : "the items, the environment's settings, or the tenants";
    throw new StrataError(
      'precondition_failed',
      `What the plan depends on has changed since: ${who}. Plan again.`,
    );
  }

  /** With what past decisions would have been, on the first page. */
  async #withDecisions(
    planned: Planned,
    writes: readonly Pick<PlannedWrite, 'kind' | 'params'>[],
    { cursor }: Look,
    {
      outcomes,
      call,
    }: { readonly outcomes: readonly AnyAttempt[]; readonly call: Request['call'] },
  ): Promise<Planned> {
    if (cursor !== undefined) return planned;
    const documents = writes.flatMap(({ kind, params }, index) =>
      decidingDocument(this.#documents[kind], params, outcomes[index]!.after),
    );
    const decisions = await decisionsImpact(call, documents, null);
    return decisions ? { ...planned, impact: { ...planned.impact, decisions } } : planned;
  }

  /** A dry run as the plan of one item. The contract of a write has checked its parameters. */
  async tryOne(kind: PlannedKind, verb: WriteVerb, params: Triable, request: Request) {
    requireReadingAll(request.caller, 'platform:read', 'An impact shows what tenants have');
    const { impact: _impact, cursor, ...own } = params;
    const item = itemOf(kind, verb, own);
    const contract = contractOfWrite(kind, verb);
    const work = await this.#prepare({ kind, verb, params: own, contract }, request);
    const look = cursorOf(cursor);
    const { outcomes, planned } = await this.#plan([item], [work], look, request);
    const made = { outcomes, call: request.call };
    const whole = await this.#withDecisions(planned, [{ kind, params: own }], look, made);
    return { ...triedOf(outcomes[0]!.answer), ...whole };
  }

  async plan({ items, limit, cursor }: PlanBody, request: Request) {
    const look = { ...(limit !== undefined && { limit }), ...cursorOf(cursor) };
    const works = await this.#worksOf(items, { dry_run: true }, request);
    const { outcomes, planned } = await this.#plan(items, works, look, request);
    const changes = outcomes.flatMap(({ answer }, index) =>
      triedOf(answer).changes.map((change) => ({ resource: items[index]!.path, ...change })),
    );
    const writes = items.map((item) => plannedWrite(item, {}) as PlannedWrite);
    const made = { outcomes, call: request.call };
    return { ...(await this.#withDecisions(planned, writes, look, made)), changes };
  }

  /** The handlers of a kind, whose writes are planned as the only item where they ask for that. */
  handlersOf<const Kind extends PlannedKind, Get, Put, Patch, Delete, Written>(
    kind: Kind,
    documents: Verbs<Get, Put, Patch, Delete, Written>,
  ) {
    const tryIt = (verb: WriteVerb, params: Triable, request: Request) =>
      this.tryOne(kind, verb, params, request);
    return handlersOf(`global-config.${kind}`, withTrials(documents, asksForImpact, tryIt));
  }

  /** What was planned, tried once more, with the revision that it has to follow. As `apply` throws. */
  async tryPlanned(
    { digest, items }: { readonly digest: string; readonly items: readonly PlanItem[] },
    request: Request,
  ) {
    const revision = await this.#requireUnmoved(digest, items, request);
    const works = await this.#worksOf(items, { dry_run: true }, request);
    const { outcomes } = await this.#attempt(works);
    return { revision, outcomes };
  }

  async apply({ body, ...said }: ParamsOf<'global-config.plan.apply'>, request: Request) {
    const { digest, items, reason } = body;
    const planned = await this.#requireUnmoved(digest, items, request);
    const works = await this.#worksOf(
      items,
      { ...claimsOf(said), ...(reason !== undefined && { reason }) },
      request,
    );
    const [first, ...others] = works;
    const onlyThen: Work<AnyAttempt> = async (manager, at, revision, policies) => {
      await requireRevision(manager, planned, request.caller, revision - 1);
      return first!(manager, at, revision, policies);
    };
    const answerOf = (outcomes: readonly { readonly result: AnyAttempt }[]) =>
      appliedPlan(
        outcomes.map(({ result }) => result.answer),
        items,
      );
    const outcomes = await commitChanges(this.#db, request, platformScope, [onlyThen, ...others], {
      finished: async (_manager, done) => request.checkAnswer(answerOf(done)),
    });
    return answerOf(outcomes);
  }
}

export const planActions = (planner: Planner) =>
  ({
    'global-config.plan': ({ body }, request) => planner.plan(body, request),
    'global-config.plan.apply': (params, request) => planner.apply(params, request),
  }) satisfies Handlers;

type PlanBody = ParamsOf<'global-config.plan'>['body'];

const lookAt = (
  { revision, keys, before, after }: Trial,
  items: readonly PlanItem[],
  look: Look,
  { call }: Request,
): Promise<Impact> =>
  call('config-resolver.impact', {
    body: {
      keys: [...keys],
      platform: { before, after },
      base: canonicalHash([revision, items]),
      ...look,
    },
  });

type OverTime = Pick<ParamsOf<'config-resolver.impact.over-time'>['body'], 'budgets' | 'freezes'>;

/** Budgets and freezes before the first item that writes them and after the last; undefined: none does. */
function overTimeChanges(
  items: readonly PlanItem[],
  outcomes: readonly AnyAttempt[],
): OverTime | undefined {
  // The documents of a kind are what its schema says.
  const changeOf = <Document>(kind: PlannedKind) => {
    const writes = outcomes.filter((_each, index) => kindOfPath(items[index]!.path) === kind);
    const [first, last] = [writes[0], writes.at(-1)];
    if (!first || !last) return undefined;
    return { before: first.before as Document | null, after: last.after as Document | null };
  };
  const budgets = changeOf<Budgets>('budgets');
  const freezes = changeOf<Freezes>('freezes');
  if (!budgets && !freezes) return undefined;
  return { ...(budgets && { budgets }), ...(freezes && { freezes }) };
}

const cursorOf = (cursor: string | undefined) => (cursor === undefined ? {} : { cursor });

/** Throws 412, which says which keys were written since: private entries' names are among them. */
export async function requireRevision(
  manager: EntityManager,
  planned: number,
  caller: Caller,
  known?: number,
): Promise<void> {
  const current = known ?? (await revisionOf(manager, platformScope));
  if (current === planned) return;
  const changes = seesPlatform(caller)
    ? await changesAfter(manager, platformScope, planned, 20)
    : [];
  const keys = [...new Set(changes.flatMap((change) => change.keys))].slice(0, 20);
  const what = keys.length > 0 ? `: ${keys.join(', ')} were written` : '';
  throw new StrataError(
    'precondition_failed',
    `The platform is at revision ${current}, and the plan was made at ${planned}${what}. Plan again.`,
  );
}

function triedOf(answer: WrittenDocument<unknown>) {
  if (!('dry_run' in answer)) throw new Error('A trial was answered as a write');
  return answer;
}

/** Of its writes, also where they were made as a change set. */
export function appliedPlan(
  answers: readonly WrittenDocument<unknown>[],
  items: readonly PlanItem[],
) {
  const written = answers.map((answer, index) => writtenItem(items[index]!, answer));
  return { revision: written.at(-1)!.revision, items: written };
}

function writtenItem({ action, path }: PlanItem, answer: WrittenDocument<unknown>) {
  if ('dry_run' in answer) throw new Error('A write of a plan that is applied was a trial');
  return { action, path, outcome: answer.outcome, revision: answer.revision };
}

const ofItem = ({ path, message }: Problem, index: number): Problem => ({
  path: `/items/${index}${path}`,
  message,
});

/** An error of one item, which says of which. Problems are in its body. */
function errorOfItem(error: unknown, index: number, items: readonly PlanItem[]): unknown {
  if (!(error instanceof StrataError)) return error;
  const { errors, change_set: proposed, managed_fields } = error.data as ErrorData;
  if (proposed) {
    const body = { ...proposed.body, items: [...items] };
    return new StrataError(codeOf(error), error.message, { change_set: { ...proposed, body } });
  }
  if (errors)
    return invalid(
      errors.map(({ path, message }) => ofItem({ path: `/body${path}`, message }, index)),
    );
  return new StrataError(codeOf(error), `Item ${index}: ${error.message}`, {
    cause: error,
    ...(managed_fields && { managed_fields }),
  });
}
