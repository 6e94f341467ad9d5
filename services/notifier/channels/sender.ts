/** Sends a notice by its channel. */
import { channels, type Channel } from '../../../shared/contracts/notifier.ts';
import type { Outcome } from '../../../shared/outgoing/send-result.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import type { ChannelConfig } from '../rules/frozen-config.ts';
import type { RetryPlan } from '../rules/retry-policy.ts';
import type { Destination } from '../schema.ts';
import type { ChannelOptions, NoticeChannel, OutgoingNotice } from './channel.ts';
import { channelTable } from './channels.ts';

export interface Sender {
  /** One attempt; rejects only for a fault of ours. */
  readonly send: (notice: OutgoingNotice, config: ChannelConfig) => Promise<Outcome>;
  readonly retryPlan: (destination: Destination, config: ChannelConfig) => RetryPlan;
}

export function createSender(options: ChannelOptions): Sender {
  const byName = Object.fromEntries(
    channels.map((channel) => [channel, channelTable[channel].create(options)]),
  ) as Record<Channel, NoticeChannel>;
  return {
    send: (notice, config) => byName[notice.channel].send(notice, config),

    retryPlan: ({ channel, place }, config) =>
      byName[channel].retryPlan?.(place, config) ?? planOfProcess(options.settings()),
  };
}

const planOfProcess = (settings: Settings): RetryPlan => ({
  retries: settings.approval_webhook_retry_attempts,
  backoff: {
    initial_seconds: settings.approval_webhook_backoff_initial_seconds,
    factor: settings.approval_webhook_backoff_factor,
    max_seconds: settings.approval_webhook_backoff_max_seconds,
  },
});
