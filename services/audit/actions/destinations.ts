/** Event destinations: how far each has come, sending again, and trying one. */
import { randomUUID } from 'node:crypto';
import type { DataSource } from 'typeorm';
import { auditFacts, recordEvents } from '../../../shared/commits/commit.ts';
import { holderOf, shareOf, takeShares, tenantHolder } from '../../../shared/commits/shares.ts';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { DestinationState } from '../../../shared/contracts/event-destinations.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { StrataError } from '../../../shared/errors.ts';
import type { HttpClient } from '../../../shared/outgoing/http-client.ts';
import { testOutcome } from '../../../shared/outgoing/test-outcome.ts';
import { sendWebhook } from '../../../shared/outgoing/webhook.ts';
import { viewBy } from '../../../shared/schema/view.ts';
import { platformChain, tenantOfChain } from '../../../shared/security/audit-chain.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { eventFormats } from '../rules/event-formats.ts';
import { destinationsOf, moveBack, type DestinationProgress } from '../stores/destinations.ts';
import { openDestinations } from '../worker/open-destinations.ts';
import { sendSeconds } from '../worker/push.ts';

type State = ResultOf<'audit.destinations.replay'>;

function stateOf({ stopped, failures, head, searched }: DestinationProgress): State['state'] {
  if (stopped !== null) return stopped;
  if (failures > 0) return 'failing';
  return head > searched ? 'behind' : 'current';
}

const shown = (row: DestinationProgress): State => ({
  ...viewBy(DestinationState, row),
  state: stateOf(row),
  lag_seconds: Math.round(row.lag_seconds * 1000) / 1000,
  retry_at: row.failures > 0 && row.stopped === null ? row.due_at.toISOString() : null,
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

export function destinationActions(options: DestinationOptions) {
  const { db } = options;
  const list = async (chain: string) => ({
    items: (await destinationsOf(db.manager, chain)).map(shown),
  });
  return {
    'audit.destinations.list': ({ tenant_id: tenantId }) => list(tenantId),
    'audit.destinations.replay': ({ tenant_id: tenantId, name, body }, request) =>
      replay({ chain: tenantId, name, from: body.from_seq }, options, request),
    'audit.destinations.test': ({ tenant_id: tenantId, name }, request) =>
      tryOne({ chain: tenantId, name }, options, request),

    'audit.platform-destinations.list': () => list(platformChain),
    'audit.platform-destinations.replay': ({ name, body }, request) =>
      replay({ chain: platformChain, name, from: body.from_seq }, options, request),
    'audit.platform-destinations.test': ({ name }, request) =>
      tryOne({ chain: platformChain, name }, options, request),
  } satisfies Handlers;
}

interface Named {
  readonly chain: string;
  readonly name: string;
}

async function replay(
  { chain, name, from }: Named & { readonly from: number },
  { db, onReplay }: DestinationOptions,
  request: Request,
): Promise<State> {
  const state = await db.transaction(async (manager) => {
    const find = async (): Promise<DestinationProgress> => {
      const all = await destinationsOf(manager, chain);
      const found = all.find((each) => each.name === name);
      if (!found) throw noSuchDestination();
      return found;
    };
    const before = await find();
    if (!(await moveBack(manager, chain, name, from)))
      throw new StrataError(
        'conflict',
        `It has not reached ${from} yet: ${before.seq} is the last event that it has accepted.`,
      );
    const event = {
      action: 'audit.destination_replayed',
      tenant_id: tenantOfChain(chain),
      target: name,
      payload: { from_seq: from, seq: before.seq },
    };
    await recordEvents(manager, [auditFacts(event, request)]);
    return find();
  });
  onReplay();
  return shown(state);
}

async function tryOne(
  { chain, name }: Named,
  { db, settings, http }: DestinationOptions,
  request: Request,
): Promise<ResultOf<'audit.destinations.test'>> {
  const tenantId = tenantOfChain(chain);
  const { destinations } = await openDestinations(request.call, chain);
  const destination = destinations[name];
  if (!destination) throw noSuchDestination();
  const what = 'test of a destination';
  const ofCaller = holderOf(request.caller);
  const shares = [shareOf(what, ofCaller, settings(), 'test_notices_per_minute_per_caller')];
  if (tenantId !== null) {
    const ofTenant = tenantHolder(tenantId);
    shares.push(shareOf(what, ofTenant, settings(), 'test_notices_per_minute_per_tenant'));
  }
  await takeShares(db, request.caller, shares);
  const id = `evt_${randomUUID()}`;
  const format = eventFormats[destination.format ?? 'standard'];
  const sending = sendWebhook(http, {
    id,
    body: format.test(id, { chain, name }),
    contentType: format.contentType,
    endpoint: { ...destination, timeout_seconds: sendSeconds },
  });
  const outcome = await testOutcome(sending, settings().request_timeout_ms);
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
}
