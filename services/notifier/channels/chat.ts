/** Notices to a Google Chat space, by the incoming webhook that the tenant made for it. */
import { approvalAddress, changeSetAddress } from '../../../shared/mail/console-links.ts';
import { attemptOverHttp } from '../../../shared/outgoing/http-attempt.ts';
import type { HttpClient } from '../../../shared/outgoing/http-client.ts';
import type { Outcome } from '../../../shared/outgoing/send-result.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import {
  chatMessage,
  type BudgetWarned,
  type ChangeSetStepped,
  type ChatLink,
  type ChatNotice,
} from '../rules/chat-message.ts';
import { parseBody, type NoticeBody } from '../rules/notice.ts';
import { urlDestination, type DestinationsOf, type NoticeChannel } from './channel.ts';

export const chatDestinations: DestinationsOf = (tenantId, { chat }) => {
  const url = chat?.google_chat?.webhook_url;
  return url === undefined ? [] : [urlDestination('chat', tenantId, 'google_chat', url)];
};

export interface ChatOptions {
  readonly http: HttpClient;
  readonly settings: () => Pick<Settings, 'base_url'>;
}

/** Messages link to the page of the approval or change set in the console. */
export const chatChannel = ({ http, settings }: ChatOptions): NoticeChannel => ({
  async send({ body }, { chat }) {
    const { webhook_url: url, include_links: includeLinks = false } = chat?.google_chat ?? {};
    if (url === undefined) throw new Error('the configuration has no chat space');
    const notice = parseBody(body);
    const links = includeLinks ? linksOf(notice, settings()) : [];
    return sendChat(http, { url, notice, links });
  },
});

function linksOf(notice: NoticeBody, settings: Pick<Settings, 'base_url'>): ChatLink[] {
  const { data } = notice;
  const { tenant_id: tenantId } = data;
  if ('changeset_id' in data)
    return [{ label: 'Open', url: changeSetAddress(settings, tenantId, data.changeset_id) }];
  if (!('approval_id' in data)) return [];
  return [{ label: 'Open', url: approvalAddress(settings, tenantId, data.approval_id) }];
}

export interface ChatRequest {
  /** Of the incoming webhook; it carries the key and the token of the space. */
  readonly url: string;
  readonly notice: ChatNotice | BudgetWarned | ChangeSetStepped;
  readonly links: readonly ChatLink[];
}

/** Posts a notice as a reply in the thread of its approval, which the first notice opens. */
export function sendChat(
  client: HttpClient,
  { url, notice, links }: ChatRequest,
): Promise<Outcome> {
  const address = URL.parse(url);
  const secrets = [url, ...(address?.searchParams.values() ?? [])];
  address?.searchParams.set('messageReplyOption', 'REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD');
  const request = {
    // The HTTP client refuses what is no URL, and explains it.
    url: address?.href ?? '',
    method: 'POST',
    headers: { 'content-type': 'application/json; charset=UTF-8' },
    body: JSON.stringify(chatMessage(notice, links)),
  } as const;
  return attemptOverHttp(client, request, secrets);
}
