/**
 * Notices as webhooks of receivers; docs/webhooks.md says how they are verified, and what an answer
 * means.
 */
import { exampleOf } from '../../shared/contracts/examples.ts';
import { BudgetNotice } from '../../shared/contracts/budget-usage.ts';
import { ChangeSetNotice } from '../../shared/contracts/change-set-notices.ts';
import {
  budgetNoticeType,
  deliveredTypes,
  isOfChangeSet,
  Notice,
  type DeliveredType,
} from '../../shared/contracts/notifier.ts';
import type { Components } from './schemas.ts';

const summaries: Readonly<Record<DeliveredType, string>> = {
  'approval.requested': 'An approval was requested',
  'approval.escalated': 'No one decided in time, and the next group is asked',
  'approval.reminded': 'An approval still waits, and its time runs out; sent once',
  'approval.exhausted': 'Every group was asked, and no one decided',
  'approval.expired': 'The time of an approval ran out',
  'approval.decided': 'An approval was granted or denied',
  'approval.withdrawn': 'What waited for an approval was withdrawn',
  'budget.warned': 'A budget has reached its `warn_at`, once in its period',
  'changeset.submitted': 'A change set waits for approval',
  'changeset.approved': 'Somebody approved a change set; `state` says whether that is enough',
  'changeset.rejected': 'A change set was rejected',
  'changeset.cancelled': 'A change set was taken back',
  'changeset.applied': 'A change set was applied',
  'changeset.stale': 'A change set was not applied: a document was written since',
  'changeset.suspended': 'A change set was not applied, and may be tried again',
  'changeset.failed': 'A change set cannot be applied',
  'changeset.broke_glass': 'A change set was applied in an emergency, without approvals',
};

const header = (name: string, description: string, example: string) => ({
  name,
  in: 'header',
  required: false,
  description,
  schema: { type: 'string' },
  example,
});
const signed = 'If the endpoint has a secret: ';
const parameters = [
  header(
    'webhook-id',
    `${signed}id of the notice, the same in every attempt`,
    'ntf_3f9d1c527a414f0e9b6c0d5e8a1b2c3d',
  ),
  header('webhook-timestamp', `${signed}when it was signed, in seconds since 1970`, '1770024600'),
  header(
    'webhook-signature',
    `${signed}signatures of Standard Webhooks, one for each secret`,
    'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
  ),
  header(
    'x-service-signature',
    `${signed}HMAC-SHA-256 of time and body in hexadecimal`,
    't=1770024600,v1=5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff536d0ce8e108d8bd',
  ),
];

/** By what they tell. */
export function webhooksOf({ shown }: Components) {
  const webhook = (type: DeliveredType) => ({
    post: {
      operationId: `notice.${type}`,
      tags: ['Notices'],
      summary: summaries[type],
      description:
        'Posted to every webhook endpoint of notification_config, with the headers and credentials that are configured there. It may be delivered more than once, with the same `id`.',
      security: [],
      parameters,
      requestBody: {
        required: true,
        content: { 'application/json': contentOf(type, shown) },
      },
      responses: {
        '2XX': { description: 'Delivered' },
        410: { description: 'Fails, and the endpoint is paused' },
        '4XX': { description: 'Fails; 408, 425 and 429 are tried again' },
        '5XX': { description: 'Tried again' },
      },
    },
  });
  return Object.fromEntries(deliveredTypes.map((type) => [type, webhook(type)]));
}

function bodyOf(type: DeliveredType) {
  if (type === budgetNoticeType) return BudgetNotice;
  return isOfChangeSet(type) ? ChangeSetNotice : Notice;
}

function contentOf(type: DeliveredType, shown: Components['shown']) {
  const body = bodyOf(type);
  const example = exampleOf(body) as { readonly type: string };
  return { schema: shown(body), example: { ...example, type } };
}
