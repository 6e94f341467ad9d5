/** Asking whether automation may act, and acting within the tenant's slots. */
import { Backoff, spread } from './backoff.ts';
import { now, pause, sinceMs, type Instant } from './clock.ts';
import { isFinal, StrataError } from './failure.ts';
import type { Answer, Gateway } from './gateway.ts';
import { inCamelCase, inSnakeCase } from './spelling.ts';
import type {
  Automation,
  AutomationRequest,
  AutomationState,
  Context,
  Decision,
  Question,
} from './types.ts';

/** So many times a request is sent that may be repeated. */
const tries = 3;

/** The same request again where nothing was heard of the one before, or only that the gateway can't now. */
async function insist<T>(signal: AbortSignal, send: () => Promise<T>): Promise<T> {
  const backoff = new Backoff();
  backoff.firstMs = 250;
  for (let left = tries - 1; ; left -= 1) {
    try {
      return await send();
    } catch (error) {
      const { status = 503, code } = error as StrataError;
      const isWorthwhile = [429, 502, 503, 504].includes(status) && code !== 'closed';
      if (!isWorthwhile || left === 0) throw error;
      await pause(backoff.next(), signal);
    }
  }
}

export async function decide(
  gateway: Gateway,
  context: Context,
  question: Question,
  signal: AbortSignal,
): Promise<Decision> {
  const body = inSnakeCase({ ...context, ...question });
  const answer = await insist(signal, () =>
    gateway.json('/decide', { method: 'POST', body, signal }),
  );
  return inCamelCase(answer.body as object) as Decision;
}

/** Letters of chance, without `randomUUID`, which browsers have on https alone. */
export function randomName(): string {
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** What the gateway says of an automation. */
interface Row extends Omit<Decision, 'stale'> {
  readonly id: string;
  readonly state: AutomationState;
  readonly ttlSeconds: number;
  readonly approvalId?: string;
  readonly expiresAt: string | null;
}
const rowOf = ({ body }: Answer): Row => inCamelCase(body as object) as Row;

const isWaiting = (state: AutomationState): boolean =>
  state === 'waiting_approval' || state === 'waiting_slot';
/** Of one read that waits for another state, in seconds. */
const longestWait = 30;

export async function startAutomation(
  gateway: Gateway,
  context: Context,
  request: AutomationRequest,
  closing: AbortSignal,
): Promise<Automation> {
  const body = inSnakeCase({ idempotencyKey: randomName(), ...context, ...request });
  const begun = await insist(closing, () => {
    const startedAt = now();
    return gateway
      .json('/automations', { method: 'POST', body, signal: closing })
      .then((answer) => ({ row: rowOf(answer), startedAt }));
  });
  return new RunningAutomation(gateway, begun.row, begun.startedAt, closing);
}

class RunningAutomation implements Automation {
  readonly #gateway: Gateway;
  readonly #path: string;
  readonly #closing: AbortSignal;
  readonly #lost = new AbortController();
  readonly #ended = new AbortController();
  #row: Row;
  /** Replaced when it is aborted, which says that the state is another. */
  #turned = new AbortController();
  /** When the request began that last said that it runs: the gateway counts its time from no earlier moment. */
  #heardAt: Instant;

  constructor(gateway: Gateway, row: Row, heardAt: Instant, closing: AbortSignal) {
    this.#gateway = gateway;
    this.#path = `/automations/${encodeURIComponent(row.id)}`;
    this.#row = row;
    this.#heardAt = heardAt;
    this.#closing = closing;
    const lose = (): void => this.#lose();
    closing.addEventListener('abort', lose);
    this.#ended.signal.addEventListener('abort', () => closing.removeEventListener('abort', lose));
    void this.#keepAlive();
  }

  get id(): string {
    return this.#row.id;
  }
  get state(): AutomationState {
    return this.#isOutOfTime() ? 'expired' : this.#row.state;
  }
  get decision(): Row['decision'] {
    return this.#row.decision;
  }
  get reasons(): Row['reasons'] {
    return this.#row.reasons;
  }
  get revision(): Row['revision'] {
    return this.#row.revision;
  }
  get retryAt(): string | undefined {
    return this.#row.retryAt;
  }
  get approvalId(): string | undefined {
    return this.#row.approvalId;
  }
  get expiresAt(): string | null {
    return this.#row.expiresAt;
  }
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  /** From then on the slot may be another's, whatever the gateway said last. */
  #isOutOfTime(): boolean {
    return this.#row.state === 'running' && this.#leftMs() <= 0;
  }
  #leftMs(): number {
    return this.#row.ttlSeconds * 1000 - sinceMs(this.#heardAt);
  }

  #turn(row: Row): void {
    this.#row = row;
    this.#turned.abort();
    this.#turned = new AbortController();
  }

  #lose(): void {
    const { state } = this.#row;
    if (state === 'running' || isWaiting(state)) this.#turn({ ...this.#row, state: 'expired' });
    this.#lost.abort();
    this.#ended.abort();
  }

  async #keepAlive(): Promise<void> {
    const backoff = new Backoff();
    let waitMs = this.#beatMs();
    while (!this.#ended.signal.aborted) {
      try {
        if (this.#row.state === 'running') {
          await pause(Math.min(waitMs, Math.max(this.#leftMs(), 0)), this.#ended.signal);
          if (this.#ended.signal.aborted) return;
          if (this.#isOutOfTime()) this.#lose();
          else await this.#beat();
        } else if (isWaiting(this.#row.state)) {
          await this.#waitForTurn();
        } else {
          this.#ended.abort();
        }
        waitMs = this.#beatMs();
      } catch (error) {
        if (this.#ended.signal.aborted) return;
        const { status, retryAfterMs } = error as StrataError;
        if (isFinal(error) || status === 409) this.#lose();
        waitMs = backoff.next(retryAfterMs);
        if (isWaiting(this.#row.state)) await pause(waitMs, this.#ended.signal);
      }
    }
  }

  #beatMs(): number {
    return spread((this.#row.ttlSeconds * 1000) / 3, 0.2);
  }

  async #beat(): Promise<void> {
    const startedAt = now();
    const { signal } = this.#ended;
    const timeoutMs = Math.min(Math.max(this.#leftMs(), 1), 10_000);
    const asked = { method: 'POST', signal, timeoutMs };
    const answer = await this.#gateway.json(`${this.#path}/heartbeat`, asked);
    this.#heardAt = startedAt;
    this.#turn(rowOf(answer));
  }

  /** Since when it runs is not known when it does, so its time is begun anew at once. */
  async #waitForTurn(): Promise<void> {
    const query = `state=${this.#row.state}&wait=${longestWait}`;
    const row = rowOf(
      await this.#gateway.json(`${this.#path}?${query}`, {
        signal: this.#ended.signal,
        timeoutMs: (longestWait + 10) * 1000,
      }),
    );
    if (row.state === 'running') await this.#beat();
    else this.#turn(row);
  }

  async started({ timeoutMs = Number.POSITIVE_INFINITY } = {}): Promise<boolean> {
    const startedAt = now();
    while (isWaiting(this.#row.state)) {
      const leftMs = timeoutMs - sinceMs(startedAt);
      if (leftMs <= 0)
        throw new StrataError('timeout', `Still ${this.#row.state} after ${timeoutMs} ms.`);
      await pause(Math.min(leftMs, 2 ** 31 - 1), this.#turned.signal);
    }
    return this.state === 'running';
  }

  async finish(outcome: string): Promise<void> {
    const signal = this.#closing;
    const answer = await insist(signal, () =>
      this.#gateway.json(`${this.#path}/finish`, { method: 'POST', body: { outcome }, signal }),
    );
    this.#ended.abort();
    this.#turn(rowOf(answer));
  }
}
