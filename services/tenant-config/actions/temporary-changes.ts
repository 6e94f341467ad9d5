/** Changes of a tenant's values that end by themselves: which there are, and their end. */
import type { DataSource } from 'typeorm';
import { noteOf } from '../../../shared/change-sets/apply.ts';
import { placingsOf, writeOf } from '../../../shared/change-sets/items.ts';
import { auditFacts, commitChanges, recordEvents } from '../../../shared/commits/commit.ts';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import type { AllDocuments } from '../../../shared/documents/document.ts';
import { readManaged } from '../../../shared/documents/managed-fields.ts';
import {
  dueTemporary,
  endTemporary,
  openTemporaries,
  restored,
  tryLater,
  type StoredTemporary,
} from '../../../shared/documents/temporary-changes.ts';
import { codeOf, statusOf, StrataError } from '../../../shared/errors.ts';
import { valueAt, namesOf, withValuesAt } from '../../../shared/schema/json-pointer.ts';

/** Attempts at a document that others write meanwhile; the next look makes more. */
const maxAttempts = 5;

export function temporaryChangeActions(db: DataSource, documents: AllDocuments) {
  /** Resolves to whether it has ended; where not, the document was written meanwhile. */
  async function tryToEnd(tenantId: string, id: string, request: Request): Promise<boolean> {
    const { manager } = db;
    const scope = tenantScope(tenantId);
    const row = await dueTemporary(manager, scope, id);
    if (!row) return true;
    const { path } = row;
    const named = { action: 'patch', path } as const;
    const { documents: kind, params } = writeOf(documents, named, tenantId);
    const { value: current } = await kind.get(params);
    const after = current === null ? undefined : restored(current.document, row);
    if (after === undefined) {
      await endTemporary(manager, id);
      return true;
    }
    const owners = (await readManaged(manager, scope, path)).map(({ owner }) => owner);
    const said = {
      reason: reasonOf(row),
      ...(row.managed_by !== null && { managed_by: row.managed_by }),
      ...(owners.length > 0 && { take_over: [...new Set(owners)].join(',') }),
    };
    const item = {
      ...named,
      body: bodyOf(row, after),
      base: current!.revision,
      before: current!.document,
      after,
      changes: [],
    };
    const own = { ...request, ending: { id } };
    try {
      const works = await placingsOf(documents, [item], tenantId, said, own);
      await commitChanges(db, own, scope, works, {
        finished: (written) => endTemporary(written, id),
      });
      return true;
    } catch (error) {
      if (!(error instanceof StrataError) || statusOf(codeOf(error)) >= 500) throw error;
      if (codeOf(error) === 'precondition_failed') return false;
      // Of the document, as its other paths are: no one sent an item.
      await refuse(tenantId, row, noteOf(error).replace('/items/0/body', ''), request);
      return true;
    }
  }

  /** The audit says it once: whose rules they are sees to it. */
  const refuse = (tenantId: string, row: StoredTemporary, why: string, request: Request) =>
    db.transaction(async (manager) => {
      await tryLater(manager, row.id, why);
      if (row.note !== null) return;
      const event = {
        action: 'config.temporary_change.refused',
        tenant_id: tenantId,
        target: row.path,
        payload: { temporary_change_id: row.id, until: row.until.toISOString(), why },
      };
      await recordEvents(manager, [auditFacts(event, request)]);
    });

  return {
    'tenant-config.temporary-changes.list': ({ tenant_id: id, ...asked }) =>
      openTemporaries(db.manager, id, asked),

    async 'tenant-config.temporary-changes.end'(
      { tenant_id: tenantId, temporary_change_id: id },
      request,
    ) {
      for (let made = 0; made < maxAttempts; made += 1)
        if (await tryToEnd(tenantId, id, request)) return null;
      throw new StrataError('service_unavailable', 'The document kept changing.');
    },
  } satisfies Handlers;
}

const reasonOf = ({ revision, reason }: StoredTemporary): string =>
  `Ends the temporary change of revision ${revision}${reason === null ? '' : `: ${reason}`}`.slice(
    0,
    500,
  );

/** What it sets, for whose fields that is. */
const bodyOf = ({ fields }: StoredTemporary, after: unknown): unknown =>
  withValuesAt(
    {},
    fields.map(({ path }) => {
      const names = namesOf(path);
      return { names, next: valueAt(after, names) };
    }),
  );
