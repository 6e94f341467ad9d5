/** Bounds how often one network may call the actions whose contracts say `networkLimited`. */
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import type { Contract } from '../../../shared/contracts/contract.ts';
import { contractOf } from '../../../shared/contracts/index.ts';
import { codeOf, statusOf } from '../../../shared/errors.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { networkOf } from './rules/throttle.ts';
import type { LimitedCall, NetworkThrottle } from './network-throttle.ts';

type AnyHandler = (params: never, request: Request) => Promise<unknown>;

/**
 * The handlers, each behind the limit of NETWORK_RATE_LIMIT_PER_MINUTE where its contract says so.
 */
export function withNetworkLimits<H extends Handlers>(
  handlers: H,
  settings: () => Settings,
  throttle: NetworkThrottle,
): H {
  const callOf = (action: string, request: Request): LimitedCall => ({
    action,
    network: networkOf(request.client.ip),
    limit: settings().network_rate_limit_per_minute,
  });

  const limitingCalls =
    (action: string, handler: AnyHandler): AnyHandler =>
    async (params, request) => {
      await throttle.countCall(callOf(action, request), request.log);
      return handler(params, request);
    };

  const limitingFailures =
    (action: string, handler: AnyHandler): AnyHandler =>
    async (params, request) => {
      const call = callOf(action, request);
      await throttle.admitCall(call, request.log);
      try {
        return await handler(params, request);
      } catch (error) {
        const wasWrongGuess = statusOf(codeOf(error)) === 401;
        if (wasWrongGuess) await throttle.countCall(call, request.log);
        throw error;
      }
    };

  const limits: Readonly<Record<NonNullable<Contract['networkLimited']>, typeof limitingCalls>> = {
    calls: limitingCalls,
    failures: limitingFailures,
  };

  const wrapped = Object.entries(handlers).map(([action, handler]) => {
    const limited = contractOf(action)?.networkLimited;
    return [action, limited ? limits[limited](action, handler) : handler];
  });
  // Wrapping keeps each handler's type, but TypeScript cannot follow types from entry to entry.
  return Object.fromEntries(wrapped) as H;
}
