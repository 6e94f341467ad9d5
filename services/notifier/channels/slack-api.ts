/**
 * Slack's Web API with a token of a tenant's app. The package is loaded once a tenant has Slack, so
 * that a node without one does not carry it.
 */
import type { WebClient } from '@slack/web-api';
import type { Settings } from '../../../shared/settings/settings.ts';

const timeoutMs = 10_000;

/** Repeats nothing by itself: the queue of deliveries does. */
export async function slackApi(
  token: string,
  { slack_api_url: slackApiUrl }: Pick<Settings, 'slack_api_url'>,
): Promise<WebClient> {
  const { LogLevel, WebClient: Client } = await import('@slack/web-api');
  return new Client(token, {
    slackApiUrl,
    allowAbsoluteUrls: false,
    timeout: timeoutMs,
    retryConfig: { retries: 0 },
    rejectRateLimitedCalls: true,
    logLevel: LogLevel.ERROR,
  });
}
