/** global-config: GlobalConfiguration and ServiceTypeConfiguration, the platform's two layers. */
import type { ServiceSchema } from 'moleculer';
import { In, MoreThan, type DataSource } from 'typeorm';
import type { Handlers } from '../../shared/cluster/request.ts';
import { serviceOf } from '../../shared/cluster/service.ts';
import { platformScope } from '../../shared/contracts/revision-scopes.ts';
import type { StoredGlobalEntry } from '../../shared/contracts/global-entries.ts';
import { isPlatformAdmin } from '../../shared/access.ts';
import { changesAfter, readSnapshot, revisionOf } from '../../shared/commits/commit.ts';
import {
  documentActions,
  type Stored,
  type WrittenDocument,
} from '../../shared/documents/document.ts';
import { decodeCursor, defaultLimit, encodeCursor, pageOf } from '../../shared/documents/paging.ts';
import { entryKind, entryOf, serviceTypeKind, serviceTypeOf } from './documents.ts';
import { GlobalEntity, ServiceTypeEntity } from './schema.ts';

/** A reader of an entry finds its revision, author and time in the body too. */
const described = (stored: Stored<StoredGlobalEntry>) => ({
  ...stored,
  document: {
    ...stored.document,
    revision: stored.revision,
    updated_by: stored.updated_by,
    updated_at: stored.updated_at,
  },
});
const describedWrite = (written: WrittenDocument<StoredGlobalEntry>) =>
  'dry_run' in written || written.document === null
    ? written
    : described(written as Stored<StoredGlobalEntry>);

export function globalConfigService({ db }: { readonly db: DataSource }): ServiceSchema {
  const entries = documentActions(db, entryKind);
  const types = documentActions(db, serviceTypeKind);
  const handlers = {
    async 'global-config.entries.get'(params: { key: string }) {
      const { value, asOf } = await entries.get(params);
      return { value: value && described(value), asOf };
    },
    async 'global-config.entries.list'({
      limit = defaultLimit,
      cursor,
    }: {
      limit?: number;
      cursor?: string;
    }) {
      const after = decodeCursor(cursor);
      const rows = await db.manager.find(GlobalEntity, {
        where: after === undefined ? {} : { config_key: MoreThan(after) },
        order: { config_key: 'ASC' },
        take: limit + 1,
      });
      return pageOf(
        rows,
        limit,
        (row) => row.config_key,
        (row) => described(entryOf(row)).document,
      );
    },
    'global-config.entries.put': async (...args: Parameters<typeof entries.put>) =>
      describedWrite(await entries.put(...args)),
    'global-config.entries.patch': async (...args: Parameters<typeof entries.patch>) =>
      describedWrite(await entries.patch(...args)),
    'global-config.entries.delete': entries.delete,

    /** By type, then name. Who does not administer the platform sees the active ones. */
    async 'global-config.service-types.list'(
      { limit = defaultLimit, cursor }: { limit?: number; cursor?: string },
      { caller }: { caller: Parameters<typeof isPlatformAdmin>[0] },
    ) {
      const [type = '', name = ''] = (decodeCursor(cursor) ?? '').split('/');
      const rows = await db.manager
        .createQueryBuilder(ServiceTypeEntity, 't')
        .where('(t.service_type, t.configuration_name) > (:type, :name)', { type, name })
        .andWhere(isPlatformAdmin(caller) ? 'true' : 't.is_active')
        .orderBy({ 't.service_type': 'ASC', 't.configuration_name': 'ASC' })
        .limit(limit + 1)
        .getMany();
      const page = pageOf(
        rows,
        limit,
        () => '',
        (row) => serviceTypeOf(row).document,
      );
      const last = page.items.at(-1);
      return {
        ...page,
        next_cursor:
          page.next_cursor === null || !last
            ? null
            : encodeCursor(`${last.service_type}/${last.configuration_name}`),
      };
    },
    'global-config.service-types.get': types.get,
    'global-config.service-types.put': types.put,
    'global-config.service-types.patch': types.patch,
    'global-config.service-types.delete': types.delete,
    'global-config.service-types.active': () =>
      readSnapshot(db, platformScope, async (manager) => {
        const rows = await manager.find(ServiceTypeEntity, {
          where: { configuration_name: 'default', is_active: true },
          order: { service_type: 'ASC' },
        });
        return {
          items: rows.map(({ service_type, scaling_limits, updated_by }) => ({
            service_type,
            scaling_limits,
            updated_by,
          })),
        };
      }),

    async 'global-config.changes'({
      after,
      limit = defaultLimit,
    }: {
      after?: number;
      limit?: number;
    }) {
      const revision = await revisionOf(db.manager, platformScope);
      const changes =
        after === undefined ? [] : await changesAfter(db.manager, platformScope, after, limit);
      return {
        revision,
        items: changes.map(({ created_at: at, ...change }) => ({
          ...change,
          changed_at: at.toISOString(),
        })),
      };
    },

    'global-config.layers': ({ service_types: wanted = [] }: { service_types?: string[] }) =>
      db.transaction('REPEATABLE READ', async (manager) => {
        const revision = await revisionOf(manager, platformScope);
        const rows = await manager.findBy(GlobalEntity, { is_public: true });
        const typeRows =
          wanted.length === 0
            ? []
            : await manager.findBy(ServiceTypeEntity, {
                service_type: In(wanted),
                configuration_name: 'default',
                is_active: true,
              });
        return {
          revision,
          entries: rows.map((row) => described(entryOf(row))),
          service_types: Object.fromEntries(
            typeRows.map((row) => [row.service_type, serviceTypeOf(row)]),
          ),
        };
      }),
  };
  return serviceOf('global-config', handlers as unknown as Handlers);
}
