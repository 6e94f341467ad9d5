import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from './strata.ts';

export interface StreamEvent {
  readonly id: number | undefined;
  readonly event: string;
  readonly data: Record<string, unknown> & { readonly revision: number };
}

/** A watch stream as a client of Server-Sent Events reads it. */
export async function watch(client: Client, path: string, lastEventId?: number) {
  const controller = new AbortController();
  const response = await fetch(client.url + path, {
    headers: {
      authorization: `Bearer ${client.token}`,
      ...(lastEventId === undefined ? {} : { 'last-event-id': String(lastEventId) }),
    },
    signal: controller.signal,
  });
  if (response.status !== 200)
    return {
      status: response.status,
      body: (await response.json()) as { detail: { code: string } },
    } as never;
  const events: StreamEvent[] = [];
  const state = { over: false };
  const ended = (async () => {
    let text = '';
    try {
      for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
        const frames = (text += piece).split('\n\n');
        text = frames.pop()!;
        for (const frame of frames) {
          const fields = Object.fromEntries(
            frame
              .split('\n')
              .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
          );
          if (fields.event)
            events.push({
              id: fields.id === undefined ? undefined : Number(fields.id),
              event: fields.event,
              data: JSON.parse(fields.data!) as never,
            });
        }
      }
    } catch {
      /* cut off, or left */
    }
    state.over = true;
  })();
  const changes = (): StreamEvent[] => events.filter(({ event }) => event === 'config.changed');
  return {
    status: response.status,
    headers: response.headers,
    events,
    changes,
    ended,
    /** Resolves once an event fits; throws where the stream ends before, or after 15 s. */
    async until(fits: (event: StreamEvent) => boolean): Promise<StreamEvent> {
      const limit = Date.now() + 15_000;
      for (;;) {
        const found = events.find(fits);
        if (found) return found;
        if (state.over || Date.now() > limit)
          throw new Error(
            `no such event${state.over ? ' before the end' : ''}: ${JSON.stringify(events)}`,
          );
        await delay(10);
      }
    },
    leave: () => controller.abort(),
  };
}
