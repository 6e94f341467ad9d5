/**
 * What is stored that bounds are against, of one tenant or of all: lists that are made by looking
 * through the documents.
 */
import { In, type DataSource, type EntitySchema, type SelectQueryBuilder } from 'typeorm';
import { contradicted, yieldingPairs } from '../../../shared/bounds/bounds-document.ts';
import {
  scalingBounds,
  type BoundInForce,
  type BoundSet,
} from '../../../shared/bounds/bounds-in-force.ts';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { agentKey, type AgentConfig } from '../../../shared/contracts/agents.ts';
import { tenantBoundsKey, type Bounds, type Violation } from '../../../shared/contracts/bounds.ts';
import { riskKey, type RiskConfig } from '../../../shared/contracts/risk.ts';
import {
  serviceInstanceKey,
  type ServiceInstance,
} from '../../../shared/contracts/service-instances.ts';
import { storedFrom } from '../../../shared/documents/document-kind.ts';
import {
  encodeCursor,
  decodeCursor,
  defaultLimit,
  readPage,
} from '../../../shared/documents/paging.ts';
import { invalid } from '../../../shared/errors.ts';
import { pointerTo } from '../../../shared/schema/json-pointer.ts';
import { uuid } from '../../../shared/schema/uuid.ts';
import {
  valuesOfAgent,
  valuesOfInstance,
  valuesOfRisk,
  violationsOf,
  type PlacedValue,
} from '../../../shared/bounds/placed-values.ts';
import {
  AgentEntity,
  BoundsEntity,
  RiskEntity,
  ServiceInstanceEntity,
  TenantEntity,
  type DocumentRow,
} from '../schema.ts';
import { boundsForValues, platformBounds } from '../stores/bounds.ts';
import { managedTypes, type ManagedTypes } from '../stores/managed-types.ts';

/** What the documents are held against. */
interface Held {
  /** By authority, without the limits of service types, which only instances have. */
  readonly sets: readonly BoundSet[];
  readonly types: ManagedTypes;
}

type Found = Pick<Violation, 'path' | 'key' | 'service_type' | 'value' | 'problem'> & {
  readonly bound: BoundInForce;
};

interface DocumentType {
  readonly configType: Violation['config_type'];
  readonly entity: EntitySchema<DocumentRow>;
  readonly source: (tenantId: string, id: string) => string;
  readonly found: (row: DocumentRow, held: Held) => Found[];
}

const outside = (values: readonly PlacedValue[], sets: readonly BoundSet[]): Found[] =>
  violationsOf(values, sets).map(({ placed, bound }) => ({
    path: placed.path,
    key: placed.key,
    service_type: placed.serviceType,
    value: placed.value,
    bound,
    problem: 'outside',
  }));

/** In the order of the list. */
const documentTypes: readonly DocumentType[] = [
  {
    configType: 'tenant_risk_config',
    entity: RiskEntity,
    source: (tenant_id) => riskKey({ tenant_id }),
    found: (row, { sets }) => outside(valuesOfRisk(storedFrom<RiskConfig>(row).document), sets),
  },
  {
    configType: 'agent_config',
    entity: AgentEntity,
    source: (tenant_id, agent_type) => agentKey({ tenant_id, agent_type }),
    found: (row, { sets }) => outside(valuesOfAgent(storedFrom<AgentConfig>(row).document), sets),
  },
  {
    configType: 'service_config',
    entity: ServiceInstanceEntity,
    source: (tenant_id, service_id) => serviceInstanceKey({ tenant_id, service_id }),
    found(row, { sets, types }) {
      const { document } = storedFrom<ServiceInstance>(row);
      const ofTenant = sets.filter(({ by }) => by === 'tenant');
      const ofPlatform = sets.filter(({ by }) => by !== 'tenant');
      const type = types.find(({ service_type }) => service_type === document.service_type);
      const ofType = scalingBounds(document, type?.scaling_limits ?? {}, null);
      const all = [...ofPlatform, ofType, ...ofTenant];
      return outside(valuesOfInstance(document), all);
    },
  },
  {
    configType: 'bounds_config',
    entity: BoundsEntity,
    source: (tenant_id) => tenantBoundsKey({ tenant_id }),
    found(row, { sets }) {
      const { document } = storedFrom<Bounds>(row);
      return [...contradictions(document, sets), ...pairContradictions(document, sets)];
    },
  },
];

/** A tenant's own bounds that yield to the platform's. */
function contradictions(bounds: Bounds, sets: readonly BoundSet[]): Found[] {
  const above = sets.filter(({ by }) => by === 'platform');
  return Object.entries(bounds).flatMap(([key, rule]) => {
    const bound = contradicted(key, rule, above);
    if (bound === undefined) return [];
    const path = pointerTo([key]);
    return [{ path, key, service_type: null, value: rule, bound, problem: 'contradicts' }];
  });
}

/**
 * Those that yield because they leave a pair such as `min_instances` and `max_instances` no order.
 */
function pairContradictions(bounds: Bounds, sets: readonly BoundSet[]): Found[] {
  const above = sets.filter(({ by }) => by === 'platform');
  return yieldingPairs({ by: 'tenant', bounds, revision: null }, above).map(
    ({ key, rule, serviceType, to }) => ({
      path: pointerTo([key]),
      key,
      service_type: serviceType,
      value: rule,
      bound: to,
      problem: 'contradicts',
    }),
  );
}

/**
 * Where a page begins: in which documents, after which of them, and after how many violations of
 * the next one.
 */
interface Position {
  readonly type: number;
  /** As `keyOfRow` makes it; the first document where absent. */
  readonly after: string | undefined;
}

/**
 * A row's sort key; one that begins with `=` is of a row that is not finished, and comes with how
 * much of it was told.
 */
const keyOfRow = ({ tenant_id, id }: DocumentRow): string => `>${tenant_id}/${id}`;
const keyForm = new RegExp(`^([0-3])(?:([>=])(${uuid})/([^/]{1,200})/([0-9]{1,9}))?$`);

function keyBoundOf(key: string) {
  const slash = key.indexOf('/');
  const comparison = key.startsWith('=') ? '>=' : '>';
  return { comparison, tenantId: key.slice(1, slash), id: key.slice(slash + 1) };
}

function positionOf(cursor: string | undefined): Position & { readonly sent: number } {
  const text = decodeCursor(cursor);
  if (text === undefined) return { type: 0, after: undefined, sent: 0 };
  const [, type, comparison, tenantId, id, sent] = keyForm.exec(text) ?? [];
  if (type === undefined)
    throw invalid([{ path: '/cursor', message: 'is not a next_cursor of this list' }]);
  const after = comparison === undefined ? undefined : `${comparison}${tenantId}/${id}`;
  return { type: Number(type), after, sent: Number(sent ?? 0) };
}

/**
 * Documents that are looked at for one page, so that a list of few violations among many documents
 * stays cheap: a page may be empty.
 */
const maxDocuments = 2000;
const documentsAtOnce = 200;
/** Bytes of JSON after which a page ends, unless its first item alone has more. */
const maxPageBytes = 2 * 1024 * 1024;
/** Characters of JSON up to which a value is shown. */
const maxShownValue = 2000;

const isShown = (value: unknown): boolean => JSON.stringify(value).length <= maxShownValue;

interface Asked {
  readonly limit?: number;
  readonly cursor?: string;
}
/** A violation before the name of its tenant is looked up. */
type Unnamed = Omit<Violation, 'tenant_name'>;

/** Null where the list ends. */
interface Page {
  readonly items: Unnamed[];
  readonly next: string | null;
}

async function pageOfViolations(
  db: DataSource,
  { limit = defaultLimit, cursor }: Asked,
  tenantId: string | undefined,
  held: Held,
): Promise<Page> {
  const items: Unnamed[] = [];
  let { type, after, sent } = positionOf(cursor);
  let bytes = 0;
  let documents = 0;
  while (type < documentTypes.length) {
    const documentType = documentTypes[type]!;
    const { items: rows, next_cursor: more } = await readPage({
      limit: documentsAtOnce,
      after,
      rowsAfter: (key) => rowsFrom(db, documentType, key, tenantId),
      keyOf: keyOfRow,
      itemOf: (row) => ({ key: keyOfRow(row), violations: unnamed(row, documentType, held) }),
    });
    for (const { key, violations } of rows) {
      documents += 1;
      // Less than was told of it where it has changed since.
      for (const [index, violation] of violations.entries()) {
        if (index < sent) continue;
        bytes += Buffer.byteLength(JSON.stringify(violation));
        const isFull = items.length === limit || (items.length > 0 && bytes > maxPageBytes);
        if (isFull) return { items, next: encodeCursor(`${type}=${key.slice(1)}/${index}`) };
        items.push(violation);
      }
      sent = 0;
      after = key;
    }
    if (more === null) {
      type += 1;
      after = undefined;
    }
    if (documents >= maxDocuments) break;
  }
  if (type === documentTypes.length) return { items, next: null };
  return { items, next: encodeCursor(after === undefined ? `${type}` : `${type}${after}/0`) };
}

function rowsFrom(
  db: DataSource,
  { entity }: DocumentType,
  key: string | undefined,
  tenantId: string | undefined,
): SelectQueryBuilder<DocumentRow> {
  const query = db.manager.createQueryBuilder(entity, 'd').where('true');
  if (tenantId !== undefined) query.andWhere('d.tenant_id = :tenantId', { tenantId });
  if (key !== undefined) {
    const { comparison, tenantId: tenant, id } = keyBoundOf(key);
    query.andWhere(`(d.tenant_id, d.id) ${comparison} (:tenant, :id)`, { tenant, id });
  }
  return query.orderBy('d.tenant_id', 'ASC').addOrderBy('d.id', 'ASC');
}

function unnamed(
  row: DocumentRow,
  { configType, source, found }: DocumentType,
  held: Held,
): Unnamed[] {
  const { tenant_id, id } = row;
  return found(row, held).map(({ bound, value, ...violation }) => ({
    tenant_id,
    config_type: configType,
    resource_id: id,
    source: source(tenant_id, id),
    ...violation,
    ...(isShown(value) && { value }),
    by: ownerOf(bound),
    rule: bound.rule,
    revision: bound.revision,
  }));
}

function ownerOf({ by }: BoundInForce): Violation['by'] {
  if (by === 'type') throw new Error('A key’s own type is no stored bound');
  return by;
}

async function named(db: DataSource, { items, next }: Page) {
  const ids = [...new Set(items.map(({ tenant_id }) => tenant_id))];
  const tenants = await db.manager.find(TenantEntity, {
    where: { id: In(ids) },
    select: { id: true, name: true },
  });
  const names = new Map(tenants.map(({ id, name }) => [id, name]));
  return {
    items: items.map((item) => ({ ...item, tenant_name: names.get(item.tenant_id) ?? '' })),
    next_cursor: next,
  };
}

export const violationActions = (db: DataSource) =>
  ({
    /** By the platform's bounds alone: a tenant's own are between its people. */
    async 'tenant-config.bounds.violations'(params, request: Request) {
      const [sets, types] = await Promise.all([platformBounds(request), managedTypes(request)]);
      return named(db, await pageOfViolations(db, params, undefined, { sets, types }));
    },

    async 'tenant-config.bounds.violations.of-tenant'({ tenant_id, ...params }, request: Request) {
      const [sets, types] = await Promise.all([
        boundsForValues(tenant_id, request),
        managedTypes(request),
      ]);
      return named(db, await pageOfViolations(db, params, tenant_id, { sets, types }));
    },
  }) satisfies Handlers;
