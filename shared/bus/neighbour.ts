/**
 * A platform service on NATS that does not hold SECRET_KEY. It calls Strata's actions with its own
 * credential, STRATA_API_KEY, which a gateway verifies (`gateway/neighbours.ts`).
 */
import type { BrokerOptions } from 'moleculer';
import { contractOf } from '../contracts/index.ts';
import type { Settings } from '../settings/settings.ts';
import { natsTransporter } from './bus.ts';
import { moleculerMiddleware, type BusCall } from './moleculer-middleware.ts';

/**
 * Options for the neighbour's broker. Its subjects on NATS, `MOL-strata.…` with the default
 * namespace, carry clear packets between neighbours and gateways. Its calls of Strata's actions
 * bring the credential, and no other call does.
 */
export function neighbourOptions(settings: Settings): BrokerOptions {
  const { strata_api_key: credential } = settings;
  const withCredential =
    (next: BusCall): BusCall =>
    (name, params, options) => {
      if (!contractOf(name)) return next(name, params, options);
      return next(name, params, { ...options, meta: { ...options?.meta, credential } });
    };
  return {
    namespace: settings.nats_namespace,
    nodeID: settings.node_id,
    transporter: natsTransporter(settings),
    requestTimeout: settings.request_timeout_ms,
    middlewares: [moleculerMiddleware({ name: 'Credential', call: withCredential })],
  };
}
