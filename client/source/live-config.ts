/**
 * The configuration of one context, kept as it is on the gateway.
 *
 * Values are always read whole, by a conditional GET. The stream only says that they changed, and
 * that they did not: each of its events makes the values as old as that event.
 *
 * | Danger                                   | What then                                                                  |
 * |------------------------------------------|----------------------------------------------------------------------------|
 * | the stream ends                          | values are read and it is opened again, after a wait that grows (`Backoff`)  |
 * | the stream is silent for three heartbeats | it is given up; half of `maxStalenessMs` earlier a read takes its place      |
 * | streams are refused, or end soon         | values are read every third of `maxStalenessMs`, ± 20 %                      |
 * | answers come in another order            | one read at a time, and none that is older than what is known                |
 * | a read is ahead of the stream            | no heartbeat proves its values: at the next one they are read again          |
 * | the gateway itself can't reach its owner | its answer is marked stale: it proves nothing, so the age grows              |
 * | the credential is refused                | it is asked for again at each try, for ever                                  |
 * | the database was set back                | `reset`: the only word that lets revisions go back                           |
 */
import { Backoff, spread } from './backoff.ts';
import { now, pause, sinceMs, timerMs, whenAborted, type Instant } from './clock.ts';
import { EventParser, type StreamEvent } from './event-stream.ts';
import { closedError, StrataError } from './failure.ts';
import type { Answer, Gateway } from './gateway.ts';
import { objectIn } from './json.ts';
import type { LastKnownGood } from './last-known-good.ts';
import { covers, latest, nothing, revisionOf, textOf } from './revisions.ts';
import { changesBetween, snapshotOf, type Snapshot } from './snapshot.ts';
import type { ChangeEvent, Origin, Revision, State, Status } from './types.ts';

/** How often an open stream says something. */
const heartbeatMs = 5000;
const watchdogMs = 3 * heartbeatMs;
/** How long a gateway that knows no such stream is not asked for it again. */
const noStreamMs = 60_000;
/** How often the age in the file is renewed while the values stay the same. */
const saveAgainMs = 60_000;
/** How long a file waits for the first answer of a gateway. */
const fileWaitsMs = 2000;

export interface LiveOptions {
  readonly gateway: Gateway;
  /** The context as parameters. */
  readonly query: string;
  readonly clientId: string;
  readonly maxStalenessMs: number;
  readonly lastKnownGood: LastKnownGood | undefined;
  readonly onChange: (event: ChangeEvent) => void;
  readonly onState: (state: State) => void;
}

/**
 * What became of a read: it proves what holds, or it is older than what is known, or the gateway
 * itself doubts it.
 */
type Read = 'current' | 'older' | 'doubtful';

/** Timers drop fractions, and fire up to a millisecond before their time. */
const timerErrorMs = 2;

export class LiveConfig {
  readonly #options: LiveOptions;
  readonly #closing = new AbortController();
  readonly #reconnect = new Backoff();
  readonly #streamAgain = new Backoff();
  #snapshot: Snapshot | undefined;
  /** The newest revision at which these values are known to hold. */
  #revision: Revision = nothing;
  /** When they were last known to hold. */
  #confirmedAt: Instant | undefined;
  #from: Origin = 'poll';
  #status: Status = 'connecting';
  #error: Error | undefined;
  /** The stream spoke of this revision, whose values are to be read. */
  #wanted: Revision = nothing;
  /** The last revision that the stream spoke of. */
  #spoken: Revision = nothing;
  /**
   * How often the stream said that values changed or begin again, and how many of these are in the
   * values.
   */
  #observed = 0;
  #observedByRead = 0;
  /** The last of them that said that revisions begin again. */
  #reset = 0;
  /** By the monotonic clock, and why. */
  #streamNotBefore = 0;
  #refusal: Error | undefined;
  /** The last read: one begins when the previous one has ended. */
  #reading: Promise<unknown> = Promise.resolve();
  #isChecking = false;
  /** By the monotonic clock: a gateway may ask to be left alone. */
  #checkNotBefore = 0;
  #isCatchingUp = false;
  #isUnsaved = false;
  #savedAt: Instant | undefined;
  #saving: Promise<void> | undefined;
  #isReportedStale = false;
  #staleTimer: ReturnType<typeof setTimeout> | undefined;
  /** Told of each try of the first connection, with what went wrong. */
  #onTry: ((error: StrataError | undefined) => void) | undefined;

  constructor(options: LiveOptions) {
    this.#options = options;
  }

  get snapshot(): Snapshot {
    return this.#snapshot!;
  }

  get state(): State {
    const ageMs = this.#confirmedAt ? sinceMs(this.#confirmedAt) : Infinity;
    return {
      status: this.#status,
      from: this.#from,
      revision: this.#revision,
      ageMs,
      stale: ageMs > this.#options.maxStalenessMs,
      error: this.#error,
    };
  }

  /** Aborted once it is closed. */
  get signal(): AbortSignal {
    return this.#closing.signal;
  }

  /** The configuration as it was. */
  async at(asOf: string): Promise<Snapshot> {
    const { body } = await this.#effective(`&as_of=${encodeURIComponent(asOf)}`);
    return snapshotOf(body, undefined);
  }

  #effective(more = '', headers: Record<string, string> = {}): Promise<Answer> {
    const { gateway, query } = this.#options;
    const { signal } = this.#closing;
    return gateway.json(`/config/effective?explain=true&${query}${more}`, { signal, headers });
  }

  /** Resolves once there are values. They are kept live from then on. */
  async start(timeoutMs: number): Promise<void> {
    const kept = await this.#options.lastKnownGood?.load();
    if (kept) {
      this.#snapshot = kept.snapshot;
      this.#revision = kept.snapshot.revision;
      this.#confirmedAt = instantOf(kept.savedAt);
      this.#from = 'file';
    }
    try {
      await this.#firstTries(kept !== undefined, timeoutMs);
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  /** With a file one try is enough, and it need not end. */
  #firstTries(hasFile: boolean, timeoutMs: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout>;
    return new Promise<void>((resolve, reject) => {
      const giveUp = (): void => reject(late('', timeoutMs, this.#error));
      timer = hasFile ? setTimeout(resolve, fileWaitsMs) : setTimeout(giveUp, timerMs(timeoutMs));
      this.#onTry = (error) => {
        if (hasFile ? error?.isFinal : error?.isFinalAtStart) reject(error);
        else if (!error || hasFile) resolve();
      };
      whenAborted(this.#closing.signal, () => reject(closedError()));
      void this.#run();
    }).finally(() => clearTimeout(timer));
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      const error = await this.#tryRead();
      if (signal.aborted) return;
      if (error) this.#settle('offline', error);
      this.#onTry?.(error);
      if (error) {
        await this.#reconnect.wait(signal, error.retryAfterMs);
        continue;
      }
      this.#reconnect.succeeded();
      if (performance.now() >= this.#streamNotBefore) await this.#stream();
      else await this.#rest();
    }
  }

  async #rest(): Promise<void> {
    this.#settle('polling', this.#refusal);
    await pause(this.#restMs(), this.#closing.signal);
  }

  /** Between two reads where there is no stream. */
  #restMs(): number {
    return spread(Math.min(this.#options.maxStalenessMs / 3, 30_000), 0.2);
  }

  /** Opens a stream and follows it to its end. */
  async #stream(): Promise<void> {
    const ending = new AbortController();
    const end = (): void => ending.abort();
    const forget = whenAborted(this.#closing.signal, end);
    try {
      const response = await this.#open(ending.signal).catch((error: StrataError) => error);
      if (response instanceof Error) {
        const isUnknown = response.status === 404 || response.status === 405;
        const waitMs = this.#streamAgain.next(response.retryAfterMs);
        this.#streamNotBefore = performance.now() + Math.max(waitMs, isUnknown ? noStreamMs : 0);
        this.#refusal = response;
        await this.#rest();
        return;
      }
      this.#streamAgain.succeeded();
      this.#settle('live', undefined);
      const error = await this.#follow(response.body!, ending);
      // A database that went back meanwhile may never come to what the stream spoke of, and only
      // the next stream says so.
      this.#wanted = nothing;
      if (this.#closing.signal.aborted) return;
      this.#settle('offline', error);
      // Where it ends again and again, the next stream is waited for longer than the next read.
      const waitMs = this.#reconnect.next();
      this.#streamNotBefore = performance.now() + waitMs - timerErrorMs;
      this.#refusal = error;
      await pause(Math.min(waitMs, this.#restMs()), this.#closing.signal);
    } finally {
      forget();
      end();
    }
  }

  async #open(signal: AbortSignal): Promise<Response> {
    const { gateway, query, clientId } = this.#options;
    const headers = {
      accept: 'text/event-stream',
      'last-event-id': `${this.#revision.tenant}.${this.#revision.platform}`,
      'x-client-id': clientId,
    };
    const response = await gateway.stream(`/config/effective/watch?${query}`, { headers, signal });
    if (response.headers.get('content-type')?.startsWith('text/event-stream')) return response;
    throw new StrataError('unexpected_answer', 'What answered is no stream of events.');
  }

  /** Reads events until the stream ends, and says why it did. */
  async #follow(body: ReadableStream<Uint8Array>, ending: AbortController): Promise<Error> {
    const parser = new EventParser();
    const reader = body.getReader();
    const guard = (): ReturnType<typeof setTimeout> => setTimeout(() => ending.abort(), watchdogMs);
    const checkEveryMs = timerMs(Math.max(this.#options.maxStalenessMs / 4, 250));
    const checks = setInterval(() => this.#keepYoung(), checkEveryMs);
    let watchdog = guard();
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return new StrataError('unreachable', 'The stream ended.');
        clearTimeout(watchdog);
        watchdog = guard();
        for (const event of parser.push(value)) {
          if (event.event === 'closed')
            return new StrataError('unreachable', `The stream was closed: ${event.data}`);
          this.#receive(event);
        }
      }
    } catch (error) {
      const isSilent = ending.signal.aborted;
      return isSilent
        ? new StrataError('timeout', `The stream was silent for ${watchdogMs} ms.`)
        : new StrataError('unreachable', 'The stream was cut off.', { cause: error });
    } finally {
      clearTimeout(watchdog);
      clearInterval(checks);
    }
  }

  #receive({ event, data = '', retry }: StreamEvent): void {
    const retryMs = Number(retry);
    if (retryMs > 0) this.#reconnect.firstMs = Math.min(Math.max(retryMs, 10), 30_000);
    const revision = revisionOf(objectIn(data)?.revision);
    if (!revision) return;
    const isAhead = !covers(this.#spoken, this.#revision);
    this.#spoken = revision;
    switch (event) {
      case 'reset':
        this.#observed += 1;
        this.#reset = this.#observed;
        this.#wanted = revision;
        break;
      case 'effective.changed':
        // Also of the same revision: a reload may have changed what the environment says.
        this.#observed += 1;
        this.#wanted = latest(this.#wanted, revision);
        break;
      case 'ready':
        this.#wanted = latest(this.#wanted, revision);
        break;
      case 'heartbeat':
        // It says that nothing differs from what the stream spoke of before. Values of a moment in
        // between may have been others, and be others again by now.
        if (isAhead || this.#isBehind()) this.#wanted = latest(this.#wanted, revision);
        break;
      default:
        return;
    }
    if (this.#isBehind()) void this.#catchUp();
    else if (covers(revision, this.#revision)) this.#confirm(now(), revision);
  }

  /** Whether the stream has spoken of values that are not read yet. */
  #isBehind(): boolean {
    return this.#observedByRead < this.#observed || !covers(this.#revision, this.#wanted);
  }

  async #catchUp(): Promise<void> {
    if (this.#isCatchingUp) return;
    this.#isCatchingUp = true;
    const backoff = new Backoff();
    while (this.#isBehind() && this.#status === 'live') {
      const read = await this.#read().catch((error: StrataError) => error);
      if (read === 'current') continue;
      const retryAfterMs = read instanceof Error ? read.retryAfterMs : undefined;
      await backoff.wait(this.#closing.signal, retryAfterMs);
    }
    this.#isCatchingUp = false;
  }

  /** Where a stream says too little for the age that is asked for, a read says it. */
  #keepYoung(): void {
    const { ageMs } = this.state;
    if (ageMs < this.#options.maxStalenessMs / 2 || this.#isBehind()) return;
    if (this.#isChecking || performance.now() < this.#checkNotBefore) return;
    this.#isChecking = true;
    void this.#tryRead().then((error) => {
      this.#isChecking = false;
      this.#checkNotBefore = performance.now() + (error?.retryAfterMs ?? 0);
    });
  }

  #tryRead(least?: Revision): Promise<StrataError | undefined> {
    return this.#read(least).then(
      () => undefined,
      (error: StrataError) => error,
    );
  }

  /** Reads what holds from now on, and no older than `least`. */
  #read(least: Revision = nothing): Promise<Read> {
    const read = this.#reading.then(() => this.#readOnce(least));
    this.#reading = read.catch(() => {});
    return read;
  }

  async #readOnce(asked: Revision): Promise<Read> {
    const startedAt = now();
    const observed = this.#observed;
    const isReset = this.#observedByRead < this.#reset;
    const least = latest(asked, this.#wanted);
    const isKnown = !isReset && covers(this.#revision, least);
    const etag = isKnown ? this.#snapshot?.etag : undefined;
    const answer = await this.#effective('', {
      ...(etag !== undefined && { 'if-none-match': etag }),
      ...(!isKnown && { 'x-min-revision': textOf(least) }),
    });
    const isDoubtful = answer.headers.get('x-config-stale') === 'true';
    if (answer.status !== 304) {
      const snapshot = snapshotOf(answer.body, answer.headers.get('etag'));
      // Values of a file hold no longer than until the gateway says something.
      const isFree = isReset || (this.#from === 'file' && !isDoubtful);
      if (!isFree && !covers(snapshot.revision, this.#revision)) return 'older';
      if (isReset && !covers(snapshot.revision, least)) return 'older';
      this.#take(snapshot, isFree);
      if (!covers(snapshot.revision, least)) return 'older';
    }
    this.#observedByRead = observed;
    if (isDoubtful) return 'doubtful';
    this.#confirm(startedAt, this.#revision);
    return 'current';
  }

  /** `isFree` where revisions may go back. */
  #take(snapshot: Snapshot, isFree: boolean): void {
    const before = this.#snapshot;
    this.#snapshot = snapshot;
    this.#revision = isFree ? snapshot.revision : latest(this.#revision, snapshot.revision);
    this.#from = this.#origin();
    this.#isUnsaved = true;
    const changes = before ? changesBetween(before.values, snapshot.values) : [];
    if (changes.length > 0)
      this.#options.onChange(Object.freeze({ revision: this.#revision, changes }));
  }

  #origin(): Origin {
    return this.#status === 'live' ? 'stream' : 'poll';
  }

  /** The values held at this moment, at this revision. */
  #confirm(heldAt: Instant, revision: Revision): void {
    if (this.#isBehind()) return;
    this.#revision = latest(this.#revision, revision);
    this.#from = this.#origin();
    const isNewer = !this.#confirmedAt || heldAt.monotonic > this.#confirmedAt.monotonic;
    if (isNewer) this.#confirmedAt = heldAt;
    this.#reportStaleness();
    const isSaveDue = !this.#savedAt || sinceMs(this.#savedAt) > saveAgainMs;
    if (this.#isUnsaved || isSaveDue) this.#save();
  }

  #save(): void {
    const { lastKnownGood } = this.#options;
    if (!lastKnownGood || !this.#snapshot || !this.#confirmedAt || this.#from === 'file') return;
    this.#isUnsaved = false;
    this.#savedAt = now();
    const snapshot = { ...this.#snapshot, revision: this.#revision };
    this.#saving = lastKnownGood.save({ snapshot, savedAt: this.#confirmedAt.wall });
  }

  #settle(status: Status, error: Error | undefined): void {
    if (this.#status === 'closed') return;
    this.#error = error;
    if (this.#status === status) return;
    this.#status = status;
    if (status === 'live' && this.#from === 'poll') this.#from = 'stream';
    this.#options.onState(this.state);
  }

  /** Tells that values became stale or fresh, the former when it happens. */
  #reportStaleness(): void {
    clearTimeout(this.#staleTimer);
    const { ageMs, stale } = this.state;
    if (stale !== this.#isReportedStale) {
      this.#isReportedStale = stale;
      this.#options.onState(this.state);
    }
    if (stale || this.#closing.signal.aborted) return;
    const leftMs = timerMs(this.#options.maxStalenessMs - ageMs + 1);
    this.#staleTimer = setTimeout(() => this.#reportStaleness(), leftMs);
  }

  /** Reads until the values are of this revision. */
  async atLeast(asked: Revision, timeoutMs: number): Promise<Revision> {
    const { signal } = this.#closing;
    const startedAt = now();
    const leftMs = (): number => {
      const ms = timeoutMs - sinceMs(startedAt);
      return ms < timerErrorMs ? 0 : ms;
    };
    const backoff = new Backoff(100);
    let last: StrataError | undefined;
    while (!covers(this.#revision, asked)) {
      if (leftMs() === 0 || signal.aborted)
        throw late(` of revision ${textOf(asked)}`, timeoutMs, last);
      const reading = this.#tryRead(asked).then((error) => {
        last = error;
      });
      await Promise.race([reading, pause(leftMs(), signal)]);
      if (last?.isFinal) throw last;
      if (covers(this.#revision, asked)) break;
      await pause(Math.min(backoff.next(last?.retryAfterMs), leftMs()), signal);
    }
    return this.#revision;
  }

  async close(): Promise<void> {
    if (!this.#closing.signal.aborted) {
      this.#closing.abort();
      clearTimeout(this.#staleTimer);
      if (this.#confirmedAt && this.#savedAt) this.#save();
      this.#settle('closed', undefined);
    }
    await this.#saving;
  }
}

/**
 * By both clocks, of a time that is known by the wall's alone. Undefined where that is not known,
 * or to come.
 */
function instantOf(wall: number): Instant | undefined {
  const ageMs = Date.now() - wall;
  return ageMs >= 0 ? { monotonic: performance.now() - ageMs, wall } : undefined;
}

function late(what: string, timeoutMs: number, last: Error | undefined): StrataError {
  const why = last ? `: ${last.message}` : '';
  const message = `No configuration${what} within ${timeoutMs} ms${why}`;
  return new StrataError('timeout', message, { cause: last });
}
