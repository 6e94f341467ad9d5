/**
 * Watch streams: Server-Sent Events of a scope's committed changes, each with its revision as the id.
 *
 * That something changed is heard from the coherence of this node, in no order and perhaps twice; what changed is read from the
 * owner after the last revision sent, so order, completeness and resuming hold whatever the bus loses and on whichever gateway.
 *
 * | Danger                          | Bounded by                                                                       |
 * |---------------------------------|----------------------------------------------------------------------------------|
 * | a change that nobody announced  | the feed, within a quarter of the fence; else the next heartbeat                  |
 * | a database that went back       | its lost revisions are skipped, so that what a stream goes on from no longer fits  |
 * | the owner is away               | the stream stays and asks again every second                                     |
 * | the caller's right ends         | checked before every read, when a session or membership changes, every heartbeat |
 * | a slow reader                   | nothing is read for it while its buffer is full; a heartbeat later it is dropped   |
 * | many streams                    | WATCH_MAX_STREAMS, and of these WATCH_MAX_STREAMS_PER_CALLER                      |
 * | one tenant that takes them all  | WATCH_MAX_STREAMS_PER_TENANT, and at most half of WATCH_MAX_STREAMS               |
 * | the gateway stops               | streams end, stragglers are cut a second later                                    |
 */
import { Readable } from 'node:stream';
import type { ServiceBroker } from 'moleculer';
import type { Caller } from '../shared/access.ts';
import type { LiveSettings } from '../shared/live-settings.ts';
import { callAs } from '../shared/cluster/request.ts';
import type { Coherence } from '../shared/cluster/coherence/coherence.ts';
import {
  approvalScope,
  authScope,
  memberScope,
  platformScope,
  tenantScope,
} from '../shared/contracts/revision-scopes.ts';
import { codeOf, isOutage, StrataError } from '../shared/errors.ts';
import { WakeableWait } from '../shared/wakeable-wait.ts';
import type { OwnHandlers, OwnRequest } from './routes.ts';

/** A stream without news sends a comment, a reader who takes nothing is cut off, and the caller's right is checked again. */
const heartbeatMs = 15_000;
/** While the owner of the changes is away, it is asked again in this time. */
const outageRetryMs = 1000;
/** How long a reader may take to fetch the rest of a stream that has ended. */
const graceMs = 1000;
const pageSize = 100;

interface Changes {
  /** In order, without gaps. */
  readonly items: readonly { readonly revision: number }[];
  /** The newest revision. */
  readonly revision: number;
}
interface Watched {
  /** Whose changes are sent. */
  readonly scope: string;
  /** Scopes whose changes may end the caller's right to watch. */
  readonly rights: readonly string[];
  /** At most `pageSize` changes after a revision; without `after` only the newest revision. */
  readonly changes: (caller: Caller, after?: number) => Promise<Changes>;
  /** What a change is called. */
  readonly event: 'config.changed' | 'approval.changed';
  /** Each item is what became of something, under the revision of its last change: those in between are not told, and not missed. */
  readonly showsLatestOnly?: true;
}

/** Whose a stream is, for the limits. */
interface Holder {
  readonly watcher: string;
  /** Null for who watches the platform's changes and acts for no tenant. */
  readonly tenantId: string | null;
}

export interface Watch {
  readonly handlers: OwnHandlers;
  /** How many streams are open. */
  readonly open: () => number;
  /** No stream begins any more, and those that run end. */
  readonly stop: () => void;
}

export function createWatch(
  broker: ServiceBroker,
  coherence: Coherence,
  settings: LiveSettings,
): Watch {
  const open = new Set<WatchStream>();
  let stopped = false;

  /** Throws where one more stream would be too many. */
  function checkLimits({ watcher, tenantId }: Holder): void {
    const {
      watch_max_streams: most,
      watch_max_streams_per_tenant: mostPerTenant,
      watch_max_streams_per_caller: mostPerCaller,
    } = settings.current;
    const countOf = (isCounted: (stream: WatchStream) => boolean): number =>
      [...open].filter(isCounted).length;
    if (countOf((stream) => stream.holder.watcher === watcher) >= mostPerCaller)
      throw tooMany(`You have ${mostPerCaller} streams open on this gateway. Close one first.`);
    // Half, so that a tenant never takes all of them, however the limits are set.
    const share = Math.min(mostPerTenant, Math.ceil(most / 2));
    const isOfTenant = (stream: WatchStream): boolean => stream.holder.tenantId === tenantId;
    if (tenantId !== null && countOf(isOfTenant) >= share)
      throw tooMany(
        `The tenant has ${share} streams open on this gateway, its share (WATCH_MAX_STREAMS_PER_TENANT). Close one first.`,
      );
    if (stopped || open.size >= most)
      throw new StrataError(
        'service_unavailable',
        'This gateway takes no further stream. Try again.',
      );
  }

  async function start(
    watched: Watched,
    tenantId: string | null,
    lastEventId: unknown,
    request: OwnRequest,
  ): Promise<Readable> {
    const { caller } = request;
    const holder = { watcher: `${caller.type} ${caller.id}`, tenantId };
    checkLimits(holder);
    const stream = new WatchStream(holder, watched, request, coherence, () => open.delete(stream));
    open.add(stream);
    await stream.begin(lastEventId as number | undefined);
    return stream.events;
  }

  const handlers: OwnHandlers = {
    'gateway.watch.tenant': ({ tenant_id: id, last_event_id: last }, request) =>
      start(tenantChanges(broker, id as string, request.requestId), id as string, last, request),
    'gateway.watch.platform': ({ last_event_id: last }, request) =>
      start(platformChanges(broker, request.requestId), request.caller.tenant_id, last, request),
    'gateway.watch.approvals': ({ tenant_id: id, last_event_id: last }, request) =>
      start(approvalChanges(broker, id as string, request.requestId), id as string, last, request),
  };
  return {
    handlers,
    open: () => open.size,
    stop() {
      stopped = true;
      for (const stream of open) stream.end();
    },
  };
}

const tenantChanges = (broker: ServiceBroker, tenantId: string, requestId: string): Watched => ({
  event: 'config.changed',
  scope: tenantScope(tenantId),
  rights: [authScope, memberScope(tenantId)],
  changes: (caller, after) =>
    callAs(
      broker,
      'tenant-config.changes',
      { tenant_id: tenantId, limit: pageSize, ...(after === undefined ? {} : { after }) },
      { caller, requestId },
    ),
});

const platformChanges = (broker: ServiceBroker, requestId: string): Watched => ({
  event: 'config.changed',
  scope: platformScope,
  rights: [authScope],
  changes: (caller, after) =>
    callAs(
      broker,
      'global-config.changes',
      { limit: pageSize, ...(after === undefined ? {} : { after }) },
      { caller, requestId },
    ),
});

const approvalChanges = (broker: ServiceBroker, tenantId: string, requestId: string): Watched => ({
  event: 'approval.changed',
  showsLatestOnly: true,
  scope: approvalScope(tenantId),
  rights: [authScope, memberScope(tenantId)],
  changes: (caller, after) =>
    callAs(
      broker,
      'notifier.approvals.changes',
      { tenant_id: tenantId, limit: pageSize, ...(after === undefined ? {} : { after }) },
      { caller, requestId },
    ),
});

const tooMany = (message: string): StrataError =>
  new StrataError('rate_limited', message, { headers: { 'retry-after': '10' } });

class WatchStream {
  readonly holder: Holder;
  /** What the client is sent. */
  readonly events: Readable;
  readonly #watched: Watched;
  readonly #request: OwnRequest;
  readonly #stopListening: readonly (() => void)[];
  readonly #onReleased: () => void;
  /** Woken by a change, by a reset, and by the end. */
  readonly #news = new WakeableWait();
  /** Woken when the reader has taken what was sent, and by the end. */
  readonly #room = new WakeableWait();
  #lastSent = 0;
  #ended = false;

  /** Listens from here on, so that a change that is committed while `begin` reads the revision is not missed. */
  constructor(
    holder: Holder,
    watched: Watched,
    request: OwnRequest,
    coherence: Coherence,
    onReleased: () => void,
  ) {
    this.holder = holder;
    this.#watched = watched;
    this.#request = request;
    this.#onReleased = onReleased;
    this.events = new Readable({
      read: () => this.#room.wake(),
      destroy: (error, done) => {
        this.#release();
        done(error);
      },
    });
    this.#stopListening = [
      coherence.onChange(({ scope }) => {
        if (scope === watched.scope || watched.rights.includes(scope)) this.#news.wake();
      }),
      coherence.onReset(() => this.#news.wake()),
    ];
  }

  /** Sends the first event and goes on by itself: after the last event that the client has, else from now on. */
  async begin(lastEventId: number | undefined): Promise<void> {
    const revision = await this.#newestRevision();
    this.#lastSent = lastEventId ?? revision;
    // Spread, so that the streams of a gateway that stops do not all come back at once.
    const retryMs = 1000 + Math.floor(Math.random() * 1000);
    await this.#send(`retry: ${retryMs}\n\n${frame('ready', { revision }, this.#lastSent)}`);
    void this.#run();
  }

  /** Ends the stream after `lastFrame`. A reader who does not take the rest in time is cut off. */
  end(lastFrame?: string): void {
    if (this.#isOver() || this.events.readableEnded) return;
    this.#ended = true;
    if (lastFrame !== undefined) this.events.push(lastFrame);
    this.events.push(null);
    this.#release();
    const straggler = setTimeout(() => this.#cut(), graceMs);
    this.#request.response.once('close', () => clearTimeout(straggler));
  }

  async #newestRevision(): Promise<number> {
    try {
      const { revision } = await this.#watched.changes(this.#request.caller);
      return revision;
    } catch (error) {
      this.events.destroy();
      throw error;
    }
  }

  async #run(): Promise<void> {
    while (!this.#isOver()) {
      let pauseMs = heartbeatMs;
      try {
        await this.#catchUp();
      } catch (error) {
        if (!isOutage(error)) {
          this.end(frame('closed', { code: codeOf(error) }));
          return;
        }
        pauseMs = outageRetryMs;
      }
      if (this.#isOver()) return;
      const woken = await this.#news.wait(pauseMs);
      if (!woken) await this.#send(': still here\n\n');
    }
  }

  /** Sends what is new. Throws where the caller may no longer know. */
  async #catchUp(): Promise<void> {
    while (!this.#isOver()) {
      const caller = await this.#request.recheck();
      const { items, revision } = await this.#watched.changes(caller, this.#lastSent);
      const next = items[0]?.revision ?? revision + 1;
      const isGap = this.#watched.showsLatestOnly
        ? this.#lastSent > revision
        : next !== this.#lastSent + 1;
      if (isGap) {
        // The changes in between are no longer kept, or the client names a revision that never was or is lost.
        this.#lastSent = revision;
        await this.#send(frame('reset', { revision }, revision));
        continue;
      }
      for (const item of items) {
        this.#lastSent = item.revision;
        await this.#send(frame(this.#watched.event, item, item.revision));
      }
      if (items.length < pageSize) return;
    }
  }

  /** Waits while the reader's buffer is full, and cuts off a reader who leaves it full. */
  async #send(text: string): Promise<void> {
    if (this.#isOver()) return;
    const hasRoom = this.events.push(text);
    if (hasRoom) return;
    const taken = await this.#room.wait(heartbeatMs);
    if (!taken) this.#cut();
  }

  #isOver(): boolean {
    return this.#ended || this.events.destroyed;
  }

  #cut(): void {
    this.#request.response.destroy();
  }

  #release(): void {
    for (const stop of this.#stopListening) stop();
    this.#onReleased();
    this.#news.wake();
    this.#room.wake();
  }
}

/** An event as it is sent. JSON.stringify escapes line feeds, the first of which would end the data. */
function frame(event: string, data: unknown, id?: number): string {
  const idLine = id === undefined ? '' : `id: ${id}\n`;
  return `${idLine}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}
