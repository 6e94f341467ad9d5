/**
 * What somebody who is signed in has to know of themselves: that their session ended, and that
 * their membership of a tenant, or their visit of one, is another one, or is no more.
 *
 * A change of all of a tenant's memberships, as of its name or status, is told to those who are
 * signed in to it: who else is a member the gateway does not know, and they learn it when they go there.
 *
 * It has no revision to resume from: whoever comes back asks who they are (`GET /auth/me`, or by
 * refreshing).
 *
 * | Danger                                | Bounded by                                                               |
 * |---------------------------------------|--------------------------------------------------------------------------|
 * | a change of somebody else's is told   | only keys of this person's memberships, and of the tenant that they are signed in to, are looked for |
 * | changes that were missed              | told of as of no tenant in particular                                    |
 * | another tenant's provider signed them in | it is told of that tenant alone, as in all that such a session reads |
 * | a change that is observed twice       | it is sent once, unless very many memberships change at the same time |
 * | a reader without room                 | what was not told is kept once for each tenant, and told when there is    |
 */
import { LRUCache } from 'lru-cache';
import { upTo } from '../../shared/concurrency/growing-cache.ts';
import type { Change } from '../../shared/commits/commit.ts';
import { wholeScopeKey } from '../../shared/contracts/feed.ts';
import { memberOfKey } from '../../shared/contracts/members.ts';
import { memberScope, tenantOfScope } from '../../shared/contracts/revision-scopes.ts';
import { comment, frame, retryLine, type EventStream, type Subscription } from './event-stream.ts';
import { RightsRound } from './rights.ts';
import { addTo, removeFrom } from './sets.ts';
import type { StreamHub } from './stream-hub.ts';

/** A comment is sent with every so many heartbeats. */
const beatsPerComment = 3;
/** A change is observed again within seconds: so many memberships may change in these. */
const maxObserved = 10_000;

export class OwnSessions {
  readonly #hub: StreamHub;
  /** By whose changes concern them: the person, and the scope of the tenant's memberships. */
  readonly #byConcern = new Map<string, Set<SessionSubscription>>();
  /** The revision of the last change that was observed, by the membership's cache key. */
  readonly #observed = new LRUCache<string, number>(upTo(maxObserved));

  constructor(hub: StreamHub) {
    this.#hub = hub;
  }

  subscribe(stream: EventStream): void {
    const { id, tenant_id: tenantId } = stream.request.caller;
    const concerns = tenantId === null ? [id] : [id, memberScope(tenantId)];
    const subscription: SessionSubscription = new SessionSubscription(stream, this.#hub, () => {
      for (const concern of concerns) removeFrom(this.#byConcern, concern, subscription);
    });
    for (const concern of concerns) addTo(this.#byConcern, concern, subscription);
    stream.subscribe(subscription);
  }

  onChange({ scope, revision, keys }: Change): void {
    for (const key of keys) {
      const member = memberOfKey(key);
      if (member && this.#isNews(key, revision))
        for (const own of this.#byConcern.get(member.user_id) ?? []) own.notify(member.tenant_id);
      const tenantId = key === wholeScopeKey ? tenantOfScope(scope) : null;
      if (tenantId !== null && this.#isNews(scope, revision))
        for (const own of this.#byConcern.get(scope) ?? []) void own.notifyIfMember(tenantId);
    }
  }

  #isNews(key: string, revision: number): boolean {
    if (revision <= (this.#observed.get(key) ?? 0)) return false;
    this.#observed.set(key, revision);
    return true;
  }

  /** Changes were missed that nobody can tell any more. */
  reset(): void {
    this.#observed.clear();
    for (const concerned of this.#byConcern.values())
      for (const subscription of concerned) subscription.notify(null);
  }
}

class SessionSubscription implements Subscription {
  readonly #stream: EventStream;
  readonly #hub: StreamHub;
  readonly #onLeave: () => void;
  /** Tenants that are to be told of. */
  readonly #pending = new Set<string | null>();

  constructor(stream: EventStream, hub: StreamHub, onLeave: () => void) {
    this.#stream = stream;
    this.#hub = hub;
    this.#onLeave = onLeave;
  }

  /** Null stands for any tenant. A session that is good for one tenant alone hears of no other. */
  notify(tenantId: string | null): void {
    const { confined_to: only } = this.#stream.request.caller;
    if (only !== undefined && tenantId !== null && tenantId !== only) return;
    this.#pending.add(tenantId);
    this.goOn();
  }

  /** The stream may be older than the end of the membership. */
  async notifyIfMember(tenantId: string): Promise<void> {
    try {
      const { tenant_id: now } = await this.#stream.request.recheck();
      if (now === tenantId) this.notify(tenantId);
    } catch {
      this.notify(null);
    }
  }

  begin(): void {
    const { session_id: id } = this.#stream.request.caller;
    const ready = frame('ready', { session_id: id });
    this.#stream.write(Buffer.concat([retryLine(), ready]));
    this.goOn();
  }

  goOn(): void {
    if (this.#pending.size === 0 || !this.#stream.isReady) return;
    this.#hub.whileHeld(this.#stream, new RightsRound(), () => {
      const frames = [...this.#pending].map((tenant_id) =>
        frame('memberships.changed', { tenant_id }),
      );
      this.#pending.clear();
      if (frames.length > 0) this.#stream.write(Buffer.concat(frames));
    });
  }

  heartbeat(beat: number): void {
    if (beat % beatsPerComment === 0) this.#stream.write(comment);
  }

  /** An access token that has only run out is no end of the session. */
  lastWord(code: string): Buffer | undefined {
    return code === 'auth_session_revoked' ? frame('session.ended', { code }) : undefined;
  }

  leave(): void {
    this.#onLeave();
  }
}
