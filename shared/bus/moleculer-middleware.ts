/** Moleculer's middleware as it is called, for our middlewares to be checked against. */
import type { CallingOptions, Context, Middleware, ServiceBroker } from 'moleculer';

type Params = Record<string, unknown>;

/** `broker.call`, and what a middleware puts in its place. */
export type BusCall = (
  action: string,
  params?: Params,
  options?: CallingOptions,
) => Promise<unknown>;

/** An action's handler on the node that owns it, and what a middleware puts in its place. */
export type ActionHandler<Meta extends object> = (ctx: Context<Params, Meta>) => Promise<unknown>;

/** Publishes a packet before it is made a message, and what a middleware puts in its place. */
export type Publish = (packet: {
  readonly type: string;
  readonly payload: object;
}) => Promise<unknown>;

/** Sends a message to the transporter, and what a middleware puts in its place. */
export type Send = (topic: string, message: Buffer, meta: unknown) => Promise<unknown>;

/** Takes a message from the transporter, and what a middleware puts in its place. */
export type Receive = (command: string, message: Buffer, socket: unknown) => unknown;

export interface MiddlewareHooks<Meta extends object> {
  readonly name: string;
  readonly created?: (broker: ServiceBroker) => void;
  readonly call?: (next: BusCall) => BusCall;
  readonly localAction?: (
    next: ActionHandler<Meta>,
    action: { readonly name: string },
  ) => ActionHandler<Meta>;
  readonly transitPublish?: (next: Publish) => Publish;
  readonly transporterSend?: (next: Send) => Send;
  readonly transporterReceive?: (next: Receive) => Receive;
}

/**
 * The cast is needed because Moleculer's types have these hooks return what the next function
 * returns, where Moleculer itself expects the function that takes its place
 * (https://moleculer.services/docs/0.15/middlewares).
 */
export const moleculerMiddleware = <Meta extends object>(
  hooks: MiddlewareHooks<Meta>,
): Middleware => hooks as unknown as Middleware;
