/**
 * The configuration of one context, kept as it is on the gateway.
 *
 * Values are always read whole, by a conditional GET. The stream only says that they changed, and that they did not: each of its
 * events makes the values as old as that event.
 *
 * | Danger                                   | What then                                                                  |
 * |------------------------------------------|----------------------------------------------------------------------------|
 * | the stream ends                          | values are read and it is opened again, after a wait that grows (`Backoff`)  |
 * | the stream is silent for three heartbeats | it is given up; half of `maxStalenessMs` earlier a read takes its place      |
 * | streams are refused                      | values are read every third of `maxStalenessMs`, ± 20 %                      |
 * | answers come in another order            | one read at a time, and none that is older than what is known                |
 * | the gateway itself can't reach its owner | its answer is marked stale: it proves nothing, so the age grows              |
 * | the credential is refused                | it is asked for again at each try, for ever                                  |
 * | the database was set back                | `reset`: the only word that lets revisions go back                           |
 */
import { Backoff, spread } from './backoff.ts';
import { now, pause, sinceMs, type Instant } from './clock.ts';
import { EventParser, type StreamEvent } from './event-stream.ts';
import { isFinal, StrataError } from './failure.ts';
import type { Gateway } from './gateway.ts';
import type { LastKnownGood } from './last-known-good.ts';
import { covers, latest, nothing, revisionOf, textOf } from './revisions.ts';
import { changesBetween, snapshotOf, type Snapshot } from './snapshot.ts';
import type { ChangeEvent, Context, Origin, Revision, State, Status } from './types.ts';

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
  readonly context: Context;
  readonly clientId: string;
  readonly maxStalenessMs: number;
  readonly lastKnownGood: LastKnownGood | undefined;
  readonly onChange: (event: ChangeEvent) => void;
  readonly onState: (state: State) => void;
}

/** What became of a read: it proves what holds, or it is older than what is known, or the gateway itself doubts it. */
type Read = 'current' | 'older' | 'doubtful';

export class LiveConfig {
  readonly #options: LiveOptions;
  /** The context as parameters. */
  readonly #address: string;
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
  /** The stream spoke of this revision. */
  #wanted: Revision = nothing;
  /** How often the stream said that values changed, and how many of these are in the values. */
  #changes = 0;
  #changesSeen = 0;
  /** The same of revisions that begin anew. */
  #resets = 0;
  #resetsSeen = 0;
  /** By the monotonic clock, and why. */
  #streamNotBefore = 0;
  #refusal: Error | undefined;
  /** The last read: one begins when the one before it has ended. */
  #reading: Promise<unknown> = Promise.resolve();
  #isChecking = false;
  #isCatchingUp = false;
  #isUnsaved = false;
  #savedAt: Instant | undefined;
  #saving: Promise<void> | undefined;
  #isToldStale = false;
  #staleTimer: ReturnType<typeof setTimeout> | undefined;
  /** Told of each try of the first connection, with what went wrong. */
  #onTry: ((error: Error | undefined) => void) | undefined;

  constructor(options: LiveOptions) {
    this.#options = options;
    const { agentType, serviceId, serviceType } = options.context;
    const address = new URLSearchParams();
    if (agentType !== undefined) address.set('agent_type', agentType);
    if (serviceId !== undefined) address.set('service_id', serviceId);
    if (serviceType !== undefined) address.set('service_type', serviceType);
    this.#address = String(address);
  }

  get snapshot(): Snapshot {
    return this.#snapshot!;
  }

  get state(): State {
    const ageMs = this.#confirmedAt ? sinceMs(this.#confirmedAt) : Number.POSITIVE_INFINITY;
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
    const query = `explain=true&as_of=${encodeURIComponent(asOf)}&${this.#address}`;
    const { signal } = this.#closing;
    const { body } = await this.#options.gateway.json(`/config/effective?${query}`, { signal });
    return snapshotOf(body, null);
  }

  /** Resolves once there are values. They are kept live from then on. */
  async start(timeoutMs: number): Promise<void> {
    const kept = await this.#options.lastKnownGood?.load((record) =>
      snapshotOf(record, record.etag),
    );
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
    return new Promise((resolve, reject) => {
      const giveUp = (): void => {
        const last = this.#error ? `: ${this.#error.message}` : '';
        reject(new StrataError('timeout', `No configuration within ${timeoutMs} ms${last}`));
      };
      const timer = hasFile ? setTimeout(resolve, fileWaitsMs) : setTimeout(giveUp, timeoutMs);
      this.#onTry = (error) => {
        if (error && !hasFile && !isFinal(error)) return;
        clearTimeout(timer);
        this.#onTry = undefined;
        if (error && isFinal(error)) reject(error);
        else resolve();
      };
      const closed = (): void => {
        clearTimeout(timer);
        reject(new StrataError('closed', 'The client was closed.'));
      };
      this.#closing.signal.addEventListener('abort', closed);
      if (this.#closing.signal.aborted) closed();
      void this.#run();
    });
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      const error = await this.#tryRead();
      if (signal.aborted) return;
      if (error) this.#settle('offline', error);
      this.#onTry?.(error);
      if (error) {
        await pause(this.#reconnect.next(error.retryAfterMs), signal);
        continue;
      }
      this.#reconnect.succeeded();
      if (performance.now() >= this.#streamNotBefore) await this.#stream();
      else await this.#rest();
    }
  }

  /** Between two reads where there is no stream. */
  async #rest(): Promise<void> {
    this.#settle('polling', this.#refusal);
    const meanMs = Math.min(this.#options.maxStalenessMs / 3, 30_000);
    await pause(spread(meanMs, 0.2), this.#closing.signal);
  }

  /** Opens a stream and follows it to its end. */
  async #stream(): Promise<void> {
    const ending = new AbortController();
    const end = (): void => ending.abort();
    this.#closing.signal.addEventListener('abort', end);
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
      // A database that went back meanwhile may never come to what the stream spoke of, and only the next stream says so.
      this.#wanted = nothing;
      if (this.#closing.signal.aborted) return;
      this.#settle('offline', error);
      await pause(this.#reconnect.next(), this.#closing.signal);
    } finally {
      this.#closing.signal.removeEventListener('abort', end);
      end();
    }
  }

  async #open(signal: AbortSignal): Promise<Response> {
    const headers = {
      accept: 'text/event-stream',
      'last-event-id': `${this.#revision.tenant}.${this.#revision.platform}`,
      'x-client-id': this.#options.clientId,
    };
    const path = `/config/effective/watch?${this.#address}`;
    const response = await this.#options.gateway.stream(path, { headers, signal });
    if (response.headers.get('content-type')?.startsWith('text/event-stream')) return response;
    throw new StrataError('unexpected_answer', 'What answered is no stream of events.');
  }

  /** Reads events until the stream ends, and says why it did. */
  async #follow(body: ReadableStream<Uint8Array>, ending: AbortController): Promise<Error> {
    const parser = new EventParser();
    const reader = body.getReader();
    const guard = (): ReturnType<typeof setTimeout> => setTimeout(() => ending.abort(), watchdogMs);
    const checkEveryMs = Math.max(this.#options.maxStalenessMs / 4, 250);
    const checks = setInterval(() => this.#keepYoung(), checkEveryMs);
    let watchdog = guard();
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return new StrataError('unreachable', 'The stream ended.');
        clearTimeout(watchdog);
        watchdog = guard();
        const events = parser.push(value);
        if (parser.retryMs !== undefined)
          this.#reconnect.firstMs = Math.min(Math.max(parser.retryMs, 10), 30_000);
        const closed = events.find(({ event }) => event === 'closed');
        if (closed) return new StrataError('unreachable', `The stream was closed: ${closed.data}`);
        for (const event of events) this.#hear(event);
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

  #hear({ event, data, id }: StreamEvent): void {
    const revision = revisionIn(data) ?? revisionOfId(id);
    if (!revision) return;
    switch (event) {
      case 'reset':
        this.#resets += 1;
        this.#wanted = revision;
        break;
      case 'effective.changed':
        // Also of the same revision: a reload may have changed what the environment says.
        this.#changes += 1;
        this.#wanted = latest(this.#wanted, revision);
        break;
      case 'ready':
        this.#wanted = latest(this.#wanted, revision);
        break;
      case 'heartbeat':
        break;
      default:
        return;
    }
    if (this.#isBehind()) void this.#catchUp();
    else if (covers(revision, this.#revision)) this.#confirm(now(), revision);
  }

  /** Whether the stream has spoken of values that are not read yet. */
  #isBehind(): boolean {
    return (
      this.#changesSeen < this.#changes ||
      this.#resetsSeen < this.#resets ||
      !covers(this.#revision, this.#wanted)
    );
  }

  async #catchUp(): Promise<void> {
    if (this.#isCatchingUp) return;
    this.#isCatchingUp = true;
    const backoff = new Backoff();
    while (this.#isBehind() && this.#status === 'live') {
      const read = await this.#read().catch((error: StrataError) => error);
      if (read === 'current') continue;
      const retryAfterMs = read instanceof Error ? read.retryAfterMs : undefined;
      await pause(backoff.next(retryAfterMs), this.#closing.signal);
    }
    this.#isCatchingUp = false;
  }

  /** Where a stream says too little for the age that is asked for, a read says it. */
  #keepYoung(): void {
    const { ageMs } = this.state;
    if (ageMs < this.#options.maxStalenessMs / 2 || this.#isBehind()) return;
    if (this.#isChecking) return;
    this.#isChecking = true;
    void this.#tryRead().finally(() => {
      this.#isChecking = false;
    });
  }

  async #tryRead(): Promise<StrataError | undefined> {
    try {
      await this.#read();
      return undefined;
    } catch (error) {
      return error as StrataError;
    }
  }

  /** Reads what holds from now on, and no older than `least`. */
  #read(least: Revision = nothing): Promise<Read> {
    const read = this.#reading.then(() => this.#readOnce(least));
    this.#reading = read.catch(() => {});
    return read;
  }

  async #readOnce(asked: Revision): Promise<Read> {
    const startedAt = now();
    const changes = this.#changes;
    const resets = this.#resets;
    const isReset = this.#resetsSeen < resets;
    const least = latest(asked, this.#wanted);
    const isKnown = !isReset && covers(this.#revision, least);
    const etag = isKnown ? this.#snapshot?.etag : undefined;
    const { gateway } = this.#options;
    const answer = await gateway.json(`/config/effective?explain=true&${this.#address}`, {
      signal: this.#closing.signal,
      headers: {
        ...(etag === undefined ? {} : { 'if-none-match': etag }),
        ...(isKnown ? {} : { 'x-min-revision': textOf(least) }),
      },
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
    this.#changesSeen = changes;
    this.#resetsSeen = resets;
    if (isDoubtful) return 'doubtful';
    this.#confirm(startedAt, this.#revision);
    return 'current';
  }

  /** `isFree` where revisions may go back. */
  #take(snapshot: Snapshot, isFree: boolean): void {
    const before = this.#snapshot;
    this.#snapshot = snapshot;
    this.#revision = isFree ? snapshot.revision : latest(this.#revision, snapshot.revision);
    this.#from = this.#status === 'live' ? 'stream' : 'poll';
    this.#isUnsaved = true;
    const changes = before ? changesBetween(before.values, snapshot.values) : [];
    if (changes.length > 0)
      this.#options.onChange(Object.freeze({ revision: this.#revision, changes }));
  }

  /** The values held at this moment, at this revision. */
  #confirm(heldAt: Instant, revision: Revision): void {
    if (this.#isBehind()) return;
    this.#revision = latest(this.#revision, revision);
    this.#from = this.#status === 'live' ? 'stream' : 'poll';
    const isNewer = !this.#confirmedAt || heldAt.monotonic > this.#confirmedAt.monotonic;
    if (isNewer) this.#confirmedAt = heldAt;
    this.#tellStaleness();
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
  #tellStaleness(): void {
    clearTimeout(this.#staleTimer);
    const { ageMs, stale } = this.state;
    if (stale !== this.#isToldStale) {
      this.#isToldStale = stale;
      this.#options.onState(this.state);
    }
    if (stale || this.#closing.signal.aborted) return;
    const leftMs = Math.min(this.#options.maxStalenessMs - ageMs + 1, 2 ** 31 - 1);
    this.#staleTimer = setTimeout(() => this.#tellStaleness(), leftMs);
  }

  /** Reads until the values are of this revision. */
  async atLeast(asked: Revision, timeoutMs: number): Promise<Revision> {
    const startedAt = now();
    const backoff = new Backoff();
    backoff.firstMs = 100;
    let last: unknown;
    while (!covers(this.#revision, asked)) {
      const leftMs = timeoutMs - sinceMs(startedAt);
      if (leftMs <= 0 || this.#closing.signal.aborted) throw notReached(asked, timeoutMs, last);
      const reading = this.#read(asked).catch((error: unknown) => {
        last = error;
      });
      await Promise.race([reading, pause(leftMs, this.#closing.signal)]);
      if (isFinal(last)) throw last;
      if (covers(this.#revision, asked)) break;
      const restMs = Math.max(timeoutMs - sinceMs(startedAt), 0);
      await pause(Math.min(backoff.next(), restMs), this.#closing.signal);
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

/** By both clocks, of a time that is known by the wall's alone. Undefined where that is not known, or to come. */
function instantOf(wall: number): Instant | undefined {
  const ageMs = Date.now() - wall;
  return ageMs >= 0 ? { monotonic: performance.now() - ageMs, wall } : undefined;
}

function revisionIn(data: string): Revision | undefined {
  try {
    return revisionOf((JSON.parse(data) as { revision?: unknown } | null)?.revision);
  } catch {
    return undefined;
  }
}

function revisionOfId(id: string | undefined): Revision | undefined {
  const [, tenant, platform] = /^(\d+)\.(\d+)$/.exec(id ?? '') ?? [];
  return tenant === undefined ? undefined : { tenant: Number(tenant), platform: Number(platform) };
}

function notReached(asked: Revision, timeoutMs: number, last: unknown): StrataError {
  const why = last instanceof Error ? `: ${last.message}` : '';
  return new StrataError(
    'timeout',
    `No configuration of revision ${textOf(asked)} within ${timeoutMs} ms${why}`,
    { cause: last },
  );
}
