/** Makes Moleculer services of plain handlers, so that these know nothing of Moleculer. */
import { randomUUID } from 'node:crypto';
import type { Context, ServiceBroker, ServiceSchema } from 'moleculer';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import { serviceCaller } from '../access.ts';
import type { ActionName } from '../contracts/index.ts';
import type { Settings } from '../settings/settings.ts';
import { callAs, type Call, type Handlers, type Request } from './request.ts';
import { fingerprintOf } from './skew.ts';

/** What a service with tables is given. */
export interface ServiceOptions {
  readonly db: DataSource;
  /** The settings in use now; a reload replaces them. */
  readonly settings: () => Settings;
  readonly log: Logger;
  readonly metrics: Registry;
}

/** What a service works with by itself, once it has started. */
export interface Started {
  readonly broker: ServiceBroker;
  /** Makes each call as a request of its own. */
  readonly call: Call;
}

/** What a loop of a service works with. */
export type LoopOptions = Pick<ServiceOptions, 'db' | 'log'> & Pick<Started, 'call'>;

interface Lifecycle {
  readonly started?: (own: Started) => Promise<void>;
  readonly stopped?: () => Promise<void>;
}

/**
 * A handler whose parameters are those of its contract; which these are, only the contract
 * middleware has to know here.
 */
type AnyHandler = (params: unknown, request: Request) => Promise<unknown>;

/**
 * `name` is the part of the handlers' action names before the first dot; throws where one begins
 * otherwise.
 */
export function serviceOf(
  name: string,
  handlers: Handlers,
  { started, stopped }: Lifecycle = {},
): ServiceSchema {
  const prefix = `${name}.`;
  // Object.keys forgets the type of the keys.
  const actionNames = Object.keys(handlers) as ActionName[];
  const actions = Object.fromEntries(
    actionNames.map((action) => {
      if (!action.startsWith(prefix))
        throw new Error(`${action} does not belong to the service ${name}`);
      const handler = handlers[action] as AnyHandler;
      return [action.slice(prefix.length), actionOf(action, handler)];
    }),
  );
  return {
    name,
    actions,
    async started() {
      const { broker } = this;
      const caller = serviceCaller(name);
      const call: Call = (action, params) =>
        callAs(broker, action, params, { caller, requestId: randomUUID() });
      await started?.({ broker, call });
    },
    ...(stopped && { stopped }),
  };
}

/**
 * The contract middleware has checked the parameters, and put the request into the context. Callers
 * of another release go by what the action takes here.
 */
const actionOf = (action: ActionName, handler: AnyHandler) => ({
  takes: fingerprintOf(action),
  handler: (ctx: Context) => handler(ctx.params, ctx.locals.request as Request),
});
