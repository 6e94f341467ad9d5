/** The handlers of change sets, the same for a tenant's and for the platform's. */
import { seesPlatform, type Caller } from '../access.ts';
import type { Handlers } from '../contract-runtime/request.ts';
import { ChangeSet } from '../contracts/change-sets.ts';
import type { ParamsOf } from '../contracts/index.ts';
import type { Request } from '../contract-runtime/request.ts';
import { namesIn, realmOf } from '../commits/actor-names.ts';
import { changeSetScope } from '../contracts/revision-scopes.ts';
import { readSnapshot } from '../commits/commit.ts';
import { isHidden } from '../documents/document-kind.ts';
import { codeOf, StrataError } from '../errors.ts';
import { defaultLimit, newestFirst } from '../documents/paging.ts';
import { viewBy } from '../schema/view.ts';
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

  async function viewsOf(
    rows: readonly ChangeSetRow[],
    caller: Caller,
    withBodies: boolean,
  ): Promise<ChangeSet[]> {
    const [first] = rows;
    if (!first) return [];
    const people = rows.flatMap(({ content }) => [...content.authors, ...content.approved_by]);
    const ids = people.map(({ id }) => id);
    const names = await namesIn(db.manager, realmOf(first.tenant_id), ids);
    return rows.map((row) => {
      const hidden = hiddenIn(options, row, caller);
      return viewOf(row, (id) => names.of(id), { withBodies, hidden });
    });
  }
  const view = async (row: ChangeSetRow, { caller }: Pick<Request, 'caller'>): Promise<ChangeSet> =>
    (await viewsOf([row], caller, true))[0]!;
  const viewAfter = async (
    params: Id,
    request: Request,
    step: (...of: [tenantId: string | null, id: string]) => Promise<ChangeSetRow>,
  ): Promise<ChangeSet> => view(await step(tenantOf(params), params.changeset_id), request);

  return {
    async create({ submit, body, ...of }: Of & Platform<'create'>, request: Request) {
      const open = submit === true ? changeSets.propose : changeSets.create;
      return view(await open.call(changeSets, tenantOf(of), body, request), request);
    },
    async get(params: Id & { readonly impact?: boolean }, request: Request) {
      const row = await changeSets.find(tenantOf(params), params.changeset_id);
      const shown = await view(row, request);
      return params.impact
        ? { ...shown, impact: await impactOf(options, row, request.call) }
        : shown;
    },
    async list({ limit, cursor, state, ...of }: Of & Platform<'list'>, { caller }: Request) {
      const tenantId = tenantOf(of);
      const asked = { tenant_id: tenantId, state, limit, cursor };
      const page = await newestFirst(db, entity, asked, (row) => row);
      return { ...page, items: await viewsOf(page.items, caller, false) };
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
      viewAfter(params, request, (...of) => changeSets.edit(...of, params.body, request)),
    rebase: (params: Id, request: Request) =>
      viewAfter(params, request, (...of) => changeSets.rebase(...of, request)),
    submit: (params: Id, request: Request) =>
      viewAfter(params, request, (...of) => changeSets.submit(...of, request)),
    cancel: (params: Id, request: Request) =>
      viewAfter(params, request, (...of) => changeSets.cancel(...of, request)),
    async approve(params: Id & Platform<'approve'>, request: Request) {
      const [tenantId, id] = [tenantOf(params), params.changeset_id];
      const row = await changeSets.approve(tenantId, id, params.body, request);
      const isDue = row.state === 'scheduled' && row.content.apply === 'on_approval';
      if (!isDue) return view(row, request);
      try {
        return view(await applying.apply(tenantId, id, 'run', request), request);
      } catch (error) {
        // The schedule, or somebody who edits it, came first, or the tenant has changed as much as it
        // may for now: the approval is made all the same.
        if (!['conflict', 'rate_limited'].includes(codeOf(error))) throw error;
        return view(await changeSets.find(tenantId, id), request);
      }
    },
    reject: (params: Id & Platform<'reject'>, request: Request) =>
      viewAfter(params, request, (...of) => changeSets.reject(...of, params.body.comment, request)),
    run: (params: Id, request: Request) =>
      viewAfter(params, request, async (tenantId, id) => {
        const due = await dueNow(db, entity, id);
        if (!due.due) throw new StrataError('conflict', 'It is not due.');
        return applying.run(tenantId, id, due, request);
      }),
    'break-glass': (params: Id & Platform<'break-glass'>, request: Request) =>
      viewAfter(params, request, async (...of) => {
        await changeSets.requireWriterOf(...of, request);
        return applying.apply(...of, 'break_glass', request, { emergency: params.body.reason });
      }),
    review: (params: Id, request: Request) =>
      viewAfter(params, request, (...of) => changeSets.review(...of, request)),
    apply: (params: Id, request: Request) =>
      viewAfter(params, request, async (...of) => {
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

/**
 * The paths of documents that are the platform's alone, for a key that only writes: it may apply what
 * others proposed, and is shown no more of it than of a write of its own.
 */
function hiddenIn(
  { documents: all }: ChangeSetOptions,
  { tenant_id: tenantId, content }: ChangeSetRow,
  caller: Caller,
): ReadonlySet<string> {
  if (tenantId !== null || seesPlatform(caller)) return new Set();
  const hidden = content.items.filter((item) => {
    const { kind } = writeOf(all, item, tenantId).documents;
    return [item.before, item.after].some((document) =>
      isHidden(kind, document === null ? null : { document }, caller),
    );
  });
  return new Set(hidden.map(({ path }) => path));
}

function viewOf(
  row: ChangeSetRow,
  nameOf: (id: string) => string | null,
  { withBodies, hidden }: { readonly withBodies: boolean; readonly hidden: ReadonlySet<string> },
): ChangeSet {
  const { moved, revisions, ...content } = row.content;
  const shown = ({ type, id }: StoredPerson) => ({ type, id, name: nameOf(id) });
  return {
    ...viewBy(ChangeSet, row),
    ...viewBy(ChangeSet, content),
    items: content.items.map(({ action, path, body, base }) => ({
      action,
      path,
      ...(withBodies && body !== undefined && !hidden.has(path) && { body }),
      base,
    })),
    changes: content.items.flatMap(({ path: resource, changes }) =>
      hidden.has(resource) ? [] : changes.map((change) => ({ resource, ...change })),
    ),
    ...(moved && { moved: moved.filter(({ resource }) => !hidden.has(resource)) }),
    authors: content.authors.map(shown),
    groups: [...content.groups],
    approved_by: content.approved_by.map((approval) => ({
      ...shown(approval),
      at: approval.at,
      comment: approval.comment,
    })),
    ...(revisions && { revisions: [...revisions] }),
  };
}
