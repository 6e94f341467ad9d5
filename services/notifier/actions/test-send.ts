import { randomUUID } from 'node:crypto';
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/cluster/request.ts';
import { invalid } from '../../../shared/errors.ts';
import { auditFacts, recordEvents } from '../../../shared/commits/commit.ts';
import { chatTarget, emailTarget, webhookId, webhookTarget, type Target } from '../rules/notice.ts';
import type { Sender } from '../worker/send.ts';

const sample = {
  state: 'pending',
  action: 'test',
  risk_level: 'low',
  title: 'Test notice',
  hop: 0,
  max_hops: 0,
  chain: [],
  current_group: null,
};

/** Sends now, outside the queue, and answers what happened. Nothing is retried and nothing is stored but the audit event. */
export const testActions = (db: DataSource, sender: Sender) =>
  ({
    async 'notifier.test'({ tenant_id: tenantId, body: { channel, endpoint } }, request) {
      const { config } = await request.call('tenant-config.notifications.open', {
        tenant_id: tenantId,
      });
      const endpoints = config.webhook.endpoints.map(({ url }, index) =>
        webhookTarget(tenantId, url, index),
      );
      const chat = config.chat?.google_chat?.webhook_url;
      if (endpoint !== undefined && (channel !== 'webhook' || endpoint >= endpoints.length))
        throw invalid([{ path: '/endpoint', message: 'is no webhook endpoint of this tenant' }]);
      const recipients = async (): Promise<string[]> => {
        const lists = [config.email.approval_recipients, config.email.default_recipients];
        return (
          lists.find(({ length }) => length > 0) ??
          (await request.call('auth.users.get', { user_ids: [request.caller.id] })).map(
            ({ email }) => email,
          )
        );
      };
      const targets: Target[] =
        channel === 'webhook'
          ? endpoints.filter((_, index) => endpoint === undefined || index === endpoint)
          : channel === 'chat'
            ? chat === undefined
              ? []
              : [chatTarget(tenantId, chat)]
            : (await recipients()).map((address) => emailTarget(tenantId, address));
      if (targets.length === 0)
        throw invalid([{ path: '/channel', message: 'is not configured for this tenant' }]);

      const results = await Promise.all(
        targets.map(async (target) => {
          const at = new Date().toISOString();
          const id = webhookId(randomUUID());
          const notice = JSON.stringify({
            type: 'notification.test',
            id,
            timestamp: at,
            data: { ...sample, approval_id: id, tenant_id: tenantId, expires_at: at },
          });
          const {
            verdict,
            duration_ms: duration,
            status,
            answer,
            error,
          } = await sender.test({ ...target, body: notice }, id, config);
          return {
            target: target.target,
            delivered: verdict === 'delivered',
            at,
            duration_ms: Math.round(duration),
            status,
            answer,
            error,
          };
        }),
      );
      await recordEvents(db.manager, [
        auditFacts(
          {
            action: 'approval.notice_tested',
            tenant_id: tenantId,
            target: null,
            payload: {
              channel,
              results: results.map(({ target, delivered, status }) => ({
                target,
                delivered,
                status,
              })),
            },
          },
          request,
        ),
      ]);
      return { channel, results };
    },
  }) satisfies Handlers;
