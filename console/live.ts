/**
 * What others do, as it happens: changes of the tenant's configuration, of the platform's, of
 * approvals, and of the own session. One tab of the browser has each stream, since browsers open
 * only a few connections to one host, and tells the others; when it is closed, the next one takes
 * over.
 *
 * | Danger                              | Bounded by                                                      |
 * |-------------------------------------|-----------------------------------------------------------------|
 * | a connection that is silently cut   | the gateway sends something every 15 s; 45 s of silence end it    |
 * | a gateway that restarts             | asked again after 1 s, later less often, 10 s at most, and at once when anything is answered again |
 * | changes while no stream was open    | the stream continues after the last revision, or says `reset`; of the session everything is asked again |
 * | a change before the stream began    | what was read until then is read again once it runs              |
 * | several changes at once             | each is kept until every screen has looked at it                 |
 * | a session that has ended            | said by its own stream, and by the end of the others; the page asks to sign in |
 */
import { signal } from '@preact/signals';
import { openStream, problemOf } from './api.ts';
import { lookAround, recoveries } from './outage.ts';
import { hasEnded, renew, tokens } from './session.ts';

export interface LiveChange {
  /** `platform` where it is the platform's. */
  readonly tenantId: string;
  readonly revision: number;
  /** Absent where changes were missed, and for those of the platform: anything may have changed. */
  readonly config_type?: string;
  readonly resource_id?: string;
}

interface LiveApproval {
  readonly tenantId: string;
  /** Absent where changes were missed: any may have changed. */
  readonly approval_id?: string;
}

/** More than come between two moments at which a screen looks. */
const mostKept = 1000;

/** What this tab has received, in order: of several at once a signal would show the last alone. */
export class Received<T> {
  /** How many until now. */
  readonly count = signal(0);
  #latest: readonly T[] = [];

  add(news: T): void {
    this.#latest = [...this.#latest, news].slice(-mostKept);
    this.count.value += 1;
  }

  /** What came after the first so many; undefined where that is no longer known. */
  since(count: number): readonly T[] | undefined {
    const missing = this.count.peek() - count;
    if (missing > this.#latest.length) return undefined;
    return this.#latest.slice(this.#latest.length - missing);
  }
}

export const changes = new Received<LiveChange>();
export const approvals = new Received<LiveApproval>();

type News =
  | { readonly change: LiveChange }
  | { readonly approval: LiveApproval }
  | { readonly session: 'changed' }
  /** A stream ended, and nobody said why: perhaps nothing can be reached. */
  | { readonly stream: 'ended' };

function take(news: News): void {
  if ('change' in news) changes.add(news.change);
  else if ('approval' in news) approvals.add(news.approval);
  // Says whether the session continues, and in which tenants with which roles.
  else if ('session' in news) void renew().catch(() => undefined);
  // Another tab may say it before this one knows its session.
  else if (tokens.value && !hasEnded.value) void lookAround();
}

const otherTabs = new BroadcastChannel('strata-live');
otherTabs.addEventListener('message', ({ data }: MessageEvent<News>) => take(data));

function announce(news: News): void {
  take(news);
  otherTabs.postMessage(news);
}

/** Until the returned function is called. */
export const followChanges = (tenantId: string): (() => void) =>
  followConfiguration(tenantId, `/tenants/${tenantId}/config/watch`);

/** Likewise. */
export const followPlatform = (): (() => void) => followConfiguration('platform', '/config/watch');

const followConfiguration = (owner: string, path: string): (() => void) =>
  follow(`strata-live-${owner}`, path, (event) => {
    const { name, data } = event;
    if (name !== 'config.changed' && !mayHaveMissed(event)) return;
    announce({ change: { tenantId: owner, ...(JSON.parse(data) as { revision: number }) } });
  });

/**
 * Likewise, for whoever reads values and no documents. What changes is said at once, what changes
 * for an agent or a service alone by the revision of the next heartbeat, within 5 s.
 */
export function followValues(tenantId: string): () => void {
  let known: string | undefined;
  const path = `/tenants/${tenantId}/config/effective/watch`;
  return follow(`strata-values-${tenantId}`, path, (event) => {
    const { id = known } = event;
    const isNewer = id !== known;
    known = id;
    if (isNewer || mayHaveMissed(event))
      announce({ change: { tenantId, revision: Number.parseInt(id ?? '0', 10) } });
  });
}

export const followApprovals = (tenantId: string): (() => void) =>
  follow(`strata-approvals-${tenantId}`, `/tenants/${tenantId}/approvals/watch`, (event) => {
    const { name, data } = event;
    if (mayHaveMissed(event)) announce({ approval: { tenantId } });
    if (name !== 'approval.changed') return;
    announce({ approval: { tenantId, ...(JSON.parse(data) as { approval_id: string }) } });
  });

/**
 * Where the stream begins again what is shown may be from before it; where it continues, what was
 * missed follows.
 */
const mayHaveMissed = ({ name, isResumed }: ServerEvent): boolean =>
  name === 'reset' || (name === 'ready' && !isResumed);

/** Until the returned function is called. Each session has a stream of its own. */
export function followSession(sessionId: string): () => void {
  let isBack = false;
  return follow(`strata-session-${sessionId}`, '/auth/watch', ({ name }) => {
    // What happened while no stream was open is not told.
    const isMissed = name === 'ready' && isBack;
    if (name === 'ready' && !isBack) void lookAround();
    isBack ||= name === 'ready';
    if (isMissed || name === 'session.ended' || name === 'memberships.changed')
      announce({ session: 'changed' });
  });
}

function follow(name: string, path: string, received: (event: ServerEvent) => void): () => void {
  const controller = new AbortController();
  const { signal: aborted } = controller;
  const lead = (): Promise<void> => keepReading(path, received, aborted);
  navigator.locks
    .request(name, { signal: aborted }, lead)
    // Another tab leads until this one has gone.
    .catch(() => undefined);
  return () => controller.abort();
}

const firstWaitMs = 1000;
const longestWaitMs = 10_000;
const silenceMs = 45_000;

async function keepReading(
  path: string,
  received: (event: ServerEvent) => void,
  aborted: AbortSignal,
): Promise<void> {
  let waitMs = firstWaitMs;
  let lastId: string | undefined;
  let isClosed = false;
  const note = (event: Omit<ServerEvent, 'isResumed'>): void => {
    const isResumed = lastId !== undefined;
    waitMs = firstWaitMs;
    lastId = event.id ?? lastId;
    isClosed = event.name === 'closed';
    if (isClosed) void renew().catch(() => undefined);
    received({ ...event, isResumed });
  };
  while (!aborted.aborted) {
    isClosed = false;
    try {
      await readOnce(path, lastId, note, aborted);
    } catch (error) {
      const { status } = problemOf(error);
      isClosed = status > 0 && status < 500;
    }
    if (aborted.aborted) return;
    // Where the gateway has said why, there is nothing to find out.
    if (!isClosed) announce({ stream: 'ended' });
    await pause(waitMs * (0.5 + Math.random()), aborted);
    waitMs = Math.min(waitMs * 2, longestWaitMs);
  }
}

async function readOnce(
  path: string,
  lastId: string | undefined,
  received: (event: Omit<ServerEvent, 'isResumed'>) => void,
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
    for (const block of blocks) received(eventIn(block));
  }
}

interface ServerEvent {
  readonly name: string | undefined;
  readonly id: string | undefined;
  readonly data: string;
  /** An event with an id came before it, after which the stream continues. */
  readonly isResumed: boolean;
}

/** One block of a stream of server-sent events; a comment has neither name nor data. */
function eventIn(block: string): Omit<ServerEvent, 'isResumed'> {
  const fields = new Map(
    block.split('\n').map((line) => {
      const [name, ...value] = line.split(': ');
      return [name!, value.join(': ')] as const;
    }),
  );
  return { name: fields.get('event'), id: fields.get('id'), data: fields.get('data') ?? '' };
}

/** Over also as soon as what was away is back. */
const pause = (ms: number, aborted: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const before = recoveries.peek();
    const done = (): void => {
      clearTimeout(timer);
      stopWatching();
      aborted.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    const stopWatching = recoveries.subscribe((count) => {
      if (count !== before) done();
    });
    aborted.addEventListener('abort', done);
  });
