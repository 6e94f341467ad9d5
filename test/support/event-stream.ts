/** A watch stream as a client of Server-Sent Events reads it. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from './strata.ts';

export interface StreamEvent {
  readonly id: number | undefined;
  /** The id as it was sent: that of effective values is `tenant.platform`. */
  readonly idText: string | undefined;
  readonly event: string;
  readonly data: Record<string, unknown> & { readonly revision: number };
}

export interface WatchStream {
  readonly status: number;
  readonly headers: Headers;
  /** The error, where the stream was refused. */
  readonly body:
    | {
        readonly request_id: string;
        readonly detail: { readonly code: string; readonly message: string };
      }
    | undefined;
  /** What has arrived so far. */
  readonly events: readonly StreamEvent[];
  /** The `config.changed` events among them. */
  readonly changes: () => StreamEvent[];
  /** Resolves when the stream has ended, however it did. */
  readonly ended: Promise<void>;
  /**
   * The first event that fits, once it is there; throws where the stream ends before, or after a
   * minute.
   */
  readonly until: (fits: (event: StreamEvent) => boolean) => Promise<StreamEvent>;
  readonly leave: () => void;
}

const patienceMs = 60_000;

/** Opens a stream, continuing after the event `lastEventId` where that is given. */
export async function watch(
  client: Client,
  path: string,
  lastEventId?: number | string,
  headers: Readonly<Record<string, string>> = {},
): Promise<WatchStream> {
  const controller = new AbortController();
  const resume = lastEventId === undefined ? {} : { 'last-event-id': String(lastEventId) };
  const response = await fetch(client.url + path, {
    headers: { authorization: `Bearer ${client.token}`, ...resume, ...headers },
    signal: controller.signal,
  });
  const isRefused = response.status !== 200;
  const events: StreamEvent[] = [];
  const state = { over: isRefused };
  const ended = isRefused
    ? Promise.resolve()
    : readInto(events, response).finally(() => {
        state.over = true;
      });
  return {
    status: response.status,
    headers: response.headers,
    body: isRefused ? ((await response.json()) as WatchStream['body']) : undefined,
    events,
    changes: () => events.filter(({ event }) => event === 'config.changed'),
    ended,
    async until(fits) {
      const limit = Date.now() + patienceMs;
      for (;;) {
        const found = events.find(fits);
        if (found) return found;
        if (state.over || Date.now() > limit) {
          const when = state.over ? ' before the end' : '';
          throw new Error(`no such event${when}: ${JSON.stringify(events)}`);
        }
        await delay(10);
      }
    },
    leave: () => controller.abort(),
  };
}

/**
 * Adds every event of the stream as it arrives. Resolves when the stream ends, is cut off or is
 * left.
 */
async function readInto(events: StreamEvent[], response: Response): Promise<void> {
  let text = '';
  try {
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      const frames = text.split('\n\n');
      text = frames.pop()!;
      for (const frame of frames) {
        const event = eventOf(frame);
        if (event) events.push(event);
      }
    }
  } catch {
    // Cut off, or left.
  }
}

/** The event of a frame; undefined for a comment, such as a heartbeat, and for `retry`. */
function eventOf(frame: string): StreamEvent | undefined {
  const fields = new Map(
    frame.split('\n').map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon), line.slice(colon + 2)];
    }),
  );
  const event = fields.get('event');
  if (!event) return undefined;
  const id = fields.get('id');
  return {
    id: id === undefined ? undefined : Number(id),
    idText: id,
    event,
    data: JSON.parse(fields.get('data')!) as StreamEvent['data'],
  };
}
