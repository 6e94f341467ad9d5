/**
 * Watch streams: Server-Sent Events of a scope's committed changes, each with its revision as the id.
 *
 * That something changed is heard from the coherence of this node, in no order and perhaps twice; what changed is read from the
 * owner after the last revision sent, so order, completeness and resuming hold whatever the bus loses and on whichever gateway.
 *
 * | Danger                          | Bounded by                                                                       |
 * |---------------------------------|----------------------------------------------------------------------------------|
 * | a change that nobody announced  | the feed, within a quarter of the fence; else the next heartbeat                  |
 * | the owner is away               | the stream stays and asks again every second                                     |
 * | the caller's right ends         | checked before every read, when a session or membership changes, every heartbeat |
 * | a slow reader                   | nothing is read for it while its buffer is full; a heartbeat later it is dropped   |
 * | many streams                    | WATCH_MAX_STREAMS, WATCH_MAX_STREAMS_PER_CALLER                                   |
 * | the gateway stops               | streams end, stragglers are cut a second later                                    |
 */
import { Readable } from 'node:stream';
import type { ServiceBroker } from 'moleculer';
import type { Caller } from '../shared/access.ts';
import type { LiveSettings } from '../shared/live-settings.ts';
import { callAs } from '../shared/cluster/request.ts';
import type { Coherence } from '../shared/cluster/coherence/coherence.ts';
import {
  authScope,
  memberScope,
  platformScope,
  tenantScope,
} from '../shared/contracts/revision-scopes.ts';
import { codeOf, isOutage, StrataError } from '../shared/errors.ts';
import { WakeableWait } from '../shared/wakeable-wait.ts';
import type { OwnHandlers, OwnRequest } from './routes.ts';

const heartbeatMs = 15_000;
const outageMs = 1000;
const graceMs = 1000;
const pageSize = 100;

interface Changes {
  readonly items: readonly { readonly revision: number }[];
  readonly revision: number;
}
interface Watched {
  readonly scope: string;
  /** Scopes whose changes may end the caller's right to watch. */
  readonly rights: readonly string[];
  /** Without `after` only the revision. */
  readonly changes: (caller: Caller, after?: number) => Promise<Changes>;
}
interface Stream {
  readonly watcher: string;
  readonly end: () => void;
}

/** An event as it is sent; the data never holds a line feed. */
const frame = (event: string, data: unknown, id?: number): string =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;

export function createWatch(broker: ServiceBroker, coherence: Coherence, settings: LiveSettings) {
  const open = new Set<Stream>();
  const state = { stopped: false };

  function admit(watcher: string): void {
    const { watch_max_streams: most, watch_max_streams_per_caller: each } = settings.current;
    if (state.stopped || open.size >= most)
      throw new StrataError(
        'service_unavailable',
        'This gateway takes no further stream. Try again.',
      );
    if ([...open].filter((stream) => stream.watcher === watcher).length >= each) {
      throw new StrataError(
        'rate_limited',
        `You have ${each} streams open on this gateway. Close one first.`,
        { headers: { 'retry-after': '10' } },
      );
    }
  }

  async function start(
    { scope, rights, changes }: Watched,
    lastEventId: number | undefined,
    { caller, recheck, response }: OwnRequest,
  ): Promise<Readable> {
    const watcher = `${caller.type} ${caller.id}`;
    admit(watcher);
    const news = new WakeableWait();
    const room = new WakeableWait();
    const cut = (): void => {
      response.destroy();
    };
    const stream = new Readable({
      read: () => room.wake(),
      destroy(error, done) {
        release();
        done(error);
      },
    });
    const end = (last?: string): void => {
      if (stream.readableEnded || stream.destroyed || self.ended) return;
      self.ended = true;
      if (last !== undefined) stream.push(last);
      stream.push(null);
      release();
      // For a reader who does not take the rest.
      const straggler = setTimeout(cut, graceMs);
      response.once('close', () => clearTimeout(straggler));
    };
    const self = { watcher, ended: false, end: () => end() };
    const unlisten = coherence.onChange((change) => {
      if (change.scope === scope || rights.includes(change.scope)) news.wake();
    });
    const release = (): void => {
      unlisten();
      open.delete(self);
      news.wake();
      room.wake();
    };
    const over = (): boolean => self.ended || stream.destroyed;
    const send = async (text: string): Promise<void> => {
      if (over() || stream.push(text)) return;
      if (!(await room.wait(heartbeatMs))) cut();
    };

    /** Sends what is new; throws where the caller may no longer know. */
    async function catchUp(): Promise<void> {
      while (!over()) {
        const { items, revision } = await changes(await recheck(), sent);
        if ((items[0]?.revision ?? revision + 1) !== sent + 1) {
          await send(frame('reset', { revision: (sent = revision) }, revision));
          continue;
        }
        for (const item of items) await send(frame('config.changed', item, (sent = item.revision)));
        if (items.length < pageSize) return;
      }
    }

    async function run(): Promise<void> {
      while (!over()) {
        let pauseMs = heartbeatMs;
        try {
          await catchUp();
        } catch (error) {
          if (!isOutage(error)) {
            end(frame('closed', { code: codeOf(error) }));
            return;
          }
          pauseMs = outageMs;
        }
        if (!over() && !(await news.wait(pauseMs))) await send(': still here\n\n');
      }
    }

    open.add(self);
    // Heard from before the revision is read: a change committed in between wakes the stream.
    const { revision } = await changes(caller).catch((error: unknown) => {
      stream.destroy();
      throw error;
    });
    let sent = lastEventId ?? revision;
    // Spread, so that the streams of a gateway that stops do not all come back at once.
    await send(
      `retry: ${1000 + Math.floor(Math.random() * 1000)}\n\n${frame('ready', { revision }, sent)}`,
    );
    void run();
    return stream;
  }

  return {
    handlers: {
      'gateway.watch.tenant': ({ tenant_id: id, last_event_id: last }, request) => {
        const tenantId = id as string;
        return start(
          {
            scope: tenantScope(tenantId),
            rights: [authScope, memberScope(tenantId)],
            changes: (caller, after) =>
              callAs(
                broker,
                'tenant-config.changes',
                { tenant_id: tenantId, limit: pageSize, ...(after === undefined ? {} : { after }) },
                { caller, requestId: request.requestId },
              ),
          },
          last as number | undefined,
          request,
        );
      },
      'gateway.watch.platform': ({ last_event_id: last }, request) =>
        start(
          {
            scope: platformScope,
            rights: [authScope],
            changes: (caller, after) =>
              callAs(
                broker,
                'global-config.changes',
                { limit: pageSize, ...(after === undefined ? {} : { after }) },
                { caller, requestId: request.requestId },
              ),
          },
          last as number | undefined,
          request,
        ),
    } satisfies OwnHandlers as OwnHandlers,
    open: () => open.size,
    /** No stream begins any more, and those that run end. */
    stop(): void {
      state.stopped = true;
      for (const { end } of open) end();
    },
  };
}
