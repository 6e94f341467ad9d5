/** What others find out about this Strata before they call it: may be kept by whoever asks. */
import type { ServiceBroker } from 'moleculer';
import { callAs } from '../../shared/contract-runtime/request.ts';
import type { OwnHandlers } from './own-handlers.ts';

/** In seconds. Less than a key is published for before it signs (notifier/stores/grant-keys.ts). */
const maxAge = 300;

export const wellKnownHandlers = (broker: ServiceBroker): OwnHandlers => ({
  async 'notifier.grants.keys'(_params, request) {
    const { caller, requestId, client, timeout, setHeader } = request;
    const keys = await callAs(
      broker,
      'notifier.grants.keys',
      {},
      { caller, requestId, client, timeout },
    );
    setHeader('cache-control', `public, max-age=${maxAge}`);
    return keys;
  },
});
