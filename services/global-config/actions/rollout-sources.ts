/**
 * What a rollout is made of: writes that were planned, or a change set that was approved, which it
 * applies.
 */
import type { DataSource, EntityManager } from 'typeorm';
import type { ProvenRight, Rights } from '../../../shared/change-sets/change-sets.ts';
import {
  askedOf,
  digestOf,
  requireDigest,
  requireState,
} from '../../../shared/change-sets/rules.ts';
import {
  changeRow,
  findChangeSet,
  lockAsRead,
  recordStep,
} from '../../../shared/change-sets/store.ts';
import { holdAccounts, holdRights } from '../../../shared/commits/held-rights.ts';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import type { RolloutItem, StoredRollout } from '../../../shared/contracts/rollouts.ts';
import { claimsOf, type Claims } from '../../../shared/documents/managed-fields.ts';
import { invalid, StrataError } from '../../../shared/errors.ts';
import { ChangeSetEntity } from '../schema.ts';
import { layerAt, type Approvals } from '../stores/rolled-out.ts';
import { platformRights } from './change-sets.ts';
import { requireRevision, type Planner } from './plan.ts';

export interface RolloutSource {
  readonly items: readonly RolloutItem[];
  readonly approvals: Approvals & { readonly approver_groups: string[] };
  readonly claims: Claims;
  /** Before the lock of the platform's counter. */
  readonly begin: (manager: EntityManager) => Promise<void>;
  /** Throws 412 where the platform has moved since; given its revision. */
  readonly require: (manager: EntityManager, revision: number) => Promise<void>;
  /** Given the revision that planned the rollout. */
  readonly finished: (manager: EntityManager, revision: number) => Promise<void>;
}

type Create = ParamsOf<'global-config.rollouts.create'>['body'];
const nothing = async (): Promise<void> => undefined;

export class RolloutSources {
  readonly #db: DataSource;
  readonly #rights: Rights;
  readonly #planner: Planner;

  constructor(db: DataSource, planner: Planner) {
    this.#db = db;
    this.#rights = platformRights(db);
    this.#planner = planner;
  }

  of(
    { changeset_id: id, items, digest, ...said }: Create,
    request: Request,
  ): Promise<RolloutSource> {
    if ((id === undefined) === (items === undefined))
      throw invalid([{ path: '/items', message: 'or changeset_id is required, and not both' }]);
    return id === undefined
      ? this.#planned(items!, digest, claimsOf(said), request)
      : this.#approved(id, digest, request);
  }

  async #planned(
    items: NonNullable<Create['items']>,
    digest: string,
    claims: Claims,
    request: Request,
  ): Promise<RolloutSource> {
    const named = items.map(({ action, path }) => ({ action, path }));
    const layers = named.map(layerOf);
    requireOnce(layers);
    const { revision, outcomes } = await this.#planner.tryPlanned({ digest, items }, request);
    return {
      items: layers.map((layer, index) => {
        const { before, after, baseRevision: base } = outcomes[index]!;
        return { ...layer, base, before, after };
      }),
      approvals: { approvals: 0, approver_groups: [] },
      claims,
      begin: nothing,
      require: (manager, current) => requireRevision(manager, revision, request.caller, current),
      finished: nothing,
    };
  }

  /**
   * The approvals of the change set that a rollout is of, as far as those who gave them may approve it
   * now. Of one that is not kept any more they are as they were.
   */
  async approvalsNow(
    { changeset_id: id, approvals }: StoredRollout,
    request: Request,
  ): Promise<Pick<Approvals, 'approvals'>> {
    const row = id === null ? null : await this.#db.manager.findOneBy(ChangeSetEntity, { id });
    if (!row) return { approvals };
    const asked = { ...askedOf(row.content), groups: row.content.groups };
    const rights = await Promise.all(
      row.content.approved_by.map((each) => this.#rights.approver(null, each, asked, request)),
    );
    return { approvals: rights.filter(({ right }) => right === null).length };
  }

  /** As applying it does: by people who may approve it now, and once. */
  async #approved(id: string, digest: string, request: Request): Promise<RolloutSource> {
    const of = { entity: ChangeSetEntity, tenantId: null };
    const row = await findChangeSet(this.#db.manager, of, id);
    requireState(row, 'apply');
    requireDigest(row, digest);
    const { content } = row;
    if (digestOf(null, content) !== row.digest)
      throw new StrataError('conflict', 'What is stored is not what the digest stands for.');
    if (content.approved_by.length < content.required)
      throw new StrataError('conflict', 'It has fewer approvals than it needs.');
    const author = await this.#rights.author(null, content.authors.at(-1)!, request);
    if (!author.right)
      throw new StrataError('conflict', 'Its author has no right to write it any more.');
    const provenRights: ProvenRight<unknown>[] = [author];
    const asked = { ...askedOf(content), groups: content.groups };
    for (const approval of content.approved_by) {
      const approver = await this.#rights.approver(null, approval, asked, request);
      if (approver.right)
        throw new StrataError('conflict', `${approval.id} may not approve it any more.`);
      provenRights.push(approver);
    }
    let now = row.updated_at;
    return {
      items: content.items.map(({ action, path, body, base, before, after }, index) => ({
        ...layerOf({ action, path }, index),
        base,
        before,
        after,
        ...(content.managed_by !== undefined && body !== undefined && { body }),
      })),
      approvals: {
        approvals: content.approved_by.length,
        approver_groups: [...content.groups],
      },
      claims: claimsOf(content),
      async begin(manager) {
        now = await lockAsRead(manager, of, row);
        await holdRights(manager, provenRights);
      },
      require: nothing,
      async finished(manager, revision) {
        const applied = { revisions: [revision], note: null, ended_by: request.caller.id };
        const change = { state: 'applied', due_at: null, content: applied } as const;
        await recordStep(
          manager,
          'applied',
          await changeRow(manager, of, row, now, change),
          request,
        );
        await holdAccounts(manager, provenRights);
      },
    };
  }
}

type Named = Pick<RolloutItem, 'action' | 'path'>;

function layerOf({ action, path }: Named, index: number) {
  const layer = layerAt(path);
  if (layer) return { action, path, ...layer };
  throw invalid([
    {
      path: `/items/${index}/path`,
      message: 'is of no layer: bounds, budgets, freezes and policies reach all tenants at once',
    },
  ]);
}

function requireOnce(layers: readonly ReturnType<typeof layerOf>[]): void {
  const seen = new Set<string>();
  for (const [index, { config_type: type, resource_id: id }] of layers.entries()) {
    const name = `${type} ${id}`;
    if (seen.has(name))
      throw invalid([
        { path: `/items/${index}/path`, message: 'is of a document that another item writes' },
      ]);
    seen.add(name);
  }
}
