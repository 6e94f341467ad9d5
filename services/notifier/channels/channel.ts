/**
 * What a channel is: it makes one attempt at one notice and says how that ended. It neither waits
 * nor repeats (rules/retry-policy.ts). channels.ts lists them.
 */
import { hash } from 'node:crypto';
import type { Channel } from '../../../shared/contracts/notifier.ts';
import type { Mailer } from '../../../shared/mail/mailer.ts';
import type { HttpClient } from '../../../shared/outgoing/http-client.ts';
import type { Outcome } from '../../../shared/outgoing/send-result.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import type { ChannelConfig } from '../rules/frozen-config.ts';
import type { RetryPlan } from '../rules/retry-policy.ts';
import type { Destination } from '../schema.ts';
import type { SlackCopies } from '../stores/slack-messages.ts';

/**
 * A channel's destinations. `addresses` are the mail addresses that the caller has chosen; the other
 * channels find theirs in the configuration. Each `endpoint_key` begins with the channel and the
 * tenant's id, by which the tenant's are erased (stores/erasure.ts).
 */
export type DestinationsOf = (
  tenantId: string,
  config: ChannelConfig,
  addresses: readonly string[],
) => Destination[];

/** A destination with a URL. Its key is logged and indexed, and holds no secret of the URL. */
export const urlDestination = (
  channel: Channel,
  tenantId: string,
  place: string,
  url: string,
): Destination => {
  const digest = hash('sha256', url, 'base64url').slice(0, 22);
  const target = URL.parse(url)?.origin ?? 'not a URL';
  return { channel, place, target, endpoint_key: `${channel} ${tenantId} ${digest}` };
};

/** Of an address that is a secret, what no answer that is kept may show: also each parameter. */
export const secretsOfUrl = (url: string): string[] => [
  url,
  ...(URL.parse(url)?.searchParams.values() ?? []),
];

export interface OutgoingNotice extends Destination {
  /** Names the notice in every attempt: the receivers' key for duplicates. */
  readonly id: string;
  /** rules/notice.ts */
  readonly body: string;
  /** Of the request that it tells of, where there is one. */
  readonly request_id?: string | null;
  /** When links to decide must end; null where there is nothing to decide. */
  readonly expires_at: Date | null;
}

/** What channels send with. */
export interface ChannelOptions {
  /** `base_url` is where links lead: the gateway, as people reach it. */
  readonly settings: () => Settings;
  readonly http: HttpClient;
  readonly mailer: Mailer;
  readonly copies: SlackCopies;
  /** Domains that a tenant's sign-in providers have verified. */
  readonly verifiedDomains: (tenantId: string) => Promise<readonly string[]>;
}

/** What a chat needs, whose messages link to the console. */
export type LinkingOptions = Pick<ChannelOptions, 'http' | 'settings'>;

export interface NoticeChannel {
  /**
   * One attempt. Signatures and links are made afresh, the body is as it was queued. Rejects only
   * for a fault of ours.
   */
  readonly send: (notice: OutgoingNotice, config: ChannelConfig) => Promise<Outcome>;
  /**
   * Where the configuration has a plan for each destination; without it the settings
   * APPROVAL_WEBHOOK_* hold.
   */
  readonly retryPlan?: (place: string, config: ChannelConfig) => RetryPlan;
}
