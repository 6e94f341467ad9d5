/**
 * Where notices go: each channel's destinations under a configuration, and which of them hear of a
 * hop.
 */
import { createHash } from 'node:crypto';
import { channels, type Channel } from '../../../shared/contracts/notifier.ts';
import type { ApprovalRow, DeliveryRow } from '../schema.ts';
import { groupAt } from './approval.ts';
import type { ChannelConfig, FrozenConfig } from './frozen-config.ts';

/** One endpoint, chat space or mail address; schema.ts says what the columns mean. */
export type Destination = Pick<DeliveryRow, 'channel' | 'place' | 'target' | 'endpoint_key'>;

/** Keeps secrets in an address out of the keys, which are logged and indexed. */
const digest = (url: string): string =>
  createHash('sha256').update(url).digest('base64url').slice(0, 22);
const originOf = (url: string): string => URL.parse(url)?.origin ?? 'not a URL';

/**
 * `addresses` are the mail addresses that the caller has chosen; the other channels find theirs in
 * the configuration.
 */
type DestinationsOfChannel = (
  tenantId: string,
  config: ChannelConfig,
  addresses: readonly string[],
) => Destination[];

const destinationsByChannel: Readonly<Record<Channel, DestinationsOfChannel>> = {
  webhook: (tenantId, config) =>
    config.webhook.endpoints.map(({ url }, index) => ({
      channel: 'webhook',
      place: String(index),
      target: originOf(url),
      endpoint_key: `webhook ${tenantId} ${digest(url)}`,
    })),

  chat(tenantId, config) {
    const url = config.chat?.google_chat?.webhook_url;
    if (url === undefined) return [];
    const endpointKey = `chat ${tenantId} ${digest(url)}`;
    return [
      { channel: 'chat', place: 'google_chat', target: originOf(url), endpoint_key: endpointKey },
    ];
  },

  email: (tenantId, _config, addresses) =>
    addresses.map((address) => ({
      channel: 'email',
      place: address.toLowerCase(),
      target: address,
      endpoint_key: `email ${tenantId}`,
    })),
};

export const channelDestinations = (
  channel: Channel,
  tenantId: string,
  config: ChannelConfig,
  addresses: readonly string[],
): Destination[] => destinationsByChannel[channel](tenantId, config, addresses);

/** The first list that names anybody. */
export const firstFilled = (...lists: readonly (readonly string[])[]): readonly string[] =>
  lists.find(({ length }) => length > 0) ?? [];

/** Each destination once; of two entries for one place the later counts. */
export const distinct = (destinations: readonly Destination[]): Destination[] => {
  const byPlace = new Map(
    destinations.map((each): [string, Destination] => [`${each.channel} ${each.place}`, each]),
  );
  return [...byPlace.values()];
};

/**
 * Who hears of a hop. Webhooks and chat hear of every hop; mail goes to the members of the hop's
 * group, else to the first list of the configuration that names anybody. Where nobody at all would
 * hear, the administrators get a mail.
 */
export function destinationsOf(
  approval: Pick<ApprovalRow, 'tenant_id' | 'chain'>,
  { config, groups, admins }: FrozenConfig,
  hop: number,
): Destination[] {
  const group = groupAt(approval.chain, hop);
  const members = group === null ? [] : (groups[group] ?? []);
  const addresses = firstFilled(
    members.map(({ email }) => email),
    config.email.approval_recipients,
    config.email.default_recipients,
  );
  const configured = channels.flatMap((channel) =>
    channelDestinations(channel, approval.tenant_id, config, addresses),
  );
  if (configured.length > 0) return distinct(configured);

  const adminAddresses = admins.map(({ email }) => email);
  return distinct(channelDestinations('email', approval.tenant_id, config, adminAddresses));
}
