/**
 * One attempt at a claimed delivery: opening what it is sent with, sending it, and saying what
 * becomes of it.
 */
import type { Logger } from 'pino';
import type { Outcome } from '../../../shared/outgoing/send-result.ts';
import type { Sender } from '../channels/sender.ts';
import { webhookId } from '../rules/notice.ts';
import { nextStep, type RetryPlan } from '../rules/retry-policy.ts';
import type { AttemptRecord } from '../stores/attempts.ts';
import type { Claim } from '../stores/claims.ts';
import type { OpenSentBy, SentBy } from './opened-configs.ts';

export interface AttemptOptions {
  readonly log: Logger;
  readonly sender: Sender;
}

/** An attempt that has ended and is not recorded yet. */
export interface EndedAttempt {
  readonly claim: Claim;
  readonly record: AttemptRecord;
  /**
   * Whether it counts as a failure of the endpoint: what is final is a fault of the notice or of
   * its configuration.
   */
  readonly countsAsFailure: boolean;
  /**
   * Revision of the configuration with which the endpoint answered 410 Gone; null unless it did.
   */
  readonly pausedRevision: number | null;
}

/** For what cannot be sent, now or later. */
const noRetries: RetryPlan = {
  retries: 0,
  backoff: { initial_seconds: 0, factor: 1, max_seconds: 0 },
};

/** Never rejects: what goes wrong on our side is an outcome, too, and is logged. */
export async function attemptDelivery(
  claim: Claim,
  open: OpenSentBy,
  { log, sender }: AttemptOptions,
): Promise<EndedAttempt> {
  const began = performance.now();
  const ourFault = (result: 'retry' | 'final', error: string): Outcome => ({
    result,
    duration_ms: performance.now() - began,
    status: null,
    answer: null,
    error,
  });
  const logFault = (error: unknown): void =>
    log.error(
      { err: error, delivery_id: claim.id },
      'a notice could not be sent because of an internal error',
    );

  let sentBy: SentBy;
  try {
    sentBy = open();
  } catch (error) {
    logFault(error);
    const why = 'The configuration it was made with does not open: SECRET_KEY has changed.';
    return endedAttempt(claim, ourFault('final', why), noRetries, null);
  }
  try {
    const plan = sender.retryPlan(claim, sentBy.config);
    const notice = { ...claim, id: webhookId(claim.id) };
    const outcome = await sender.send(notice, sentBy.config).catch((error: unknown) => {
      logFault(error);
      return ourFault('retry', 'It could not be sent because of an internal error; see the log.');
    });
    return endedAttempt(claim, outcome, plan, sentBy.revision);
  } catch (error) {
    // Such as a place that the frozen configuration does not have: it never will.
    logFault(error);
    const why = 'This release cannot read what it is sent by; see the log.';
    return endedAttempt(claim, ourFault('final', why), noRetries, null);
  }
}

function endedAttempt(
  claim: Claim,
  outcome: Outcome,
  plan: RetryPlan,
  revision: number | null,
): EndedAttempt {
  const isGone = outcome.result === 'final' && outcome.gone === true;
  return {
    claim,
    record: {
      id: claim.id,
      round: claim.round,
      ...nextStep(outcome, claim.round, plan),
      duration_ms: Math.round(outcome.duration_ms),
      status: outcome.status,
      answer: outcome.answer,
      error: outcome.error,
    },
    countsAsFailure: outcome.result === 'retry',
    pausedRevision: isGone ? revision : null,
  };
}
