/**
 * Notices to a channel of Slack by the app that the tenant has made there. A question has buttons
 * (worker/slack-sockets.ts receives clicks); how it ended replaces it in every copy, so that no button
 * stays that decides nothing.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { WebClient } from '@slack/web-api';
import type { Outcome } from '../../../shared/outgoing/send-result.ts';
import { asksForDecision, parseBody, testNotice, type NoticeBody } from '../rules/notice.ts';
import { slackMessage } from '../rules/slack-message.ts';
import type { SlackCopies, SlackCopy } from '../stores/slack-messages.ts';
import type { ChannelOptions, DestinationsOf, NoticeChannel } from './channel.ts';
import { noticePage } from './notice-page.ts';
import { slackApi } from './slack-api.ts';

/**
 * How it ended waits so long for a question on its way, which would be posted after it, with buttons
 * that decide nothing: longer than Slack has to answer, and than a claim lasts whose node died.
 */
const askingMs = 15_000;
const lookMs = 200;

export const slackDestinations: DestinationsOf = (tenantId, { slack }) =>
  slack === undefined
    ? []
    : [
        {
          channel: 'slack',
          place: 'slack',
          target: slack.channel,
          endpoint_key: `slack ${tenantId} ${slack.channel}`,
        },
      ];

export const slackChannel = ({ settings, copies }: ChannelOptions): NoticeChannel => ({
  async send({ body }, { slack }) {
    if (slack === undefined) throw new Error('the configuration has no Slack');
    const began = performance.now();
    const api = await slackApi(slack.bot_token, settings());
    const notice = parseBody(body);
    const message = slackMessage(notice, noticePage(notice, settings()));
    const end = (outcome: Omit<Outcome, 'duration_ms' | 'answer'>) =>
      ({ ...outcome, answer: null, duration_ms: performance.now() - began }) as Outcome;
    try {
      const said = await replaced(api, notice, message, copies);
      if (!said) {
        const { channel, ts } = await api.chat.postMessage({ channel: slack.channel, ...message });
        const { data } = notice;
        if ('approval_id' in data && asksForDecision(notice.type))
          await copies.note(data.tenant_id, data.approval_id, { channel: channel!, ts: ts! });
      }
      return end({ result: 'delivered', status: 200, error: null });
    } catch (error) {
      return end(resultOf(error));
    }
  },
});

/** Says in every copy of the question how it ended; false where this is no end, or has no copy. */
async function replaced(
  api: WebClient,
  { type, data }: NoticeBody,
  message: ReturnType<typeof slackMessage>,
  copies: SlackCopies,
): Promise<boolean> {
  if (!('approval_id' in data) || type === testNotice || asksForDecision(type)) return false;
  for (const until = performance.now() + askingMs; performance.now() < until; await delay(lookMs))
    if (!(await copies.isAsking(data.approval_id))) break;
  const all = await copies.of(data.tenant_id, data.approval_id);
  for (const copy of all) await update(api, copy, message);
  return all.length > 0;
}

/** A message that somebody has removed needs no answer. */
async function update(
  api: WebClient,
  copy: SlackCopy,
  message: ReturnType<typeof slackMessage>,
): Promise<void> {
  try {
    await api.chat.update({ ...copy, ...message });
  } catch (error) {
    if (problemOf(error) !== 'message_not_found') throw error;
  }
}

/** What Slack says is wrong, such as `channel_not_found`; undefined where it did not answer so. */
export function problemOf(error: unknown): string | undefined {
  const { data } = error as { readonly data?: { readonly error?: unknown } };
  return typeof data?.error === 'string' ? data.error : undefined;
}

/** Of Slack's problems those that pass; all others are of the configuration. */
const passing = new Set(['internal_error', 'fatal_error', 'service_unavailable', 'ratelimited']);

/** Errors of the package by their code, as its documentation lists them. */
function resultOf(error: unknown): Pick<Outcome, 'result' | 'status' | 'error'> {
  const { code, retryAfter, statusCode } = error as {
    readonly code?: string;
    readonly retryAfter?: number;
    readonly statusCode?: number;
  };
  if (code === 'slack_webapi_rate_limited_error') {
    const wait = { retry_after_ms: (retryAfter ?? 1) * 1000 };
    return { result: 'retry', status: 429, error: 'answered 429', ...wait } as const;
  }
  if (code === 'slack_webapi_platform_error') {
    const problem = problemOf(error)!;
    const result = passing.has(problem) ? 'retry' : 'final';
    return { result, status: 200, error: `Slack answered ${problem}` };
  }
  if (code === 'slack_webapi_http_error' && statusCode !== undefined)
    return {
      result: statusCode >= 500 ? 'retry' : 'final',
      status: statusCode,
      error: `answered ${statusCode}`,
    };
  if (code === 'slack_webapi_request_error')
    return { result: 'retry', status: null, error: 'Slack does not answer' };
  throw error;
}
