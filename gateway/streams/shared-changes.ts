/**
 * The changes of one scope as all streams of this gateway that watch it are sent them: read from
 * the owner once, encoded once.
 *
 * That something changed is heard from the coherence of this node, in no order and perhaps twice;
 * what changed is read from the owner after the last revision read, so order, completeness and
 * resuming hold whatever the bus loses and on whichever gateway.
 *
 * | Danger                           | Bounded by                                                                        |
 * |----------------------------------|-----------------------------------------------------------------------------------|
 * | a change that nobody announced   | the feed, within a quarter of the fence; without a lease the owner is asked every 5 s |
 * | a database that went back        | its lost revisions are skipped, so that what a stream continues from no longer fits  |
 * | the owner is away                | streams stay, and it is asked again every second                                  |
 * | a stream that resumes from far back | reads for itself, a page at a time and only while its reader has room          |
 */
import { raisedBy } from '../../shared/coherence/feed-server.ts';
import { codeOf, isOutage } from '../../shared/errors.ts';
import { comment, frame, retryLine, type EventStream, type Subscription } from './event-stream.ts';
import { RightsRound } from './rights.ts';
import type { StreamHub } from './stream-hub.ts';

export const pageSize = 100;
/** Revisions that are kept encoded, for streams that are a little behind. */
const maxSteps = 1000;
/** While the owner of the changes is away, it is asked again in this time. */
const outageRetryMs = 1000;
/** A comment is sent with every so many heartbeats. */
const beatsPerComment = 3;

export interface Changes {
  /** In order, without gaps. */
  readonly items: readonly { readonly revision: number }[];
  /** The newest revision. */
  readonly revision: number;
}

/** At most `pageSize` changes after a revision; without one only the newest revision. */
export type ReadChanges = (after?: number) => Promise<Changes>;

/** What the changes are of. */
export interface ChangeKind {
  /** What a change is called. */
  readonly event: 'config.changed' | 'approval.changed' | 'changeset.changed';
  /**
   * Each item is what became of something, under the revision of its last change: those in between
   * are not told, and not missed. What a restore has lost is known by how far it raises revisions.
   */
  readonly showsLatestOnly?: true;
}

/**
 * What brings a stream from one revision to another: one change, or the word that changes are
 * missing.
 */
interface Step {
  readonly from: number;
  readonly to: number;
  readonly isReset: boolean;
  readonly frame: Buffer;
}

export class SharedChanges {
  readonly #hub: StreamHub;
  readonly #kind: ChangeKind;
  readonly #read: ReadChanges;
  readonly #hasLease: () => boolean;
  readonly #onUnused: () => void;
  readonly #subscriptions = new Set<ChangeSubscription>();
  /** How many are about to subscribe. */
  #joining = 0;
  /** The newest revision that was read; undefined before the first. */
  #head: number | undefined;
  #steps: Step[] = [];
  /** There may be more than was read. */
  #isStale = true;
  #reading: Promise<void> | undefined;
  #lastBeat = 0;
  /** The newest revision that was observed. */
  #announced = 0;

  constructor(
    hub: StreamHub,
    kind: ChangeKind,
    read: ReadChanges,
    hasLease: () => boolean,
    onUnused: () => void,
  ) {
    this.#kind = kind;
    this.#hub = hub;
    this.#read = read;
    this.#hasLease = hasLease;
    this.#onUnused = onUnused;
  }

  /**
   * Begins a stream after the last event that its client has, else from now on. Throws what the
   * owner says.
   */
  async subscribe(stream: EventStream, lastEventId: number | undefined): Promise<void> {
    this.#joining += 1;
    try {
      const newest = await this.#newest();
      stream.subscribe(new ChangeSubscription(stream, this, newest, lastEventId));
    } finally {
      this.#joining -= 1;
      this.#endIfUnused();
    }
  }

  /** The scope has this revision now. */
  onChange(revision: number): void {
    // A change is observed twice: what has been asked for is asked for no more.
    if (revision <= Math.max(this.#announced, this.#head ?? 0)) return;
    this.#announced = revision;
    this.#readAgain();
  }

  /** There may be something that nobody announced, or less than before. */
  refresh(): void {
    this.#announced = 0;
    this.#readAgain();
  }

  #readAgain(): void {
    this.#isStale = true;
    void this.#go().catch((error: unknown) => this.#onFailure(error));
  }

  /** At least the revision of every write that was answered before the call. */
  async #newest(): Promise<number> {
    if (!this.#hasLease()) this.#isStale = true;
    await this.#go();
    return this.#head!;
  }

  /** One read at a time, again as long as there may be more. */
  async #go(): Promise<void> {
    if (this.#isStale) this.#reading ??= this.#readAll();
    await this.#reading;
  }

  async #readAll(): Promise<void> {
    try {
      while (this.#isStale) {
        this.#isStale = false;
        await this.#readOn();
      }
    } catch (error) {
      this.#isStale = true;
      throw error;
    } finally {
      // In the same step as the last look: what comes later finds that nobody reads.
      this.#reading = undefined;
    }
  }

  async #readOn(): Promise<void> {
    for (;;) {
      const { items, revision } = await this.#read(this.#head);
      if (this.#head === undefined) {
        this.#head = revision;
        return;
      }
      const steps = stepsAfter(this.#kind, this.#head, items, revision);
      this.#steps = [...this.#steps, ...steps].slice(-maxSteps);
      this.#head = steps.at(-1)?.to ?? this.#head;
      this.deliver(this.#subscriptions);
      if (items.length < pageSize) return;
    }
  }

  #onFailure(error: unknown): void {
    if (!isOutage(error)) {
      const closed = frame('closed', { code: codeOf(error) });
      for (const { stream } of this.#subscriptions) stream.end(closed);
      return;
    }
    setTimeout(() => {
      if (this.#subscriptions.size > 0) this.refresh();
    }, outageRetryMs).unref();
  }

  join(subscription: ChangeSubscription): void {
    this.#subscriptions.add(subscription);
  }

  leave(subscription: ChangeSubscription): void {
    this.#subscriptions.delete(subscription);
    this.#endIfUnused();
  }

  #endIfUnused(): void {
    if (this.#subscriptions.size === 0 && this.#joining === 0) this.#onUnused();
  }

  /** Sends each of these what it has not been sent. */
  deliver(subscriptions: Iterable<ChangeSubscription>): void {
    const round = new RightsRound();
    for (const subscription of subscriptions) {
      const { stream, lastSent } = subscription;
      if (lastSent === this.#head || !stream.isReady) continue;
      this.#hub.whileHeld(stream, round, () => this.#send(subscription));
    }
  }

  #send(subscription: ChangeSubscription): void {
    const { stream } = subscription;
    while (stream.isReady && subscription.lastSent !== this.#head) {
      const first = this.#steps.findLastIndex(({ from }) => from === subscription.lastSent);
      if (first === -1) {
        void this.#sendFromFarBack(subscription);
        return;
      }
      const ahead = this.#steps.slice(first);
      // Whoever has to read everything again reads what came after it, too.
      const steps = ahead.some(({ isReset }) => isReset)
        ? [resetFrom(subscription.lastSent, this.#head!)]
        : ahead.slice(0, pageSize);
      subscription.lastSent = steps.at(-1)!.to;
      stream.write(joined(steps));
    }
  }

  /** What is no longer kept here is read for the stream alone. */
  async #sendFromFarBack(subscription: ChangeSubscription): Promise<void> {
    const { stream, lastSent } = subscription;
    if (subscription.isReading) return;
    subscription.isReading = true;
    try {
      const { items, revision } = await this.#read(lastSent);
      const steps = stepsAfter(this.#kind, lastSent, items, revision);
      if (steps.length === 0) {
        // Nothing is told of what came after it, or another gateway has observed it first.
        subscription.lastSent = Math.max(lastSent, revision);
        this.onChange(subscription.lastSent);
        // What came during the read was not sent.
        this.#hub.owe(stream);
        return;
      }
      subscription.lastSent = steps.at(-1)!.to;
      stream.write(joined(steps));
    } catch (error) {
      if (isOutage(error)) this.#hub.owe(stream);
      else stream.end(frame('closed', { code: codeOf(error) }));
      return;
    } finally {
      subscription.isReading = false;
    }
    this.deliver([subscription]);
  }

  heartbeat({ stream }: ChangeSubscription, beat: number): void {
    if (beat !== this.#lastBeat && !this.#hasLease()) this.refresh();
    this.#lastBeat = beat;
    if (beat % beatsPerComment === 0) stream.write(comment);
  }
}

/**
 * The way from a revision to the newest: through every change, or at once where changes in between
 * are no longer kept or lost.
 */
function stepsAfter(
  { event, showsLatestOnly }: ChangeKind,
  after: number,
  items: Changes['items'],
  revision: number,
): Step[] {
  // After 0 nothing was known that could be lost.
  const isGap = (from: number, to: number): boolean =>
    showsLatestOnly ? from > 0 && to - from > raisedBy / 2 : to !== from + 1;
  const isMissing = items.length === 0 && after !== revision;
  if (after > revision || (isMissing && (!showsLatestOnly || isGap(after, revision))))
    return [resetFrom(after, revision)];
  const revisions = [after, ...items.map((item) => item.revision)];
  const gap = items.findIndex((item, index) => isGap(revisions[index]!, item.revision));
  const complete = gap === -1 ? items : items.slice(0, gap);
  const steps = complete.map((item, index) => ({
    from: revisions[index]!,
    to: item.revision,
    isReset: false,
    frame: frame(event, item, item.revision),
  }));
  return gap === -1 ? steps : [...steps, resetFrom(revisions[gap]!, revision)];
}

const resetFrom = (from: number, to: number): Step => ({
  from,
  to,
  isReset: true,
  frame: frame('reset', { revision: to }, to),
});

const joined = (steps: readonly Step[]): Buffer =>
  steps.length === 1 ? steps[0]!.frame : Buffer.concat(steps.map((step) => step.frame));

class ChangeSubscription implements Subscription {
  readonly stream: EventStream;
  lastSent: number;
  /** A read for this stream alone is on its way. */
  isReading = false;
  readonly #changes: SharedChanges;
  readonly #newest: number;

  constructor(
    stream: EventStream,
    changes: SharedChanges,
    newest: number,
    lastEventId: number | undefined,
  ) {
    this.stream = stream;
    this.#changes = changes;
    this.#newest = newest;
    this.lastSent = lastEventId ?? newest;
    changes.join(this);
  }

  begin(): void {
    const ready = frame('ready', { revision: this.#newest }, this.lastSent);
    this.stream.write(Buffer.concat([retryLine(), ready]));
    this.goOn();
  }

  goOn(): void {
    this.#changes.deliver([this]);
  }

  heartbeat(beat: number): void {
    this.#changes.heartbeat(this, beat);
  }

  leave(): void {
    this.#changes.leave(this);
  }
}
