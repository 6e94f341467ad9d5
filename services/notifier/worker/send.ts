/** The channels of this process, and which of them sends a notice. */
import type { Channel } from '../../../shared/contracts/notifier.ts';
import type { Mailer } from '../../../shared/mail/mailer.ts';
import type { HttpClient } from '../../../shared/outgoing/http-client.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import type { NoticeChannel, Outcome, OutgoingNotice } from '../channels/channel.ts';
import { chatChannel } from '../channels/chat.ts';
import { emailChannel } from '../channels/email.ts';
import { webhookChannel } from '../channels/webhook.ts';
import { createDecisionLinks } from '../rules/decision-links.ts';
import type { Destination } from '../rules/destinations.ts';
import type { ChannelConfig } from '../rules/frozen-config.ts';
import type { RetryPlan } from '../rules/retry-policy.ts';

export interface SenderOptions {
  readonly settings: () => Settings;
  readonly http: HttpClient;
  readonly mailer: Mailer;
  /** Domains that a tenant's sign-in providers have verified. */
  readonly verifiedDomains: (tenantId: string) => Promise<readonly string[]>;
}
export interface Sender {
  /** One attempt; rejects only for a fault of ours. */
  readonly send: (notice: OutgoingNotice, config: ChannelConfig) => Promise<Outcome>;
  readonly retryPlan: (destination: Destination, config: ChannelConfig) => RetryPlan;
}

export function createSender(options: SenderOptions): Sender {
  const { settings, http, mailer, verifiedDomains } = options;
  const channels: Readonly<Record<Channel, NoticeChannel>> = {
    webhook: webhookChannel(http),
    chat: chatChannel(http, settings),
    email: emailChannel({
      mailer,
      decisionLinks: () => createDecisionLinks(settings()),
      settings,
      verifiedDomains,
    }),
  };

  return {
    send: (notice, config) => channels[notice.channel].send(notice, config),

    retryPlan: ({ channel, place }, config) =>
      channels[channel].retryPlan?.(place, config) ?? planOfProcess(settings()),
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
