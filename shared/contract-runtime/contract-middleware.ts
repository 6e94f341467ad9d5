/**
 * Stands in front of every action on every node, and makes every call keep to the action's
 * contract:
 *
 * | Step       | On which node                       | What it does                                                        |
 * |------------|-------------------------------------|---------------------------------------------------------------------|
 * | access     | the owner; a cached read: both      | refuses who may not call, before anything else is looked at         |
 * | cache      | the caller's, for a cached read     | answers from this node's memory (`local-cache.ts`)                  |
 * | parameters | the owner; a cached read: both      | refuses what the contract's schema does not allow                   |
 * | handler    | the owner                           | does the work                                                       |
 * | result     | the owner; a write: before a commit | refuses an answer that the contract's schema does not allow         |
 * | publish    | the owner, after a commit           | announces it, and waits until no node answers the older value       |
 * | floor      | the caller's, with `X-Min-Revision` | refuses an answer from before the revision that the caller asks for |
 *
 * Which keys a write drops is declared in its contract (`drops`) and reaches the handler as
 * `request.keys`. Some writes drop keys that only the handler can know, such as the sessions of an
 * account that is being disabled; there the handler gives the keys to the commit itself.
 *
 * A cached read is answered on the caller's own node: `call` looks into the cache before Moleculer
 * looks for a service. The value is loaded as the node, not as the caller, so that what is kept
 * depends on nobody. The load is marked in `meta.load`, and the owning node answers it with the
 * value and the revisions that the value includes.
 */
import type { Middleware, ServiceBroker } from 'moleculer';
import { moleculerMiddleware } from '../bus/moleculer-middleware.ts';
import { contractOf } from '../contracts/index.ts';
import type { Meta } from './call-meta.ts';
import { callerSide, type CallerSideOptions } from './caller-side.ts';
import { outgoingCalls, type OutgoingCallsOptions } from './outgoing-calls.ts';
import { ownerSide, type OwnerSideOptions } from './owner-side.ts';

export type ContractMiddlewareOptions = Omit<
  CallerSideOptions & OutgoingCallsOptions & OwnerSideOptions,
  'broker' | 'send'
>;

export function contractMiddleware(options: ContractMiddlewareOptions): Middleware {
  let made: ServiceBroker;
  const broker = (): ServiceBroker => made;
  return moleculerMiddleware<Meta>({
    name: 'Contracts',
    created(created) {
      made = created;
    },
    call(next) {
      const send = outgoingCalls(next, { ...options, broker });
      return callerSide({ ...options, broker, send });
    },
    localAction(next, { name }) {
      const contract = contractOf(name);
      if (contract) return ownerSide(options, name, contract, next);
      // Moleculer's own, such as `$node.list`.
      if (name.startsWith('$')) return next;
      throw new Error(`The action ${name} has no contract in shared/contracts.`);
    },
  });
}
