/** The handlers of change sets, the same for a tenant's and for the platform's. */
import type { Handlers } from '../contract-runtime/request.ts';
import type { ChangeSet } from '../contracts/change-sets.ts';
import type { ParamsOf } from '../contracts/index.ts';
import type { Request } from '../contract-runtime/request.ts';
import { namesIn, realmOf } from '../commits/actor-names.ts';
import { changeSetScope } from '../contracts/revision-scopes.ts';
import { readSnapshot } from '../commits/commit.ts';
import { claimsOf } from '../documents/managed-fields.ts';
import { codeOf, StrataError } from '../errors.ts';
import { defaultLimit, newestFirst } from '../documents/paging.ts';
import { Applying } from './apply.ts';
import { decidingDocument, decisionsImpact } from './deciding-documents.ts';
import { writeOf } from './items.ts';
import { dueNow } from './schedule.ts';
import { changedAfter } from './store.ts';
import { ChangeSets, type ChangeSetOptions } from './change-sets.ts';
import type { ChangeSetRow, StoredPerson } from './schema.ts';

type Of = { readonly tenant_id?: string };
type Id = Of & { readonly changeset_id: string };
type Platform<Action extends string> = ParamsOf<
  `global-config.changesets.${Action}` & keyof Handlers
>;

export function changeSetHandlers(options: ChangeSetOptions) {
  const { db, entity } = options;
  const changeSets = new ChangeSets(options);
  const applying = new Applying(options, changeSets);
  const tenantOf = ({ tenant_id: id }: Of): string | null => id ?? null;

  async function viewsOf(rows: readonly ChangeSetRow[], withBodies: boolean): Promise<ChangeSet[]> {
    const [first] = rows;
    if (!first) return [];
    const people = rows.flatMap(({ content }) => [...content.authors, ...content.approved_by]);
    const ids = people.map(({ id }) => id);
    const names = await namesIn(db.manager, realmOf(first.tenant_id), ids);
    return rows.map((row) => viewOf(row, (id) => names.of(id), withBodies));
  }
  const view = async (row: ChangeSetRow): Promise<ChangeSet> => (await viewsOf([row], true))[0]!;
  const viewAfter = async (
    params: Id,
    step: (...of: [tenantId: string | null, id: string]) => Promise<ChangeSetRow>,
  ): Promise<ChangeSet> => view(await step(tenantOf(params), params.changeset_id));

  return {
    async create({ submit, body, ...of }: Of & Platform<'create'>, request: Request) {
      const open = submit === true ? changeSets.propose : changeSets.create;
      return view(await open.call(changeSets, tenantOf(of), body, request));
    },
    async get(params: Id & { readonly impact?: boolean }, { call }: Request) {
      const row = await changeSets.find(tenantOf(params), params.changeset_id);
      if (!params.impact) return view(row);
      return { ...(await view(row)), impact: await impactOf(options, row, call) };
    },
    async list({ limit, cursor, state, ...of }: Of & Platform<'list'>) {
      const tenantId = tenantOf(of);
      const matching = () => {
        const query = db.manager.createQueryBuilder(entity, 'c');
        if (tenantId === null) query.where('c.tenant_id IS NULL');
        else query.where('c.tenant_id = :tenantId', { tenantId });
        if (state !== undefined) query.andWhere('c.state = :state', { state });
        return query;
      };
      const page = await newestFirst({ limit, cursor }, matching, (row) => row);
      return { ...page, items: await viewsOf(page.items, false) };
    },
    async changes({ after, limit = defaultLimit, ...of }: Of & Platform<'changes'>) {
      const tenantId = tenantOf(of);
      const scope = changeSetScope(tenantId);
      const { value: items, asOf } = await readSnapshot(db, scope, async (manager) =>
        after === undefined ? [] : changedAfter(manager, { entity, tenantId }, after, limit),
      );
      return { items, revision: asOf[scope]! };
    },
    edit: (params: Id & Platform<'edit'>, request: Request) =>
      viewAfter(params, (...of) => changeSets.edit(...of, params.body, request)),
    rebase: (params: Id, request: Request) =>
      viewAfter(params, (...of) => changeSets.rebase(...of, request)),
    submit: (params: Id, request: Request) =>
      viewAfter(params, (...of) => changeSets.submit(...of, request)),
    cancel: (params: Id, request: Request) =>
      viewAfter(params, (...of) => changeSets.cancel(...of, request)),
    async approve(params: Id & Platform<'approve'>, request: Request) {
      const [tenantId, id] = [tenantOf(params), params.changeset_id];
      const row = await changeSets.approve(tenantId, id, params.body, request);
      const isDue = row.state === 'scheduled' && row.content.apply === 'on_approval';
      if (!isDue) return view(row);
      try {
        return view(await applying.apply(tenantId, id, 'run', request));
      } catch (error) {
        // The schedule, or somebody who edits it, came first: the approval is made all the same.
        if (codeOf(error) !== 'conflict') throw error;
        return view(await changeSets.find(tenantId, id));
      }
    },
    reject: (params: Id & Platform<'reject'>, request: Request) =>
      viewAfter(params, (...of) => changeSets.reject(...of, params.body.comment, request)),
    run: (params: Id, request: Request) =>
      viewAfter(params, async (tenantId, id) => {
        const due = await dueNow(db, entity, id);
        if (!due.due) throw new StrataError('conflict', 'It is not due.');
        return applying.run(tenantId, id, due, request);
      }),
    'break-glass': (params: Id & Platform<'break-glass'>, request: Request) =>
      viewAfter(params, async (...of) => {
        await changeSets.requireWriterOf(...of, request);
        return applying.apply(...of, 'break_glass', request, { emergency: params.body.reason });
      }),
    review: (params: Id, request: Request) =>
      viewAfter(params, (...of) => changeSets.review(...of, request)),
    apply: (params: Id, request: Request) =>
      viewAfter(params, async (...of) => {
        await changeSets.requireWriterOf(...of, request);
        return applying.apply(...of, 'apply', request);
      }),
  };
}

async function impactOf(
  { documents: all }: ChangeSetOptions,
  { tenant_id: tenantId, content }: ChangeSetRow,
  call: Request['call'],
): Promise<NonNullable<ChangeSet['impact']>> {
  const deciding = content.items.flatMap((item) => {
    const { documents, params } = writeOf(all, item, tenantId);
    return decidingDocument(documents, params, item.after);
  });
  const decisions = await decisionsImpact(call, deciding, tenantId);
  return decisions ? { decisions } : {};
}

function viewOf(
  row: ChangeSetRow,
  nameOf: (id: string) => string | null,
  withBodies: boolean,
): ChangeSet {
  const { content } = row;
  const shown = ({ type, id }: StoredPerson) => ({ type, id, name: nameOf(id) });
  return {
    id: row.id,
    state: row.state,
    title: content.title,
    reason: content.reason,
    apply: content.apply,
    digest: row.digest,
    ...claimsOf(content),
    items: content.items.map(({ action, path, body, base }) => ({
      action,
      path,
      ...(withBodies && body !== undefined && { body }),
      base,
    })),
    changes: content.items.flatMap(({ path: resource, changes }) =>
      changes.map((change) => ({ resource, ...change })),
    ),
    ...(content.moved && { moved: [...content.moved] }),
    authors: content.authors.map(shown),
    required: content.required,
    groups: [...content.groups],
    approved_by: content.approved_by.map((approval) => ({
      ...shown(approval),
      at: approval.at,
      comment: approval.comment,
    })),
    ...(content.break_glass && { break_glass: content.break_glass }),
    note: content.note,
    ended_by: content.ended_by,
    ...(content.revisions && { revisions: [...content.revisions] }),
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
