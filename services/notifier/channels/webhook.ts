/** Notices to webhook endpoints; docs/webhooks.md is what their receivers read. */
import type { EffectiveEndpoint } from '../../../shared/contracts/notification-config.ts';
import { sendWebhook } from '../../../shared/outgoing/webhook.ts';
import type { ChannelConfig } from '../rules/frozen-config.ts';
import {
  urlDestination,
  type ChannelOptions,
  type DestinationsOf,
  type NoticeChannel,
} from './channel.ts';

export const webhookDestinations: DestinationsOf = (tenantId, { webhook }) =>
  webhook.endpoints.map(({ url }, index) =>
    urlDestination('webhook', tenantId, String(index), url),
  );

export const webhookChannel = ({ http }: ChannelOptions): NoticeChannel => ({
  async send({ id, place, body, request_id: requestId }, config) {
    const endpoint = endpointAt(place, config);
    return sendWebhook(http, { id, body, endpoint, requestId });
  },

  retryPlan(place, config) {
    const { retry_attempts: retries, backoff } = endpointAt(place, config);
    return { retries, backoff };
  },
});

function endpointAt(place: string, { webhook }: ChannelConfig): EffectiveEndpoint {
  const endpoint = webhook.endpoints[Number(place)];
  if (!endpoint) throw new Error(`the configuration has no webhook endpoint ${place}`);
  return endpoint;
}
