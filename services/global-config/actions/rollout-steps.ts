/**
 * Rollouts: how they are planned, go from stage to stage, and are taken back. Each step is one
 * transaction under the platform's counter, which is a write of the rollout's document; the first
 * and the last ones also write others. `../rules/rollouts.ts` has the states.
 */
import { randomUUID } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import { namesIn, platformRealm } from '../../../shared/commits/actor-names.ts';
import { commitChanges, type Policies, type Work } from '../../../shared/commits/commit.ts';
import { Outdated, whileAsRead } from '../../../shared/commits/held-rights.ts';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import type { GateAnswer } from '../../../shared/contracts/rollout-gates.ts';
import { platformScope } from '../../../shared/contracts/revision-scopes.ts';
import type { Rollout, RolloutItem, StoredRollout } from '../../../shared/contracts/rollouts.ts';
import type { Stored } from '../../../shared/documents/document-kind.ts';
import {
  documentActions,
  type Attempt,
  type DocumentActions,
} from '../../../shared/documents/document.ts';
import { invalid, StrataError } from '../../../shared/errors.ts';
import { diff } from '../../../shared/schema/diff.ts';
import { concealSecrets } from '../../../shared/security/document-secrets.ts';
import { rolloutKind, storedRollout, type RolloutAddress } from '../documents/rollout.ts';
import { bakedAt, gatesUntil, type Following } from '../rules/rollout-gates.ts';
import {
  completes,
  requireAdvance,
  requireStageable,
  requireStages,
  requireStep,
} from '../rules/rollouts.ts';
import { RolloutEntity } from '../schema.ts';
import {
  movedFrom,
  requireApproved,
  requireTakenOver,
  RolledOut,
  writtenAfter,
} from '../stores/rolled-out.ts';
import { answersOf, endTurn, type Turn } from '../stores/rollout-runs.ts';
import { removeOldest, requireNoOther, requireRoom } from '../stores/rollouts.ts';
import { stoppedNow } from './change-sets.ts';
import type { RolloutGates } from './rollout-gates.ts';
import { RolloutSources } from './rollout-sources.ts';
import type { Planner } from './plan.ts';

type Create = ParamsOf<'global-config.rollouts.create'>['body'];
type Kept = Stored<StoredRollout>;

/** What a step does beside writing the rollout's document. */
interface Step {
  /** Documents that it writes before, and what each becomes. */
  readonly writes?: readonly {
    readonly item: RolloutItem;
    readonly document: unknown;
    /** The folder whose write it is. */
    readonly managed_by?: string;
  }[];
  /** Throws under the lock where it must not be. Given the database's time. */
  readonly require?: (manager: EntityManager, at: Date, policies: Policies) => Promise<void>;
  /** The rollout then. The revisions are those of the writes. */
  readonly next: (at: Date, revisions: number[]) => Partial<StoredRollout>;
}

/** What a step of the runner's depends on, and leaves behind: both in the step's transaction. */
interface Run {
  /** Of the rollout that gates were asked for. */
  readonly revision: number;
  readonly turn: Turn;
  readonly answers: readonly GateAnswer[];
}

const defaultHoldMinutes = 24 * 60;
/** Of the candidates of one rollout, in bytes of JSON: readers of layers have those of all. */
const mostBytes = 512 * 1024;

export class Rollouts {
  readonly #db: DataSource;
  readonly #gates: RolloutGates;
  readonly #rollouts: DocumentActions<RolloutAddress, StoredRollout>;
  readonly #rolledOut: RolledOut;
  readonly #sources: RolloutSources;

  constructor(db: DataSource, planner: Planner, gates: RolloutGates) {
    this.#db = db;
    this.#gates = gates;
    this.#rollouts = documentActions(db, rolloutKind);
    this.#rolledOut = new RolledOut(db);
    this.#sources = new RolloutSources(db, planner);
  }

  async find(id: string): Promise<Kept> {
    const row = await this.#db.manager.findOneBy(RolloutEntity, { id });
    if (!row) throw new StrataError('not_found', 'There is no such rollout.');
    return storedRollout(row);
  }

  async create(body: Create, request: Request): Promise<Kept> {
    const { stages, changeset_id: changeSet = null } = body;
    requireStages(stages);
    await requireTenants(stages, request);
    return whileAsRead(async () => {
      const source = await this.#sources.of(body, request);
      const { items, approvals, claims } = source;
      requireStageable(items);
      requireSize(items);
      const id = randomUUID();
      const sealed = await this.#gates.sealed(id, stages);
      const documentAt = (at: Date): StoredRollout => ({
        id,
        title: body.title,
        reason: body.reason,
        state: 'planned',
        stage: null,
        stage_at: null,
        stages: sealed,
        salt: body.salt ?? id,
        on_fail: body.on_fail ?? 'hold',
        max_hold_minutes: body.max_hold_minutes ?? defaultHoldMinutes,
        digest: body.digest,
        items: [...items],
        changeset_id: changeSet,
        ...(claims.managed_by !== undefined && { managed_by: claims.managed_by }),
        ...approvals,
        revisions: null,
        note: null,
        started_by: startedBy(request),
        created_by: request.caller.id,
        created_at: at.toISOString(),
      });
      const work: Work<Attempt<StoredRollout>> = async (manager, at, revision, policies) => {
        await source.require(manager, revision - 1);
        await requireBase(manager, items);
        await requireNoOther(manager, id, items);
        await requireRoom(manager);
        if (policies.managed) await requireTakenOver(manager, items, claims);
        requireApproved(items, approvals, policies, { ...claims, reason: body.reason });
        await removeOldest(manager);
        const place = await this.#place(documentAt(at), body.reason, request);
        return place(manager, at, revision, policies);
      };
      const [done] = await commitChanges(this.#db, request, platformScope, [work], {
        begin: source.begin,
        finished: async (manager, [outcome]) => {
          await source.finished(manager, keptOf(outcome!.result).revision);
          request.checkAnswer(viewOf(keptOf(outcome!.result), [], new Date(), () => null));
        },
      });
      return keptOf(done!.result);
    });
  }

  advance(id: string, body: ParamsOf<'global-config.rollouts.advance'>['body'], request: Request) {
    return this.#step(id, body.reason, request, async (rollout) => {
      const approvals = await this.#sources.approvalsNow(rollout, request);
      return forward(
        { ...rollout, ...approvals },
        body,
        startedBy(request),
        async (manager, at) => {
          const answers = await answersOf(manager, [id]);
          requireAdvance(rollout, answers.get(id) ?? [], body, at);
        },
      );
    });
  }

  /** What follows from the answers of gates, or why it can't begin any more. */
  follow(rollout: StoredRollout, what: Followed, run: Run, request: Request): Promise<Kept> {
    const { id } = rollout;
    switch (what.step) {
      case 'advance': {
        const advanced = async (each: StoredRollout) =>
          advancedByRunner({ ...each, ...(await this.#sources.approvalsNow(each, request)) });
        return this.#step(id, undefined, request, advanced, run);
      }
      case 'hold':
        return this.hold(id, what.note, request, run);
      case 'revert':
        return this.revert(id, what.note, request, run);
      case 'supersede':
        return this.#step(id, what.note, request, supersededFor(what.note), run);
    }
  }

  hold(id: string, reason: string, request: Request, run?: Run) {
    const held = (rollout: StoredRollout): Step => ({
      require: async () => requireStep(rollout, 'hold'),
      next: () => ({ state: 'held', note: reason }),
    });
    return this.#step(id, reason, request, held, run);
  }

  resume(id: string, reason: string, request: Request) {
    return this.#step(id, reason, request, (rollout) => ({
      require: async () => requireStep(rollout, 'resume'),
      next: (at) => ({
        state: 'running',
        stage_at: at.toISOString(),
        note: null,
        started_by: startedBy(request),
      }),
    }));
  }

  /** Asks nobody: while it is under way, the documents are what they were before. */
  revert(id: string, reason: string, request: Request, run?: Run) {
    return this.#step(id, reason, request, (rollout) => reverted(rollout, reason), run);
  }

  /** Makes the step on the rollout as it is, again where it was not any more. */
  #step(
    id: string,
    reason: string | undefined,
    request: Request,
    stepOf: (rollout: StoredRollout) => Step | Promise<Step>,
    run?: Run,
  ): Promise<Kept> {
    return whileAsRead(async () => {
      const found = await this.find(id);
      if (run && run.revision !== found.revision)
        throw new StrataError('conflict', 'It is not what gates were asked for any more.');
      const { document } = found;
      const { writes = [], require, next } = await stepOf(document);
      const why = reason ?? document.reason;
      const works: Work<Attempt<unknown>>[] = [];
      for (const { item, document: becomes, ...claims } of writes)
        works.push(await this.#rolledOut.work(item, becomes, { ...claims, reason: why }, request));
      // Last, so that at no revision between a tenant has another side than before and after.
      works.push(async (manager, at, revision, policies) => {
        const revisions = writes.map((_write, index) => revision - writes.length + index);
        const place = await this.#place({ ...document, ...next(at, revisions) }, why, request);
        return place(manager, at, revision, policies);
      });
      const [first, ...others] = works;
      const begin: Work<Attempt<unknown>> = async (manager, at, revision, policies) => {
        const now = await manager.findOneBy(RolloutEntity, { id });
        if (now?.revision !== found.revision) throw new Outdated();
        if (run) await endTurn(manager, run.turn, run.answers);
        await require?.(manager, at, policies);
        return first!(manager, at, revision, policies);
      };
      const outcomes = await commitChanges(this.#db, request, platformScope, [begin, ...others], {
        finished: async (_manager, done) => {
          const kept = keptOf(done.at(-1)!.result as Attempt<StoredRollout>);
          request.checkAnswer(viewOf(kept, [], new Date(), () => null));
        },
      });
      return keptOf(outcomes.at(-1)!.result as Attempt<StoredRollout>);
    });
  }

  #place(document: StoredRollout, reason: string, request: Request) {
    const own = { ...request, checkAnswer: () => undefined, ...partOf(document) };
    return this.#rollouts.place({ rollout_id: document.id, reason }, own, document);
  }

  async views(all: readonly Kept[]): Promise<Rollout[]> {
    const people = all.flatMap(({ document, updated_by: by }) => [document.created_by, by]);
    const names = await namesIn(this.#db.manager, platformRealm, people);
    const [clock] = await this.#db.query<{ now: Date }[]>('SELECT clock_timestamp() AS now');
    const answers = await answersOf(
      this.#db.manager,
      all.map(({ document }) => document.id),
    );
    return all.map((kept) =>
      viewOf(kept, answers.get(kept.document.id) ?? [], clock!.now, (id) => names.of(id)),
    );
  }
}

type Followed =
  | Exclude<Following, { readonly step: 'none' }>
  | { readonly step: 'supersede'; readonly note: string };

const startedBy = ({
  caller: { type, id, api_key: key },
}: Request): StoredRollout['started_by'] => ({ type, id, ...(key && { key: key.id }) });

/** The next stage, or the end where there is none. */
function forward(
  rollout: StoredRollout,
  how: { readonly all_at_once?: boolean },
  started_by: StoredRollout['started_by'],
  requireIt: (manager: EntityManager, at: Date) => Promise<void>,
): Step {
  const { items, stage, managed_by: folder } = rollout;
  const ofFolder = folder === undefined ? {} : { managed_by: folder };
  const require = async (manager: EntityManager, at: Date, policies: Policies) => {
    await requireIt(manager, at);
    await requireBase(manager, items);
    requireApproved(items, rollout, policies, { reason: rollout.reason });
  };
  if (!completes(rollout, how))
    return {
      require,
      next: (at) => ({
        state: 'running',
        stage: (stage ?? -1) + 1,
        stage_at: at.toISOString(),
        note: null,
        started_by,
      }),
    };
  return {
    require,
    writes: items.map((item) => ({ item, document: item.after, ...ofFolder })),
    next: (_at, revisions) => ({ state: 'completed', revisions, note: null, started_by }),
  };
}

/** Throws 412 while a stop or freeze of the platform holds: nobody is there to look. */
const advancedByRunner = (rollout: StoredRollout): Step =>
  forward(rollout, {}, rollout.started_by, async (manager, at) => {
    if (rollout.state !== 'running' || at.getTime() < bakedAt(rollout)!)
      throw new StrataError('conflict', 'It does not run, or has not baked.');
    const stop = await stoppedNow(manager, at);
    if (stop !== undefined) throw new StrataError('precondition_failed', stop);
  });

const supersededFor =
  (note: string) =>
  (rollout: StoredRollout): Step => ({
    async require(manager) {
      requireStep(rollout, 'supersede');
      if ((await movedBases(manager, rollout.items)).length === 0)
        throw new StrataError('conflict', 'Its documents are as they were.');
    },
    next: () => ({ state: 'superseded', note }),
  });

function reverted(rollout: StoredRollout, reason: string): Step {
  const { id, state, items, revisions } = rollout;
  const next = () => ({ state: 'reverted', note: reason }) as const;
  if (state !== 'completed' || revisions === null)
    return { require: async () => requireStep(rollout, 'revert'), next };
  return {
    require: async (manager) => {
      await requireNoOther(manager, id, items);
      // What it removed has no revision.
      const left = items.map(({ after }, index) => (after === null ? null : revisions[index]!));
      const changed = await movedFrom(manager, items, left);
      // What came back and went again since is as absent as the rollout left it.
      const moved = changed.length > 0 ? changed : await writtenAfter(manager, items, revisions);
      if (moved.length > 0)
        throw new StrataError(
          'conflict',
          `Others wrote since: ${moved.join(', ')}. Nothing was reverted.`,
        );
    },
    writes: items.map((item) => ({ item, document: item.before })),
    next,
  };
}

/** Which of its documents others have written since it was planned. */
export const movedBases = (
  manager: EntityManager,
  items: readonly RolloutItem[],
): Promise<string[]> =>
  movedFrom(
    manager,
    items,
    items.map(({ base }) => base),
  );

/** The history says of its writes that they are a part of the change set. */
const partOf = ({ changeset_id: id }: StoredRollout): Pick<Request, 'changeSet'> =>
  id === null ? {} : { changeSet: { id, requireEnough: () => undefined } };

/** Throws 422 for a stage that would be watched in tenants that there are not. */
async function requireTenants(stages: StoredRollout['stages'], { call }: Request): Promise<void> {
  // Of a stage at a time: all of them may list more than one answer has.
  for (const [stage, { tenants = [] }] of stages.entries()) {
    if (tenants.length === 0) continue;
    const body = { tenant_ids: [...tenants], services: [] };
    const { names } = await call('tenant-config.layers.places', { body });
    const problems = tenants.flatMap((id, index) =>
      Object.hasOwn(names, id)
        ? []
        : [{ path: `/stages/${stage}/tenants/${index}`, message: 'is the id of no tenant' }],
    );
    if (problems.length > 0) throw invalid(problems);
  }
}

async function requireBase(manager: EntityManager, items: readonly RolloutItem[]): Promise<void> {
  const moved = await movedBases(manager, items);
  if (moved.length > 0)
    throw new StrataError(
      'precondition_failed',
      `Others wrote what is to be rolled out: ${moved.join(', ')}. Plan another rollout on that.`,
    );
}

function requireSize(items: readonly RolloutItem[]): void {
  if (Buffer.byteLength(JSON.stringify(items.map(({ after }) => after))) <= mostBytes) return;
  throw new StrataError(
    'payload_too_large',
    'What is rolled out is larger than 512 KiB together, which every reader would have beside what it replaces.',
  );
}

function keptOf({ answer, after }: Attempt<StoredRollout>): Kept {
  if ('dry_run' in answer || after === null) throw new Error('A rollout was not written');
  const { revision, updated_by, updated_at } = answer;
  return { document: after, revision, updated_by, updated_at };
}

function viewOf(
  { document, revision, updated_by, updated_at }: Kept,
  answers: readonly GateAnswer[],
  now: Date,
  nameOf: (id: string) => string | null,
): Rollout {
  const {
    items,
    approvals: _approvals,
    approver_groups: _groups,
    managed_by: _managedBy,
    revisions: _revisions,
    started_by: _startedBy,
    ...shown
  } = document;
  const isRunning = document.state === 'running';
  const until = gatesUntil(document);
  return {
    ...shown,
    stages: concealSecrets(document.stages),
    gates_until: until === null ? null : new Date(until).toISOString(),
    answers: [...answers],
    phase: isRunning ? (now.getTime() < (bakedAt(document) ?? 0) ? 'baking' : 'baked') : null,
    items: items.map(({ action, path, base }) => ({ action, path, base })),
    changes: items.flatMap(({ path: resource, before, after }) =>
      diff(before ?? undefined, after ?? undefined).map((change) => ({ resource, ...change })),
    ),
    revision,
    created_by_name: nameOf(document.created_by),
    updated_by,
    updated_by_name: nameOf(updated_by),
    updated_at,
  };
}
