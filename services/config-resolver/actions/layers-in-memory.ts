/**
 * The layers of now, from this node's memory: a tenant's are read again when the tenant has
 * changed, the platform's when the platform has, once for all contexts. So a platform write costs
 * the database the same, however many contexts are merged again.
 *
 * Either is exact for its own revision, but together they must also be of one moment: a tenant's
 * write and then one of the platform may reach this node in the other order, and an older tenant
 * under a newer platform never was. What is read of the tenant says which revision the platform had
 * then, which decides most cases. Where the platform alone has moved since, one statement for all
 * tenants asks what revisions there are, and what it finds out stays true. Where both change faster
 * than that, a moment of them is read from the history, which no write moves any more.
 */
import { LRUCache } from 'lru-cache';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import type { ParamsOf, ResultOf } from '../../../shared/contracts/index.ts';
import { codeOf, StrataError } from '../../../shared/errors.ts';

export interface Revisions {
  readonly tenant: number;
  readonly platform: number;
}
type TenantLayers = ResultOf<'tenant-config.layers.now'>;
type PlatformLayers = ResultOf<'global-config.layers.now'>;
type Names = Pick<ParamsOf<'tenant-config.layers.now'>, 'agent_types' | 'service_ids'>;
type Calls = Pick<Request, 'call'>;

export interface Together {
  readonly tenant: TenantLayers;
  readonly platform: PlatformLayers;
}

export interface LayersInMemory {
  /**
   * The layers of a tenant, with those of these agents and instances that there are, and the
   * platform's, of one moment. They include `least` as far as that exists. Undefined where the
   * scopes change faster than they can be read. Throws `not_found` for a tenant that does not
   * exist, and `service_unavailable` where memory could only say what held before an outage.
   */
  readonly together: (
    tenantId: string,
    names: Names,
    least: Revisions,
    calls: Calls,
  ) => Promise<Together | undefined>;
  /** The revisions that a tenant and the platform have at one moment after the call. */
  readonly moment: (tenantId: string, calls: Calls) => Promise<Revisions>;
}

/** How often layers of now are read before those of a moment are. */
const maxReads = 3;
/** Tenants of one batched revision query: those whose layers were wanted last. */
const maxBatched = 2000;

export const noSuchTenant = (): StrataError =>
  new StrataError('not_found', 'There is no such tenant.');
export const neverStill = (): StrataError =>
  new StrataError(
    'service_unavailable',
    'The configuration changes faster than it can be read. Try again.',
  );

export function layersInMemory(): LayersInMemory {
  const moments = new Moments();

  return {
    async together(tenantId, names, least, calls) {
      moments.want(tenantId);
      let { tenant: leastOfTenant, platform: leastOfPlatform } = least;
      for (let reads = 0; reads < maxReads; reads += 1) {
        const tenant = await atLeast(leastOfTenant, (min) =>
          calls.call('tenant-config.layers.now', { tenant_id: tenantId, ...names, ...min }),
        );
        if (tenant.risk === null) throw noSuchTenant();
        // What the tenant's read has seen of the platform may not have been observed here.
        leastOfPlatform = Math.max(leastOfPlatform, tenant.platform_revision);
        const platform = await atLeast(leastOfPlatform, (min) =>
          calls.call('global-config.layers.now', min),
        );
        const isOneMoment =
          tenant.platform_revision === platform.revision ||
          moments.had(tenantId, tenant.revision, platform.revision);
        if (isOneMoment) return { tenant, platform };
        const moment = await moments.ask(tenantId, calls);
        if (moments.had(tenantId, tenant.revision, platform.revision)) return { tenant, platform };
        leastOfTenant = Math.max(leastOfTenant, moment.tenant);
        leastOfPlatform = Math.max(leastOfPlatform, moment.platform);
      }
      return undefined;
    },

    moment: (tenantId, calls) => moments.ask(tenantId, calls),
  };
}

type Minimum = { readonly min_revision?: number };

/**
 * A revision that does not exist is for whoever wants it to refuse; here it is answered with the
 * newest.
 */
async function atLeast<Layers extends { readonly stale?: true }>(
  revision: number,
  read: (min: Minimum) => Promise<Layers>,
): Promise<Layers> {
  const layers = await read({ min_revision: revision }).catch((error: unknown) => {
    if (codeOf(error) !== 'precondition_failed') throw error;
    return read({});
  });
  // Whoever asks has an answer of before of their own, and knows to mark it.
  if (layers.stale) throw new StrataError('service_unavailable');
  return layers;
}

/** Pairs of revisions that tenants and the platform had at the same time. */
class Moments {
  /** The last such pair of a tenant. */
  readonly #known = new LRUCache<string, Revisions>({ max: 10_000 });
  readonly #wanted = new LRUCache<string, true>({ max: maxBatched });
  #asking: Promise<void> | undefined;

  had(tenantId: string, tenant: number, platform: number): boolean {
    const known = this.#known.get(tenantId);
    return known?.tenant === tenant && known.platform === platform;
  }

  /** Adds the tenant to the next batched revision query. */
  want(tenantId: string): void {
    this.#wanted.set(tenantId, true);
  }

  /** One of the tenant's, of now or of a question that is on its way. */
  async ask(tenantId: string, calls: Calls): Promise<Revisions> {
    for (;;) {
      // Others may have taken its place while a question was on its way.
      this.want(tenantId);
      this.#asking ??= this.#askAll(calls).finally(() => {
        this.#asking = undefined;
      });
      const before = this.#known.get(tenantId);
      await this.#asking;
      const known = this.#known.get(tenantId);
      if (known && known !== before) return known;
    }
  }

  async #askAll({ call }: Calls): Promise<void> {
    const ids = [...this.#wanted.keys()];
    const { platform, tenants } = await call('tenant-config.moment', { tenant_ids: ids });
    for (const id of ids) this.#known.set(id, { tenant: tenants[id]!, platform });
  }
}
