/**
 * Strata's broker configuration for a platform service of one's own: `moleculer-runner -c moleculer.config.ts`, or
 * `new ServiceBroker(config)`. It brings the contracts, the checks and the local caches, so that
 * `broker.call('config-resolver.resolve', { tenant_id, agent_type }, { meta: { caller } })` reads from this process's memory.
 */
import { nodeOptions } from './shared/cluster/broker.ts';
import { liveSettings } from './shared/live-settings.ts';
import { loadSettings, readEnvironment } from './shared/settings.ts';

// Such a service hosts no piece of Strata, so its settings need neither database nor Redis.
const first = loadSettings(readEnvironment());
const settings = liveSettings(first, { NODE_ID: first.node_id }, []);

export default nodeOptions({ settings }).options;
