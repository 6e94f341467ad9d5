/**
 * Recording of decisions on the node that makes them.
 *
 * | A decision                      | Is recorded                                              | Where that fails            |
 * |---------------------------------|----------------------------------------------------------|-----------------------------|
 * | with `record`                   | before it is answered, by itself                         | the caller gets the error   |
 * | that `record_decisions` names   | with all others of the node, half a second later         | it is counted as unrecorded |
 * | of an outage of the notifier    | when that is over, as far as there is room for it        | it is counted as unrecorded |
 */
import type { Call } from '../../../shared/contract-runtime/request.ts';
import type { Decided, Intent } from '../../../shared/contracts/decide.ts';
import { mostRecorded, type DecisionOfTenant } from '../../../shared/contracts/decisions.ts';
import { isOutage } from '../../../shared/errors.ts';
import { synchronizedNow } from '../../../shared/process/synchronized-clock.ts';

/** Until what was decided is sent, in milliseconds. */
const batchMs = 500;
/** Decisions that wait on a node, of about 1 KiB each. */
const mostWaiting = 20_000;

export class DecisionRecorder {
  #waiting: DecisionOfTenant[] = [];
  #call: Call | undefined;
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;
  #isStopped = false;
  #unrecorded = 0;

  /** Decisions that were to be recorded by this node, and are not. */
  unrecorded(): number {
    return this.#unrecorded;
  }

  /** Records it now. Throws where it cannot be, above all `rate_limited`. */
  async record(decision: DecisionOfTenant, call: Call): Promise<void> {
    await call('notifier.decisions.record', { body: { decisions: [decision], required: true } });
  }

  /** Records it soon. */
  note(decision: DecisionOfTenant, call: Call): void {
    if (this.#waiting.length >= mostWaiting) {
      this.#unrecorded += 1;
      return;
    }
    this.#waiting.push(decision);
    this.#call = call;
    if (this.#isStopped || this.#waiting.length >= mostRecorded) void this.#send();
    else this.#sendLater();
  }

  /** Records what waits; what cannot be recorded now is counted. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#send();
    this.#unrecorded += this.#waiting.splice(0).length;
    clearTimeout(this.#timer);
  }

  #sendLater(): void {
    this.#timer ??= setTimeout(() => void this.#send(), batchMs).unref();
  }

  #send(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined;
    });
    return this.#sending;
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const decisions = this.#waiting.splice(0, mostRecorded);
      try {
        const body = { decisions, required: false };
        const { refused } = await this.#call!('notifier.decisions.record', { body });
        this.#unrecorded += refused;
      } catch (error) {
        if (isOutage(error) && !this.#isStopped) {
          // Their ids keep those from being recorded twice that had been after all.
          this.#waiting.unshift(...decisions);
          this.#sendLater();
          return;
        }
        this.#unrecorded += decisions.length;
      }
    }
  }
}

/** What is recorded of a decision: nothing but what the rules looked at and said. */
export const decisionOf = (
  id: string,
  { tenantId, intent, at, isProven }: Decision,
  decided: Decided,
): DecisionOfTenant => ({
  tenant_id: tenantId,
  decision_id: id,
  decided_at: new Date(synchronizedNow()).toISOString(),
  at: new Date(at).toISOString(),
  intent: intentIn(intent),
  is_rollback_proven: isProven,
  decision: decided.decision,
  reasons: decided.reasons,
  ...(decided.warnings && { warnings: decided.warnings }),
  ...(decided.retry_at !== undefined && { retry_at: decided.retry_at }),
  ...(decided.budgets && { budgets: decided.budgets }),
  revision: decided.revision,
  ...(decided.stale && { stale: decided.stale }),
});

interface Decision {
  readonly tenantId: string;
  readonly intent: Intent;
  readonly at: number;
  readonly isProven: boolean;
}

const intentIn = ({ at: _at, record: _record, ...intent }: Intent & Asked): Intent => intent;
interface Asked {
  readonly at?: string;
  readonly record?: boolean;
}
