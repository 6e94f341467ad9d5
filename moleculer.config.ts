/**
 * Strata's broker configuration for a platform service of one's own that is trusted with SECRET_KEY:
 * for `moleculer-runner` with `-c moleculer.config.ts`, or for `new ServiceBroker(config)`. It
 * brings the contracts, the checks and the local caches, so that a read like this one is answered
 * from the memory of this process:
 *
 *   broker.call('config-resolver.resolve', { tenant_id, agent_type }, { meta: { caller } })
 */
import { nodeOptions } from './shared/cluster/broker.ts';
import { liveSettings } from './shared/live-settings.ts';
import { loadSettings, readEnvironment } from './shared/settings.ts';

// Such a service hosts no piece of Strata, so its settings need neither database nor Redis.
const first = loadSettings(readEnvironment());
const settings = liveSettings(first, { NODE_ID: first.node_id }, []);

export default nodeOptions({ settings }).options;
