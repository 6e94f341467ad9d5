import type { HttpClient } from '../../../shared/outgoing/http-client.ts';
import { chatMessage, type ChatLink, type ChatNotice } from '../rules/chat-message.ts';
import { attempt } from './attempt.ts';
import type { Outcome } from './outcome.ts';

export interface ChatDelivery {
  readonly googleChat: {
    readonly webhook_url: string;
    readonly include_links?: boolean | undefined;
  };
  readonly notice: ChatNotice;
  /** Shown where the space wants links. */
  readonly links: readonly ChatLink[];
}

/** Posts a notice to a Google Chat space, as a reply in the approval's thread, which the first notice opens. */
export const chatChannel =
  (client: HttpClient) =>
  ({ googleChat, notice, links }: ChatDelivery): Promise<Outcome> => {
    const url = URL.parse(googleChat.webhook_url);
    const secrets = [googleChat.webhook_url, ...(url?.searchParams.values() ?? [])];
    url?.searchParams.set('messageReplyOption', 'REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD');
    return attempt(
      client,
      {
        url: url?.href ?? '',
        method: 'POST',
        headers: { 'content-type': 'application/json; charset=UTF-8' },
        body: JSON.stringify(chatMessage(notice, googleChat.include_links ? links : [])),
      },
      secrets,
    );
  };
