/**
 * Names in a question that name nothing. Their layers are missing without a sign, and what is left
 * may be a looser limit.
 */
import type { AddressField } from '../../../shared/contracts/effective-config.ts';
import type { Sources } from './layers.ts';

type AddressNames = { readonly [Field in AddressField]?: string | undefined };

/**
 * A service type is known that is active, or that the tenant has an override for from when it was.
 */
export function unknownNames(
  { agent_type, service_id, service_type }: AddressNames,
  { tenant, platform }: Pick<Sources, 'tenant' | 'platform'>,
): AddressField[] {
  const overrides = tenant.risk?.document.service_overrides ?? {};
  const isKnown: Readonly<Record<AddressField, boolean>> = {
    agent_type: agent_type === undefined || tenant.agent !== null,
    service_id: service_id === undefined || tenant.service !== null,
    service_type:
      service_type === undefined ||
      Object.hasOwn(platform.service_types, service_type) ||
      Object.hasOwn(overrides, service_type),
  };
  const fields = Object.keys(isKnown) as AddressField[];
  return fields.filter((field) => !isKnown[field]);
}
