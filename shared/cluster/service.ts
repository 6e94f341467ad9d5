import type { Context, ServiceSchema } from 'moleculer';
import type { ActionName } from '../contracts/index.ts';
import type { Handlers, Request } from './request.ts';

interface Lifecycle {
  started?: () => Promise<void>;
  stopped?: () => Promise<void>;
}

/** A Moleculer service from plain handlers; `name` is the part of their action names before the first dot. */
export function serviceOf(
  name: string,
  handlers: Handlers,
  lifecycle: Lifecycle = {},
): ServiceSchema {
  const actions = Object.fromEntries(
    (Object.keys(handlers) as ActionName[]).map((action) => {
      if (!action.startsWith(`${name}.`))
        throw new Error(`${action} does not belong to the service ${name}`);
      const handler = handlers[action] as (params: unknown, request: Request) => Promise<unknown>;
      return [
        action.slice(name.length + 1),
        { handler: (ctx: Context) => handler(ctx.params, ctx.locals.request as Request) },
      ];
    }),
  );
  return { name, actions, ...lifecycle } as ServiceSchema;
}
