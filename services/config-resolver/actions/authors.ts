/** Who set each value of one effective configuration, as the owners' histories say it. */
import type { Request } from '../../../shared/contract-runtime/request.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import { codeOf } from '../../../shared/errors.ts';
import { type AuthorAt, type PlaceName, type Sources } from '../rules/layers.ts';
import { placesOf } from '../rules/explain.ts';

export const placeName = ({ owner, config_type: type, resource_id: id, path }: PlaceName): string =>
  JSON.stringify([owner, type, id, path]);

/** Owners of the release before know only who wrote a document last. */
const unlessOlder = (error: unknown): { readonly authors: readonly [] } => {
  if (codeOf(error) === 'upgrade_under_way') return { authors: [] };
  throw error;
};

/** As of the revisions of the sources, so that a write meanwhile is nobody's here. */
export const authorsOf = (sources: Sources, { call }: Pick<Request, 'call'>): Promise<AuthorAt> =>
  authorsAt(sources, placesOf(sources), call);

type OfPlatform = Pick<ParamsOf<'global-config.layers.authors'>, 'body'>;

/** Of these places, as of the revisions of the sources. */
export async function authorsAt(
  { tenantId, tenant, platform }: Sources,
  places: readonly PlaceName[],
  call: Request['call'],
  askPlatform = (asked: OfPlatform) => call('global-config.layers.authors', asked),
): Promise<AuthorAt> {
  const asked = (owner: PlaceName['owner'], revision: number) => ({
    revision,
    places: places
      .filter((place) => place.owner === owner)
      .map(({ owner: _owner, ...place }) => place),
  });
  const ofTenant = asked('tenant', tenant.revision);
  const ofPlatform = asked('platform', platform.revision);
  const [byTenant, byPlatform] = await Promise.all([
    call('tenant-config.layers.authors', { tenant_id: tenantId, body: ofTenant }).catch(
      unlessOlder,
    ),
    askPlatform({ body: ofPlatform }).catch(unlessOlder),
  ]);
  const found = new Map<string, ReturnType<AuthorAt>>();
  ofTenant.places.forEach((place, index) =>
    found.set(placeName({ owner: 'tenant', ...place }), byTenant.authors[index] ?? undefined),
  );
  ofPlatform.places.forEach((place, index) =>
    found.set(placeName({ owner: 'platform', ...place }), byPlatform.authors[index] ?? undefined),
  );
  return (place) => found.get(placeName(place));
}
