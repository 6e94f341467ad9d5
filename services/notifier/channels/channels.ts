/** The channels: where the notices of each go, and what sends them. */
import type { Channel } from '../../../shared/contracts/notifier.ts';
import type { ChannelOptions, DestinationsOf, NoticeChannel } from './channel.ts';
import { chatChannel, chatDestinations } from './chat.ts';
import { emailChannel, emailDestinations } from './email.ts';
import { slackChannel, slackDestinations } from './slack.ts';
import { teamsChannel, teamsDestinations } from './teams.ts';
import { webhookChannel, webhookDestinations } from './webhook.ts';

interface ChannelRow {
  readonly destinations: DestinationsOf;
  readonly create: (options: ChannelOptions) => NoticeChannel;
}

export const channelTable: Readonly<Record<Channel, ChannelRow>> = {
  webhook: { destinations: webhookDestinations, create: webhookChannel },
  chat: { destinations: chatDestinations, create: chatChannel },
  email: { destinations: emailDestinations, create: emailChannel },
  teams: { destinations: teamsDestinations, create: teamsChannel },
  slack: { destinations: slackDestinations, create: slackChannel },
};
