/** Asking whether automation may act, and acting within the tenant's slots. */
import { Backoff, spread } from './backoff.ts';
import { now, pause, sinceMs, type Instant } from './clock.ts';
import { StrataError } from './failure.ts';
import type { Answer, Asked, Gateway } from './gateway.ts';
import { inCamelCase, inSnakeCase, randomName } from './spelling.ts';
import type {
  Automation,
  AutomationRequest,
  AutomationState,
  Context,
  Decision,
  ExactAction,
  Granted,
  Question,
  RunOptions,
} from './types.ts';

/** So many times a request is sent that may be repeated. */
const tries = 3;
/** A gateway that wants to be left alone for longer is not waited for: the caller is told. */
const longestWaitMs = 5000;

/**
 * The same request again where nothing came back for the previous one, or only that the gateway can't
 * now.
 */
async function insist<T>(signal: AbortSignal, send: () => Promise<T>): Promise<T> {
  const backoff = new Backoff(250);
  for (let left = tries - 1; ; left -= 1) {
    try {
      return await send();
    } catch (error) {
      const { status = 503, retryAfterMs = 0 } = error as StrataError;
      const isWorthwhile = [429, 502, 503, 504].includes(status) && !signal.aborted;
      if (!isWorthwhile || left === 0 || retryAfterMs > longestWaitMs) throw error;
      await backoff.wait(signal, retryAfterMs);
    }
  }
}

/** What is undefined takes nothing of the context away. */
const bodyOf = (context: Context, said: Question | AutomationRequest) => ({
  ...inSnakeCase(context),
  ...inSnakeCase(said),
});

export async function decide(
  gateway: Gateway,
  context: Context,
  question: Question,
  signal: AbortSignal,
): Promise<Decision> {
  const body = bodyOf(context, question);
  const answer = await insist(signal, () =>
    gateway.json('/decide', { method: 'POST', body, signal }),
  );
  const decided = inCamelCase(Object(answer.body)) as Decision;
  // A proxy may answer anything, which is no permission.
  if (decided.decision) return decided;
  throw new StrataError('unexpected_answer', 'What answered is no decision.');
}

/** What the gateway says of an automation. */
interface Row extends Omit<Decision, 'stale'> {
  readonly id: string;
  readonly state: AutomationState;
  readonly ttlSeconds: number;
  readonly approvalId?: string;
  readonly actionDigest?: string;
  readonly redeemedBy?: string;
  readonly resource?: ExactAction['resource'];
  readonly parameters?: ExactAction['parameters'];
  readonly expiresAt: string | null;
}

/** A proxy may answer anything, which starts, continues and redeems nothing. */
function rowOf({ body }: Answer): Row {
  const row = inCamelCase(Object(body)) as Row;
  if (typeof row.state === 'string') return row;
  throw new StrataError('unexpected_answer', 'What answered is no automation.');
}

const askRow = async (gateway: Gateway, path: string, asked: Asked): Promise<Row> =>
  rowOf(await gateway.json(path, asked));

const pathOf = ({ id }: Row): string => `/automations/${encodeURIComponent(id)}`;

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
  const body = { idempotency_key: randomName(), ...bodyOf(context, request) };
  const how = { method: 'POST', signal: closing } as const;
  let isFirst = request.idempotencyKey === undefined;
  return insist(closing, async () => {
    const isNew = isFirst;
    isFirst = false;
    let startedAt = now();
    let row = await askRow(gateway, '/automations', { ...how, body });
    // An earlier request may have begun it, so its time is begun again.
    if (!isNew && row.state === 'running') {
      startedAt = now();
      row = await askRow(gateway, `${pathOf(row)}/heartbeat`, how);
    }
    return running(gateway, row, startedAt, closing);
  });
}

/** Until the state is none that waits for something. */
async function untilStarted(
  state: () => AutomationState,
  turned: () => AbortSignal,
  timeoutMs: number,
): Promise<void> {
  const startedAt = now();
  while (isWaiting(state())) {
    const restMs = timeoutMs - sinceMs(startedAt);
    if (restMs <= 0) throw new StrataError('timeout', `Still ${state()} after ${timeoutMs} ms.`);
    await pause(restMs, turned());
  }
}

/** The whole action, once. The executor's name is of this call alone: see `redeemedBy`. */
async function redeem(
  gateway: Gateway,
  row: Row,
  signal: AbortSignal,
  executor = 'strata-client',
): Promise<ExactAction> {
  const path = pathOf(row);
  const own = `${executor} ${randomName()}`;
  const body = { action_digest: row.actionDigest, executor: own };
  const ask = () => askRow(gateway, `${path}/redeem`, { method: 'POST', body, signal });
  const redeemed = await insist(signal, ask).catch(async (error: StrataError) => {
    if (error.code !== 'grant_used') throw error;
    // Whose redemption it was is known also where the answer was lost.
    const known = await insist(signal, () => askRow(gateway, path, { signal }));
    if (known.redeemedBy !== own) throw error;
    return known;
  });
  const { resource, parameters } = redeemed;
  return { resource, parameters };
}

/** Says that it runs, or waits for its turn, until it has ended or `closing` is aborted. */
function running(gateway: Gateway, begun: Row, begunAt: Instant, closing: AbortSignal): Automation {
  const path = pathOf(begun);
  const lost = new AbortController();
  const ended = new AbortController();
  let row = begun;
  /** Replaced when it is aborted, which says that the state is another. */
  let turned = new AbortController();
  /**
   * When the request began that last said that it runs: the gateway counts its time from no earlier
   * moment.
   */
  let receivedAt = begunAt;

  const leftMs = (): number => row.ttlSeconds * 1000 - sinceMs(receivedAt);
  /** From then on the slot may be another's, whatever the gateway said last. */
  const isOutOfTime = (): boolean => row.state === 'running' && leftMs() <= 0;
  const beatMs = (): number => spread((row.ttlSeconds * 1000) / 3, 0.2);

  function turn(next: Row): void {
    row = next;
    turned.abort();
    turned = new AbortController();
  }

  function lose(): void {
    if (row.state === 'running' || isWaiting(row.state)) turn({ ...row, state: 'expired' });
    lost.abort();
    ended.abort();
  }

  async function beat(): Promise<void> {
    const startedAt = now();
    const timeoutMs = Math.min(Math.max(leftMs(), 1), 10_000);
    const options = { method: 'POST', signal: ended.signal, timeoutMs } as const;
    const next = await askRow(gateway, `${path}/heartbeat`, options);
    receivedAt = startedAt;
    turn(next);
  }

  /** Since when it runs is not known when it does, so its time is begun again at once. */
  async function waitForTurn(): Promise<void> {
    const options = { signal: ended.signal, timeoutMs: (longestWait + 10) * 1000 };
    const address = `${path}?state=${row.state}&wait=${longestWait}`;
    const next = await askRow(gateway, address, options);
    if (next.state === 'running') await beat();
    else turn(next);
  }

  async function keepAlive(): Promise<void> {
    const { signal } = ended;
    const backoff = new Backoff();
    let waitMs = beatMs();
    while (!signal.aborted) {
      try {
        if (row.state === 'running') {
          await pause(Math.min(waitMs, Math.max(leftMs(), 0)), signal);
          if (signal.aborted) return;
          await (isOutOfTime() ? lose() : beat());
        } else if (isWaiting(row.state)) {
          await waitForTurn();
        } else {
          ended.abort();
        }
        waitMs = beatMs();
      } catch (error) {
        if (signal.aborted) return;
        const { isFinal, status, retryAfterMs } = error as StrataError;
        if (isFinal || status === 409) lose();
        waitMs = backoff.next(retryAfterMs);
        if (isWaiting(row.state)) await pause(waitMs, signal);
      }
    }
  }

  closing.addEventListener('abort', lose, { signal: ended.signal });
  void keepAlive();
  return {
    get id() {
      return row.id;
    },
    get state() {
      return isOutOfTime() ? 'expired' : row.state;
    },
    get decision() {
      return row.decision;
    },
    get reasons() {
      return row.reasons;
    },
    get revision() {
      return row.revision;
    },
    get retryAt() {
      return row.retryAt;
    },
    get approvalId() {
      return row.approvalId;
    },
    get expiresAt() {
      return row.expiresAt;
    },
    signal: lost.signal,
    async started({ timeoutMs = Infinity } = {}) {
      await untilStarted(
        () => row.state,
        () => turned.signal,
        timeoutMs,
      );
      return row.state === 'running' && !isOutOfTime();
    },
    redeem: (executor) => redeem(gateway, row, closing, executor),
    async finish(outcome, cost = {}) {
      const body = inSnakeCase({ outcome, ...cost });
      const how = { method: 'POST', body, signal: closing } as const;
      const next = await insist(closing, () => askRow(gateway, `${path}/finish`, how));
      ended.abort();
      turn(next);
    },
  };
}

/** Starts, waits, redeems, works and finishes. */
export async function runAutomation<T>(
  start: (request: AutomationRequest) => Promise<Automation>,
  request: AutomationRequest,
  work: (granted: Granted) => T | Promise<T>,
  { timeoutMs = Infinity, executor }: RunOptions = {},
): Promise<T> {
  const run = await start(request);
  const { signal } = run;
  const said: { actualCost?: number } = {};
  const cost = (actualCost: number): void => {
    said.actualCost = actualCost;
  };
  let result: T;
  try {
    if (!(await run.started({ timeoutMs }))) {
      const rules = run.reasons.map(({ rule }) => rule).join(', ');
      throw new StrataError('not_started', `It is ${run.state} (${rules}).`);
    }
    const action = await run.redeem(executor);
    // It may have been lost while the answer was on its way; by the time alone where the machine
    // slept, after which no timer has said so yet.
    const isLost = (): boolean => signal.aborted || run.state !== 'running';
    if (!isLost()) result = await work({ ...action, signal, cost });
    if (isLost()) throw new StrataError('slot_lost', 'Its slot was lost before it had ended.');
  } catch (error) {
    // What has ended is refused; what cannot be reached runs out by itself.
    await run.finish('failed', said).catch(() => undefined);
    throw error;
  }
  await run.finish('succeeded', said);
  return result!;
}
