/**
 * All open streams of a gateway: their limits, their heartbeats by one timer, and the end of those
 * whose caller may no longer watch.
 *
 * | Danger                        | Bounded by                                                                       |
 * |-------------------------------|----------------------------------------------------------------------------------|
 * | many streams                  | WATCH_MAX_STREAMS, and of these WATCH_MAX_STREAMS_PER_CALLER                      |
 * | one tenant that takes them all | WATCH_MAX_STREAMS_PER_TENANT, and at most half of WATCH_MAX_STREAMS             |
 * | the caller's right ends       | checked before every event, when what it follows from changes, and every 15 s    |
 * | a slow reader                 | gets nothing while its buffer is full, and is cut off after 15 s                 |
 * | the gateway stops             | streams end, stragglers are cut a second later                                   |
 */
import type { Coherence } from '../../shared/coherence/coherence.ts';
import type { Change } from '../../shared/commits/commit.ts';
import { countIn } from '../../shared/concurrency/held-requests.ts';
import { sessionCacheKey } from '../../shared/contracts/auth.ts';
import { apiKeyCacheKey } from '../../shared/contracts/auth-api-keys.ts';
import { trustCacheKey, workloadIssuersKey } from '../../shared/contracts/auth-workload.ts';
import { settingsReplacedKey, wholeScopeKey } from '../../shared/contracts/feed.ts';
import { memberKey } from '../../shared/contracts/members.ts';
import { tenantOfScope } from '../../shared/contracts/revision-scopes.ts';
import { serviceAccountKey } from '../../shared/contracts/service-accounts.ts';
import { visitKey } from '../../shared/contracts/visits.ts';
import { StrataError } from '../../shared/errors.ts';
import type { LiveSettings } from '../../shared/settings/live-settings.ts';
import { EventStream, type Holder } from './event-stream.ts';
import { RightsRound, type Verdict } from './rights.ts';
import { addTo, removeFrom } from './sets.ts';
import type { OwnRequest } from '../http/own-handlers.ts';

/** Every stream's turn comes once in this time. */
const heartbeatMs = 5000;
/**
 * Turns, so that not all streams are written to at once. Few, because one of many writes in a row
 * costs less than one by itself.
 */
const turns = 10;
/** So many of a turn are written to in one go. */
const beatsInOneGo = 500;
/** A reader who takes nothing for this long is cut off; rights are looked at as often. */
const patienceMs = 15_000;
/** What could not be sent while a right was unknown is tried again in this time. */
const retryMs = 1000;
/** The rights of so many streams are looked at in one go. */
const looksInOneGo = 1000;

/** Whoever is in no tenant shares what one tenant has. */
const noTenant = '';

/**
 * What was asked with one credential, once however many streams have it. The name is made of the
 * credential and so long; made, kept and compared for each stream, it would cost a heartbeat a tenth
 * more.
 */
interface Right {
  readonly name: string;
  readonly keys: readonly string[];
  readonly streams: Set<EventStream>;
}

export class StreamHub {
  readonly #settings: LiveSettings;
  readonly #open = new Set<EventStream>();
  readonly #byWatcher = new Map<string, number>();
  readonly #byTenant = new Map<string, number>();
  readonly #turns = Array.from({ length: turns }, () => new Set<EventStream>());
  readonly #rights = new Map<string, Right>();
  /** By the cache keys that they follow from, so that a change of others costs nothing. */
  readonly #rightsByKey = new Map<string, Set<Right>>();
  readonly #owed = new Set<EventStream>();
  #nextTurn = 0;
  #ticks = 0;
  #timer: NodeJS.Timeout | undefined;
  /** Those whose right may have ended. */
  readonly #doubted = new Set<EventStream>();
  #isSweeping = false;
  #stopped = false;

  constructor(coherence: Coherence, settings: LiveSettings) {
    this.#settings = settings;
    coherence.onChange((change) => this.#onChange(change));
  }

  get size(): number {
    return this.#open.size;
  }

  /** A place for one more stream. Throws where it would be one too many. */
  take(holder: Holder, request: OwnRequest): EventStream {
    this.#checkLimits(holder);
    const right = this.#shareRight(request);
    const stream = new EventStream(holder, request, right.name, (ended) => this.#release(ended));
    right.streams.add(stream);
    this.#open.add(stream);
    this.#count(holder, 1);
    this.#turns[this.#nextTurn]!.add(stream);
    this.#nextTurn = (this.#nextTurn + 1) % turns;
    this.#timer ??= setInterval(() => this.#tick(), heartbeatMs / turns);
    return stream;
  }

  /** No stream begins any more, and those that run end. */
  stop(): void {
    this.#stopped = true;
    for (const stream of this.#open) stream.end();
  }

  /**
   * Calls `send` once the caller is known to have the right to watch still, where there is room
   * then. Ends the stream where not.
   */
  whileHeld(stream: EventStream, round: RightsRound, send: () => void): void {
    const verdict = round.of(stream);
    if (verdict instanceof Promise) void verdict.then((known) => this.#act(stream, known, send));
    else this.#act(stream, verdict, send);
  }

  /** Has the stream continue in a second, since somebody who is needed is away. */
  owe(stream: EventStream): void {
    if (!stream.isOver) this.#owed.add(stream);
  }

  #act(stream: EventStream, verdict: Verdict, send: () => void): void {
    if (verdict === 'unknown') this.owe(stream);
    else if (verdict !== 'held') stream.close(verdict.lost);
    else if (stream.isReady) send();
  }

  #checkLimits({ watcher, tenantId, isFleet }: Holder): void {
    const {
      watch_max_streams: most,
      watch_max_streams_per_tenant: mostPerTenant,
      watch_max_streams_per_caller: mostPerCaller,
    } = this.#settings.current;
    const own = this.#byWatcher.get(watcher) ?? 0;
    if (!isFleet && own >= mostPerCaller)
      throw tooMany(
        `You have ${mostPerCaller} streams open on this gateway (WATCH_MAX_STREAMS_PER_CALLER). Close one first.`,
      );
    // Half, so that a tenant never takes all of them, however the limits are set.
    const share = Math.min(mostPerTenant, Math.ceil(most / 2));
    if ((this.#byTenant.get(tenantId ?? noTenant) ?? 0) >= share) {
      const whose = tenantId === null ? 'People without a tenant have' : 'The tenant has';
      throw tooMany(
        `${whose} ${share} streams open on this gateway, the share of one tenant (WATCH_MAX_STREAMS_PER_TENANT). Close one first.`,
      );
    }
    if (this.#stopped || this.#open.size >= most)
      throw new StrataError(
        'service_unavailable',
        'This gateway has reached its limit of streams. Try again.',
      );
  }

  #shareRight(request: OwnRequest): Right {
    const name = request.right;
    const known = this.#rights.get(name);
    if (known) return known;
    const right = { name, keys: keysBehind(request), streams: new Set<EventStream>() };
    this.#rights.set(right.name, right);
    for (const key of right.keys) addTo(this.#rightsByKey, key, right);
    return right;
  }

  #leaveRight(stream: EventStream): void {
    const right = this.#rights.get(stream.right)!;
    right.streams.delete(stream);
    if (right.streams.size > 0) return;
    this.#rights.delete(right.name);
    for (const key of right.keys) removeFrom(this.#rightsByKey, key, right);
  }

  #release(stream: EventStream): void {
    this.#leaveRight(stream);
    this.#open.delete(stream);
    this.#owed.delete(stream);
    this.#doubted.delete(stream);
    this.#count(stream.holder, -1);
    for (const turn of this.#turns) if (turn.delete(stream)) break;
    if (this.#open.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #count({ watcher, tenantId }: Holder, change: 1 | -1): void {
    countIn(this.#byWatcher, watcher, change);
    countIn(this.#byTenant, tenantId ?? noTenant, change);
  }

  /**
   * One timer for all: the turn that is due has its heartbeats, and every second what is owed is
   * tried again.
   */
  #tick(): void {
    const now = performance.now();
    this.#ticks += 1;
    const beat = Math.floor(this.#ticks / turns);
    const isRightsBeat = beat % (patienceMs / heartbeatMs) === 0;
    inSlices([...this.#turns[this.#ticks % turns]!], beatsInOneGo, (stream, round) => {
      stream.cutIfFullSince(now - patienceMs);
      if (!isRightsBeat) stream.heartbeat(beat);
      else this.whileHeld(stream, round, () => stream.heartbeat(beat));
    });
    if (this.#ticks % (retryMs / (heartbeatMs / turns)) !== 0) return;
    const owed = [...this.#owed];
    this.#owed.clear();
    for (const stream of owed) stream.goOn();
  }

  #onChange({ scope, keys }: Change): void {
    for (const key of keys) {
      if (key === settingsReplacedKey) this.#doubt(this.#open);
      else if (key === wholeScopeKey) this.#doubt(this.#ofTenant(tenantOfScope(scope)));
      else for (const right of this.#rightsByKey.get(key) ?? []) this.#doubt(right.streams);
    }
  }

  #ofTenant(tenantId: string | null): EventStream[] {
    if (tenantId === null) return [];
    return [...this.#open].filter(({ holder }) => holder.tenantId === tenantId);
  }

  #doubt(streams: Iterable<EventStream>): void {
    for (const stream of streams) this.#doubted.add(stream);
    if (this.#isSweeping || this.#doubted.size === 0) return;
    this.#isSweeping = true;
    setImmediate(() => this.#sweep());
  }

  /**
   * Ends the streams of those who have lost their right. What is doubted meanwhile is looked at
   * afterwards.
   */
  #sweep(): void {
    const concerned = [...this.#doubted];
    this.#doubted.clear();
    const look = (stream: EventStream, round: RightsRound): void =>
      this.whileHeld(stream, round, () => undefined);
    inSlices(concerned, looksInOneGo, look, () => {
      this.#isSweeping = false;
      this.#doubt([]);
    });
  }
}

/** The cache keys of what tells whether somebody may still watch: credential and membership. */
function keysBehind({ caller, apiKeyId }: OwnRequest): readonly string[] {
  const { type, id, session_id: sessionId, tenant_id: tenantId, visit } = caller;
  const keys: string[] = [];
  if (sessionId !== undefined) keys.push(sessionCacheKey({ session_id: sessionId }));
  if (apiKeyId !== undefined) keys.push(apiKeyCacheKey({ key_id: apiKeyId }));
  if (tenantId === null) return keys;
  if (type === 'service_account') {
    const account = { tenant_id: tenantId, account_id: id };
    keys.push(serviceAccountKey(account));
    if (apiKeyId === undefined) keys.push(trustCacheKey(account), workloadIssuersKey);
  } else {
    const member = { tenant_id: tenantId, user_id: id };
    keys.push(memberKey(member));
    if (visit) keys.push(visitKey(member));
  }
  return keys;
}

/** Requests are answered in between. What is known of rights is asked again then. */
function inSlices(
  streams: readonly EventStream[],
  size: number,
  work: (stream: EventStream, round: RightsRound) => void,
  done = (): void => undefined,
): void {
  const goOn = (from: number): void => {
    const round = new RightsRound();
    for (const stream of streams.slice(from, from + size)) work(stream, round);
    if (from + size < streams.length) setImmediate(() => goOn(from + size));
    else done();
  };
  goOn(0);
}

const tooMany = (message: string): StrataError =>
  new StrataError('rate_limited', message, { headers: { 'retry-after': '10' } });
