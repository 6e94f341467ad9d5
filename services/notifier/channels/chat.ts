/** Notices to a Google Chat space, by the incoming webhook that the tenant made for it. */
import { attemptOverHttp } from '../../../shared/outgoing/http-attempt.ts';
import { chatMessage } from '../rules/chat-message.ts';
import { parseBody } from '../rules/notice.ts';
import { noticePage } from './notice-page.ts';
import {
  secretsOfUrl,
  urlDestination,
  type LinkingOptions,
  type DestinationsOf,
  type NoticeChannel,
} from './channel.ts';

export const chatDestinations: DestinationsOf = (tenantId, { chat }) => {
  const url = chat?.google_chat?.webhook_url;
  return url === undefined ? [] : [urlDestination('chat', tenantId, 'google_chat', url)];
};

/** Messages link to the page of the approval or change set in the console. */
export const chatChannel = ({ http, settings }: LinkingOptions): NoticeChannel => ({
  async send({ body }, { chat }) {
    const { webhook_url: url, include_links: includeLinks = false } = chat?.google_chat ?? {};
    if (url === undefined) throw new Error('the configuration has no chat space');
    const notice = parseBody(body);
    const page = includeLinks ? noticePage(notice, settings()) : undefined;
    const links = page === undefined ? [] : [{ label: 'Open', url: page }];
    const address = URL.parse(url);
    // A reply in the thread of its approval, which the first notice opens.
    address?.searchParams.set('messageReplyOption', 'REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD');
    const request = {
      // The HTTP client refuses what is no URL, and explains it.
      url: address?.href ?? '',
      method: 'POST',
      headers: { 'content-type': 'application/json; charset=UTF-8' },
      body: JSON.stringify(chatMessage(notice, links)),
    } as const;
    return attemptOverHttp(http, request, secretsOfUrl(url));
  },
});
