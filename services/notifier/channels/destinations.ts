/** Where notices go: a channel's destinations under a configuration, and who is notified of a hop. */
import { channels, type Channel } from '../../../shared/contracts/notifier.ts';
import { groupAt } from '../rules/approval.ts';
import type { FrozenConfig } from '../rules/frozen-config.ts';
import type { ApprovalRow, Destination } from '../schema.ts';
import type { DestinationsOf } from './channel.ts';
import { channelTable } from './channels.ts';

export const channelDestinations = (
  channel: Channel,
  ...of: Parameters<DestinationsOf>
): Destination[] => channelTable[channel].destinations(...of);

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

/** How many addresses of the configuration are mailed at some hop: those of a group without members. */
export function countNamed(
  chain: readonly string[],
  { config: { email }, groups }: Pick<FrozenConfig, 'config' | 'groups'>,
): number {
  const isNamedAsked =
    chain.length === 0 || chain.some((group) => (groups[group] ?? []).length === 0);
  return isNamedAsked ? firstFilled(email.approval_recipients, email.default_recipients).length : 0;
}

/**
 * Who is notified of a hop: webhooks and chat of each, by mail the members of the hop's group, else
 * the first list of the configuration that names anybody. The channels that a service instance
 * names are the only ones, if they reach anybody. Where no channel does, administrators get a mail.
 */
export function destinationsOf(
  approval: Pick<ApprovalRow, 'tenant_id' | 'chain'>,
  { config, groups, admins, channels: named = channels }: FrozenConfig,
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
  const wanted = configured.filter(({ channel }) => named.includes(channel));
  if (configured.length > 0) return distinct(wanted.length > 0 ? wanted : configured);

  return adminDestinations(approval, { config, admins });
}

export const adminDestinations = (
  { tenant_id: tenantId }: Pick<ApprovalRow, 'tenant_id'>,
  { config, admins }: Pick<FrozenConfig, 'config' | 'admins'>,
): Destination[] => {
  const addresses = admins.map(({ email }) => email);
  return distinct(channelDestinations('email', tenantId, config, addresses));
};
