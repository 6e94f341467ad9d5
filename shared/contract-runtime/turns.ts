/**
 * Turns of tenants at answers that may look through all rows of a tenant to find few: seconds of the
 * database where it has a million. A service and its background work share a node's connections.
 *
 * | Danger                                | Bounded by                                           |
 * |---------------------------------------|------------------------------------------------------|
 * | one tenant has all connections        | `atOnce` of its answers are worked on; the rest wait |
 * | whoever waited has left               | their answer is not begun                            |
 */
import { Turns } from '../concurrency/turns.ts';
import type { ActionName } from '../contracts/index.ts';
import type { Handlers, Request } from './request.ts';

/** On one node. A pool has up to 10 connections. */
const atOnce = 2;

type AnyHandler = (params: { readonly tenant_id?: string }, request: Request) => Promise<unknown>;

/** The handlers, of which those of `actions` take turns; without a tenant_id, as the caller's tenant. */
export function takingTurns<Of extends Handlers>(
  actions: readonly (keyof Of & ActionName)[],
  handlers: Of,
): Of {
  const turns = new Turns(atOnce);
  const queued = actions.map((action) => {
    const handler = handlers[action] as AnyHandler;
    const queuing: AnyHandler = (params, request) => {
      const tenantId = params.tenant_id ?? request.caller.tenant_id ?? '';
      return turns.take(tenantId, request.until, () => handler(params, request));
    };
    return [action, queuing];
  });
  return { ...handlers, ...Object.fromEntries(queued) };
}
