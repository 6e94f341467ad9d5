/** Global entries, one document per key. */
import { isDeepStrictEqual } from 'node:util';
import type { EntityManager } from 'typeorm';
import { typeProblem } from '../../../shared/bounds/known-keys.ts';
import {
  StoredGlobalEntry,
  type GlobalEntryAddress,
} from '../../../shared/contracts/global-entries.ts';
import { BusinessHours, businessHoursKey } from '../../../shared/contracts/weekly-hours.ts';
import type { DocumentKind, Stored } from '../../../shared/documents/document-kind.ts';
import { StrataError, type Problem } from '../../../shared/errors.ts';
import { problemsOf } from '../../../shared/schema/validate.ts';
import { GlobalEntity, type GlobalRow } from '../schema.ts';
import { heldByRollouts } from '../stores/rollouts.ts';
import { platformDocument } from './platform-document.ts';

export const storedEntry = (row: GlobalRow): Stored<StoredGlobalEntry> => ({
  document: {
    config_key: row.config_key,
    config_value: row.config_value,
    is_public: row.is_public,
    requires_restart: row.requires_restart,
    ...(row.data_type !== null && { data_type: row.data_type }),
  },
  revision: row.revision,
  updated_by: row.updated_by,
  updated_at: row.updated_at.toISOString(),
});

/** Of a key that Strata itself reads from the layers. */
function valueProblems(
  { config_key: key, config_value: value, is_public: isPublic }: StoredGlobalEntry,
  current: StoredGlobalEntry | null,
): Problem[] {
  if (key === businessHoursKey)
    return problemsOf(BusinessHours, value).map(({ path, message }) => ({
      path: `/config_value${path}`,
      message,
    }));
  // Null says that there is no value. What was stored before stands in nobody's way.
  const message = value === null ? undefined : typeProblem(key, value);
  const isAsBefore =
    current !== null &&
    isDeepStrictEqual(value, current.config_value) &&
    (current.is_public || !isPublic);
  return message === undefined || isAsBefore ? [] : [{ path: '/config_value', message }];
}

/**
 * Every effective configuration holds all public entries, so together they are no larger than this.
 */
const maxPublicEntries = 1000;
const maxPublicMebibytes = 8;

/**
 * Throws 413 where the entry would make the public ones too many or too large, beside all others.
 */
async function refuseTooMuch(
  manager: EntityManager,
  { config_key: key, config_value: value }: StoredGlobalEntry,
): Promise<void> {
  const [others] = await manager.query<{ count: number; bytes: number }[]>(
    `SELECT count(*)::int AS count, COALESCE(sum(octet_length(config_value::text)), 0)::float8 AS bytes
     FROM global_config.global_configurations WHERE is_public AND config_key <> $1`,
    [key],
  );
  const bytes = others!.bytes + Buffer.byteLength(JSON.stringify(value));
  const tooMany = others!.count >= maxPublicEntries;
  if (!tooMany && bytes <= maxPublicMebibytes * 1024 * 1024) return;
  const limit = tooMany
    ? `${maxPublicEntries} public entries`
    : `${maxPublicMebibytes} MiB of public entries`;
  throw new StrataError(
    'payload_too_large',
    `There would be more than ${limit}, all of which are in every effective configuration.`,
  );
}

/** Whether it takes more room in the effective configurations than before. */
function takesMore(next: StoredGlobalEntry, current: StoredGlobalEntry | null): boolean {
  if (!next.is_public) return false;
  if (!current?.is_public) return true;
  return lengthOf(next) > lengthOf(current);
}
const lengthOf = ({ config_value: value }: StoredGlobalEntry): number =>
  JSON.stringify(value).length;

/** As rollouts write it, which hold it for everybody else. */
export const rolledOutEntryKind: DocumentKind<GlobalEntryAddress, StoredGlobalEntry> = {
  ...platformDocument<GlobalEntryAddress, StoredGlobalEntry>({
    auditName: 'global',
    configType: 'global_config',
    actions: 'global-config.entries',
    resourceId: ({ key }: GlobalEntryAddress) => key,
    async find(manager, { key }) {
      const row = await manager.findOneBy(GlobalEntity, { config_key: key });
      return row && storedEntry(row);
    },
    /** In SQL: a config_value of null is a value, which TypeORM would write as SQL's NULL. */
    async save(manager, { key }, { document, revision, updated_by, updated_at }) {
      await manager.query(
        `INSERT INTO global_config.global_configurations
         (config_key, config_value, is_public, requires_restart, data_type, revision, updated_by, updated_at)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
       ON CONFLICT (config_key) DO UPDATE SET
         (config_value, is_public, requires_restart, data_type, revision, updated_by, updated_at)
         = ROW (excluded.config_value, excluded.is_public, excluded.requires_restart, excluded.data_type,
                excluded.revision, excluded.updated_by, excluded.updated_at)`,
        [
          key,
          JSON.stringify(document.config_value),
          document.is_public,
          document.requires_restart,
          document.data_type ?? null,
          revision,
          updated_by,
          updated_at,
        ],
      );
    },
    remove: (manager, { key }) => manager.delete(GlobalEntity, { config_key: key }),
  }),
  schema: StoredGlobalEntry,
  /** Not public and without a restart, unless it says so. */
  complete: (draft, { key }) => ({
    config_key: key,
    is_public: false,
    requires_restart: false,
    ...draft,
  }),
  check({ next, address, current }) {
    const refused =
      next.config_key === address.key
        ? valueProblems(next, current)
        : [{ path: '/config_key', message: 'is not the key of the path' }];
    return { refused, requiresRestart: next.requires_restart };
  },
  async checkInTransaction(manager, _address, next, current) {
    if (next && takesMore(next, current)) await refuseTooMuch(manager, next);
    return [];
  },
  bodyOf: ({ config_key: _key, ...body }) => body,
  isForTenants: ({ is_public: isPublic }) => isPublic,
};

export const globalEntryKind = heldByRollouts(rolledOutEntryKind);
