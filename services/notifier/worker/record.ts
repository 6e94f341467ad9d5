/**
 * Records attempts that have ended, many in one transaction: what ends while one transaction runs
 * goes into the next. What the database does not take is offered again, so that a crash or stall of
 * it does not make notices arrive twice. What it refuses, such as an attempt at a row that somebody
 * has damaged, is set aside alone: others of the same batch may be of other tenants.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { DataSource } from 'typeorm';
import { isDatabaseOutage } from '../../../shared/database/failures.ts';
import { recordAttempts, type EndpointRecord } from '../stores/attempts.ts';
import type { EndedAttempt } from './attempt.ts';

const batchSize = 200;
const retryMs = 200;
/** When what was refused is offered again. Its notice stays claimed, so that it is not sent again. */
const asideMs = 30_000;

export interface RecorderOptions {
  readonly db: DataSource;
  readonly worker: string;
  readonly log: Logger;
  /** Called after each transaction with the attempts that it has recorded. */
  readonly onRecorded: (batch: readonly EndedAttempt[]) => void;
}

export function createRecorder({ db, worker, log, onRecorded }: RecorderOptions) {
  const waiting: EndedAttempt[] = [];
  let recording: Promise<void> | undefined;
  let deadline = Infinity;

  async function recordBatch(batch: readonly EndedAttempt[]): Promise<void> {
    const records = batch.map(({ record }) => record);
    try {
      await recordAttempts(db, worker, records, endpointRecords(batch));
    } catch (error) {
      if (isDatabaseOutage(error)) {
        log.warn(
          { err: error },
          'deliveries cannot be recorded; they are sent again unless the database answers before their claims end',
        );
        waiting.unshift(...batch);
        await delay(retryMs);
      } else if (batch.length > 1) {
        for (const one of batch) await recordBatch([one]);
      } else {
        setAside(batch[0]!, error);
      }
      return;
    }
    onRecorded(batch);
  }

  function setAside(ended: EndedAttempt, error: unknown): void {
    const { id, tenant_id: tenantId } = ended.claim;
    log.error(
      { err: error, delivery_id: id, tenant_id: tenantId },
      'the database refuses the record of a delivery; it is offered again every 30 s',
    );
    setTimeout(() => void record(ended), asideMs).unref();
  }

  async function recordWaiting(): Promise<void> {
    try {
      while (waiting.length > 0) {
        await recordBatch(waiting.splice(0, batchSize));
        if (Date.now() > deadline) return;
      }
    } finally {
      recording = undefined;
    }
  }

  /** Resolves once the attempt is recorded, set aside, or given up on shutdown. Never rejects. */
  async function record(ended: EndedAttempt): Promise<void> {
    waiting.push(ended);
    recording ??= recordWaiting();
    await recording;
  }

  return {
    record,
    /**
     * On shutdown: gives up, from `time` (Date.now) on, what the database still does not take. Its
     * claim ends by itself.
     */
    giveUpAt(time: number): void {
      deadline = time;
    },
  };
}

/** What the attempts say of their endpoints, without those of which there is nothing new. */
function endpointRecords(batch: readonly EndedAttempt[]): EndpointRecord[] {
  const byEndpoint = Map.groupBy(batch, ({ claim }) => claim.endpoint_key);
  const records: EndpointRecord[] = [];
  for (const [key, attempts] of byEndpoint) {
    const delivered = attempts.some(({ record }) => record.result === 'delivered');
    const failures = attempts.filter(({ countsAsFailure }) => countsAsFailure).length;
    const paused = attempts.find(({ pausedRevision }) => pausedRevision !== null);
    // A success is news only to an endpoint that had failures.
    const endsFailures = delivered && attempts.some(({ claim }) => claim.failures > 0);
    const isRetried = attempts.some(({ record }) => record.result === 'retry');
    if (failures > 0 || paused || endsFailures || isRetried) {
      records.push({ key, delivered, failures, paused_revision: paused?.pausedRevision ?? null });
    }
  }
  return records;
}
