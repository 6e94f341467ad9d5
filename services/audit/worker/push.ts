/** One attempt at the next batch of one destination. */
import { randomUUID } from 'node:crypto';
import { serviceCaller } from '../../../shared/access.ts';
import { auditFacts, recordEvents } from '../../../shared/commits/commit.ts';
import { destinationDefaults } from '../../../shared/contracts/event-destinations.ts';
import type { LoopOptions } from '../../../shared/contract-runtime/service.ts';
import { tenantOfChain } from '../../../shared/security/audit-chain.ts';
import { waitBefore } from '../../../shared/outgoing/backoff.ts';
import type { HttpClient } from '../../../shared/outgoing/http-client.ts';
import { sendWebhook } from '../../../shared/outgoing/webhook.ts';
import { afterCheckpoints, afterPush } from '../rules/after-push.ts';
import { batchId, checkpointsId, eventFormats } from '../rules/event-formats.ts';
import { checkpointsFor } from '../stores/checkpoints.ts';
import { endClaim, sendAgain, type Claim, type Ended } from '../stores/destinations.ts';
import { readBatch } from '../stores/event-batches.ts';
import { openDestinations } from './open-destinations.ts';

export interface PushOptions extends LoopOptions {
  readonly http: HttpClient;
}

/** Less than a claim lasts. */
export const sendSeconds = 30;
/** Where the document is not there, or is newer than what the audit knows of it. */
const followMs = 1000;
/** After a fault of ours, which is over for all destinations at the same time. */
const faultBackoff = { initial_seconds: 1, factor: 2, max_seconds: 30 };

/** Never rejects: what goes wrong on our side is logged, and tried again. */
export async function push(claim: Claim, options: PushOptions): Promise<void> {
  const { db, log } = options;
  const { chain, name } = claim;
  let isSent = false;
  const onSending = (): void => {
    isSent = true;
  };
  /** Resolves to whether the claim had not ended before. */
  const end = (ended: Ended): Promise<boolean> =>
    db.transaction(async (manager) => {
      const isOurs = await endClaim(manager, claim, ended);
      if (isOurs && ended.stopped === 'gone') await recordEvents(manager, [goneEvent(claim)]);
      if (!isOurs && isSent) await sendAgain(manager, claim);
      return isOurs;
    });
  try {
    const ended = await attempt(claim, options, onSending);
    const isOurs = await end(ended);
    if (isOurs && (ended.stopped === 'gone' || ended.failures === 1))
      log.warn({ chain, destination: name, error: ended.error }, 'an event destination fails');
  } catch (error) {
    if (claim.failures === 0)
      log.error({ err: error, chain, destination: name }, 'events could not be sent');
    const ended = {
      failures: claim.failures + 1,
      status: null,
      error: 'They could not be sent because of an internal error; see the log.',
      wait_ms: waitBefore(claim.failures, faultBackoff),
    };
    // Where this fails, too, the claim ends by itself.
    await end(ended).catch(() => false);
  }
}

/** Calls `onSending` before it sends events. */
async function attempt(
  claim: Claim,
  { db, http, call }: PushOptions,
  onSending: () => void,
): Promise<Ended> {
  const { destinations } = await openDestinations(call, claim.chain);
  const destination = destinations[claim.name];
  // The audit follows the document by its events, of which one is on its way.
  if (!destination || destination.paused) return { wait_ms: followMs };

  const endpoint = { ...destination, timeout_seconds: sendSeconds };
  const { contentType, ...format } = eventFormats[destination.format ?? 'standard'];
  if (claim.checkpoint_head > claim.checkpoint_sent) {
    const { checkpoints, last } = await checkpointsFor(db.manager, claim);
    // Those of a chain that was erased meanwhile.
    if (checkpoints.length === 0) return { checkpoint_sent: claim.checkpoint_head, wait_ms: 0 };
    const id = checkpointsId(claim, last);
    const body = format.checkpoints(id, claim, checkpoints);
    const outcome = await sendWebhook(http, { id, body, endpoint, contentType });
    return afterCheckpoints(claim, last, outcome);
  }

  const mostEvents = destination.batch?.max_events ?? destinationDefaults.max_events;
  const wanted = {
    types: destination.types,
    mostEvents: Math.min(mostEvents, claim.most_events ?? mostEvents),
  };
  const batch = await db.transaction('REPEATABLE READ', (manager) =>
    readBatch(manager, claim, wanted),
  );
  if (!('lines' in batch)) return { searched: batch.searched, wait_ms: 0 };

  const id = batchId(claim, batch);
  const body = format.batch(id, claim, batch);
  onSending();
  const outcome = await sendWebhook(http, { id, body, endpoint, contentType });
  return afterPush(claim, batch, outcome, mostEvents);
}

/** One for each time that a destination says so: it is not sent until the document was written. */
const goneEvent = ({ chain, name, seq }: Claim) =>
  auditFacts(
    {
      action: 'audit.destination_gone',
      tenant_id: tenantOfChain(chain),
      target: name,
      payload: { status: 410, seq },
    },
    { caller: serviceCaller('audit'), requestId: randomUUID() },
  );
