/** What others find out about this Strata before they call it: may be kept by whoever asks. */
import type { ServiceBroker } from 'moleculer';
import { callAs } from '../../shared/contract-runtime/request.ts';
import type { LiveSettings } from '../../shared/settings/live-settings.ts';
import { callOf, type OwnHandlers } from './own-handlers.ts';

/** By draft 1 of the Access Request and Approval Profile. */
const accessRequests = 'urn:openid:authzen:capability:access-request';
/** In seconds. Less than a key is published for before it signs (notifier/stores/grant-keys.ts). */
const maxAge = 300;

export const wellKnownHandlers = (
  broker: ServiceBroker,
  settings: Pick<LiveSettings, 'current'>,
): OwnHandlers => ({
  async 'gateway.access.configuration'({ tenant_id: tenantId }, { setHeader }) {
    const { base_url: base } = settings.current;
    const point = `${base}/tenants/${String(tenantId)}`;
    setHeader('cache-control', `public, max-age=${maxAge}`);
    return {
      policy_decision_point: point,
      access_evaluation_endpoint: `${point}/access/v1/evaluation`,
      access_evaluations_endpoint: `${point}/access/v1/evaluations`,
      access_request_endpoint: `${point}/access/v1/requests`,
      jwks_uri: `${base}/.well-known/jwks.json`,
      capabilities: [accessRequests],
    };
  },

  async 'notifier.grants.keys'(_params, request) {
    const keys = await callAs(broker, 'notifier.grants.keys', {}, callOf(request));
    request.setHeader('cache-control', `public, max-age=${maxAge}`);
    return keys;
  },
});
