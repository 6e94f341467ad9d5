/**
 * Moleculer's middleware hooks as they are called. Each is given the next function and returns the one that takes its place
 * (https://moleculer.services/docs/0.15/middlewares). Moleculer's own types say that they return what that function returns, so a
 * middleware that is written as documented does not match them.
 */
import type { Middleware } from 'moleculer';

export type Send = (topic: string, data: Buffer, meta: unknown) => Promise<unknown>;
export type Receive = (command: string, data: Buffer, socket: unknown) => unknown;

export interface Hooks extends Omit<
  Middleware,
  'call' | 'localAction' | 'transporterSend' | 'transporterReceive'
> {
  readonly transporterSend?: (next: Send) => Send;
  readonly transporterReceive?: (next: Receive) => Receive;
}

/** The one cast from what Moleculer calls to what its types say. */
export const middlewareOf = (hooks: Hooks): Middleware => hooks as unknown as Middleware;
