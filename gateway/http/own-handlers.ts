/**
 * What the gateway answers by itself, beside calling actions: how its routes hand such a request
 * over.
 */
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import type { Caller } from '../../shared/access.ts';
import type { CallOptions, Client } from '../../shared/contract-runtime/request.ts';
import type { ActionName } from '../../shared/contracts/index.ts';

/** What a handler of the gateway's own is given beside its parameters. */
export interface OwnRequest {
  readonly caller: Caller;
  readonly requestId: string;
  readonly client: Client;
  /** Milliseconds that are left of the request's time. */
  readonly timeout: () => number;
  /**
   * Who calls, found and checked again, a promise only where memory does not do; throws where they
   * have lost the right.
   */
  readonly recheck: () => Caller | Promise<Caller>;
  /**
   * Names what was asked with which credential for which tenant: whoever has the same may still ask
   * as long as all may.
   */
  readonly right: string;
  /** Undefined where the credential is no API key. */
  readonly apiKeyId: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly response: ServerResponse;
  /**
   * Sets a header of the answer, also where that is an error, in place of an earlier one of the
   * name.
   */
  readonly setHeader: (name: string, value: string) => void;
}
/** For calls that are made for the request, as its caller. */
export const callOf = ({ caller, requestId, client, timeout }: OwnRequest): CallOptions => ({
  caller,
  requestId,
  client,
  timeout,
});

/**
 * What the gateway answers itself: streams, because they continue, and what has to do with cookies.
 */
export type OwnHandler = (params: Record<string, unknown>, request: OwnRequest) => Promise<unknown>;
export type OwnHandlers = { readonly [A in ActionName]?: OwnHandler };
