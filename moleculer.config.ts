/**
 * Strata's broker configuration for a platform service of one's own: for `moleculer-runner` with
 * `-c moleculer.config.ts`, or for `new ServiceBroker(config)`.
 *
 * With SECRET_KEY it makes a trusted node with the contracts, the checks and the local caches, so
 * that a read like this one is answered from the memory of this process:
 *
 *   broker.call('config-resolver.resolve', { tenant_id, agent_type }, { meta: { caller } })
 *
 * Without SECRET_KEY the calls bring STRATA_API_KEY, and a gateway answers them by its rights:
 *
 *   broker.call('config-resolver.resolve', { tenant_id, agent_type })
 */
import { derivedReads } from './services/derived-reads.ts';
import { nodeOptions } from './shared/node/broker.ts';
import { neighbourOptions } from './shared/bus/neighbour.ts';
import { liveSettings } from './shared/settings/live-settings.ts';
import { loadSettings, readEnvironment } from './shared/settings/settings.ts';

// Such a service hosts no role of Strata, so its settings need neither database nor Redis.
const first = loadSettings(readEnvironment());
const settings = liveSettings(first, { NODE_ID: first.node_id }, []);

export default first.secret_key === null && first.nats_url !== null
  ? neighbourOptions(first)
  : nodeOptions({ settings, derivedReads: derivedReads() }).options;
