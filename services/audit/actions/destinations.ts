/** Event destinations: how far each has come, sending again, and trying one. */
import { randomUUID } from 'node:crypto';
import type { DataSource } from 'typeorm';
import { auditFacts, recordEvents } from '../../../shared/commits/commit.ts';
import { holderOf, takeShares, tenantHolder } from '../../../shared/commits/shares.ts';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { StrataError } from '../../../shared/errors.ts';
import type { HttpClient } from '../../../shared/outgoing/http-client.ts';
import { sendWebhook } from '../../../shared/outgoing/webhook.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { eventFormats } from '../rules/event-formats.ts';
import { destinationsOf, moveBack, type DestinationProgress } from '../stores/destinations.ts';
import { sendSeconds } from '../worker/push.ts';

type State = ResultOf<'audit.destinations.replay'>;

function stateOf({ stopped, failures, head, searched }: DestinationProgress): State['state'] {
  if (stopped !== null) return stopped;
  if (failures > 0) return 'failing';
  return head > searched ? 'behind' : 'current';
}

const shown = (row: DestinationProgress): State => ({
  name: row.name,
  target: row.target,
  state: stateOf(row),
  seq: row.seq,
  head: row.head,
  lag_seconds: Math.round(row.lag_seconds * 1000) / 1000,
  failures: row.failures,
  retry_at: row.failures > 0 && row.stopped === null ? row.due_at.toISOString() : null,
  delivered_at: row.delivered_at?.toISOString() ?? null,
  status: row.status,
  error: row.error,
});

const noSuchDestination = (): StrataError =>
  new StrataError('not_found', 'There is no such event destination.');

export interface DestinationOptions {
  readonly db: DataSource;
  readonly settings: () => Settings;
  readonly http: HttpClient;
  /** Called where there is something to send. */
  readonly onReplay: () => void;
}

export const destinationActions = ({ db, settings, http, onReplay }: DestinationOptions) =>
  ({
    async 'audit.destinations.list'({ tenant_id: tenantId }) {
      return { items: (await destinationsOf(db.manager, tenantId)).map(shown) };
    },

    async 'audit.destinations.replay'({ tenant_id: tenantId, name, body }, request) {
      const state = await db.transaction(async (manager) => {
        const find = async (): Promise<DestinationProgress> => {
          const all = await destinationsOf(manager, tenantId);
          const found = all.find((each) => each.name === name);
          if (!found) throw noSuchDestination();
          return found;
        };
        const before = await find();
        if (!(await moveBack(manager, tenantId, name, body.from_seq)))
          throw new StrataError(
            'conflict',
            `It has not come to ${body.from_seq} yet: ${before.seq} is the last event that it has accepted.`,
          );
        const event = {
          action: 'audit.destination_replayed',
          tenant_id: tenantId,
          target: name,
          payload: { from_seq: body.from_seq, seq: before.seq },
        };
        await recordEvents(manager, [auditFacts(event, request)]);
        return find();
      });
      onReplay();
      return shown(state);
    },

    async 'audit.destinations.test'({ tenant_id: tenantId, name }, request) {
      const { destinations } = await request.call('tenant-config.event-destinations.open', {
        tenant_id: tenantId,
      });
      const destination = destinations[name];
      if (!destination) throw noSuchDestination();
      const share = { what: 'test of a destination', seconds: 60 } as const;
      await takeShares(
        db,
        request.caller,
        [
          {
            ...share,
            holder: holderOf(request.caller),
            most: settings().test_notices_per_minute_per_caller,
            setting: 'TEST_NOTICES_PER_MINUTE_PER_CALLER',
          },
          {
            ...share,
            holder: tenantHolder(tenantId),
            most: settings().test_notices_per_minute_per_tenant,
            setting: 'TEST_NOTICES_PER_MINUTE_PER_TENANT',
          },
        ],
        1,
      );
      const id = `evt_${randomUUID()}`;
      const format = eventFormats[destination.format ?? 'standard'];
      const outcome = await sendWebhook(http, {
        id,
        body: format.test(id, { chain: tenantId, name }),
        contentType: format.contentType,
        endpoint: { ...destination, timeout_seconds: sendSeconds },
      });
      const delivered = outcome.result === 'delivered';
      const { status, answer, error } = outcome;
      const event = {
        action: 'audit.destination_tested',
        tenant_id: tenantId,
        target: name,
        payload: { delivered, status },
      };
      await recordEvents(db.manager, [auditFacts(event, request)]);
      return {
        target: URL.parse(destination.url)?.origin ?? 'not a URL',
        delivered,
        duration_ms: Math.round(outcome.duration_ms),
        status,
        answer,
        error,
      };
    },
  }) satisfies Handlers;
