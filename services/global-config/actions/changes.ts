/** The platform's changes, for watch streams. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { changesAfter, revisionOf } from '../../../shared/commits/commit.ts';
import { platformScope } from '../../../shared/contracts/revision-scopes.ts';
import { defaultLimit } from '../../../shared/documents/paging.ts';

export const changeActions = (db: DataSource) =>
  ({
    async 'global-config.changes'({ after, limit = defaultLimit }) {
      // The revision first: it is at least what the changes read after it are from.
      const revision = await revisionOf(db.manager, platformScope);
      if (after === undefined) return { items: [], revision };
      const changes = await changesAfter(db.manager, platformScope, after, limit);
      return {
        items: changes.map((change) => ({
          revision: change.revision,
          keys: change.keys,
          changed_at: change.created_at.toISOString(),
        })),
        revision,
      };
    },
  }) satisfies Handlers;
