/**
 * Bounds how often one network may call the actions whose contracts say `networkLimited`: those that anyone may call, and that send a
 * mail, keep something for whoever asks, or try a token.
 */
import type { Handlers, Request } from '../../../shared/cluster/request.ts';
import { contractOf } from '../../../shared/contracts/index.ts';
import type { Settings } from '../../../shared/settings.ts';
import { networkOf } from '../rules/throttle.ts';
import type { NetworkThrottle } from './network-throttle.ts';

type AnyHandler = (params: never, request: Request) => Promise<unknown>;

/** The handlers, each behind the limit of `NETWORK_RATE_LIMIT_PER_MINUTE` where its contract says so. */
export function withNetworkLimits<H extends Handlers>(
  handlers: H,
  settings: () => Settings,
  networkThrottle: NetworkThrottle,
): H {
  const limited =
    (action: string, handler: AnyHandler): AnyHandler =>
    async (params, request) => {
      const limit = settings().network_rate_limit_per_minute;
      const network = networkOf(request.client.ip);
      await networkThrottle.countRequest(action, network, limit, request.log);
      return handler(params, request);
    };
  const wrapped = Object.entries(handlers).map(([action, handler]) => [
    action,
    contractOf(action)?.networkLimited ? limited(action, handler) : handler,
  ]);
  // Wrapping keeps each handler's type, but TypeScript cannot follow types from entry to entry.
  return Object.fromEntries(wrapped) as H;
}
