/** Where in Slack an approval was announced, so that its end is said in every copy. */
import type { DataSource } from 'typeorm';

export interface SlackCopy {
  readonly channel: string;
  /** Slack's name of a message in its channel. */
  readonly ts: string;
}
export interface SlackCopies {
  readonly note: (tenantId: string, approvalId: string, copy: SlackCopy) => Promise<void>;
  readonly of: (tenantId: string, approvalId: string) => Promise<SlackCopy[]>;
  /** Whether a question that was cancelled meanwhile is still being sent, by any node. */
  readonly isAsking: (approvalId: string) => Promise<boolean>;
}

export const slackCopies = (db: DataSource): SlackCopies => ({
  async note(tenantId, approvalId, { channel, ts }) {
    // An approval that is gone meanwhile has no copy to change.
    await db.query(
      `INSERT INTO notifier.slack_messages (tenant_id, approval_id, channel, ts)
       SELECT tenant_id, id, $3, $4 FROM notifier.approvals WHERE tenant_id = $1 AND id = $2
       ON CONFLICT DO NOTHING`,
      [tenantId, approvalId, channel, ts],
    );
  },
  of: (tenantId, approvalId) =>
    db.query(
      'SELECT channel, ts FROM notifier.slack_messages WHERE tenant_id = $1 AND approval_id = $2 ORDER BY ts',
      [tenantId, approvalId],
    ),
  async isAsking(approvalId) {
    const [row] = await db.query<[{ is_asking: boolean }]>(
      `SELECT EXISTS (SELECT FROM notifier.deliveries WHERE approval_id = $1 AND channel = 'slack'
         AND state = 'cancelled' AND lease_until > now()) AS is_asking`,
      [approvalId],
    );
    return row.is_asking;
  },
});
