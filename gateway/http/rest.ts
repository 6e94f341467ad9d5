/**
 * The contracts that have a route: what the OpenAPI document describes, and with it what the
 * gateway serves.
 */
import type { Contract, Rest } from '../../shared/contracts/contract.ts';
import { contractTable, type ActionName } from '../../shared/contracts/index.ts';

export interface RestRoute {
  readonly name: ActionName;
  readonly contract: Contract;
  readonly rest: Rest;
}

export const restRoutes: readonly RestRoute[] = Object.entries(contractTable).flatMap(
  ([name, contract]) => {
    const { rest } = contract;
    return rest ? [{ name: name as ActionName, contract, rest }] : [];
  },
);

const ofTenant = '/tenants/{tenant_id}';

/**
 * Also flags of the caller's own tenant, without its name in the path: of a base address, OpenFeature's
 * provider for Python keeps the host alone.
 */
export const servedRoutes: readonly RestRoute[] = restRoutes.flatMap((route) => {
  const { contract, rest } = route;
  if (contract.errors !== 'ofrep' || rest.method !== 'POST') return [route];
  const pathParams = rest.pathParams.filter((name) => name !== 'tenant_id');
  return [
    route,
    { ...route, rest: { ...rest, path: rest.path.replace(ofTenant, ''), pathParams } },
  ];
});
