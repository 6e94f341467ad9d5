/** What documents would be by writes that are proposed, for a replay of decisions. */
import type { ChangeSetOptions } from '../../../shared/change-sets/change-sets.ts';
import { decidingDocument } from '../../../shared/change-sets/deciding-documents.ts';
import { trialsOf, writeOf, writesOf } from '../../../shared/change-sets/items.ts';
import { findChangeSet } from '../../../shared/change-sets/store.ts';
import { commitChanges } from '../../../shared/commits/commit.ts';
import type { ProposedDocument } from '../../../shared/contracts/decisions.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import { tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';

export const proposedActions = (options: ChangeSetOptions) =>
  ({
    async 'tenant-config.proposed'({ tenant_id: tenantId, body }, request) {
      const { documents: all, db, entity } = options;
      if (body.items !== undefined) return triedOf(options, tenantId, body.items, request);
      const of = { entity, tenantId };
      const { content } = await findChangeSet(db.manager, of, body.changeset_id!);
      return content.items.flatMap((item) => {
        const { documents, params } = writeOf(all, item, tenantId);
        return decidingDocument(documents, params, item.after);
      });
    },
  }) satisfies Handlers;

type Items = NonNullable<ParamsOf<'tenant-config.proposed'>['body']['items']>;

/** By the rules of each write, of which nothing stays. */
async function triedOf(
  { db, documents: all }: ChangeSetOptions,
  tenantId: string,
  items: Items,
  request: Request,
): Promise<ProposedDocument[]> {
  const writes = writesOf(all, items, tenantId);
  const works = await trialsOf(writes, items, {}, request);
  const tried = await commitChanges(db, request, tenantScope(tenantId), works, { discard: true });
  return writes.flatMap(({ documents, params }, index) =>
    decidingDocument(documents, params, tried[index]!.result.after),
  );
}
