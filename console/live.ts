/**
 * Changes of the tenant's configuration, and on screens of the platform of the platform's, as they happen. One tab of the browser has the stream, since browsers open only a few connections
 * to one host, and tells the others; when it is closed, the next one takes over.
 *
 * | Danger                              | Bounded by                                                      |
 * |-------------------------------------|-----------------------------------------------------------------|
 * | a connection that is silently cut   | the gateway sends something every 15 s; 45 s of silence end it    |
 * | a gateway that restarts             | asked again after 1 s, later less often, 30 s at most            |
 * | changes while no stream was open    | the stream goes on after the last revision, or says `reset`       |
 * | a session that has ended            | the stream ends; renewing finds out, and the page asks to sign in |
 */
import { signal } from '@preact/signals';
import { openStream } from './api.ts';
import { renew } from './session.ts';

export interface LiveChange {
  /** `platform` where it is the platform's. */
  readonly tenantId: string;
  readonly revision: number;
  /** Absent where changes were missed, and for those of the platform: anything may have changed. */
  readonly config_type?: string;
  readonly resource_id?: string;
  readonly changed_by?: string;
}

/** The latest that this tab has heard of. */
export const latestChange = signal<LiveChange | undefined>(undefined);

const otherTabs = new BroadcastChannel('strata-live');
otherTabs.addEventListener('message', ({ data }: MessageEvent<LiveChange>) => {
  latestChange.value = data;
});

function announce(change: LiveChange): void {
  latestChange.value = change;
  otherTabs.postMessage(change);
}

/** Until the returned function is called. */
export const follow = (tenantId: string): (() => void) =>
  followStream(tenantId, `/tenants/${tenantId}/config/watch`);

/** Likewise. */
export const followPlatform = (): (() => void) => followStream('platform', '/config/watch');

function followStream(owner: string, path: string): () => void {
  const controller = new AbortController();
  const { signal: aborted } = controller;
  const lead = (): Promise<void> => keepReading(owner, path, aborted);
  navigator.locks
    .request(`strata-live-${owner}`, { signal: aborted }, lead)
    // Another tab leads until this one has gone.
    .catch(() => undefined);
  return () => controller.abort();
}

const firstWaitMs = 1000;
const longestWaitMs = 30_000;
const silenceMs = 45_000;

async function keepReading(owner: string, path: string, aborted: AbortSignal): Promise<void> {
  let waitMs = firstWaitMs;
  let lastId: string | undefined;
  const heard = (event: ServerEvent): void => {
    waitMs = firstWaitMs;
    lastId = event.id ?? lastId;
    if (event.name === 'closed') void renew().catch(() => undefined);
    if (event.name !== 'config.changed' && event.name !== 'reset') return;
    announce({ tenantId: owner, ...(JSON.parse(event.data) as { revision: number }) });
  };
  while (!aborted.aborted) {
    try {
      await readOnce(path, lastId, heard, aborted);
    } catch {
      // Asked again below.
    }
    if (aborted.aborted) return;
    await pause(waitMs * (0.5 + Math.random()), aborted);
    waitMs = Math.min(waitMs * 2, longestWaitMs);
  }
}

async function readOnce(
  path: string,
  lastId: string | undefined,
  heard: (event: ServerEvent) => void,
  aborted: AbortSignal,
): Promise<void> {
  const silence = new AbortController();
  const ends = AbortSignal.any([aborted, silence.signal]);
  const headers: Record<string, string> = lastId === undefined ? {} : { 'last-event-id': lastId };
  const body = await openStream(path, headers, ends);
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const watchdog = setTimeout(() => silence.abort(), silenceMs);
    const { done, value } = await reader.read();
    clearTimeout(watchdog);
    if (done) return;
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop() ?? '';
    for (const block of blocks) heard(eventIn(block));
  }
}

interface ServerEvent {
  readonly name: string | undefined;
  readonly id: string | undefined;
  readonly data: string;
}

/** One block of a stream of server-sent events; a comment has neither name nor data. */
function eventIn(block: string): ServerEvent {
  const fields = new Map(
    block.split('\n').map((line) => {
      const [name, ...value] = line.split(': ');
      return [name!, value.join(': ')] as const;
    }),
  );
  return { name: fields.get('event'), id: fields.get('id'), data: fields.get('data') ?? '' };
}

const pause = (ms: number, aborted: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    aborted.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
