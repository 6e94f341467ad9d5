/** What a change would do to all tenants, a page of its items at a time. */
import { createHash } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { Type, type Static } from 'typebox';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { strict, Uuid } from '../../../shared/contracts/fields.ts';
import { Impact, type ImpactItem } from '../../../shared/contracts/impact.ts';
import type { ParamsOf, ResultOf } from '../../../shared/contracts/index.ts';
import type { PlatformLayers, TenantSaid } from '../../../shared/contracts/layers.ts';
import { positionCursors } from '../../../shared/documents/paging.ts';
import { invalid, StrataError } from '../../../shared/errors.ts';
import { canonicalHash } from '../../../shared/schema/canonical-hash.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { emptyCounts, ImpactsBySide } from '../rules/impact.ts';
import { environmentDefaults } from '../rules/layers.ts';
import { Slices } from './slices.ts';

type Asked = ParamsOf<'config-resolver.impact'>['body'];

/**
 * After this much time an answer is given of the tenants that were looked at: within two seconds,
 * with what else there is to do.
 */
const patienceMs = 1700;
const defaultItems = 50;
/** Bytes of JSON of the items of one answer, unless the first alone has more. */
const maxItemBytes = 2 * 1024 * 1024;
const maxMoved = 10;

/**
 * Where an answer continues: its items after a tenant and so many items of another one, its counts
 * after a third. What was counted comes along, so that every page has the counts of all tenants up
 * to there.
 */
const Position = Type.Object(
  {
    base: Type.String(),
    items_after: Type.Union([Uuid, Type.Null()]),
    sending: Type.Union([Uuid, Type.Null()]),
    sent: Type.Integer({ minimum: 0 }),
    counted_to: Type.Union([Uuid, Type.Null()]),
    is_complete: Type.Boolean(),
    fingerprint: Type.String(),
    counts: Type.Object(
      { tenants: Impact.properties.tenants, by_key: Impact.properties.by_key },
      strict,
    ),
  },
  strict,
);
type Position = Static<typeof Position>;

const cursors = positionCursors(Position, 1_000_000);

/** Throws 422 for what is no cursor of these answers, and 412 for one of something else. */
function decode(cursor: string, base: string): Position {
  const position = cursors.decode(cursor);
  if (position === undefined)
    throw invalid([{ path: '/cursor', message: 'is not a next_cursor of a plan' }]);
  if (position.base !== base)
    throw new StrataError(
      'precondition_failed',
      'The cursor is of another plan: the items differ, or the platform has changed since. Begin again without a cursor.',
    );
  return position;
}

/** Adds a tenant's documents to the fingerprint of those before it. */
function fingerprintWith(before: string, said: TenantSaid): string {
  const { tenant_name: _name, changed_at: _changedAt, ...documents } = said;
  return createHash('sha256').update(before).update(JSON.stringify(documents)).digest('base64url');
}

/**
 * Goes through the tenants until the page is full and all of them are counted, or the time is over.
 * Answers also whether all items have been told, and which tenants changed since the caller looked.
 */
async function look(asked: Asked, impacts: ImpactsBySide, base: string, request: Request) {
  const { tenant, since, cursor, limit = defaultItems, only_digest: onlyDigest = false } = asked;
  const position = cursor === undefined ? beginning(base, asked.keys) : decode(cursor, base);
  const until = performance.now() + patienceMs;
  const slices = new Slices();
  const items: ImpactItem[] = [];
  const moved: string[] = [];
  let bytes = 0;
  let isFull = onlyDigest;

  const isCounted = (id: string): boolean =>
    position.is_complete || (position.counted_to !== null && id <= position.counted_to);

  function emit(item: ImpactItem, index: number): void {
    bytes += Buffer.byteLength(JSON.stringify(item));
    isFull = items.length === limit || (items.length > 0 && bytes > maxItemBytes);
    if (!isFull) {
      items.push(item);
      return;
    }
    position.sending = item.tenant_id;
    position.sent = index;
  }

  async function lookAt(said: TenantSaid): Promise<void> {
    const { tenant_id: id, tenant_name: name, changed_at: changedAt } = said;
    const hasMoved = since !== undefined && changedAt !== null && changedAt >= since;
    if (hasMoved && moved.length < maxMoved) moved.push(`${name} (${id})`);
    const counts = isCounted(id) ? emptyCounts([]) : position.counts;
    const sent = position.sending === id ? position.sent : 0;
    let index = 0;
    for (const found of onlyDigest ? [] : impacts.of(id).ofTenant(said, counts)) {
      for (const item of found) {
        if (!isFull && index >= sent) emit(item, index);
        index += 1;
      }
      if (slices.isOver()) await slices.breathe();
    }
    if (!isFull) position.items_after = id;
    if (isCounted(id)) return;
    position.fingerprint = fingerprintWith(position.fingerprint, said);
    position.counted_to = id;
  }

  const pageAfter = (after: string | null): Promise<MentionsPage> =>
    request.call('tenant-config.layers.mentions', {
      body: {
        keys: [...impacts.keys],
        ...(after !== null && { after }),
        ...(tenant && { tenant_id: tenant.tenant_id }),
      },
    });

  let after = onlyDigest ? position.counted_to : position.items_after;
  let coming = pageAfter(after);
  for (;;) {
    const page = await coming;
    // The database reads the next page while this one is looked at.
    const isNextWanted = page.next !== null && !position.is_complete;
    const next = isNextWanted ? pageAfter(page.next) : undefined;
    next?.catch(() => undefined);
    for (const said of page.tenants) {
      // What is counted was looked at for its items alone.
      if (isFull && isCounted(said.tenant_id)) continue;
      await lookAt(said);
      if (performance.now() > until) break;
      if (slices.isOver()) await slices.breathe();
    }
    const isFullAndCounted = isFull && position.is_complete;
    if (isFullAndCounted) return { items, position, isEnd: false, moved };
    const reached = isFull ? position.counted_to : position.items_after;
    const last = page.tenants.at(-1)?.tenant_id;
    const isThrough = last === undefined || (reached !== null && reached >= last);
    if (page.next === null && isThrough) {
      position.is_complete = true;
      return { items, position, isEnd: !isFull, moved };
    }
    if (performance.now() > until) return { items, position, isEnd: false, moved };
    after = reached;
    coming = next !== undefined && after === page.next ? next : pageAfter(after);
  }
}

type MentionsPage = ResultOf<'tenant-config.layers.mentions'>;

const beginning = (base: string, keys: readonly string[]): Position => ({
  base,
  items_after: null,
  sending: null,
  sent: 0,
  counted_to: null,
  is_complete: false,
  fingerprint: '',
  counts: emptyCounts(keys),
});

/** The platform as it is, with every active service type. */
async function currentPlatform({ call }: Request): Promise<PlatformLayers> {
  const { items } = await call('global-config.service-types.active', {});
  const service_types = items.map(({ service_type }) => service_type);
  const layers = await call('global-config.layers', { service_types });
  return {
    entries: layers.entries.map(({ document: { config_key, config_value } }) => ({
      document: { config_key, config_value },
    })),
    service_types: Object.fromEntries(
      Object.entries(layers.service_types).map(([name, { document, revision }]) => {
        const { default_settings, scaling_limits, monitoring_defaults } = document;
        return [
          name,
          { document: { default_settings, scaling_limits, monitoring_defaults }, revision },
        ];
      }),
    ),
    bounds: layers.bounds && { document: layers.bounds.document, revision: layers.bounds.revision },
    ...(layers.rollouts && { rollouts: layers.rollouts }),
  };
}

export const impactActions = (settings: () => Settings) =>
  ({
    async 'config-resolver.impact'({ body }, request) {
      const { keys, tenant } = body;
      const environment = environmentDefaults(settings());
      const { before, after } = body.platform ?? unchanged(await currentPlatform(request));
      const impacts = new ImpactsBySide({
        before,
        after,
        keys,
        environment,
        ...(tenant && { tenantBounds: { before: tenant.before, after: tenant.after } }),
      });
      const base = canonicalHash([body.base, environment]);
      const { items, position, isEnd, moved } = await look(body, impacts, base, request);
      const { counts, is_complete: complete, fingerprint } = position;
      return {
        impact: { ...counts, items, next_cursor: isEnd ? null : cursors.encode(position) },
        complete,
        digest: complete ? canonicalHash([base, fingerprint]) : null,
        moved,
      };
    },
  }) satisfies Handlers;

const unchanged = (layers: PlatformLayers) => ({ before: layers, after: layers });
