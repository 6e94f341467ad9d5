/**
 * Notices to a channel of Microsoft Teams, by a workflow of the tenant's that begins "when a Teams
 * webhook request is received" and posts the card.
 */
import { attemptOverHttp } from '../../../shared/outgoing/http-attempt.ts';
import { parseBody } from '../rules/notice.ts';
import { teamsMessage } from '../rules/teams-card.ts';
import {
  secretsOfUrl,
  urlDestination,
  type LinkingOptions,
  type DestinationsOf,
  type NoticeChannel,
} from './channel.ts';
import { noticePage } from './notice-page.ts';

export const teamsDestinations: DestinationsOf = (tenantId, { teams }) =>
  teams === undefined ? [] : [urlDestination('teams', tenantId, 'teams', teams.webhook_url)];

/** A workflow answers 202 as soon as it has taken the card, and posts it afterwards. */
export const teamsChannel = ({ http, settings }: LinkingOptions): NoticeChannel => ({
  async send({ body }, { teams }) {
    if (teams === undefined) throw new Error('the configuration has no workflow of Teams');
    const { webhook_url: url } = teams;
    const notice = parseBody(body);
    const message = teamsMessage(notice, noticePage(notice, settings()));
    const request = {
      url,
      method: 'POST',
      headers: { 'content-type': 'application/json; charset=utf-8' },
      body: JSON.stringify(message),
    } as const;
    return attemptOverHttp(http, request, secretsOfUrl(url));
  },
});
