/**
 * The contracts that have a route: what the gateway serves, and what the OpenAPI document
 * describes.
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
