/** Notices to a Google Chat space, by the incoming webhook that the tenant made for it. */
import { attemptOverHttp } from '../../../shared/outgoing/http-attempt.ts';
import type { HttpClient } from '../../../shared/outgoing/http-client.ts';
import type { Outcome } from '../../../shared/outgoing/send-result.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { chatMessage, type ChatLink } from '../rules/chat-message.ts';
import { parseBody } from '../rules/notice.ts';
import type { BudgetWarned, ChangeSetStepped, ChatNotice } from '../rules/notice-words.ts';
import { noticePage } from './notice-page.ts';
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
    const page = includeLinks ? noticePage(notice, settings()) : undefined;
    const links = page === undefined ? [] : [{ label: 'Open', url: page }];
    return sendChat(http, { url, notice, links });
  },
});

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
