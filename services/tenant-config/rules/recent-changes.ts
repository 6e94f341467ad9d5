/** What the requester of an approval changed of the notification_config in the last 24 hours. */
import { isDeepStrictEqual } from 'node:util';
import type { NotificationConfig } from '../../../shared/contracts/notification-config.ts';

type Part = Pick<NotificationConfig, 'approver_groups' | 'approval_policy' | 'email' | 'slack'>;
export interface RecentChange {
  readonly before: Part | null;
  readonly after: Part | null;
}

export function recipientsOf(config: Pick<NotificationConfig, 'email'> | null): string[] {
  const { approval_recipients: approval, default_recipients: other } = config?.email ?? {};
  return [...(approval ?? []), ...(other ?? [])].map((address) => address.toLowerCase());
}

/** The addresses of a configuration without those that these changes added. */
export function countedRecipients(
  config: Pick<NotificationConfig, 'email'> | null,
  changes: readonly RecentChange[],
): string[] {
  const added = new Set(
    changes.flatMap(({ before, after }) => {
      const had = recipientsOf(before);
      return recipientsOf(after).filter((address) => !had.includes(address));
    }),
  );
  return [...new Set(recipientsOf(config))].filter((address) => !added.has(address));
}

/** Whether these changes set Slack or changed it; its tokens are compared as they are stored. */
export const changesSlack = (changes: readonly RecentChange[]): boolean =>
  changes.some(
    ({ before, after }) => !isDeepStrictEqual(before?.slack ?? null, after?.slack ?? null),
  );
