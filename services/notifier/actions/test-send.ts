/**
 * Test notices: sent now and outside the queue, so nothing is repeated and nothing is stored but
 * the audit event.
 */
import { randomUUID } from 'node:crypto';
import type { DataSource } from 'typeorm';
import type { Caller } from '../../../shared/access.ts';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { auditFacts, recordEvents } from '../../../shared/commits/commit.ts';
import { holderOf, shareOf, takeShares, tenantHolder } from '../../../shared/commits/shares.ts';
import type { ParamsOf, ResultOf } from '../../../shared/contracts/index.ts';
import { invalid } from '../../../shared/errors.ts';
import { testOutcome } from '../../../shared/outgoing/test-outcome.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { channelDestinations, firstFilled } from '../channels/destinations.ts';
import type { Sender } from '../channels/sender.ts';
import type { ChannelConfig } from '../rules/frozen-config.ts';
import { testBody, webhookId } from '../rules/notice.ts';
import type { Destination } from '../schema.ts';

type TestRequest = ParamsOf<'notifier.test'>['body'];
type TestResult = ResultOf<'notifier.test'>['results'][number];

export const testActions = (db: DataSource, settings: () => Settings, sender: Sender) =>
  ({
    async 'notifier.test'({ tenant_id: tenantId, body }, request) {
      const { config } = await request.call('tenant-config.notifications.open', {
        tenant_id: tenantId,
      });
      const destinations = await testDestinations(tenantId, body, config, request);
      await takeTests(db, tenantId, request.caller, settings(), destinations.length);
      const results = await Promise.all(
        destinations.map((each) => sendTest(sender, tenantId, each, config, settings())),
      );
      const event = {
        action: 'approval.notice_tested',
        tenant_id: tenantId,
        target: null,
        payload: {
          channel: body.channel,
          results: results.map(({ target, delivered, status }) => ({ target, delivered, status })),
        },
      };
      await recordEvents(db.manager, [auditFacts(event, request)]);
      return { channel: body.channel, results };
    },
  }) satisfies Handlers;

/** Throws `rate_limited` where the caller, or the tenant, has sent too many lately. */
const takeTests = (
  db: DataSource,
  tenantId: string,
  caller: Caller,
  settings: Settings,
  count: number,
): Promise<void> =>
  takeShares(
    db,
    caller,
    [
      shareOf('test notice', holderOf(caller), settings, 'test_notices_per_minute_per_caller'),
      shareOf(
        'test notice',
        tenantHolder(tenantId),
        settings,
        'test_notices_per_minute_per_tenant',
      ),
    ],
    count,
  );

/**
 * The channel's destinations, or the one endpoint that is asked for. A mail goes to the caller
 * where no list names anybody.
 */
async function testDestinations(
  tenantId: string,
  { channel, endpoint }: TestRequest,
  config: ChannelConfig,
  request: Request,
): Promise<Destination[]> {
  if (endpoint !== undefined) {
    const isEndpoint = channel === 'webhook' && endpoint < config.webhook.endpoints.length;
    if (!isEndpoint)
      throw invalid([{ path: '/endpoint', message: 'is no webhook endpoint of this tenant' }]);
  }
  const addresses = channel === 'email' ? await testAddresses(config, request) : [];
  const all = channelDestinations(channel, tenantId, config, addresses);
  if (all.length === 0)
    throw invalid([{ path: '/channel', message: 'is not configured for this tenant' }]);
  return endpoint === undefined ? all : all.filter(({ place }) => place === String(endpoint));
}

async function testAddresses(
  { email }: ChannelConfig,
  request: Request,
): Promise<readonly string[]> {
  const configured = firstFilled(email.approval_recipients, email.default_recipients);
  if (configured.length > 0) return configured;
  const accounts = await request.call('auth.users.get', { user_ids: [request.caller.id] });
  return accounts.map((account) => account.email);
}

async function sendTest(
  sender: Sender,
  tenantId: string,
  destination: Destination,
  config: ChannelConfig,
  { request_timeout_ms: requestTimeoutMs }: Settings,
): Promise<TestResult> {
  const now = new Date();
  const at = now.toISOString();
  const id = webhookId(randomUUID());
  const notice = { ...destination, id, body: testBody(id, tenantId, at), expires_at: now };
  const outcome = await testOutcome(sender.send(notice, config), requestTimeoutMs);
  return {
    target: destination.target,
    delivered: outcome.result === 'delivered',
    at,
    duration_ms: Math.round(outcome.duration_ms),
    status: outcome.status,
    answer: outcome.answer,
    error: outcome.error,
  };
}
