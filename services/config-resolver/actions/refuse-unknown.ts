/**
 * The refusal of names that name nothing: a typo must not find the looser limit that is left
 * without its layer.
 */
import type { Request } from '../../../shared/contract-runtime/request.ts';
import { addressTitles, type AddressField } from '../../../shared/contracts/effective-config.ts';
import { StrataError } from '../../../shared/errors.ts';
import { nearestNames } from '../../../shared/nearest.ts';

type Address = { readonly tenant_id: string } & {
  readonly [Field in AddressField]?: string | undefined;
};

/** Throws 404 with the nearest names that the tenant has, where any is unknown. */
export async function refuseUnknown(
  unknown: readonly AddressField[],
  address: Address,
  request: Pick<Request, 'call'>,
): Promise<void> {
  if (unknown.length === 0) return;
  const near = await namesNear(unknown, address, request).catch(() => ({}));
  const message = (names: Names): string =>
    unknown.map((field) => sentence(field, address[field]!, names)).join(' ');
  throw new StrataError('not_found', message(near), { unnamed: message({}) });
}

type Names = { readonly [Field in AddressField]?: readonly string[] };

function sentence(field: AddressField, asked: string, names: Names): string {
  const near = names[field];
  const missing = `No ${addressTitles[field]} named "${asked}"`;
  if (near === undefined) return `${missing}.`;
  if (near.length === 0) return `${missing}; there is none at all.`;
  return `${missing}. Did you mean ${near.join(', ')}?`;
}

async function namesNear(
  unknown: readonly AddressField[],
  address: Address,
  { call }: Pick<Request, 'call'>,
): Promise<Names> {
  const wanted = Object.fromEntries(unknown.map((field) => [field, address[field]])) as Address;
  const { service_type: serviceType, ...ofTenant } = wanted;
  const near = await call('tenant-config.layers.nearest', {
    ...ofTenant,
    tenant_id: address.tenant_id,
  });
  if (serviceType === undefined) return near;
  const { items } = await call('global-config.service-types.active', {});
  const active = items.map((item) => item.service_type);
  return { ...near, service_type: nearestNames(active, serviceType) };
}
